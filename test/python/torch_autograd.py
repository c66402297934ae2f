# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""trainc.autograd: modules with compiled passes within programs of PyTorch."""

import copy
import gc
import unittest

import torch
import trainc
import trainrt
from torch_support import Case, compare_gradients, own_cache

nn, F = torch.nn, torch.nn.functional


def setUpModule():
    own_cache()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 4)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x, shift=None):
        hidden = self.frozen(torch.tanh(self.norm(self.one(x))))
        return {"y": self.two(hidden) * self.scale, "more": (hidden, hidden.argmax(-1)), "name": "block"}


class Hybrid(nn.Module):
    """The block between layers that PyTorch computes."""

    def __init__(self):
        super().__init__()
        self.before, self.block, self.after = nn.Linear(5, 6), Block(), nn.Linear(4, 3)

    def forward(self, x):
        result = self.block(F.gelu(self.before(x)))
        return self.after(result["y"]).square().sum() + result["more"][0].sin().sum()


class Autograd(Case):
    def test_in_the_middle_of_a_network(self):
        exact, single, ours = Hybrid().double(), Hybrid(), Hybrid()
        single.load_state_dict({k: v.float() for k, v in exact.state_dict().items()})
        ours.load_state_dict(single.state_dict())
        exact.load_state_dict({k: v.double() for k, v in single.state_dict().items()})
        block = ours.block
        ours.block = trainc.autograd(block, {"x": torch.randn(3, 6, requires_grad=True)})
        x = torch.randn(7, 5)
        values = [model(x.to(kind)) for model, kind in ((exact, torch.float64), (single, torch.float32), (ours, torch.float32))]
        for value in values:
            value.backward()
        self.assertAlmostEqual(values[2].item(), values[0].item(), delta=1e-4)

        def gradients(model):
            return {n.replace("block.module.", "block."): p.grad for n, p in model.named_parameters() if p.grad is not None}

        self.assertEqual(set(gradients(ours)), set(gradients(exact)))
        compare_gradients(self, gradients(ours), gradients(exact), gradients(single))
        self.assertIsNone(block.frozen.weight.grad)
        result = ours.block(torch.randn(2, 6))
        self.assertEqual((result["name"], result["more"][1].dtype), ("block", torch.int64))
        self.assertFalse(result["more"][1].requires_grad)

    def test_an_optimizer_of_pytorch_steps(self):
        ours, theirs = Hybrid(), None
        theirs = copy.deepcopy(ours)
        ours.block = trainc.autograd(ours.block, {"x": torch.randn(3, 6, requires_grad=True)})
        optimizers = [torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01) for model in (ours, theirs)]
        for step in range(5):
            x = torch.randn(4 + step, 5)
            losses = []
            for model, optimizer in zip((ours, theirs), optimizers):
                optimizer.zero_grad()
                loss = model(x)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            self.assertAlmostEqual(*losses, delta=1e-4)

    def test_bits_are_the_same_each_time(self):
        model = trainc.autograd(Block(), {"x": torch.randn(3, 6)})
        x, found = torch.randn(9, 6, requires_grad=True), []
        for _ in range(2):
            model.zero_grad()
            x.grad = None
            model(x)["y"].sum().backward()
            found.append([x.grad.clone()] + [p.grad.clone() for p in model.parameters() if p.grad is not None])
        for one, two in zip(*found):
            self.assertTrue(torch.equal(one, two))

    def test_two_calls_before_a_backward(self):
        block = Block()
        model = trainc.autograd(block, {"x": torch.randn(3, 6)})
        one, two = torch.randn(4, 6), torch.randn(5, 6)
        (model(one)["y"].sum() * model(two)["y"].square().sum()).backward()
        found = block.one.weight.grad.clone()
        block.zero_grad()
        (block(one)["y"].sum() * block(two)["y"].square().sum()).backward()
        torch.testing.assert_close(found, block.one.weight.grad, rtol=1e-4, atol=1e-5)

    def test_a_transformer(self):
        from transformers import BertConfig, BertModel

        config = BertConfig(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
        bert = BertModel(config).train()
        exact = copy.deepcopy(bert).double()
        batch = {"input_ids": torch.randint(0, 61, (3, 9)), "attention_mask": torch.ones(3, 9, dtype=torch.long)}
        batch["attention_mask"][1, 6:] = 0
        free = {name: {0: "batch", 1: "seq"} for name in batch}
        ours = trainc.autograd(bert, batch, dynamic=free)
        gradients = []
        for model in (exact, ours, bert):
            bert.zero_grad()
            model(**batch).last_hidden_state.square().mean().backward()
            source = exact if model is exact else bert
            gradients.append({n: p.grad.clone() for n, p in source.named_parameters() if p.grad is not None})
        self.assertEqual(set(gradients[0]), set(gradients[1]))  # none of the pooler, whose output nothing used
        compare_gradients(self, gradients[1], gradients[0], gradients[2])
        longer = {"input_ids": torch.randint(0, 61, (2, 17)), "attention_mask": torch.ones(2, 17, dtype=torch.long)}
        torch.testing.assert_close(ours(**longer).pooler_output, bert(**longer).pooler_output, rtol=1e-4, atol=1e-5)

    def test_dropout_has_one_mask(self):
        class Dropped(nn.Module):
            def __init__(self):
                super().__init__()
                self.drop, self.factor = nn.Dropout(0.3), nn.Parameter(torch.ones(1))

            def forward(self, x):
                return self.drop(x * self.factor)

        module = Dropped()
        model = trainc.autograd(module, {"x": torch.ones(4, 100, requires_grad=True)})
        x = torch.ones(200, 100, requires_grad=True)
        torch.manual_seed(3)
        y = model(x)
        y.sum().backward()
        self.assertTrue(torch.equal(x.grad, y.detach()))
        self.assertAlmostEqual((y == 0).float().mean().item(), 0.3, delta=0.02)
        self.assertAlmostEqual(y[y != 0].mean().item(), 1 / 0.7, places=5)
        other = model(x)
        self.assertAlmostEqual(((y == 0) & (other == 0)).float().mean().item(), 0.09, delta=0.01)
        zero = (y == 0).float()
        for pair in ((zero[1:], zero[:-1]), (zero[:, 1:], zero[:, :-1])):
            self.assertAlmostEqual((pair[0] * pair[1]).mean().item(), 0.09, delta=0.01)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(model(x), y))
        module.eval()
        self.assertTrue(torch.equal(model(x), x))

    def test_batch_norms_keep_their_statistics(self):
        module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4, momentum=None), nn.Flatten(), nn.Linear(144, 2))
        theirs = copy.deepcopy(module)
        model = trainc.autograd(module, {"input": torch.randn(4, 3, 8, 8)})
        for _ in range(3):
            x = torch.randn(5, 3, 8, 8)
            model(x).square().sum().backward()
            theirs(x).square().sum().backward()
        for one, two in zip(module.parameters(), theirs.parameters()):
            torch.testing.assert_close(one.grad, two.grad, rtol=1e-3, atol=1e-3)
        for one, two in zip(module.buffers(), theirs.buffers()):
            torch.testing.assert_close(one, two)
        module.eval(), theirs.eval()
        torch.testing.assert_close(model(x), theirs(x), rtol=1e-4, atol=1e-5)

    def test_outputs_that_nothing_used(self):
        class Heads(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.one, self.two = nn.Linear(6, 5), nn.Linear(5, 3), nn.Linear(5, 2)

            def forward(self, x, y):
                return self.one(self.body(x)), self.two(y)

        module = Heads()
        model = trainc.autograd(module, {"x": torch.randn(3, 6), "y": torch.randn(3, 5)})
        for used in ((0,), (1,), (0, 1)):
            found = []
            for each in (model, module):
                module.zero_grad(set_to_none=True)
                x, y = torch.ones(4, 6, requires_grad=True), torch.ones(4, 5, requires_grad=True)
                outputs = each(x, y)
                sum(outputs[i].square().sum() for i in used).backward()
                found.append({"x": x.grad, "y": y.grad, **{n: p.grad for n, p in module.named_parameters()}})
            for name, gradient in found[1].items():
                self.assertEqual(gradient is None, found[0][name] is None, (used, name))
                if gradient is not None:
                    torch.testing.assert_close(found[0][name], gradient, rtol=1e-4, atol=1e-5)

    def test_nested_inputs(self):
        class Nested(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(6, 5)

            def forward(self, parts, scale):
                return sum(self.linear(part) for part in parts) * scale["by"]

        module = Nested()
        model = trainc.autograd(module, {"parts": [torch.randn(3, 6, requires_grad=True), torch.randn(3, 6)], "scale": {"by": torch.rand(3, 1)}})
        first, second, scale = torch.randn(4, 6, requires_grad=True), torch.randn(4, 6), {"by": torch.rand(4, 1)}
        found = []
        for each in (model, module):
            first.grad = None
            each([first, second], scale).square().sum().backward()
            found.append(first.grad)
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
        with self.assertRaisesRegex(trainrt.errors.MissingInput, "input 'parts.1' is missing"):
            model([first], scale)
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "input 'parts.2' was not in the example"):
            model([first, second, second], scale)

    def test_what_the_graph_has_no_gradient_for(self):
        class Lost(nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.fixed, self.out = nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 4), nn.Linear(4, 2)

            def forward(self, tokens):
                rows = self.table(tokens)
                return self.out(rows + self.fixed(rows).detach())

        module = Lost()
        model = trainc.autograd(module, {"tokens": torch.randint(0, 9, (3, 5))})
        tokens = torch.randint(0, 9, (4, 5))
        tokens[:, 0] = 0
        found = []
        for each in (model, module):
            module.zero_grad()
            each(tokens).square().sum().backward()
            found.append({n: p.grad for n, p in module.named_parameters() if p.grad is not None})
        for name, gradient in found[1].items():
            torch.testing.assert_close(found[0][name], gradient, rtol=1e-4, atol=1e-5)
        self.assertEqual(found[0]["table.weight"][0].abs().max(), 0)
        self.assertEqual(set(found[0]), set(found[1]))

    def test_without_a_cache(self):
        model = trainc.autograd(Block(), {"x": torch.randn(3, 6)}, cache=False)
        model(torch.randn(3, 6))["y"].sum().backward()
        folder = model._program()._folder
        self.assertTrue(folder.exists())
        del model
        gc.collect()
        self.assertFalse(folder.exists())

    def test_refused(self):
        model = trainc.autograd(Block(), {"x": torch.randn(3, 6)})
        with self.assertRaisesRegex(trainrt.errors.MissingInput, "input 'x' is missing: expected a tensor.* got list"):
            model([1.0])
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "input 'shift' was not in the example"):
            model(torch.randn(3, 6), shift=torch.ones(1))
        with self.assertRaisesRegex(trainrt.errors.BadData, "input 'x', axis 1: expected 6, got 5"):
            model(torch.randn(3, 5))
        x = torch.randn(3, 6, requires_grad=True)
        (first,) = torch.autograd.grad(model(x)["y"].sum(), x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "once_differentiable|does not require grad"):
            first.sum().backward()

        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, x, unused=None):
                return {"y": self.linear(x), "set": {1}}

        with self.assertRaisesRegex(trainc.ExportError, "Odd returns a set: expected tensors"):
            trainc.autograd(Odd(), {"x": torch.randn(2, 3)})
        with self.assertRaisesRegex(trainc.OptionError, "--precisoin"):
            trainc.autograd(Block(), {"x": torch.randn(3, 6)}, precisoin="bf16")


if __name__ == "__main__":
    unittest.main()
