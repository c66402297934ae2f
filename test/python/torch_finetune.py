# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What PyTorch, transformers, PEFT and TRL say of `trainc finetune`: `torch_finetune.py FOLDER [CHECK...]`; needs them, takes some minutes.

For every task: the folder that is exported has the loss that the run's last evaluation told. Preference losses and their
gradients are TRL's. Packed rows have the loss of the same rows unpacked. The losses of 200 steps are those of PEFT's model.
"""

import collections
import contextlib
import csv
import functools
import inspect
import pathlib
import random
import re
import sys
import types
from unittest import mock

import numpy as np
import peft
import tiny
import torch
import trainc.errors
import transformers
from trainc import commands, compiler, decomposition, preferences, pretrained
from trainc.data import shards

folder = pathlib.Path(sys.argv[1]).resolve()
transformers.logging.set_verbosity_error()
torch.manual_seed(0)


def run(*arguments):
    arguments = [str(a) for a in arguments]
    assert commands.run(commands.find(arguments), arguments[1:]) == 0, arguments


def last_loss(path):
    return float((path / "logs" / "evaluations.csv").read_text().splitlines()[-1].split(",")[1])


def bert(name, cls=transformers.BertForMaskedLM):
    path = tiny.tokenizer(folder / name, bracketed=True, model_input_names=["input_ids", "token_type_ids", "attention_mask"])
    config = transformers.BertConfig(
        vocab_size=101, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=128,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )  # fmt: skip
    cls(config).save_pretrained(path)
    return path


@functools.cache
def llama(name="llama", **more):
    path = tiny.tokenizer(folder / name)
    config = transformers.LlamaConfig(
        vocab_size=101, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=256, pad_token_id=0, bos_token_id=None, eos_token_id=3, **more,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(path, max_shard_size="40kB")
    return path


def windowed(kind):
    """A decoder with layers that see five tokens only."""
    path = tiny.tokenizer(folder / kind)
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=101, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, max_position_embeddings=256, sliding_window=5, pad_token_id=0, bos_token_id=None, eos_token_id=3,
    )  # fmt: skip
    if kind == "gemma3_text":
        config.layer_types = ["sliding_attention", "full_attention"]
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(path)
    return path


def t5(name="t5"):
    path = tiny.tokenizer(folder / name, bracketed=True)
    config = transformers.T5Config(
        vocab_size=101, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, pad_token_id=0, dropout_rate=0
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(path)
    return path


def neox(name="neox"):
    """Its head has another name in the files than in the model."""
    path = tiny.tokenizer(folder / name)
    config = transformers.GPTNeoXConfig(
        vocab_size=101, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=256,
        bos_token_id=3, eos_token_id=3, attention_dropout=0, hidden_dropout=0,
    )  # fmt: skip
    transformers.GPTNeoXForCausalLM(config).save_pretrained(path)
    return path


def roberta(name="roberta"):
    """Its head for classes has two layers."""
    path = tiny.tokenizer(folder / name, bracketed=True)
    config = transformers.RobertaConfig(
        vocab_size=101, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=140,
        pad_token_id=0, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )  # fmt: skip
    transformers.RobertaForMaskedLM(config).save_pretrained(path)
    return path


def batch_of(opened, rows=None):
    """Rows (default: all), padded."""
    found = {}
    rows = list(opened) if rows is None else rows
    for name, column in opened.columns.items():
        values = [row[name] for row in rows]
        if column.ragged:
            longest = max(map(len, values))
            values = [np.pad(value, (0, longest - len(value)), constant_values=column.pad) for value in values]
        found[name] = torch.as_tensor(np.stack(values))
        if found[name].dtype in (torch.int32, torch.int8):
            found[name] = found[name].long()
    return found


def rows_of(task):
    drawn = random.Random(5)
    sentence = lambda least, most: " ".join(drawn.choice("cat dog red green runs eats".split()) for _ in range(drawn.randint(least, most)))
    if task == "causal-lm":
        return tiny.chats(30, most=2)
    if task == "sequence-classification":
        return [{"text": (text := sentence(2, 6)), "label": "cat" if "cat" in text else "none"} for _ in range(60)]
    if task == "token-classification":
        return [{"tokens": (words := sentence(2, 6).split()), "tags": [int(w in ("cat", "dog")) for w in words]} for _ in range(60)]
    if task == "masked-lm":
        return [{"text": sentence(4, 8)} for _ in range(40)]
    return [{"source": (text := sentence(2, 5)), "target": text[::-1]} for _ in range(40)]


def tasks():
    cases = [
        ("causal-lm", llama(), True), ("causal-lm", llama("tied", tie_word_embeddings=True), False),
        ("sequence-classification", bert("bert"), True), ("sequence-classification", bert("body", transformers.BertModel), False),
        ("sequence-classification", llama(), True),
        ("token-classification", folder / "bert", True), ("masked-lm", folder / "bert", False), ("seq2seq", t5(), True),
        ("seq2seq", folder / "t5", False), ("causal-lm", neox(), True), ("sequence-classification", roberta(), True),
    ]  # fmt: skip
    for number, (task, model, lora) in enumerate(cases):
        rows = tiny.write(folder / f"{task}.jsonl", rows_of(task))
        out = folder / f"run-{number}"
        run("finetune", model, "--data", rows, "--eval", rows, "--task", task, "--epochs", 3, "--lr", 0.01, "--batch-size", 10,
            *(["--lora", "r=4,alpha=8"] if lora else []), "-o", out)  # fmt: skip
        cls = getattr(transformers, pretrained.CLASSES[task])
        loaders = {"merged": lambda: cls.from_pretrained(out / "merged", attn_implementation="eager")}
        if lora:
            def adapted():
                index = shards.Folder(out / "data" / "eval").index
                labels = {"num_labels": len(index["label_names"])} if "label_names" in index else {}
                base = cls.from_pretrained(model, attn_implementation="eager", **({"pad_token_id": 0, **labels} if labels else {}))
                return peft.PeftModel.from_pretrained(base, str(out / "adapter"))

            loaders["adapter"] = adapted
        batch = batch_of(shards.Folder(out / "data" / "eval"))
        for kind, load in loaders.items():
            run("export", out, out / kind)
            loaded = load().eval()
            with torch.no_grad():
                loss = loaded(**batch).loss.item()
            difference = abs(loss - last_loss(out))
            print(f"{task}, {model.name}, {kind}: {loss:.6f}, differs by {difference:.1e}")
            assert difference < 2e-5, (task, kind, loss, last_loss(out))
        files = lambda path: {p.name for p in path.glob("model*.safetensors*")}
        assert files(out / "merged") == files(model), (files(out / "merged"), files(model))
        names = transformers.AutoConfig.from_pretrained(out / "merged").id2label
        if task == "sequence-classification":
            assert list(names.values()) == ["cat", "none"], names


def encoders():
    """An encoder is no model that writes texts."""
    rows = tiny.write(folder / "chat.jsonl", rows_of("causal-lm"))
    for model in (bert("bert"), roberta()):
        arguments = [str(model), "--data", rows, "-o", str(folder / "refused")]
        try:
            pretrained.export(model, folder / "x.onnx", absent=True)
            raise AssertionError("it was exported")
        except trainc.errors.ExportError as error:
            assert "sees the tokens that it is to predict" in str(error), error
        assert commands.run(commands.find(["finetune"]), arguments) == 1


def packed():
    """Also of layers that see a window only."""
    rows = tiny.write(folder / "chat.jsonl", rows_of("causal-lm"))
    for model in (llama(), windowed("mistral"), windowed("gemma3_text")):
        for pack in ("--pack", "--no-pack"):
            run("finetune", model, "--data", rows, "--eval", rows, pack, "--steps", 1, "--lr", 0, "-o", folder / f"{model.name}{pack}")
        one, two = (last_loss(folder / f"{model.name}--{name}pack") for name in ("", "no-"))
        print(f"{model.name}: packed {one:.7f}, unpacked {two:.7f}")
        assert abs(one - two) < 1e-6 * two


def graph_of(path):
    """The passes' graph of an export, without what names and places in files make of it."""
    ir = folder / "ir"
    compiler.run([path, "--target", "cpu", "--stop-after", "graph", "--save-ir", ir])
    lines = [line for line in (ir / "3-graph.mlir").read_text().splitlines() if not line.startswith(("#", "module"))]
    return [re.sub(r"loc\(.*\)|#train\.weight<[^>]*>|node = -?[0-9]+ : i64", "", line).strip() for line in lines]


