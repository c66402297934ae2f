# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A Hugging Face model of any size as a training graph, forward and loss, without ever having its weights in memory.

The parameters are fake tensors (a type and a shape) from the moment they are registered, and so is all that the exporter
computes from them; buffers (frequencies of rotary positions) are real. Parameters have the names of the state dict. Where
the .safetensors files of the model are beside the graph or in a folder below it, the graph says where in them each weight
is; else weights are declared but absent, and `trainc-run --weights` gives them.
"""

import contextlib
import dataclasses
import gc
import json
import logging
import math
import os
import pathlib
import struct
import warnings

import onnx_ir
import onnx_ir.tensor_adapters
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from . import plugins
from .decomposition import without_retracing
from .errors import ExportError
from .exporting import strip

#: Types of .safetensors files.
STORED = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
#: {task: class of transformers}
CLASSES = {
    "causal-lm": "AutoModelForCausalLM", "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification", "masked-lm": "AutoModelForMaskedLM",
    "seq2seq": "AutoModelForSeq2SeqLM",
}  # fmt: skip
TOKENS = {0: "batch", 1: "seq"}


@contextlib.contextmanager
def fake_parameters():
    """Within it, parameters of modules become fake when they are registered. Their memory is never
    written before, so that it costs nothing, and initialization does nothing."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    register = nn.Module.register_parameter

    def register_fake(module, name, parameter):
        # A tied parameter is registered a second time, and stays the same object.
        if parameter is not None and not isinstance(parameter, FakeTensor):
            fake = mode.from_tensor(parameter.detach())
            parameter = nn.Parameter(fake, requires_grad=parameter.requires_grad)
            parameter._is_hf_initialized = True  # not all of transformers' initializations run on fake numbers
        register(module, name, parameter)

    nn.Module.register_parameter = register_fake
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def read_config(model, overrides=(), task="causal-lm"):
    """The configuration of a folder, of a config.json or of the hub, with KEY=VALUE changes."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(model)
    except Exception as error:  # of many kinds
        said = str(error).strip().splitlines()
        raise ExportError(f"{model}: the configuration cannot be read: {said[0] if said else type(error).__name__}") from None
    if task == "causal-lm" and config.get_text_config() is not config:
        # A model of several kinds of input: its language model alone.
        config = config.get_text_config()
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not hasattr(config, key):
            raise ExportError(f"--config {override}: not KEY=VALUE with a key of {type(config).__name__}")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        setattr(config, key, value)
        if key == "num_hidden_layers" and isinstance(getattr(config, "layer_types", None), list):
            config.layer_types = config.layer_types[:value]
    return config


def build(config, dtype, attention="eager", task="causal-lm"):
    """The model with fake parameters. Eager attention keeps the attention's dropout, which the
    exporter loses within scaled_dot_product_attention."""
    import transformers

    try:
        with fake_parameters():
            model = getattr(transformers, CLASSES[task]).from_config(config, dtype=dtype, attn_implementation=attention)
    except ValueError as error:
        if "Unrecognized configuration class" in str(error):
            raise ExportError(f"transformers has no {CLASSES[task].removeprefix('Auto')} of {type(config).__name__}") from None
        raise
    return model.train()


class Loss(nn.Module):
    """The model's own loss; inputs by name, in the order of forward's tensors."""

    outputs = ("loss", "logits")

    def __init__(self, model, inputs):
        super().__init__()
        self.model = model
        self.inputs = inputs

    def forward(self, *tensors):
        named = dict(zip(self.inputs, tensors))
        segments = named.pop("segment_ids", None)
        cache = {} if getattr(self.model.config, "is_encoder_decoder", False) or not hasattr(self.model.config, "use_cache") else {"use_cache": False}
        if segments is None:
            outputs = self.model(**named, **cache)
        else:
            with attention_within(segments):
                outputs = self.model(**named, **cache)
        return outputs.loss, outputs.logits


@contextlib.contextmanager
def attention_within(segments):
    """Within it, tokens see those of their own segment, in whatever masks a model of transformers makes. Order within a
    segment is that of the row, so the masks' other rules (causal, windows) stay as they are."""
    from transformers import masking_utils

    # transformers 5.18 and newer turn positions into segments in a second place, too; the rule of the row's order needs neither.
    changed = {
        "find_packed_sequence_indices": lambda position_ids: segments,
        "remap_positions_for_packed_sequence": lambda mask_function, position_ids: mask_function,
    }
    saved = {name: getattr(masking_utils, name) for name in changed if hasattr(masking_utils, name)}
    for name in saved:
        setattr(masking_utils, name, changed[name])
    try:
        yield
    finally:
        for name, function in saved.items():
            setattr(masking_utils, name, function)


