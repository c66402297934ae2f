# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One tiny model of each family that the compiler is tested on (needs torch and transformers).

Every model is wrapped so that it gives (loss, logits) for inputs by position. Some are written by
the TorchScript exporter, whose graphs of the same model are other graphs.
"""

import dataclasses

from torch import nn

import vision
import zoo


class Training(nn.Module):
    """`model` with the loss it computes itself, or with `loss(model, inputs)`."""

    def __init__(self, model, names, loss=None):
        super().__init__()
        self.model = model
        self.names = names
        self.loss = loss

    def forward(self, *arguments, **inputs):
        inputs = {**dict(zip(self.names, arguments)), **inputs}
        if self.loss:
            return self.loss(self.model, inputs)
        out = self.model(**inputs)
        return out.loss, out.logits


@dataclasses.dataclass
class Family(zoo.Spec):
    """A spec of this file, written by this exporter ("dynamo" or "torchscript")."""

    exporter: str = "dynamo"


class Lora(nn.Module):
    """A frozen linear layer and a trained product of two narrow ones beside it (Hu et al. 2021)."""

    def __init__(self, base, rank=2, scaling=2.0):
        super().__init__()
        self.base_layer = base.requires_grad_(False)
        self.lora_A = nn.Linear(base.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False)
        self.scaling = scaling

    def forward(self, x):
        return self.base_layer(x) + self.lora_B(self.lora_A(x)) * self.scaling


class Recurrent(nn.Module):
    """An embedding, two layers of `kind` in both directions, and a classifier."""

    def __init__(self, kind, sizes):
        super().__init__()
        self.embed = nn.Embedding(sizes.vocab, 8)
        self.rnn = getattr(nn, kind)(8, 6, num_layers=2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(12, sizes.labels)

    def forward(self, input_ids, labels):
        logits = self.fc(self.rnn(self.embed(input_ids))[0].mean(1))
        return nn.functional.cross_entropy(logits, labels), logits


def own_loss(model, inputs):
    """Cross entropy outside of the model: DeBERTa's own asks for values of the labels."""
    inputs = dict(inputs)
    labels = inputs.pop("labels")
    logits = model(**inputs).logits
    return nn.functional.cross_entropy(logits, labels), logits


def contrastive(model, inputs):
    out = model(**inputs, return_loss=True)
    return out.loss, out.logits_per_text


def call(model, inputs):
    return model(**inputs)


