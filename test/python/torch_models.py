# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models through trainc.compile against PyTorch itself.

This and the other tests with PyTorch: `python -m unittest discover -s test/python -p "torch_*.py"` (or `-k NAME`). They need
torch, onnxscript, transformers, accelerate, datasets and peft, and the two packages (or PYTHONPATH, TRAINC, TRAINRT_LIBRARY).
Losses of the first steps and gradients are compared with PyTorch's in f64; our error may be four times that of PyTorch's
own f32, or 1e-5 of the largest gradient, as in test/e2e.
"""

import copy
import unittest

import torch
import trainc
from torch_support import own_cache

F = torch.nn.functional


def ids(vocabulary, *shape):
    return torch.randint(0, vocabulary, shape)


def transformer(name, **settings):
    import transformers

    config = getattr(transformers, name + "Config")(**settings)
    config._attn_implementation = "sdpa"
    return config


class Models(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def compare(self, model, batch, loss=None, steps=3, forward=None, **options):
        """`loss`: of what forward returns and the batch."""
        lr = 1e-2
        step = trainc.compile(model, example=batch, loss=loss, optimizer="sgd", lr=lr, **options)

        def run(module, batch):
            taken = {k: v for k, v in batch.items() if forward is None or k in forward}
            result = module(**taken)
            return loss(result, batch) if callable(loss) else result.loss if hasattr(result, "loss") else result[0]

        def cast(batch, kind):
            return {k: v.to(kind) if v.is_floating_point() else v for k, v in batch.items()}

        exact, single = copy.deepcopy(model).double(), copy.deepcopy(model)
        gradients = {}
        for module, kind in ((exact, torch.float64), (single, torch.float32)):
            run(module, cast(batch, kind)).backward()
            gradients[kind] = {n: p.grad for n, p in module.named_parameters() if p.grad is not None}
        ours = float(step.gradients(batch))
        self.assertAlmostEqual(ours, float(run(exact, cast(batch, torch.float64))), delta=1e-4)
        largest = max(g.abs().max().item() for g in gradients[torch.float64].values())
        for name in step.grads:
            expected = gradients[torch.float64].get(name)
            if expected is None:
                continue
            found = step.grads[name].torch().double()
            allowed = 4 * (gradients[torch.float32][name].double() - expected).abs().max().item() + 1e-5 * largest
            self.assertLessEqual((found - expected).abs().max().item(), allowed, name)
        trained = {n for n, p in model.named_parameters() if p.requires_grad}
        self.assertLessEqual(set(step.grads), trained)
        optimizer = torch.optim.SGD([p for p in single.parameters() if p.requires_grad], lr=lr)
        for _ in range(steps):
            optimizer.zero_grad()
            value = run(single, batch)
            value.backward()
            optimizer.step()
            self.assertAlmostEqual(float(step(batch)), value.item(), delta=1e-4)
        other = copy.deepcopy(model)
        other.load_state_dict(step.state_dict())
        for name, parameter in other.named_parameters():
            torch.testing.assert_close(parameter, dict(single.named_parameters())[name], rtol=1e-3, atol=1e-5)
        return step

    def test_gpt2(self):
        from transformers import GPT2LMHeadModel

        model = GPT2LMHeadModel(transformer("GPT2", vocab_size=61, n_positions=32, n_embd=32, n_layer=2, n_head=4,
                                            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)).train()  # fmt: skip
        tokens = ids(61, 3, 12)
        self.compare(model, {"input_ids": tokens, "labels": tokens})

    def test_bert(self):
        from transformers import BertForSequenceClassification

        model = BertForSequenceClassification(
            transformer("Bert", vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=64, max_position_embeddings=32, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0, num_labels=3)).train()  # fmt: skip
        mask = torch.ones(3, 12, dtype=torch.long)
        mask[1, 7:] = 0
        self.compare(model, {"input_ids": ids(61, 3, 12), "attention_mask": mask, "labels": ids(3, 3)},
                     dynamic={"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "seq"}, "labels": {0: "batch"}})  # fmt: skip

    def test_vit(self):
        from transformers import ViTForImageClassification

        model = ViTForImageClassification(
            transformer("ViT", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=16,
                        patch_size=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=5)).train()  # fmt: skip
        self.compare(model, {"pixel_values": torch.randn(2, 3, 16, 16), "labels": ids(5, 2)})

    def test_t5(self):
        from transformers import T5ForConditionalGeneration

        model = T5ForConditionalGeneration(
            transformer("T5", vocab_size=61, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
                        decoder_start_token_id=0)).train()  # fmt: skip
        self.compare(model, {"input_ids": ids(61, 2, 9), "labels": ids(61, 2, 7)})

    def test_cnn(self):
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 12, 3, groups=4), torch.nn.GELU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
            torch.nn.Linear(12, 5),
        )  # fmt: skip
        model[1].eval()
        self.compare(model, {"input": torch.randn(4, 3, 12, 12), "labels": ids(5, 4)},
                     loss=lambda output, batch: F.cross_entropy(output, batch["labels"]), forward=["input"])  # fmt: skip

    def test_a_loss_of_ones_own(self):
        model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))

        def loss(output, batch):
            each = F.cross_entropy(output, batch["labels"], reduction="none", label_smoothing=0.1)
            return (each * batch["weight"]).sum() / batch["weight"].sum() + 0.01 * output.square().mean()

        self.compare(model, {"input": torch.randn(5, 6), "labels": ids(3, 5), "weight": torch.rand(5)}, loss=loss, forward=["input"])

    def test_buffers_frozen_parts_and_ties(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = torch.nn.Embedding(19, 8, padding_idx=0)
                self.norm = torch.nn.LayerNorm(8)
                self.fixed = torch.nn.Linear(8, 8)
                self.fixed.requires_grad_(False)
                self.head = torch.nn.Linear(8, 19, bias=False)
                self.head.weight = self.embed.weight
                self.register_buffer("scale", torch.linspace(0.5, 1.5, 8))
                self.unused = torch.nn.Linear(3, 3)

            def forward(self, tokens):
                return self.head(self.norm(self.fixed(self.embed(tokens)) * self.scale))

        batch = {"tokens": ids(19, 4, 6), "labels": ids(19, 4, 6)}
        batch["tokens"][:, 0] = 0
        step = self.compare(Net(), batch, forward=["tokens"],
                            loss=lambda output, batch: F.cross_entropy(output.flatten(0, 1), batch["labels"].flatten()))  # fmt: skip
        self.assertNotIn("fixed.weight", step.grads)

    def test_dropout_trains(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 4)

            def forward(self, x):
                q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
                y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3 if self.training else 0.0, is_causal=True)
                return self.out(y.transpose(1, 2).flatten(-2).mean(1))

        batch = {"x": torch.randn(8, 5, 16), "labels": ids(4, 8)}
        step = trainc.compile(Net().train(), example=batch, loss=lambda o, b: F.cross_entropy(o, b["labels"]), lr=1e-2)
        losses = [float(step.gradients(batch))]
        step(batch)
        losses += [float(step.gradients(batch)), step.eval(batch), step.eval(batch)]
        self.assertNotEqual(losses[0], losses[1])
        self.assertEqual(losses[2], losses[3])

    def test_optimizers_go_on_with_each_others_state(self):
        batch = {"input": torch.randn(4, 6), "labels": ids(3, 4)}

        def loss(output, batch):
            return F.cross_entropy(output, batch["labels"])

        for name, kind, settings in (
            ("adamw", torch.optim.AdamW, {"lr": 0.05, "weight_decay": 0.1}),
            ("adam", torch.optim.Adam, {"lr": 0.05}),
            ("sgd", torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
        ):
            model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
            model[0].bias.requires_grad_(False)
            theirs = copy.deepcopy(model)
            optimizer = kind([p for p in theirs.parameters() if p.requires_grad], **settings)

            def train(count):
                for _ in range(count):
                    optimizer.zero_grad()
                    loss(theirs(batch["input"]), batch).backward()
                    optimizer.step()

            step = trainc.compile(model, example=batch, loss=loss, optimizer=name, **settings)
            for _ in range(5):
                step(batch)
            theirs.load_state_dict(step.state_dict())
            optimizer.load_state_dict(step.optimizer_state_dict())
            train(5)
            for _ in range(5):
                step(batch)
            for ours, other in zip(step.state_dict().values(), theirs.state_dict().values()):
                torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-5)
            fresh = trainc.compile(model, example=batch, loss=loss, optimizer=name, **settings)
            fresh.load_state_dict(theirs.state_dict())
            fresh.load_optimizer_state_dict(optimizer.state_dict())
            train(5)
            for _ in range(5):
                fresh(batch)
            for ours, other in zip(fresh.state_dict().values(), theirs.state_dict().values()):
                torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-5)
            if name != "sgd":
                self.assertEqual(fresh.steps, 15)

    def test_refused(self):
        batch = {"input": torch.randn(4, 6), "labels": ids(3, 4)}
        loss = lambda output, batch: F.cross_entropy(output, batch["labels"])  # noqa: E731
        spectral = torch.nn.Sequential(torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(6, 3)))
        with self.assertRaisesRegex(trainc.ExportError, "module '0' has spectral_norm"):
            trainc.compile(spectral, example=batch, loss=loss)
        frozen = torch.nn.Sequential(torch.nn.Linear(6, 3)).requires_grad_(False)
        with self.assertRaisesRegex(trainc.ExportError, "no parameter of Sequential has requires_grad"):
            trainc.compile(frozen, example=batch, loss=loss)
        with self.assertRaisesRegex(trainc.ExportError, r"has no argument 'labels': give `loss=`"):
            trainc.compile(torch.nn.Linear(6, 3), example=batch)
        with self.assertRaisesRegex(trainc.ExportError, r"a tensor of shape \[4\], not a scalar"):
            trainc.compile(torch.nn.Linear(6, 3), example=batch, loss=lambda o, b: F.cross_entropy(o, b["labels"], reduction="none"))

        class Branches(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(6, 3)

            def forward(self, input):
                return self.linear(input) if input.sum() > 0 else self.linear(-input)

        with self.assertRaisesRegex(trainc.ExportError, "Branches cannot be exported"):
            trainc.compile(Branches(), example=batch, loss=loss)


def setUpModule():
    own_cache()


if __name__ == "__main__":
    unittest.main()