def decomposed():
    """What is decomposed without tracing the program again is the same graph."""
    plain, is_plain = [], decomposition._is_plain
    for model, task, packed in (
        (llama(), "causal-lm", True), (windowed("gemma3_text"), "causal-lm", False), (t5(), "seq2seq", False), (bert("masked"), "masked-lm", False),
    ):  # fmt: skip
        graphs = []
        for shortcut in (decomposition.without_retracing, contextlib.nullcontext):
            with mock.patch.object(pretrained, "without_retracing", shortcut), mock.patch.object(
                decomposition, "_is_plain", lambda *args: plain.append(is_plain(*args)) or plain[-1]
            ):
                pretrained.export(model, folder / "graph.onnx", task=task, packed=packed, absent=True)
            graphs.append(graph_of(folder / "graph.onnx"))
        assert graphs[0] == graphs[1], model
    assert plain == [True, True, False, True], plain  # T5 changes some of its tensors in place

    class Scored(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, x):
            y = self.linear(x)
            with torch.no_grad():
                score = (y.argmax(-1) == 0).float().mean()
            return y.sum(), score

    operators = []
    for shortcut in (decomposition.without_retracing, contextlib.nullcontext):
        with shortcut():
            program = torch.onnx.export(Scored(), (torch.ones(2, 4),), dynamo=True, optimize=False, verbose=False)
        operators.append([node.op_type for node in program.model.graph])
    assert operators[0] == operators[1], operators


