# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What PyTorch, transformers, PEFT and TRL say of `trainc finetune`: `torch_finetune.py FOLDER [CHECK...]`; needs them, takes some minutes.

For every task: the folder that is exported has the loss that the run's last evaluation told. Preference losses and their
gradients are TRL's. Packed rows have the loss of the same rows unpacked.
"""

import pathlib
import random
import sys

import numpy as np
import peft
import tiny
import torch
import transformers
from trainc import commands, preferences, pretrained
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


def llama(name="llama", **more):
    path = tiny.tokenizer(folder / name)
    config = transformers.LlamaConfig(
        vocab_size=101, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=256, pad_token_id=0, bos_token_id=None, eos_token_id=3, **more,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(path, max_shard_size="40kB")
    return path


def t5(name="t5"):
    path = tiny.tokenizer(folder / name, bracketed=True)
    config = transformers.T5Config(
        vocab_size=101, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, pad_token_id=0, dropout_rate=0
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(path)
    return path


def batch_of(opened):
    """All rows, padded."""
    found = {}
    for name, column in opened.columns.items():
        rows = [row[name] for row in opened]
        if column.ragged:
            longest = max(map(len, rows))
            rows = [np.pad(row, (0, longest - len(row)), constant_values=column.pad) for row in rows]
        found[name] = torch.as_tensor(np.stack(rows))
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
        ("sequence-classification", folder / "llama", True),
        ("token-classification", folder / "bert", True), ("masked-lm", folder / "bert", False), ("seq2seq", t5(), True),
        ("seq2seq", folder / "t5", False),
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


def packed():
    rows = tiny.write(folder / "chat.jsonl", rows_of("causal-lm"))
    for pack in ("--pack", "--no-pack"):
        run("finetune", folder / "llama", "--data", rows, "--eval", rows, pack, "--steps", 1, "--lr", 0, "-o", folder / f"run{pack}")
    one, two = (last_loss(folder / f"run--{name}pack") for name in ("", "no-"))
    print(f"packed {one:.7f}, unpacked {two:.7f}")
    assert abs(one - two) < 1e-6 * two


def preferences_as_trl():
    """Losses of the wrappers, as modules, beside TRL's functions on the same batch; and through an export and a step."""
    from trl.experimental.cpo import CPOTrainer
    from trl.experimental.orpo import ORPOTrainer

    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "llama", attn_implementation="eager").train()
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
    joined = [torch.cat([a, b]) for a, b in zip(sides["chosen"], sides["rejected"])]
    logits = model(input_ids=joined[0], attention_mask=joined[1]).logits
    found = {}

    class Fake:
        is_encoder_decoder = aux_loss_enabled = False
        label_smoothing = alpha = 0.0
        beta, simpo_gamma, loss_type, cpo_alpha = 0.1, 0.5, "simpo", 0.0
        accelerator = type("A", (), {"device": "cpu"})()

    averaged = ORPOTrainer.get_batch_logps(logits, joined[2], average_log_prob=True)
    trainer = Fake()
    losses = ORPOTrainer.odds_ratio_loss(trainer, averaged[:rows], averaged[rows:])[0]
    likelihood = torch.nn.functional.cross_entropy(
        logits[:rows, :-1].reshape(-1, 101), torch.where(joined[1] == 1, joined[0], -100)[:rows, 1:].reshape(-1)
    )
    found["orpo"] = {"beta": 0.1}, likelihood - losses.mean()
    trainer.beta = 2.0
    averaged = CPOTrainer.get_batch_logps(logits, joined[2].clone(), average_log_prob=True)
    found["simpo"] = {"beta": 2.0, "gamma": 0.5}, CPOTrainer.cpo_loss(trainer, averaged[:rows], averaged[rows:])[0].mean()
    references = torch.randn(2 * rows, generator=generator) - 40
    summed = ORPOTrainer.get_batch_logps(logits, joined[2])
    margin = 0.1 * ((summed[:rows] - references[:rows]) - (summed[rows:] - references[rows:]))
    # What DPOTrainer and KTOTrainer compute within their steps (trl 1.16), which have no function of it alone.
    found["dpo"] = {"beta": 0.1}, -torch.nn.functional.logsigmoid(margin).mean()
    wanted = torch.tensor([1.0, 0, 1, 1, 0, 1])
    kl = (summed[rows:] - references[rows:]).mean().detach().clamp(min=0)
    ratio = summed[:rows] - references[:rows]
    chosen, rejected = 1 - torch.sigmoid(0.1 * (ratio - kl)), 1 - torch.sigmoid(0.1 * (kl - ratio))
    found["kto"] = {"desirable_weight": 1.5}, torch.cat([1.5 * chosen[wanted == 1], rejected[wanted == 0]]).mean()
    extra = {"dpo": [references[:rows], references[rows:]], "kto": [wanted, references[:rows], references[rows:]]}
    import onnx
    import trainc

    for name, (options, expected) in found.items():
        expected_gradient = torch.autograd.grad(expected, list(model.parameters()), retain_graph=True)
        wrapper = preferences.BY_NAME[name](model, **options)
        loss = wrapper(*tensors, *extra.get(name, []))[0]
        gradient = torch.autograd.grad(loss, list(model.parameters()))
        assert abs(loss.item() - expected.item()) < 1e-5, (name, loss, expected)
        assert all(torch.allclose(a, b, atol=1e-5, rtol=1e-4) for a, b in zip(gradient, expected_gradient)), name
        # The exported graph, by trainc.
        path = folder / f"{name}.onnx"
        pretrained.export(folder / "llama", path, loss=name, loss_options=options, absent=True)
        session = trainc.compile(path, weights=folder / "llama", lr=0.0, optimizer="sgd", target="cpu")
        inputs = [i.name for i in onnx.load(path, load_external_data=False).graph.input]
        compiled = session.gradients({n: t.contiguous() for n, t in zip(inputs, [*tensors, *extra.get(name, [])])})
        error = max(
            (session.grads[key].torch() - value).abs().max().item()
            for (key, _), value in zip(model.named_parameters(), expected_gradient)
        )
        print(f"{name}: {expected.item():.6f}, compiled differs by {abs(float(compiled) - expected.item()):.1e}, gradients by {error:.1e}")
        assert abs(float(compiled) - expected.item()) < 1e-5 and error < 1e-5, name