def translation_batch(sizes):
    def batch(rng, n, seq):
        mask = zoo.attention_mask(rng, n, seq)
        ids = rng.integers(3, sizes.vocab, (n, seq)) * mask
        labels = rng.integers(3, sizes.vocab, (n, seq // 2 + 2))
        labels[1:, -1] = zoo.IGNORE
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    return batch


def families(sizes):
    """All specs, by name."""
    import transformers as tf

    hidden, heads, inter, vocab = 16, 2, 24, sizes.vocab
    masks = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "seq"}}
    by_row = {**masks, "labels": {0: "batch"}}
    by_token = {**masks, "labels": {0: "batch", 1: "seq"}}
    to_target = {**masks, "labels": {0: "batch", 1: "target"}}
    language, classification = zoo.language_batch(sizes), zoo.classification_batch(sizes, 0)
    encoder = dict(
        vocab_size=vocab, hidden_size=hidden, num_hidden_layers=1, num_attention_heads=heads,
        intermediate_size=inter, max_position_embeddings=40, initializer_range=0.1,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=sizes.labels,
    )
    decoder = dict(
        vocab_size=vocab, hidden_size=hidden, num_hidden_layers=1, num_attention_heads=heads,
        num_key_value_heads=1, intermediate_size=inter, max_position_embeddings=40,
        initializer_range=0.1, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )
    specs = []

    def add(name, build, batch, axes, loss=None, **more):
        names = list(axes)
        specs.append(
            Family(name, lambda: Training(build(), names, loss), batch, axes, **more)
        )

    def hugging(name, model, config, sizes_of, batch, axes, loss=None, more=None, **extra):
        def build():
            return getattr(tf, model)(getattr(tf, config)(**{**sizes_of, **extra}))

        add(name, build, batch, axes, loss, **(more or {}))

    def lora():
        model = tf.LlamaForCausalLM(tf.LlamaConfig(**decoder)).requires_grad_(False)
        attention = model.model.layers[0].self_attn
        attention.q_proj, attention.v_proj = Lora(attention.q_proj), Lora(attention.v_proj)
        return model

    script = dict(exporter="torchscript")
    hugging("bert-mlm", "BertForMaskedLM", "BertConfig", encoder, language, by_token,
            more=dict(exporter="torchscript", opset=17))
    hugging("albert-cls", "AlbertForSequenceClassification", "AlbertConfig",
            {**encoder, "num_hidden_layers": 2}, classification, by_row, embedding_size=8,
            classifier_dropout_prob=0.0, more=dict(opset=18))
    hugging("electra-mlm", "ElectraForMaskedLM", "ElectraConfig", encoder, language, by_token,
            embedding_size=8, more=script)
    hugging("deberta-cls", "DebertaV2ForSequenceClassification", "DebertaV2Config", encoder,
            classification, by_row, own_loss, relative_attention=True, position_buckets=4,
            max_relative_positions=-1, norm_rel_ebd="layer_norm", share_att_key=True,
            pos_att_type=["p2c", "c2p"], position_biased_input=False, pooler_dropout=0.0)
    hugging("llama", "LlamaForCausalLM", "LlamaConfig", decoder, language, by_token,
            more=dict(exporter="torchscript", opset=18))
    hugging("mistral", "MistralForCausalLM", "MistralConfig", decoder, language, by_token,
            sliding_window=4, more=dict(opset=23))
    hugging("qwen3", "Qwen3ForCausalLM", "Qwen3Config", decoder, language, by_token, head_dim=8,
            tie_word_embeddings=True)
    hugging("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", {**decoder, "num_hidden_layers": 2},
            language, by_token, head_dim=8, sliding_window=4, query_pre_attn_scalar=8,
            final_logit_softcapping=30.0, attn_logit_softcapping=50.0,
            layer_types=["sliding_attention", "full_attention"])
    hugging("phi3", "Phi3ForCausalLM", "Phi3Config", decoder, language, by_token,
            resid_pdrop=0.0, embd_pdrop=0.0, more=dict(opset=21))
    hugging("qwen2-cls", "Qwen2ForSequenceClassification", "Qwen2Config",
            {**decoder, "num_labels": sizes.labels}, classification, by_row)
    hugging("gpt2-cls", "GPT2ForSequenceClassification", "GPT2Config",
            dict(vocab_size=vocab, n_embd=hidden, n_head=heads, n_layer=1, n_inner=inter,
                 n_positions=40, initializer_range=0.1, resid_pdrop=0.0, embd_pdrop=0.0,
                 attn_pdrop=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                 num_labels=sizes.labels),
            classification, by_row, more=script)
    hugging("mixtral", "MixtralForCausalLM", "MixtralConfig", decoder, language, by_token,
            num_local_experts=3, num_experts_per_tok=2, experts_implementation="batched_mm")
    add("lora", lora, language, by_token)
    hugging("t5", "T5ForConditionalGeneration", "T5Config",
            dict(vocab_size=vocab, d_model=hidden, d_kv=8, d_ff=inter, num_layers=1,
                 num_heads=heads, dropout_rate=0.0, relative_attention_num_buckets=8,
                 relative_attention_max_distance=16, pad_token_id=0, decoder_start_token_id=0,
                 eos_token_id=1, attn_implementation="eager"),
            translation_batch(sizes), to_target)
    hugging("bart", "BartForConditionalGeneration", "BartConfig",
            dict(vocab_size=vocab, d_model=hidden, encoder_layers=1, decoder_layers=1,
                 encoder_attention_heads=heads, decoder_attention_heads=heads,
                 encoder_ffn_dim=inter, decoder_ffn_dim=inter, max_position_embeddings=40,
                 dropout=0.0, init_std=0.1, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                 decoder_start_token_id=2, forced_eos_token_id=2),
            translation_batch(sizes), to_target)
    hugging("whisper", "WhisperForConditionalGeneration", "WhisperConfig",
            dict(vocab_size=vocab, num_mel_bins=4, d_model=hidden, encoder_layers=1,
                 decoder_layers=1, encoder_attention_heads=heads, decoder_attention_heads=heads,
                 encoder_ffn_dim=inter, decoder_ffn_dim=inter, max_source_positions=6,
                 max_target_positions=32, dropout=0.0, init_std=0.1, pad_token_id=0,
                 bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None,
                 begin_suppress_tokens=None),
            vision.speech_batch(sizes), {"input_features": {0: "batch"}, "labels": by_token["labels"]})

    image = vision.image_batch(sizes)
    by_image = {"pixel_values": {0: "batch"}, "labels": {0: "batch"}}
    hugging("vit", "ViTForImageClassification", "ViTConfig",
            dict(hidden_size=hidden, num_hidden_layers=1, num_attention_heads=heads,
                 intermediate_size=inter, image_size=16, patch_size=4, initializer_range=0.1,
                 hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                 num_labels=sizes.labels), image, by_image, more=script)
    hugging("convnext", "ConvNextForImageClassification", "ConvNextConfig",
            dict(num_stages=2, hidden_sizes=[8, 12], depths=[1, 1], patch_size=2, image_size=16,
                 initializer_range=0.1, layer_scale_init_value=0.5, num_labels=sizes.labels),
            image, by_image)
    tower = dict(hidden_size=hidden, intermediate_size=inter, num_hidden_layers=1,
                 num_attention_heads=heads)
    hugging("clip", "CLIPModel", "CLIPConfig",
            dict(text_config=dict(tower, vocab_size=vocab, max_position_embeddings=32,
                                  eos_token_id=2, bos_token_id=1, pad_token_id=0),
                 vision_config=dict(tower, image_size=16, patch_size=8), projection_dim=8),
            vision.caption_batch(sizes), {**masks, "pixel_values": {0: "batch"}}, contrastive)
    for name, exporter in (("resnet", "torchscript"), ("resnet-inference-form", "dynamo")):
        hugging(name, "ResNetForImageClassification", "ResNetConfig",
                dict(embedding_size=6, hidden_sizes=[6, 8], depths=[1, 1], layer_type="basic",
                     num_labels=sizes.labels), image, by_image,
                more=dict(exporter=exporter, opset=18))
    add("convs", lambda: vision.Convs(sizes.labels), image, by_image, call)
    add("pools", lambda: vision.Pools(sizes.labels), image, by_image, call, opset=18)
    add("unet", vision.UNet, vision.noise_batch,
        {"x": {0: "batch"}, "t": {0: "batch"}, "noise": {0: "batch"}}, call)

    def sequence_batch(rng, n, seq):
        return {
            "input_ids": rng.integers(0, vocab, (n, seq)),
            "labels": rng.integers(0, sizes.labels, n),
        }

    by_sequence = {"input_ids": {0: "batch", 1: "seq"}, "labels": {0: "batch"}}
    for name, kind, more in (("lstm", "LSTM", {}), ("gru", "GRU", script)):
        add(name, lambda kind=kind: Recurrent(kind, sizes), sequence_batch, by_sequence, call,
            **more)

    def short_batch(rng, n, _):
        # Their exports have one length: a step of the recurrence is a piece of the graph.
        return {name: rng.integers(0, vocab, (n, 5)) for name in ("input_ids", "labels")}

    by_row_alone = {"input_ids": {0: "batch"}, "labels": {0: "batch"}}
    state = dict(vocab_size=vocab, hidden_size=8, use_cache=False)
    hugging("mamba", "MambaForCausalLM", "MambaConfig", state, short_batch, by_row_alone,
            num_hidden_layers=1, state_size=4, time_step_rank=2)
    hugging("rwkv", "RwkvForCausalLM", "RwkvConfig", state, short_batch, by_row_alone,
            num_hidden_layers=2, attention_hidden_size=8, intermediate_size=12, context_length=8)
    return {spec.name: spec for spec in specs}