def not_packed():
    """A model that would let documents see each other is no packed one; its weights need no initialization that runs on fake numbers."""
    path = tiny.tokenizer(folder / "modernbert", bracketed=True)
    transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(
        vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, local_attention=6,
        global_attn_every_n_layers=2, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
    )).save_pretrained(path)  # fmt: skip
    exported = pretrained.export(path, folder / "modernbert.onnx", task="masked-lm", dtype="float32")
    assert exported.parameters and not exported.absent
    try:
        pretrained.export(path, folder / "modernbert.onnx", task="masked-lm", dtype="float32", packed=True)
        raise AssertionError("it was exported")
    except pretrained.ExportError as error:
        assert "ModernBertForMaskedLM cannot be exported with --packed: its attention does not tell documents apart" in str(error)


class Trainer:
    """What TRL's losses ask a trainer for, but for the loss's own settings."""

    is_encoder_decoder = aux_loss_enabled = use_weighting = False
    ld_alpha, f_divergence_type, loss_types, loss_weights = None, "reverse_kl", ["sigmoid"], [1.0]
    calculate_KL = precompute_ref_logps = True
    label_smoothing = alpha = cpo_alpha = 0.0
    padding_value, pad_token_id, _total_train_tokens, _tp_size, loss_type = 0, 0, 0, 1, "kto"

    class accelerator:
        device, gather, gather_for_metrics = "cpu", staticmethod(lambda values: values), staticmethod(lambda values: values)

    class args:
        center_rewards_coefficient = None

    def __init__(self, cls, model, **settings):
        self.cls, self.model = cls, model
        self._metrics = collections.defaultdict(lambda: collections.defaultdict(list))
        vars(self).update(settings)

    def __getattr__(self, name):
        found = inspect.getattr_static(self.cls, name)
        return getattr(self.cls, name) if isinstance(found, staticmethod) else functools.partial(found, self)


