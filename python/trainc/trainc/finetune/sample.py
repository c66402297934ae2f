# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc sample RUN --prompt TEXT`: some tokens of what a run has trained.

Each token is an evaluation of all tokens before it: there is no cache of keys and values. To see what was learnt, not to serve.
"""

import sys

from ..errors import Error
from ..settings import SettingError
from .folder import Run, command_of_run


def parser():
    made = command_of_run("sample", __doc__)
    made.add_argument("--prompt", required=True, metavar="TEXT")
    made.add_argument("--system", metavar="TEXT", help="the system's message, with a chat template")
    made.add_argument("--raw", action="store_true", help="the prompt as it is, without the chat template")
    made.add_argument("--tokens", type=int, default=64, metavar="N", help="at most (default 64)")
    made.add_argument("--temperature", type=float, default=0.0, metavar="F", help="0: the most likely token (default)")
    made.add_argument("--top-p", type=float, default=1.0, metavar="F", help="of the most likely tokens that have this share together")
    made.add_argument("--seed", type=int, default=0, metavar="N")
    made.add_argument("--base", action="store_true", help="of the model as it was before training")
    return made


def main(arguments):
    said = parser().parse_args(arguments)
    run = Run(said.run)
    facts = run.facts
    if facts["task"] != "causal-lm" or facts["loss"] == "reward":
        raise Error(f"{run.path}: the run's model writes no text (task {facts['task']}, loss {facts['loss']})")
    from ..data import templates, tokenizers

    tokenizer = tokenizers.load(facts["tokenizer"])
    if facts.get("chat_template"):
        tokenizer.chat_template = facts["chat_template"]
    templates.set_template(tokenizer, None)
    if facts["chat"] and not said.raw:
        messages = ([{"role": "system", "content": said.system}] if said.system else []) + [{"role": "user", "content": said.prompt}]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        ids = tokenizer(said.prompt, add_special_tokens=True)["input_ids"]
        if ids and ids[-1] == tokenizer.eos_token_id and len(ids) > 1:
            ids = ids[:-1]
    if not ids:
        raise SettingError("--prompt is empty: there is no token to go on from")
    if said.tokens < 1 or not 0 < said.top_p <= 1 or said.temperature < 0:
        raise SettingError("--tokens is at least 1, --top-p above 0 and at most 1, --temperature at least 0")
    session = _session(run, facts, said)
    made = list(generate(session, ids, said, tokenizer))
    print(tokenizer.decode(made, skip_special_tokens=True))
    return 0


def _session(run, facts, said):
    import trainrt

    try:
        package = trainrt.Package(run.package)
        session = trainrt.Session(package, weights=facts["weights"])
        if not said.base:
            session.load(run.checkpoint(said.checkpoint))
    except trainrt.errors.Error as error:
        raise Error(f"{run.path}: {error}") from None
    if "logits" not in package.outputs and facts["loss"] == "cross-entropy":
        raise Error(f"{run.path}: the graph has no output 'logits'")
    return session


def generate(session, ids, said, tokenizer):
    """Tokens one after the other."""
    import numpy as np

    bounds = {symbol.name: symbol.max for symbol in session.package.symbols}
    most = bounds.get("seq") or len(ids) + said.tokens
    if len(ids) >= most:
        raise Error(f"the prompt has {len(ids)} tokens, and the run was compiled for rows of at most {most} (--max-length)")
    random = np.random.default_rng(said.seed)
    ids = list(ids)
    ends = {tokenizer.eos_token_id}
    for _ in range(min(said.tokens, most - len(ids))):
        # Few lengths, so that few plans of memory are made; what is behind the last token is not seen by it.
        length = min(most, -(-len(ids) // 32) * 32)
        batch = inputs_of(session.package, ids, length)
        logits = np.asarray(session.predict(batch, "logits")["logits"].numpy(), np.float32)[0, len(ids) - 1]
        token = pick(logits, said, random)
        if token in ends:
            return
        ids.append(token)
        yield token
    if len(ids) >= most:
        print(f"(rows end at {most} tokens, for which the run was compiled)", file=sys.stderr)


def inputs_of(package, ids, length):
    import numpy as np

    count = len(ids)
    values = {
        "input_ids": ids, "attention_mask": [1] * count, "segment_ids": [1] * count, "position_ids": range(count),
        "labels": ids,
    }  # fmt: skip
    batch = {}
    for name in package.inputs:
        if name in values:
            row = np.zeros((1, length), np.int64)
            row[0, :count] = np.fromiter(values[name], np.int64, count)
            batch[name] = row
    return batch


def pick(logits, said, random):
    import numpy as np

    if said.temperature <= 0:
        return int(logits.argmax())
    scores = np.exp((logits - logits.max()) / said.temperature)
    scores /= scores.sum()
    order = np.argsort(-scores, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(scores[order]), said.top_p)) + 1]
    return int(random.choice(kept, p=scores[kept] / scores[kept].sum()))
