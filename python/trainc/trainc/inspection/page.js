// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
'use strict';

// ---- What the page holds.

const $ = id => document.getElementById(id);

async function unpack(id) {
  const text = atob($(id).textContent), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).text();
}

let facts;
// Of the function that is shown.
let shown, commandsOf;
const state = {tab: 'model', node: -1, command: -1, layer: null, open: new Set(), sort: null, phase: 0, pass: '', kind: ''};
const decisionsOf = new Map();

// ---- Text.

const entities = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'};
// Names come from files that anybody may have written.
const escape = text => String(text).replace(/[&<>"']/g, c => entities[c]);
function scaled(number, step, units) {
  let unit = 0;
  while (Math.abs(number) >= step && unit + 1 < units.length) number /= step, ++unit;
  return (unit || !Number.isInteger(number) ? number.toFixed(number < 10 ? 2 : 1) : number) + ' ' + units[unit];
}
const bytes = n => n == null ? '' : scaled(n, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
const flop = n => n ? scaled(n, 1000, ['', 'k', 'M', 'G', 'T', 'P']) : '';
const ms = n => n == null ? '' : n.toFixed(4);
const cells = (values, from = 1) => values.map((v, i) => `<td class="${i < from ? '' : 'n'}">${v}</td>`).join('');
const nodeLink = i => `<a data-node="${i}">${escape(facts.nodes[i].n)}</a>`;
const commandLink = i => `<a data-command="${i}">${i}: ${escape(shown.commands[i].n)}</a>`;

// ---- The model: layers, in them nodes, in them kernels.

let tree;
const layerOf = new Map();
function newLayer(name, key) {
  const layer = {name, key, children: new Map(), nodes: [], commands: new Set(), sums: [0, 0, 0]};
  layerOf.set(key, layer);
  return layer;
}
// Sums are of time, bytes and FLOP; a command counts in equal parts for its nodes.
function buildTree() {
  layerOf.clear();
  tree = newLayer('all', '');
  facts.nodes.forEach((node, index) => {
    node.sums = [0, 0, 0];
    for (const c of commandsOf[index]) {
      const command = shown.commands[c];
      [command.t, command.b, command.f].forEach((n, i) => node.sums[i] += (n || 0) / command.o.length);
    }
    let at = tree;
    const add = layer => {
      node.sums.forEach((s, i) => layer.sums[i] += s);
      commandsOf[index].forEach(c => layer.commands.add(c));
    };
    add(at);
    for (const name of node.l) {
      if (!at.children.has(name)) at.children.set(name, newLayer(name, at.key + '/' + name));
      at = at.children.get(name);
      add(at);
    }
    at.nodes.push(index);
  });
}

function row(depth, fold, name, count, [time, moved, work], attributes) {
  const title = `<span style="padding-left:${depth * 16}px"></span><span class="fold">${fold}</span>${name}`;
  return `<tr class="row" ${attributes}>${cells([title, count || '', facts.has.times ? ms(time) : '', count ? bytes(Math.round(moved)) : '', flop(work)])}</tr>`;
}

function treeRows(layer, depth, rows) {
  for (const child of layer.children.values()) {
    const isOpen = state.open.has(child.key);
    rows.push(row(depth, isOpen ? '▾' : '▸', `<span class="layer">${escape(child.name)}</span>`, child.commands.size, child.sums, `data-layer="${escape(child.key)}"` + (child.key === state.layer ? ' id="chosen"' : '')));
    if (isOpen) treeRows(child, depth + 1, rows);
  }
  for (const index of layer.nodes) {
    const node = facts.nodes[index];
    // What is a number of other nodes is found by its name.
    if (node.o === 'Constant' && !commandsOf[index].length && !$('find').value) continue;
    const key = '#' + index, isOpen = state.open.has(key);
    const fold = commandsOf[index].length ? isOpen ? '▾' : '▸' : '';
    const name = `${escape(node.o)} <span class="quiet">${escape(node.n)}</span>`;
    rows.push(row(depth, fold, name, commandsOf[index].length, node.sums, `data-node="${index}" data-fold="${key}"` + (index === state.node ? ' id="chosen"' : '')));
    if (isOpen)
      for (const c of commandsOf[index]) {
        const command = shown.commands[c];
        rows.push(row(depth + 1, '', `<code>${c}: ${escape(command.n)}</code> <span class="quiet">${command.p}</span>`, 1, [command.t, command.b, command.f], `data-command="${c}"`));
      }
  }
}

function drawModel() {
  const rows = [], wanted = $('find').value.toLowerCase();
  if (wanted) {
    const found = facts.nodes.map((n, i) => i).filter(i => [facts.nodes[i].n, facts.nodes[i].o, ...facts.nodes[i].w].join(' ').toLowerCase().includes(wanted));
    treeRows({children: new Map(), nodes: found.slice(0, 500)}, 0, rows);
  } else {
    rows.push(row(0, '', '<span class="layer">all</span>', shown.commands.length, tree.sums, ''));
    treeRows(tree, 0, rows);
  }
  $('main').innerHTML = `<p class="quiet">Layers by the names of parameters${facts.has.graph ? '' : '; the package has no graph, only what kernels compute'}. ` +
      'A kernel of several nodes counts in equal parts for each.</p>' +
      '<table><tr><th>layer, node, kernel</th><th class="n">kernels</th><th class="n">' + (facts.has.times ? 'ms' : '') + '</th><th class="n">bytes moved</th><th class="n">FLOP</th></tr>' +
      rows.join('') + '</table>';
}

// ---- Kernels.

const columns = [
  ['#', c => c.i, c => c.i], ['kernel', c => c.n, c => `<code>${escape(c.n)}</code>`], ['class', c => c.k, c => escape(c.k)], ['part', c => c.p, c => c.p],
  ['ms', c => c.t, c => ms(c.t)], ['bytes moved', c => c.b, c => bytes(c.b)], ['FLOP', c => c.f, c => flop(c.f)],
  ['GB/s', c => c.t ? c.b / c.t : null, c => c.t && c.b ? (c.b / c.t / 1e6).toFixed(1) : ''],
  ['arena in use', c => shown.live[c.i], c => bytes(shown.live[c.i])],
  ['nodes', c => c.o.length, c => c.o.slice(0, 3).map(i => escape(facts.nodes[i].n)).join(', ') + (c.o.length > 3 ? `, and ${c.o.length - 3} more` : '')],
];

function drawKernels() {
  const wanted = $('find').value.toLowerCase();
  let list = shown.commands.map((c, i) => Object.assign(c, {i}));
  if (wanted) list = list.filter(c => [c.n, c.k, c.p, ...c.o.map(i => facts.nodes[i].n)].join(' ').toLowerCase().includes(wanted));
  if (state.sort) {
    const [column, sign] = state.sort, value = columns[column][1];
    list.sort((a, b) => {
      const x = value(a) ?? -1, y = value(b) ?? -1;
      return sign * (x < y ? -1 : x > y ? 1 : a.i - b.i);
    });
  }
  const isNumber = i => i !== 1 && i !== 2 && i !== 3 && i !== 9;
  const used = columns.map((c, i) => i).filter(i => facts.has.times || (i !== 4 && i !== 7));
  $('main').innerHTML = `<p>${list.length} of ${shown.commands.length} launches and library calls of <code>${escape(shown.name)}</code>` +
      (facts.has.times ? '' : '. Times: <code>trainc-run PACKAGE --data FILE --profile times.json</code>, then <code>trainc inspect ... --profile times.json</code>') + '</p>' +
      '<table><tr>' + used.map(i => `<th class="${isNumber(i) ? 'n' : ''}" data-sort="${i}">${columns[i][0]}</th>`).join('') + '</tr>' +
      list.map(c => `<tr class="row${c.i === state.command ? ' chosen" id="chosen' : ''}" data-command="${c.i}">` +
          used.map(i => `<td class="${isNumber(i) ? 'n' : ''}">${columns[i][2](c)}</td>`).join('') + '</tr>').join('') + '</table>';
}

// ---- Memory.

function drawMemory() {
  const live = shown.live, count = live.length, width = 1000, height = 260;
  if (!count) return void ($('main').innerHTML = '<p>This function runs nothing.</p>');
  const peak = live.indexOf(live.reduce((a, b) => Math.max(a, b), 0)), at = state.command >= 0 ? state.command : peak, most = Math.max(1, live[peak]);
  const x = c => (c * width / count).toFixed(2), y = b => (height - b * (height - 20) / most).toFixed(2);
  let stripes = '';
  for (const part of ['forward', 'backward', 'update']) {
    const first = shown.commands.findIndex(c => c.p === part), number = shown.commands.filter(c => c.p === part).length;
    if (first >= 0) stripes += `<rect class="${part}" x="${x(first)}" width="${x(number)}" height="${height}"/><text x="${x(first + .2)}" y="14">${part}</text>`;
  }
  let path = `M0 ${height}`;
  live.forEach((b, c) => path += `L${x(c)} ${y(b)}L${x(c + 1)} ${y(b)}`);
  const here = shown.buffers.filter(b => b[0] === 'arena' && b[3] <= at && at <= b[4]).sort((a, b) => b[2] - a[2]);
  const life = b => `<svg viewBox="0 0 200 10" style="width:200px;border:0"><rect class="life" x="${b[3] * 200 / count}" width="${Math.max(1, (b[4] - b[3] + 1) * 200 / count)}" height="10"/></svg>`;
  $('main').innerHTML = `<p>The arena of <code>${escape(shown.name)}</code> over its ${count} commands: at most <b>${bytes(live[peak])}</b> in use, at ${commandLink(peak)}. ` +
      `<span class="quiet">Without gaps between buffers, and what <code>trainc --report</code> counts beside: parameters, state, workspace.</span></p>` +
      `<svg id="curve" viewBox="0 0 ${width} ${height + 4}">${stripes}<path class="curve" d="${path}L${width} ${height}Z"/>` +
      `<line class="at" x1="${x(at + .5)}" x2="${x(at + .5)}" y1="0" y2="${height}"/></svg>` +
      `<h2>in use at ${commandLink(at)}: ${bytes(live[at])} in ${here.length} buffers</h2>` +
      '<table><tr><th>made by</th><th class="n">bytes</th><th class="n">commands</th><th></th></tr>' +
      here.slice(0, 200).map(b => `<tr><td><code>${escape(b[1])}</code></td><td class="n">${bytes(b[2])}</td><td class="n">${b[3]} to ${b[4]}</td><td>${life(b)}</td></tr>`).join('') + '</table>' +
      (here.length > 200 ? `<p>and ${here.length - 200} smaller ones</p>` : '');
  $('curve').onclick = event => {
    const box = $('curve').getBoundingClientRect();
    choose({command: Math.max(0, Math.min(count - 1, Math.floor((event.clientX - box.left) / box.width * count)))});
  };
}

// ---- Decisions.

function decisionRow(d) {
  const why = [d.message, d.reason && `because ${d.reason}`, d.suggestion && `try: ${d.suggestion}`].filter(Boolean).map(escape).join('; ');
  const numbers = d.metrics ? ' <span class="quiet">' + escape(Object.entries(d.metrics).map(([k, v]) => `${k} ${v}`).join(', ')) + '</span>' : '';
  return `<td>${escape(d.pass)}</td><td>${escape(d.kind)}</td><td>${why || escape(d.name)}${numbers}</td>`;
}

function drawDecisions() {
  if (!facts.has.decisions) return void ($('main').innerHTML = '<p>A package does not tell what passes decided: <code>trainc inspect MODEL.onnx</code> with the options of its command line does.</p>');
  const wanted = $('find').value.toLowerCase(), most = 1000;
  const list = facts.decisions.filter(d => (!state.pass || d.pass === state.pass) && (!state.kind || d.kind === state.kind) &&
      (!wanted || JSON.stringify(d).toLowerCase().includes(wanted)));
  const choice = (name, all) => `<label>${name} <select data-filter="${name}"><option value="">all</option>` +
      [...new Set(all)].sort().map(v => `<option${state[name] === v ? ' selected' : ''}>${escape(v)}</option>`).join('') + '</select></label> ';
  $('main').innerHTML = `<p>${choice('pass', facts.decisions.map(d => d.pass))}${choice('kind', facts.decisions.map(d => d.kind))}${list.length} of ${facts.decisions.length} decisions</p>` +
      '<table><tr><th>pass</th><th></th><th>what and why</th><th>nodes</th></tr>' +
      list.slice(0, most).map(d => `<tr>${decisionRow(d)}<td>${(d.nodes || []).slice(0, 4).map(named).join(', ')}</td></tr>`).join('') + '</table>' +
      (list.length > most ? `<p>and ${list.length - most} more: choose a pass or find a name</p>` : '');
}

const numberOf = new Map();
const named = name => numberOf.has(name) ? nodeLink(numberOf.get(name)) : escape(name);

// ---- IR, by location: each line has the nodes that its location names.

const phases = [];

async function phase(index) {
  if (phases[index]) return phases[index];
  const lines = (await unpack('ir-' + index)).split('\n'), names = new Map(), of = [], linesOf = new Map();
  const quoted = text => [...text.matchAll(/"((?:[^"\\]|\\.)*)"(?!:\d)/g)].map(m => m[1]);
  const referred = text => [...text.matchAll(/#loc\d*/g)].map(m => m[0]);
  for (const line of lines) {
    const alias = /^(#loc\d*) = loc\((.*)\)$/.exec(line);
    if (alias) names.set(alias[1], [quoted(alias[2]), referred(alias[2])]);
  }
  const resolved = new Map();
  const resolve = alias => {
    if (!resolved.has(alias)) {
      resolved.set(alias, []); // of a cycle, which no printer writes
      const [own, others] = names.get(alias) || [[], []];
      // A name with a location behind it is that of the node; the location is its place in the file.
      resolved.set(alias, own.length ? own : others.flatMap(resolve));
    }
    return resolved.get(alias);
  };
  lines.forEach((line, number) => {
    const start = line.lastIndexOf('loc(');
    // A line that opens a region has its location where the region ends.
    const found = start < 0 || line.startsWith('#loc') ? [] : ((own, rest) => own.length ? own : rest.flatMap(resolve))(quoted(line.slice(start)), referred(line.slice(start)));
    of.push(found);
    for (const name of found) {
      if (!linesOf.has(name)) linesOf.set(name, []);
      linesOf.get(name).push(number);
    }
  });
  return phases[index] = {lines, of, linesOf};
}

async function drawIR(line) {
  if (!facts.phases.length) return void ($('main').innerHTML = '<p>The package has no IR: compile with <code>--embed-ir</code>, or <code>trainc inspect MODEL.onnx</code>.</p>');
  const {lines, of, linesOf} = await phase(state.phase), high = 18;
  const name = state.node >= 0 ? facts.nodes[state.node].n : null, chosen = new Set(name === null ? [] : linesOf.get(name) || []);
  $('main').innerHTML = '<p>' + facts.phases.map((p, i) => `<button data-phase="${i}" class="${i === state.phase ? 'on' : ''}">${escape(p)}</button>`).join(' ') +
      ` ${lines.length} lines` + (name === null ? '' : `, ${chosen.size} of ${nodeLink(state.node)}`) + `</p><div class="lines" style="height:${lines.length * high}px"></div>`;
  const box = $('main').querySelector('.lines');
  const draw = () => {
    const first = Math.max(0, Math.floor(($('main').scrollTop - box.offsetTop) / high) - 20), end = Math.min(lines.length, first + Math.ceil($('main').clientHeight / high) + 40);
    let text = '';
    // Lines of thousands of characters are cut, not their locations.
    for (let i = first; i < end; ++i)
      text += `<div class="line${chosen.has(i) ? ' chosen' : ''}" style="top:${i * high}px" data-line="${i}" title="${escape(of[i].join(', '))}"><i>${i + 1}</i>${escape(lines[i].slice(0, 2000))}</div>`;
    box.innerHTML = text;
  };
  $('main').onscroll = draw;
  const wanted = line ?? (chosen.size ? Math.min(...chosen) : 0);
  $('main').scrollTop = Math.max(0, wanted * high + box.offsetTop - 100);
  draw();
  box.onclick = event => {
    const at = event.target.closest('.line');
    const found = at && of[at.dataset.line].map(n => numberOf.get(n)).find(n => n !== undefined);
    if (found !== undefined) state.node = found, state.command = -1, drawIR(+at.dataset.line), drawDetail();
  };
}

async function drawPlaces(name, kernel) {
  // Only phases that are unpacked already are looked into without being asked.
  const parts = facts.phases.map((p, i) => {
    if (!phases[i]) return `<a data-look="${i}">${escape(p)}: look</a>`;
    const at = name !== null ? phases[i].linesOf.get(name) || [] : phases[i].lines.flatMap((l, n) => l.includes(`@${kernel}(`) ? [n] : []);
    return `${escape(p)}: ` + (at.length ? at.slice(0, 8).map(n => `<a data-phase="${i}" data-line="${n}">${n + 1}</a>`).join(' ') + (at.length > 8 ? ` and ${at.length - 8} more` : '') : 'none');
  });
  const place = $('places');
  if (place) place.innerHTML = parts.length ? '<h2>lines of IR</h2>' + parts.map(p => `<p>${p}</p>`).join('') : '';
}

// ---- What is chosen.

const list = (title, items) => items.length ? `<h2>${title}</h2><p>${items.slice(0, 30).join('<br>')}${items.length > 30 ? `<br>and ${items.length - 30} more` : ''}</p>` : '';

// Which layers a layer's nodes read, and which read them: of each the largest that does not hold this one.
function drawLayer(key) {
  const layer = layerOf.get(key), path = key.slice(1).split('/'), inside = new Set(), reads = new Set(), readers = new Set(), parameters = new Set(), inputs = new Set();
  const isIn = node => path.every((part, i) => node.l[i] === part);
  facts.nodes.forEach((n, i) => isIn(n) && inside.add(i));
  const outer = i => {
    const l = facts.nodes[i].l, shared = l.findIndex((part, d) => part !== path[d]);
    return shared < 0 ? nodeLink(i) : `<a data-layer="/${escape(l.slice(0, shared + 1).join('/'))}">${escape(l.slice(0, shared + 1).join(' › '))}</a>`;
  };
  facts.nodes.forEach((n, i) => n.i.forEach(from => {
    if (inside.has(i) && !inside.has(from) && facts.nodes[from].o !== 'Constant') reads.add(outer(from));
    if (!inside.has(i) && inside.has(from)) readers.add(outer(i));
  }));
  for (const i of inside) facts.nodes[i].w.forEach(w => parameters.add(w)), facts.nodes[i].x.forEach(x => inputs.add(x));
  const sizes = new Map(facts.parameters.map(([name, type, shape]) => [name, `${escape(name)} <span class="quiet">${type}[${shape.join(', ')}]</span>`]));
  return `<h2>${escape(path.join(' › '))}</h2><p>${inside.size} nodes, ${layer.commands.size} kernels and library calls</p>` +
      list('reads', [...[...inputs].map(escape), ...reads]) + list('read by', [...readers]) + list('parameters', [...parameters].map(w => sizes.get(w) || escape(w)));
}

function drawDetail() {
  const of = [];
  if (state.command >= 0) {
    const c = shown.commands[state.command];
    of.push(`<h2>${state.command}: <code>${escape(c.n)}</code></h2><p>${escape(c.k)}, ${c.p}${c.t == null ? '' : `, ${ms(c.t)} ms`}, ${bytes(c.b)} moved${c.f ? `, ${flop(c.f)}FLOP` : ''}; ` +
        `${bytes(shown.live[state.command])} of the arena in use</p><h2>nodes</h2><p>${c.o.map(nodeLink).join('<br>')}</p><h2>buffers</h2><table>` +
        c.u.map(([b, access]) => {
          const [space, name, size, first, last] = shown.buffers[b];
          return `<tr><td>${['', 'reads', 'writes', 'updates'][access]}</td><td>${space}</td><td class="n">${bytes(size)}</td><td><code>${escape(name)}</code>${first >= 0 ? ` <span class="quiet">${first} to ${last}</span>` : ''}</td></tr>`;
        }).join('') + `</table><p><a data-tab="memory">in memory</a></p><div id="places"></div>`);
  } else if (state.node >= 0) {
    const n = facts.nodes[state.node], users = facts.nodes.flatMap((m, i) => m.i.includes(state.node) ? [i] : []), decisions = decisionsOf.get(n.n) || [];
    of.push(`<h2>${escape(n.o)} <code>${escape(n.n)}</code></h2><p class="quiet">${escape(n.l.join(' › '))}</p><p><code>${escape(n.y)}</code></p>`,
        list('reads', [...n.x.map(escape), ...n.i.map(nodeLink), ...n.w.map(escape)]), list('read by', users.map(nodeLink)),
        list(`kernels of ${escape(shown.name)}`, commandsOf[state.node].map(commandLink)),
        decisions.length ? '<h2>decisions</h2><table>' + decisions.slice(0, 50).map(d => `<tr>${decisionRow(d)}</tr>`).join('') + '</table>' : '', '<div id="places"></div>');
  } else if (state.layer && layerOf.has(state.layer)) {
    of.push(drawLayer(state.layer));
  }
  $('detail').innerHTML = of.join('') || '<p>Choose a node, a kernel or a line: here is what belongs to it.</p>';
  if (state.command >= 0) drawPlaces(null, shown.commands[state.command].n);
  else if (state.node >= 0) drawPlaces(facts.nodes[state.node].n);
}

function choose({node = -1, command = -1, layer = null}) {
  state.node = node;
  state.layer = layer;
  state.command = command;
  draw();
}

function draw(line) {
  for (const button of $('tabs').querySelectorAll('button')) button.classList.toggle('on', button.dataset.tab === state.tab);
  const kept = $('main').dataset.tab === state.tab ? $('main').scrollTop : 0;
  $('main').dataset.tab = state.tab;
  $('main').onscroll = null;
  drawDetail();
  if (state.tab === 'ir') return drawIR(line);
  ({model: drawModel, kernels: drawKernels, memory: drawMemory, decisions: drawDecisions})[state.tab]();
  $('main').scrollTop = kept;
}

function showFunction(name) {
  shown = facts.functions.find(f => f.name === name);
  commandsOf = facts.nodes.map(() => []);
  shown.commands.forEach((c, i) => c.o.forEach(n => commandsOf[n].push(i)));
  state.command = -1;
  buildTree();
}

document.addEventListener('click', async event => {
  const at = event.target.closest('[data-tab], [data-layer], [data-sort], [data-look], [data-phase], [data-command], [data-node]');
  if (!at || at.id === 'main') return;
  const d = at.dataset;
  if (d.tab) state.tab = d.tab, draw();
  else if (d.layer) state.tab === 'model' && at.tagName === 'TR' && state.open.delete(d.layer) || state.open.add(d.layer), choose({layer: d.layer});
  else if (d.sort) state.sort = [+d.sort, state.sort && state.sort[0] === +d.sort ? -state.sort[1] : +d.sort < 4 ? 1 : -1], draw();
  else if (d.look) await phase(+d.look), drawDetail();
  else if (d.phase) state.phase = +d.phase, state.tab = 'ir', draw(d.line === undefined ? undefined : +d.line);
  else if (d.command) choose({command: +d.command});
  else if (d.node) {
    if (d.fold) state.open.delete(d.fold) || state.open.add(d.fold);
    choose({node: +d.node});
  }
});
document.addEventListener('change', event => {
  if (event.target.id === 'function') showFunction(event.target.value), draw();
  else if (event.target.dataset.filter) state[event.target.dataset.filter] = event.target.value, draw();
});
$('find').addEventListener('input', () => draw());

(async () => {
  facts = JSON.parse(await unpack('facts'));
  facts.nodes.forEach((n, i) => numberOf.has(n.n) || numberOf.set(n.n, i));
  for (const d of facts.decisions)
    for (const name of d.nodes || []) decisionsOf.has(name) ? decisionsOf.get(name).push(d) : decisionsOf.set(name, [d]);
  $('title').textContent = facts.model;
  const sizes = Object.entries(facts.sizes).map(([name, value]) => `${name} = ${value}`).join(', ') || 'fixed sizes';
  $('about').textContent = `${facts.kind} for ${facts.targets.join(', ')}; ${sizes}; ${facts.producer}${facts.command ? '; ' + facts.command : ''}`;
  const timed = facts.functions.find(f => f.commands.some(c => c.t != null)) || facts.functions[0];
  $('function').innerHTML = facts.functions.filter(f => f.commands.length).map(f => `<option${f === timed ? ' selected' : ''}>${escape(f.name)}</option>`).join('');
  showFunction(timed.name);
  draw();
  document.documentElement.dataset.ready = 'yes';
})();