def fused(model):
    """The model as TRL 1.16 calls it: what it says of each label, and numbers for its log."""

    def call(input_ids, attention_mask, labels=None, **_):
        logits = model(input_ids=input_ids, attention_mask=attention_mask).logits
        if labels is None:
            return types.SimpleNamespace(logits=logits)
        known = labels[:, 1:] != -100
        scores = torch.log_softmax(logits[:, :-1], -1).gather(-1, torch.where(known, labels[:, 1:], 0).unsqueeze(-1)).squeeze(-1)
        zeros = torch.zeros_like(scores)
        return types.SimpleNamespace(log_probs=scores * known, entropy=zeros, mean_logits=zeros, is_top1=known)

    return call


def preferences_as_trl():
    """The wrappers' losses and gradients are those of TRL's trainers on the same batch; and through an export and a step."""
    import onnx
    import trainc
    from trl import DPOTrainer, KTOTrainer, RewardTrainer
    from trl.experimental.cpo import CPOTrainer
    from trl.experimental.orpo import ORPOTrainer

    load = lambda cls: cls.from_pretrained(llama(), attn_implementation="eager").train()
    model = load(transformers.AutoModelForCausalLM)
    generator = torch.Generator().manual_seed(3)
    rows, length = 6, 14
    sides = {}
    for side in ("chosen", "rejected"):
        sizes = torch.randint(8, length + 1, (rows,), generator=generator)
        mask = (torch.arange(length)[None] < sizes[:, None]).long()
        ids = torch.where(mask == 1, torch.randint(5, 101, (rows, length), generator=generator), 0)
        labels = torch.where((mask == 1) & (torch.arange(length)[None] >= 4), ids, -100)
        sides[side] = (ids, mask, labels)
    tensors = [*sides["chosen"], *sides["rejected"]]
    named = {f"{side}_{name}": t for side, each in sides.items() for name, t in zip(("input_ids", "attention_mask", "labels"), each)}
    ids, mask, labels = (torch.cat([a, b]) for a, b in zip(*sides.values()))
    completion = (labels != -100).long()
    references = torch.randn(2 * rows, generator=generator) - 40
    wanted = torch.tensor([1.0, 0, 1, 1, 0, 1])
    cases = []
    for beta in (0.1, 0.7):
        cases.append(("orpo", {"beta": beta}, [], lambda m, beta=beta: ORPOTrainer.get_batch_loss_metrics(
            Trainer(ORPOTrainer, m, beta=beta), m, dict(named))[0]))  # fmt: skip
        cases.append(("simpo", {"beta": 20 * beta, "gamma": 0.5}, [], lambda m, beta=beta: CPOTrainer.get_batch_loss_metrics(
            Trainer(CPOTrainer, m, beta=20 * beta, simpo_gamma=0.5, loss_type="simpo"), m, dict(named))[0]))  # fmt: skip
        cases.append(("dpo", {"beta": beta}, [references[:rows], references[rows:]], lambda m, beta=beta: DPOTrainer._compute_loss(
            Trainer(DPOTrainer, m, beta=beta), fused(m), {"input_ids": ids, "attention_mask": mask, "completion_mask": completion,
            "ref_chosen_logps": references[:rows], "ref_rejected_logps": references[rows:]}, False)))  # fmt: skip
        for judged in (wanted, 1 - wanted, torch.ones(rows), torch.zeros(rows)):
            weights = {"desirable_weight": 1.5, "undesirable_weight": 0.75}
            batch = {"input_ids": ids[:rows], "attention_mask": mask[:rows], "completion_mask": completion[:rows], "label": judged.bool(),
                     "KL_input_ids": ids[rows:], "KL_attention_mask": mask[rows:], "KL_completion_mask": completion[rows:],
                     "ref_logps": references[:rows], "ref_KL_logps": references[rows:]}  # fmt: skip
            cases.append(("kto", {"beta": beta, **weights}, [judged, references[:rows], references[rows:]],
                          lambda m, beta=beta, batch=batch, weights=weights: KTOTrainer._compute_loss(
                              Trainer(KTOTrainer, m, beta=beta, **weights), fused(m), dict(batch), False)))  # fmt: skip
    cases.append(("reward", {}, [], lambda m: RewardTrainer.compute_loss(
        Trainer(RewardTrainer, m), m, {"input_ids": ids, "attention_mask": mask})))  # fmt: skip
    exported = set()
    for name, options, extra, loss_of_trl in cases:
        module = model
        if name == "reward":
            module = transformers.AutoModelForSequenceClassification.from_pretrained(
                llama(), attn_implementation="eager", num_labels=1, pad_token_id=0
            ).train()
        expected = loss_of_trl(module)
        expected_gradient = torch.autograd.grad(expected, list(module.parameters()))
        loss = preferences.BY_NAME[name](module, **options)(*tensors, *extra)[0]
        gradient = torch.autograd.grad(loss, list(module.parameters()))
        difference = max((a - b).abs().max().item() for a, b in zip(gradient, expected_gradient))
        print(f"{name} {options}: {expected.item():.6f}, differs by {abs(loss.item() - expected.item()):.1e}, gradients by {difference:.1e}")
        assert abs(loss.item() - expected.item()) < 1e-5 and difference < 1e-5, name
        if name == "reward" or name in exported:
            continue
        exported.add(name)
        # The exported graph, by trainc.
        path = folder / f"{name}.onnx"
        pretrained.export(llama(), path, loss=name, loss_options=options, absent=True)
        session = trainc.compile(path, weights=llama(), lr=0.0, optimizer="sgd", target="cpu")
        inputs = [i.name for i in onnx.load(path, load_external_data=False).graph.input]
        compiled = session.gradients({n: t.contiguous() for n, t in zip(inputs, [*tensors, *extra])})
        error = max(
            (session.grads[key].torch() - value).abs().max().item()
            for (key, _), value in zip(model.named_parameters(), expected_gradient)
        )
        print(f"{name}: compiled differs by {abs(float(compiled) - expected.item()):.1e}, gradients by {error:.1e}")
        assert abs(float(compiled) - expected.item()) < 1e-5 and error < 1e-5, name


