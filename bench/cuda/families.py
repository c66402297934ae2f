# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the families of measured models are in transformers: classes, settings, kinds of inputs.

transformers is imported only where a module is built, so that sizes and data need no more than
numpy. A case is a `models.Case`.
"""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Family:
    """`attention`: the only implementation whose step is the case's; None: any will do."""

    model: str
    config: str
    settings: Callable
    inputs: str = "tokens"  # tokens | translation | images | speech
    attention: str | None = None
    windows: bool = False  # needs the masks that a model builds for itself


def _bert(case):
    return dict(
        vocab_size=case.vocab,
        hidden_size=case.hidden,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        intermediate_size=case.inter,
        max_position_embeddings=case.positions,
        hidden_dropout_prob=case.dropout,
        attention_probs_dropout_prob=case.dropout,
        num_labels=case.labels,
    )


def _roberta(case):
    return dict(
        _bert(case), classifier_dropout=case.dropout, type_vocab_size=1, layer_norm_eps=1e-5
    )


def _deberta(case):
    return dict(
        _bert(case),
        type_vocab_size=0,
        relative_attention=True,
        max_relative_positions=-1,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        layer_norm_eps=1e-7,
    )


def _gpt2(case):
    return dict(
        vocab_size=case.vocab,
        n_positions=case.positions,
        n_embd=case.hidden,
        n_layer=case.layers,
        n_head=case.heads,
        n_inner=case.inter,
        resid_pdrop=case.dropout,
        embd_pdrop=case.dropout,
        attn_pdrop=case.dropout,
        bos_token_id=None,
        eos_token_id=None,
        use_cache=False,
    )


def _llama(case):
    return dict(
        vocab_size=case.vocab,
        hidden_size=case.hidden,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        num_key_value_heads=case.kv_heads,
        intermediate_size=case.inter,
        max_position_embeddings=case.positions,
        tie_word_embeddings=case.tied,
        bos_token_id=None,
        eos_token_id=None,
        use_cache=False,
    )


def _qwen3(case):
    return dict(_llama(case), head_dim=case.head_dim)


def _gemma3(case):
    return dict(
        _qwen3(case), sliding_window=case.window, query_pre_attn_scalar=case.head_dim, pad_token_id=0
    )


def _modernbert(case):
    return dict(
        vocab_size=case.vocab,
        hidden_size=case.hidden,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        intermediate_size=case.inter,
        max_position_embeddings=case.positions,
        local_attention=case.window,
        pad_token_id=0,
        reference_compile=False,
    )


def _t5(case):
    return dict(
        vocab_size=case.vocab,
        d_model=case.hidden,
        d_kv=case.hidden // case.heads,
        d_ff=case.inter,
        num_layers=case.layers,
        num_heads=case.heads,
        dropout_rate=case.dropout,
        decoder_start_token_id=0,
        use_cache=False,
    )


def _vit(case):
    return dict(
        hidden_size=case.hidden,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        intermediate_size=case.inter,
        image_size=case.image,
        patch_size=16,
        hidden_dropout_prob=case.dropout,
        attention_probs_dropout_prob=case.dropout,
        num_labels=case.labels,
    )


def _whisper(case):
    return dict(
        vocab_size=case.vocab,
        num_mel_bins=80,
        d_model=case.hidden,
        encoder_layers=case.layers,
        decoder_layers=case.layers,
        encoder_attention_heads=case.heads,
        decoder_attention_heads=case.heads,
        encoder_ffn_dim=case.inter,
        decoder_ffn_dim=case.inter,
        max_target_positions=case.positions,
        dropout=case.dropout,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        use_cache=False,
    )


FAMILIES = {
    "bert-mlm": Family("BertForMaskedLM", "BertConfig", _bert),
    "bert-cls": Family("BertForSequenceClassification", "BertConfig", _bert),
    "roberta-cls": Family("RobertaForSequenceClassification", "RobertaConfig", _roberta),
    "deberta-mlm": Family(
        "DebertaV2ForMaskedLM", "DebertaV2Config", _deberta, attention="eager"
    ),
    "gpt2": Family("GPT2LMHeadModel", "GPT2Config", _gpt2),
    "llama": Family("LlamaForCausalLM", "LlamaConfig", _llama),
    "qwen3": Family("Qwen3ForCausalLM", "Qwen3Config", _qwen3),
    "gemma3": Family("Gemma3ForCausalLM", "Gemma3TextConfig", _gemma3, windows=True),
    "modernbert": Family("ModernBertForMaskedLM", "ModernBertConfig", _modernbert, windows=True),
    "t5": Family(
        "T5ForConditionalGeneration", "T5Config", _t5, inputs="translation", attention="eager"
    ),
    "vit": Family("ViTForImageClassification", "ViTConfig", _vit, inputs="images"),
    "whisper": Family(
        "WhisperForConditionalGeneration", "WhisperConfig", _whisper, inputs="speech"
    ),
}


def build(case, attention):
    """The module with random weights, as it is trained."""
    import transformers

    family = FAMILIES[case.family]
    settings = getattr(transformers, family.config)(**family.settings(case))
    settings._attn_implementation = family.attention or attention
    model = getattr(transformers, family.model)(settings).train()
    for module in model.modules():
        # In training it draws a number a layer, on which an export cannot decide.
        if getattr(module, "layerdrop", None) == 0 and not case.dropout:
            module.training = False
    return model