def preference_runs():
    drawn = random.Random(7)
    word = lambda: drawn.choice(["cat", "dog", "red", "eats"])
    pairs = tiny.write(folder / "pairs.jsonl", [{"prompt": word(), "chosen": f"yes {word()}", "rejected": word()} for _ in range(24)])
    judged = tiny.write(folder / "judged.jsonl", [{"prompt": word(), "completion": word(), "label": bool(i % 2)} for i in range(24)])
    first = {"dpo": np.log(2), "kto": 0.5}
    for loss in ("orpo", "simpo", "dpo", "kto", "reward"):
        rows = judged if loss == "kto" else pairs
        out = folder / f"run-{loss}"
        run("finetune", folder / "llama", "--data", rows, "--eval", rows, "--loss", loss, "--lora", "r=4", "--epochs", 4, "--lr", 0.02,
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
        run("data", folder / name, "--tokenizer", folder / "llama", "-o", folder / "shards")
        hashes.append([shard["hash"] for shard in shards.Folder(folder / "shards").index["shards"]])
    assert hashes[0] == hashes[1] == hashes[2]
    (folder / "bad.parquet").write_bytes(b"PAR1 but no more")
    assert commands.run(commands.find(["data"]), [str(folder / "bad.parquet"), "--tokenizer", str(folder / "llama"), "-o", str(folder / "shards")]) == 1


chosen = sys.argv[2:]
for check in (tasks, packed, preferences_as_trl, preference_runs, tables):
    if not chosen or check.__name__ in chosen:
        check()
        print(check.__name__, flush=True)