def orpo_steps():
    """A run's steps are those of TRL's trainer, with accumulation: each micro-batch counts for its rows, although a part of the
    loss is a mean over tokens."""
    import datasets
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer

    path = tiny.tokenizer(folder / "plain", template=None)
    torch.manual_seed(5)
    config = transformers.AutoConfig.from_pretrained(llama())
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    drawn = random.Random(9)
    word = lambda: " ".join(drawn.choice("cat dog red green runs eats".split()) for _ in range(drawn.randint(1, 9)))
    rows = [{"prompt": word() + ":", "chosen": " " + word(), "rejected": " " + word()} for _ in range(12)]

    class InOrder(ORPOTrainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    arguments = ORPOConfig(
        str(folder / "trl"), per_device_train_batch_size=2, gradient_accumulation_steps=3, num_train_epochs=1, optim="sgd", learning_rate=0.5,
        lr_scheduler_type="constant", max_grad_norm=0, report_to=[], beta=0.3, max_length=128, use_cpu=True, save_strategy="no",
        remove_unused_columns=False, gradient_checkpointing=False, bf16=False,
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager", dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    trainer = InOrder(model, args=arguments, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer)
    trainer.train()
    out = folder / "run-orpo-steps"
    run("finetune", path, "--data", tiny.write(folder / "orpo.jsonl", rows), "--loss", "orpo", "--beta", 0.3, "--batch-size", 6,
        "--micro-batch", 2, "--optimizer", "sgd", "--lr", 0.5, "--lr-schedule", "constant", "--warmup", 0, "--clip-norm", 0, "--no-shuffle",
        "-o", out)  # fmt: skip
    run("export", out, out / "merged")
    ours = transformers.AutoModelForCausalLM.from_pretrained(out / "merged", dtype=torch.float32)
    before = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    moved = max((a - b).abs().max().item() for a, b in zip(before.parameters(), model.parameters()))
    difference = max((a - b).abs().max().item() for a, b in zip(ours.parameters(), model.parameters()))
    print(f"two steps of ORPO, 3 micro-batches each: weights moved by {moved:.1e}, differ from TRL's by {difference:.1e}")
    assert moved > 1e-2 and difference < 1e-5


def preference_runs():
    drawn = random.Random(7)
    word = lambda: drawn.choice(["cat", "dog", "red", "eats"])
    pairs = tiny.write(folder / "pairs.jsonl", [{"prompt": word(), "chosen": f"yes {word()}", "rejected": word()} for _ in range(24)])
    judged = tiny.write(folder / "judged.jsonl", [{"prompt": word(), "completion": word(), "label": bool(i % 2)} for i in range(24)])
    first = {"dpo": np.log(2), "kto": 0.5}
    for loss in ("orpo", "simpo", "dpo", "kto", "reward"):
        rows = judged if loss == "kto" else pairs
        out = folder / f"run-{loss}"
        run("finetune", llama(), "--data", rows, "--eval", rows, "--loss", loss, "--lora", "r=4", "--epochs", 4, "--lr", 0.02,
            "--batch-size", 8, "-o", out)  # fmt: skip
        values = [float(line.split(",")[1]) for line in (out / "logs" / "evaluations.csv").read_text().splitlines()[1:]]
        print(loss, values)
        assert values[-1] < values[0] and (loss not in first or abs(values[0] - first[loss]) < 1e-5), (loss, values)
        run("export", out, out / "merged")
    scores = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "run-reward" / "merged").eval()
    opened = batch_of(shards.Folder(folder / "run-reward" / "data" / "eval"))
    with torch.no_grad():
        chosen, rejected = (
            scores(input_ids=opened[f"{s}_input_ids"], attention_mask=opened[f"{s}_attention_mask"]).logits.squeeze(-1)
            for s in ("chosen", "rejected")
        )
    loss = -torch.nn.functional.logsigmoid(chosen - rejected).mean().item()
    assert abs(loss - last_loss(folder / "run-reward")) < 1e-5, (loss, last_loss(folder / "run-reward"))


class InDouble(torch.overrides.TorchFunctionMode):
    """Within it, what a model casts to float stays double."""

    def __torch_function__(self, function, _, arguments=(), named=None):
        widened = lambda value: torch.float64 if value is torch.float32 else value
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        return function(*map(widened, arguments), **{name: widened(value) for name, value in (named or {}).items()})


def peft_curve(model, adapter, opened, dtype, steps, batch, micro, lr, warmup, clip):
    """Losses and gradients' norms of PEFT's model over steps of `batch` packed rows, in the folder's order."""
    base = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")
    module = peft.PeftModel.from_pretrained(base, str(adapter), is_trainable=True).to(dtype).train()
    trained = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=lr, weight_decay=0)
    counted = lambda b: (b["labels"][:, 1:] != -100).sum().item()
    losses, norms, unequal = [], [], 0
    for step in range(steps):
        begin = step * batch
        parts = [batch_of(opened, [opened.row(i % len(opened)) for i in range(k, k + micro)]) for k in range(begin, begin + batch, micro)]
        tokens = sum(map(counted, parts))
        unequal += len({counted(b) for b in parts}) > 1
        total = 0.0
        for part in parts:
            segments = part.pop("segment_ids")
            labels = part.pop("labels")
            length = segments.shape[1]
            seen = (segments[:, :, None] == segments[:, None, :]) & torch.ones(length, length).tril().bool()
            mask = torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)[:, None]
            with InDouble() if dtype == torch.float64 else contextlib.nullcontext():
                logits = module(**part, attention_mask=mask, use_cache=False).logits
            assert logits.dtype == dtype
            loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / tokens
            loss.backward()
            total += loss.item()
        norms.append(torch.nn.utils.clip_grad_norm_(trained, clip).item())
        optimizer.param_groups[0]["lr"] = lr * ((step + 1) / warmup if step < warmup else (steps - step) / (steps - warmup))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(total)
    assert unequal > steps // 2, "micro-batches that learn equally many tokens do not show how they are weighted"
    return np.array(losses), np.array(norms)


