# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hugging Face's Trainer over a compiled step: `train.py [FOLDER]`. Needs transformers, datasets and accelerate.

Data sets, collators, schedules, logs, callbacks and checkpoints are the Trainer's; what learns is the session.
"""

import sys

import datasets
import torch
import trainc
import transformers


class CompiledTrainer(transformers.Trainer):
    """A Trainer whose steps, evaluation and learning are a session's; schedule, logs, callbacks and collators stay its own."""

    def __init__(self, *args, step, **kwargs):
        super().__init__(*args, **kwargs)
        self.step, self.micro = step, []

    def training_step(self, model, inputs, num_items_in_batch=None):
        self.micro.append(dict(inputs))
        if not self.accelerator.sync_gradients:
            return torch.zeros(())
        loss = float(self.step(self.micro, lr=self.lr_scheduler.get_last_lr()[0]))
        self.micro = []
        return torch.tensor(loss)

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        loss = torch.tensor(self.step.eval(dict(inputs)))
        return loss, self.step.outputs["logits"].torch().clone(), inputs["labels"]

    def _save(self, output_dir=None, state_dict=None):
        super()._save(output_dir, self.step.state_dict())


config = transformers.BertConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
model = transformers.BertForSequenceClassification(config)
rows = [{"input_ids": [5 + i % 7] * (4 + i % 9), "attention_mask": [1] * (4 + i % 9), "labels": i % 7 % 2} for i in range(64)]
data = datasets.Dataset.from_list(rows)


def collate(rows):
    """As transformers' DataCollatorWithPadding, which needs a tokenizer: to the longest row."""
    longest = max(len(row["input_ids"]) for row in rows)
    padded = [{k: v + [0] * (longest - len(v)) if k != "labels" else v for k, v in row.items()} for row in rows]
    return transformers.default_data_collator(padded)


free = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "seq"}, "labels": {0: "batch"}}
step = trainc.compile(model, example=collate(rows[:2]), dynamic=free, optimizer="adamw", weight_decay=0.0)
folder = sys.argv[1] if len(sys.argv) > 1 else "run"
settings = transformers.TrainingArguments(
    folder, num_train_epochs=20, per_device_train_batch_size=8, gradient_accumulation_steps=2, learning_rate=3e-3,
    max_grad_norm=0, eval_strategy="epoch", save_strategy="no", report_to=[], use_cpu=True,
)  # fmt: skip
trainer = CompiledTrainer(
    model, settings, collate, data, data, step=step,
    compute_metrics=lambda result: {"accuracy": (result.predictions.argmax(-1) == result.label_ids).mean()},
)  # fmt: skip
trainer.train()
metrics = trainer.evaluate()
print(f"loss {metrics['eval_loss']:.3f}, accuracy {metrics['eval_accuracy']:.2f}")
trainer.save_model(folder)                               # from_pretrained loads it