def names_of(model):
    """The aliases of every parameter, tied ones having several; the first is what a checkpoint
    calls it."""
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return list(names.values())


def example(task, mask=True, packed=False, types=False, scores=False):
    """{input: (tensor, names of its axes)} of a batch."""
    ids = torch.ones(2, 8, dtype=torch.long)
    batch = {"input_ids": (ids, TOKENS)}
    if packed:
        batch["segment_ids"] = torch.ones_like(ids), TOKENS
        batch["position_ids"] = torch.arange(8).expand(2, 8).clone(), TOKENS
    elif mask:
        batch["attention_mask"] = torch.ones_like(ids), TOKENS
    if types:
        batch["token_type_ids"] = torch.zeros_like(ids), TOKENS
    if task == "sequence-classification":
        batch["labels"] = torch.zeros(2, dtype=torch.float if scores else torch.long), {0: "batch"}
    elif task == "seq2seq":
        batch["labels"] = torch.ones(2, 6, dtype=torch.long), {0: "batch", 1: "target"}
    else:
        batch["labels"] = ids.clone(), TOKENS  # three objects: one tensor in two places would be one input of the graph
    return batch


def preference_example(loss):
    batch = {name: (torch.ones(2, 8, dtype=torch.long), TOKENS) for name in loss.inputs}
    batch.update({name: (torch.zeros(2), {0: "batch"}) for name in loss.scalars})
    return batch