def curve_as_peft():
    """With accumulation, packing, warm-up and clipping, the losses of 200 steps are as near to those of PEFT's model in double as are
    those of PEFT's model in float; with the criterion of the curves in test/e2e."""
    model = llama("curve", initializer_range=0.2)
    base = transformers.AutoModelForCausalLM.from_pretrained(model, attn_implementation="eager")
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    begun = folder / "curve-adapter"
    peft.get_peft_model(base, config).save_pretrained(begun)
    settings = {"steps": 200, "batch": 4, "micro": 2, "lr": 0.01, "warmup": 10, "clip": 1.0}
    out = folder / "run-curve"
    run("finetune", model, "--data", tiny.write(folder / "curve.jsonl", tiny.chats(150, seed=8)), "--pack", "--max-length", 256,
        "--lora", "r=4,alpha=8", "--adapter", begun, "--batch-size", settings["batch"], "--micro-batch", settings["micro"],
        "--steps", settings["steps"], "--lr", settings["lr"], "--lr-schedule", "linear", "--warmup", settings["warmup"],
        "--clip-norm", settings["clip"], "--weight-decay", 0, "--seed", 3, "--no-shuffle", "-o", out)  # fmt: skip
    with open(out / "logs" / "steps.csv") as file:
        logged = list(csv.DictReader(file))
    ours = {name: np.array([float(row[name]) for row in logged]) for name in ("loss", "grad_norm")}
    rows = shards.Folder(out / "data" / "train")
    several = sum(int(row["segment_ids"].max()) > 1 for row in rows)
    assert len(rows) % 4 and several > len(rows) // 2, (len(rows), several)  # some batches end in the next epoch
    exact = peft_curve(model, begun, rows, torch.float64, **settings)
    single = peft_curve(model, begun, rows, torch.float32, **settings)
    assert len(logged) == settings["steps"]
    print(f"{len(rows)} rows, {several} of several documents; losses from {exact[0][0]:.4f} to {exact[0][-1]:.4f}, "
          f"{sum(exact[1] > 1)} steps clipped")  # fmt: skip
    for name, expected, in_single in zip(ours, exact, single):
        error, noise = (np.abs(values / expected - 1) for values in (ours[name], in_single))
        print(f"{name}: off by at most {error.max():.1e} (step {error.argmax() + 1}), PEFT in float by {noise.max():.1e} "
              f"(step {noise.argmax() + 1})")  # fmt: skip
        if name == "loss":
            assert error.max() <= max(5e-6, 5 * noise.max()), (error.max(), noise.max())
    assert exact[0][-4:].mean() < exact[0][:4].mean() / 2 and 0 < sum(exact[1] > 1) < settings["steps"]


def tables():
    """Parquet and Arrow through datasets."""
    import datasets

    rows = tiny.chats(30)
    table = datasets.Dataset.from_list(rows)
    table.to_parquet(folder / "rows.parquet")
    table.save_to_disk(folder / "saved")
    tiny.write(folder / "rows.jsonl", rows)
    hashes = []
    for name in ("rows.jsonl", "rows.parquet", "saved"):
        run("data", folder / name, "--tokenizer", llama(), "-o", folder / "shards")
        hashes.append([shard["hash"] for shard in shards.Folder(folder / "shards").index["shards"]])
    assert hashes[0] == hashes[1] == hashes[2]
    (folder / "bad.parquet").write_bytes(b"PAR1 but no more")
    assert commands.run(commands.find(["data"]), [str(folder / "bad.parquet"), "--tokenizer", str(llama()), "-o", str(folder / "shards")]) == 1


chosen = sys.argv[2:]
for check in (tasks, encoders, packed, decomposed, not_packed, preferences_as_trl, orpo_steps, preference_runs, curve_as_peft, tables):
    if not chosen or check.__name__ in chosen:
        check()
        print(check.__name__, flush=True)
