# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports of any depth, from one of two layers: `stretch(model, layers)`.

A real export has the parts that a text of our own would leave out. What depends on parameters of layer 0 and on none of
layer 1 is one period of the graph, from one layer's first parameter to the next one's; it is repeated, or left out.
"""

import collections
import re

import onnx


def layer_of(name):
    """The number in a parameter's name: model.layers.1.mlp.weight -> 1; None for others."""
    found = re.search(r"\.(\d+)\.", name)
    return int(found[1]) if found else None


def renamed(name, layer):
    return re.sub(r"\.\d+\.", f".{layer}.", name, count=1)


class Stretcher:
    def __init__(self, model):
        self.model, self.graph = model, model.graph
        self.weights = {w.name: w for w in self.graph.initializer}
        self.producer = {out: n for n in self.graph.node for out in n.output if out}
        self.readers = collections.defaultdict(list)
        self.depth = {name: -1 for name in [*self.weights, *(i.name for i in self.graph.input)]}
        for name in self.weights:
            layer = layer_of(name)
            self.depth[name] = -1 if layer is None else layer
        for node in self.graph.node:
            depth = max((self.depth[i] for i in node.input if i), default=-1)
            for name in node.input:
                self.readers[name].append(node)
            for name in node.output:
                self.depth[name] = depth
        self.period = [n for n in self.graph.node if self.depth[n.output[0]] == 0]
        self.pair = {}  # a value of layer 0's period, and the one in its place in layer 1's
        self.paired = {}  # the same of nodes, by their first results
        self.match()

    def match_nodes(self, first, second):
        """Pairs two nodes and what they read, upwards."""
        work = [(first, second)]
        while work:
            first, second = work.pop()
            if first.output[0] in self.paired or first.op_type != second.op_type:
                continue
            self.paired[first.output[0]] = second
            self.pair.update(zip(first.output, second.output))
            for a, b in zip(first.input, second.input):
                self.pair.setdefault(a, b)
                if self.depth.get(b, -1) > self.depth.get(a, -1) and a in self.producer and b in self.producer:
                    work.append((self.producer[a], self.producer[b]))

    def match(self):
        for name in self.weights:
            if layer_of(name) == 0 and renamed(name, 1) in self.weights:
                for first, second in zip(self.readers[name], self.readers[renamed(name, 1)]):
                    self.match_nodes(first, second)
        # What follows the last parameter: a residual.
        for node in self.period:
            if node.output[0] in self.paired:
                continue
            known = [self.pair[i] for i in node.input if self.depth.get(i, -1) == 0 and i in self.pair]
            used = {id(n) for n in self.paired.values()}
            same = [n for k in known for n in self.readers[k] if n.op_type == node.op_type and id(n) not in used]
            if same:
                self.match_nodes(node, same[0])

    def run(self, layers):
        """Writes over the model's graph."""
        # What layer 1 reads of layer 0 where layer 0 reads what comes before.
        handed = {}
        for node in self.period:
            for name in node.input:
                follower = self.pair.get(name)
                if name not in self.weights and self.depth.get(name, -1) < 0 and self.depth.get(follower, -1) == 0:
                    handed[name] = follower
        nodes, weights = [], [w for w in self.graph.initializer if layer_of(w.name) is None]
        trainable = [p.value.split("\n") for p in self.model.metadata_props if p.key == "trainable"][0]
        chosen = [name for name in trainable if layer_of(name) is None]
        current = {name: name for name in handed}  # by the value that layer 0 reads

        def copy_weights(source, layer):
            names = {}
            for name, weight in self.weights.items():
                if layer_of(name) == source:
                    copy = onnx.TensorProto.FromString(weight.SerializeToString())
                    copy.name = names[name] = renamed(name, layer)
                    weights.append(copy)
                    if name in trainable:
                        chosen.append(copy.name)
            return names

        def periods():
            for layer in range(layers - 1):
                names = copy_weights(0, layer)
                names.update(current)
                for node in self.period:
                    copy = onnx.NodeProto.FromString(node.SerializeToString())
                    for out in node.output:
                        names[out] = f"{out}/{layer}" if layer else out
                    copy.input[:] = [names.get(i, i) for i in node.input]
                    copy.output[:] = [names[o] for o in node.output]
                    copy.name = f"{node.name}/{layer}" if layer else node.name
                    nodes.append(copy)
                current.update({before: names[after] for before, after in handed.items()})

        inside = {id(n) for n in self.period}
        last = {}
        for node in self.graph.node:
            if id(node) in inside:
                continue
            if self.depth[node.output[0]] >= 1 and not last:
                periods()
                last = copy_weights(1, layers - 1)
                last.update({after: current[before] for before, after in handed.items()})
            copy = onnx.NodeProto.FromString(node.SerializeToString())
            copy.input[:] = [last.get(i, i) for i in node.input]
            nodes.append(copy)
        del self.graph.node[:], self.graph.initializer[:], self.graph.value_info[:]
        self.graph.node.extend(nodes)
        self.graph.initializer.extend(weights)
        for entry in self.model.metadata_props:
            if entry.key == "trainable":
                entry.value = "\n".join(chosen)
        return self.model


def stretch(path, layers):
    """The model of that file with so many layers."""
    return Stretcher(onnx.load(path)).run(layers)