@contextlib.contextmanager
def uncollected():
    """Without looking for garbage: the exporter makes millions of objects that stay, and looking at them again and again is a tenth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def trace(wrapper, batch, opset=20):
    """The graph of a wrapper of a model, as onnx_ir.Model."""
    with warnings.catch_warnings(), uncollected(), without_retracing():
        warnings.simplefilter("ignore")  # of the training mode, and of sizes that share a name
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # of packages that are not installed
        try:
            program = torch.onnx.export(
                wrapper,
                tuple(tensor for tensor, _ in batch.values()),
                dynamo=True,
                optimize=False,
                opset_version=opset,
                verbose=False,
                input_names=list(batch),
                output_names=list(wrapper.outputs),
                dynamic_shapes={"tensors": tuple(axes for _, axes in batch.values())},
                **plugins.export_options(),
            )
        except ExportError:
            raise
        except Exception as error:
            cause = error.__cause__ or error
            said = str(cause).strip().partition("\n\n")[0] or type(cause).__name__
            raise ExportError(f"{type(wrapper.model).__name__} cannot be exported: {said}") from error
    rename(program.model.graph, wrapper.model)
    strip(program.model)
    return program.model


def rename(graph, model):
    """Initializers get the names of the state dict, tied ones the first that they have there; buffers get
    theirs. Parameters that the loss does not depend on are in no graph."""
    for aliases in names_of(model):
        found = [n for n in (f"model.{alias}" for alias in aliases) if n in graph.initializers]
        if len(found) > 1:
            raise ExportError(f"the exporter wrote '{aliases[0]}' {len(found)} times, not once")
        if found:
            value = graph.initializers.pop(found[0])
            value.name = aliases[0]
            graph.initializers[value.name] = value
    # Buffers, too: what is no parameter has the name that the model has for it, not the wrapper's.
    for name, _ in model.named_buffers():
        if f"model.{name}" in graph.initializers and name not in graph.initializers:
            value = graph.initializers.pop(f"model.{name}")
            value.name = name
            graph.initializers[name] = value


class Checkpoint:
    """Where in the .safetensors files of a folder each tensor is."""

    def __init__(self, folder):
        self.folder, self.tensors = folder, {}  # name: (file, torch type, shape, offset, bytes)
        self.renamed = {}  # name in the model: name there
        index = folder / "model.safetensors.index.json"
        if index.exists():
            names = set(json.loads(index.read_text())["weight_map"].values())
            files = [folder / name for name in sorted(names)]
        elif (folder / "model.safetensors").exists():
            files = [folder / "model.safetensors"]
        else:
            files = sorted(folder.glob("*.safetensors"))
        self.files = files
        for path in files:
            if not path.exists():
                raise ExportError(f"{index} names {path.name}, which is not there")
            try:
                with path.open("rb") as file:
                    (length,) = struct.unpack("<Q", file.read(8))
                    header = json.loads(file.read(length))
            except (struct.error, ValueError, OverflowError, MemoryError) as error:
                raise ExportError(f"{path}: no safetensors file: {error}") from None
            for name, entry in header.items():
                if name == "__metadata__":
                    continue
                begin, end = entry["data_offsets"]
                self.tensors[name] = (
                    path.resolve(),
                    STORED.get(entry["dtype"]),
                    tuple(entry["shape"]),
                    8 + length + begin,
                    end - begin,
                )

    def rename_for(self, model):
        """Takes the names that transformers gives to tensors of its checkpoints while it loads them, where they are others
        (GPT-NeoX's embed_out is its lm_head)."""
        try:
            from transformers.conversion_mapping import get_model_conversion_mapping
            from transformers.core_model_loading import WeightRenaming
        except ImportError:
            return  # before version 5 names were the same
        transforms = [t for t in get_model_conversion_mapping(model) if isinstance(t, WeightRenaming)]
        for name in list(self.tensors):
            renamed = name
            for transform in transforms:
                renamed = transform.rename_source_key(renamed)[0]
            self.renamed.setdefault(renamed, name)

    def find(self, aliases, prefix):
        """The name there of the first alias that is there, also without the base model's prefix or with
        that of a language model within another one, or as transformers renames it; None if there is none."""
        for name in aliases:
            for form in (name, name.removeprefix(f"{prefix}."), f"{prefix}.{name}", f"language_model.{name}"):
                if form in self.tensors:
                    return form
        return next((self.renamed[name] for name in aliases if name in self.renamed), None)


def initial_values(model, names):
    """Real values for parameters that no checkpoint has: those that transformers begins with."""
    values = {}
    owners = {}
    for name in names:
        owners.setdefault(name.rpartition(".")[0], []).append(name.rpartition(".")[2])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for path, fields in owners.items():
            module = model.get_submodule(path)
            fakes = dict(module._parameters)
            for field, fake in fakes.items():
                if fake is not None:
                    module._parameters[field] = nn.Parameter(torch.zeros(fake.shape, dtype=torch.float32))
            try:
                model._init_weights(module)
                for field in fields:
                    values[f"{path}.{field}"] = module._parameters[field].detach().to(fakes[field].dtype).clone()
            finally:
                module._parameters.update(fakes)
    return values


def refer(graph, model, checkpoint, output, may_lack=False, absent=False):
    """Makes every parameter external data: a place in the checkpoint's files, if these are where
    trainc may read them (in the graph's folder or below it), else in a file that is not there.
    Returns (why they are absent, or None; names that the checkpoint lacks, which have values of their own).
    may_lack: whether the checkpoint may lack some, as the head of a new task. These have values in the graph, or where all
    are absent, in a file fresh.safetensors beside it."""
    folder = output.parent.resolve()
    places, problems, reason, fresh, foreign = {}, [], "it is asked for" if absent else None, [], {}
    for aliases in names_of(model):
        if aliases[0] not in graph.initializers:
            continue
        value = graph.initializers[aliases[0]]
        shape, dtype = tuple(value.const_value.raw.shape), value.const_value.raw.dtype
        name = checkpoint.find(aliases, model.base_model_prefix) if checkpoint else None
        place = checkpoint.tensors[name] if name else None
        wrong_shape = place is not None and place[2] != shape
        if not checkpoint:
            reason = reason or "there are no .safetensors files in --model"
        elif place is None or wrong_shape:
            if may_lack and "." in aliases[0]:
                fresh.append(aliases[0])
                continue
            if place is None:
                problems.append(f"'{aliases[0]}' is missing")
            else:
                problems.append(f"'{aliases[0]}' has shape {list(place[2])}, expected {list(shape)}")
        elif place[1] != dtype:
            reason = reason or f"'{aliases[0]}' is {place[1]} there, and {dtype} in the graph"
        elif not place[0].is_relative_to(folder):
            reason = reason or f"{place[0].parent} is not in the folder of {output}"
        if name and name != aliases[0]:
            foreign[aliases[0]] = name
        places[aliases[0]] = place
    if checkpoint and len(fresh) > len(places):
        raise ExportError(
            f"the weights do not fit the configuration: of {len(fresh) + len(places)} parameters {len(fresh)} are not in "
            f"{checkpoint.folder}, '{fresh[0]}' for one"
        )
    if problems:
        shown = "\n  ".join(problems[:10]) + ("\n  ..." if len(problems) > 10 else "")
        raise ExportError(f"the weights do not fit the configuration:\n  {shown}")

    end = 0
    for name, place in places.items():
        value = graph.initializers[name]
        if reason:
            size = math.prod(value.shape.numpy()) * value.const_value.raw.dtype.itemsize
            location, offset = f"{output.name}.absent", end
            end += size
        else:
            location, offset, size = str(place[0].relative_to(folder)), place[3], place[4]
        value.const_value = onnx_ir.ExternalTensor(
            location, offset, size, value.dtype, shape=value.shape, name=name, base_dir=folder
        )
    values = initial_values(model, fresh)
    for name, tensor in values.items():
        graph.initializers[name].const_value = onnx_ir.tensor_adapters.TorchTensor(tensor, name=name)
    if reason and fresh:
        from safetensors.torch import save_file

        save_file(values, output.with_name("fresh.safetensors"))
    return reason, fresh, foreign


@dataclasses.dataclass(frozen=True)
class Exported:
    path: pathlib.Path
    parameters: tuple
    count: int
    dtype: torch.dtype
    #: Why weights are absent from the graph, or None.
    absent: str | None
    #: Parameters that the checkpoint lacks, which begin at random.
    fresh: tuple
    #: {parameter: the checkpoint's name}, where that is another.
    foreign: dict
    #: {other name of a tied parameter: the graph's}.
    tied: dict
    #: What the configuration of the trained model says beside the folder's.
    config: dict


def sees_both_sides(model):
    """Whether it is an encoder, which transformers makes a causal model of only where its configuration says so."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    return model.config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(model.config, "is_decoder", False)


def export(model, output, *, task="causal-lm", dtype=None, overrides=(), attention="eager", mask=True, packed=False,
           types=False, labels=None, scores=False, pad=None, loss="cross-entropy", loss_options=None, absent=False,
           opset=20):  # fmt: skip
    """Writes the graph of a folder, a config.json or a model of the hub (whose configuration alone is read).

    task: of CLASSES. dtype: of all parameters (default: the configuration's). overrides: KEY=VALUE changes of the
    configuration. mask: an input attention_mask. packed: inputs segment_ids and position_ids in its place. types: an input
    token_type_ids. labels: names of classes. scores: a label is a number. pad: the token that pads. loss: of
    preferences.BY_NAME. absent: weights are absent even where the graph could refer to them.
    """
    logging.getLogger("transformers").setLevel(logging.ERROR)
    output = pathlib.Path(output)
    wrapped = task
    if loss == "reward":
        task, labels = "sequence-classification", ["score"]
    config = read_config(model, overrides, task)
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {name: number for number, name in enumerate(labels)}
        if task == "sequence-classification" and loss == "cross-entropy":
            config.problem_type = "regression" if scores else "single_label_classification"
    if pad is not None and getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = pad
    chosen = TYPES[dtype] if dtype else getattr(config, "dtype", None) or torch.float32
    folder = pathlib.Path(model)
    folder = folder if folder.is_dir() else folder.parent if folder.is_file() else None
    checkpoint = Checkpoint(folder) if folder and any(folder.glob("*.safetensors")) else None
    built = build(config, chosen, attention, task)
    if task == "causal-lm" and sees_both_sides(built):
        raise ExportError(
            f"{model}: {type(built).__name__} sees the tokens that it is to predict: the model is none that writes texts "
            "(--task masked-lm, sequence-classification and token-classification train it)"
        )
    if checkpoint:
        checkpoint.rename_for(built)
    if loss == "cross-entropy":
        batch = example(task, mask, packed, types, scores)
        wrapper = Loss(built, list(batch))
    else:
        from . import preferences

        if wrapped != "causal-lm":
            raise ExportError(f"the loss {loss} is for causal language models, not for {wrapped}")
        wrapper = preferences.BY_NAME[loss](built, **(loss_options or {}))
        batch = preference_example(wrapper)
    program = trace(wrapper, batch, opset)
    if packed and not any(value.uses() for value in program.graph.inputs if value.name == "segment_ids"):
        raise ExportError(f"{type(built).__name__} cannot be exported with --packed: its attention does not tell documents apart")
    heads = task in ("sequence-classification", "token-classification")
    reason, fresh, foreign = refer(program.graph, built, checkpoint, output, may_lack=heads, absent=absent)
    names = [aliases[0] for aliases in names_of(built) if aliases[0] in program.graph.initializers]
    program.metadata_props["trainable"] = "\n".join(names)
    fresh_file = output.with_name(f"{output.name}.{os.getpid()}.tmp")
    fresh_file.write_bytes(onnx_ir.to_proto(program).SerializeToString())
    fresh_file.replace(output)
    count = sum(parameter.numel() for parameter in built.parameters())
    tied = {alias: aliases[0] for aliases in names_of(built) for alias in aliases[1:]}
    saved = built.config.to_dict()
    changed = [override.partition("=")[0] for override in overrides]
    if labels:
        changed += ["id2label", "label2id", "problem_type", "pad_token_id"]
    more = {"architectures": [type(built).__name__], **{key: saved[key] for key in changed if saved.get(key) is not None}}
    return Exported(output, tuple(names), count, chosen, reason, tuple(fresh), foreign, tied, more)
