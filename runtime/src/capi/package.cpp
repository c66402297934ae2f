// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packages and data files of the C API.

#include "capi/internal.h"
#include "export/onnx_export.h"
#include "format/edit_distance.h"
#include "io/safetensors.h"
#include "plan/counts.h"
#include "session/estimate.h"
#include "trainrt/export.h"

#include <cassert>
#include <climits>

using namespace trainrt;
using namespace trainrt::capi;

namespace {

/// Callers have checked that the kind is one.
const std::vector<TensorDecl> &tensorsOf(const Package &package, trainrt_kind kind) {
  const Program &program = package.program();
  return kind == TRAINRT_INPUT       ? program.inputs
         : kind == TRAINRT_OUTPUT    ? program.outputs
         : kind == TRAINRT_PARAMETER ? program.parameters
                                     : program.state;
}

bool isKind(trainrt_kind kind) { return unsigned(kind) <= TRAINRT_STATE; }

const char *kindName(trainrt_kind kind) {
  return kind == TRAINRT_INPUT       ? "input"
         : kind == TRAINRT_OUTPUT    ? "output"
         : kind == TRAINRT_PARAMETER ? "parameter"
                                     : "state";
}

/// Texts and dims that the C API hands out pointers to: they live as long as the package.
void describe(trainrt_package &package) {
  package.modelPath = findModel(*package.impl);
  const Program &program = package.impl->program();
  for (int kind = 0; kind < 4; ++kind)
    for (const TensorDecl &decl : tensorsOf(*package.impl, static_cast<trainrt_kind>(kind))) {
      assert(kind >= 0 && kind < 4 && "one list for each kind");
      auto &described = package.described[kind].emplace_back();
      // All texts first, so that pointers to them stay.
      for (ExprId extent : decl.shape)
        described.texts.push_back(program.text(extent));
      for (size_t axis = 0; axis < decl.shape.size(); ++axis) {
        // -1 for what is no number, or no plain symbol.
        const Expr &expr = program.exprs[decl.shape[axis]];
        described.dims.push_back({expr.kind == Expr::Kind::Constant ? expr.value : -1,
                                  described.texts[axis].c_str(),
                                  expr.kind == Expr::Kind::Symbol ? int32_t(expr.a) : -1});
      }
    }
}

/// Null is a function that the package does not have.
bool computes(const Function *function, size_t output) {
  return function && std::find(function->outputs.begin(), function->outputs.end(),
                               uint32_t(output)) != function->outputs.end();
}

bool reads(const Function *function, size_t input) {
  return function && std::find(function->batchInputs.begin(), function->batchInputs.end(),
                               uint32_t(input)) != function->batchInputs.end();
}

} // namespace

namespace trainrt::capi {
Status findTensor(const Package &package, trainrt_kind kind, const char *name, size_t &index) {
  if (!name)
    return nullArgument("name");
  // Exact names; a near one is only told.
  const auto &tensors = tensorsOf(package, kind);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == name) {
      index = i;
      return {};
    }
  // Not for names without end, of which each comparison takes long.
  const TensorDecl *nearest = nullptr;
  size_t best = std::strlen(name) / 2 + 1;
  if (std::strlen(name) < 200)
    for (const TensorDecl &tensor : tensors)
      if (tensor.name.size() < 200)
        if (size_t d = editDistance(name, tensor.name); d < best) {
          best = d;
          nearest = &tensor;
        }
  return fail(Code::NotFound, "there is no ", kindName(kind), " '", shown(name), "'",
              nearest ? "; did you mean '" + nearest->name + "'?" : "");
}
} // namespace trainrt::capi

extern "C" {

trainrt_status trainrt_package_open(const char *path, trainrt_package **package,
                                    trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!path || !package)
      return nullArgument(path ? "package" : "path");
    auto result = std::make_unique<trainrt_package>();
    // The package checks itself when it is opened.
    TRAINRT_TRY(Package::open(path, result->impl));
    describe(*result);
    *package = result.release();
    return {};
  });
}

trainrt_status trainrt_package_open_signed(const char *path, const char *key,
                                           trainrt_package **package, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!path || !key || !package)
      return nullArgument(!path ? "path" : !key ? "key" : "package");
    // An empty key would stand for "none" inside.
    if (!*key)
      return fail(Code::InvalidArgument, "key is empty");
    auto result = std::make_unique<trainrt_package>();
    TRAINRT_TRY(Package::open(path, result->impl, key));
    describe(*result);
    *package = result.release();
    return {};
  });
}

void trainrt_package_free(trainrt_package *package) { delete package; }

const char *trainrt_package_manifest(const trainrt_package *package) {
  return package ? package->impl->manifestText().c_str() : "";
}

const char *trainrt_package_model_path(const trainrt_package *package) {
  return package ? package->modelPath.c_str() : "";
}

trainrt_status trainrt_package_get_info(const trainrt_package *package, trainrt_package_info *info,
                                        trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!package || !info)
      return nullArgument(package ? "info" : "package");
    const Package &impl = *package->impl;
    const Manifest &manifest = impl.manifest();
    // NULL where there is nothing.
    auto text = [](const std::string &value) { return value.empty() ? nullptr : value.c_str(); };
    trainrt_package_info result = trainrt_package_info_default();
    result.producer = manifest.producer.c_str();
    result.model = manifest.model.c_str();
    result.target = impl.target().c_str();
    // A name without an output computes no loss.
    result.loss = impl.lossOutput() < 0 ? nullptr : text(manifest.loss);
    result.batch_symbol = text(manifest.batchSymbol);
    result.batch_symbol_index = impl.batchSymbol();
    // A step of its own, or micro-batches.
    bool accumulates = manifest.training && impl.micro() && impl.update();
    result.can_train = manifest.training && (impl.step() || accumulates);
    result.can_accumulate = accumulates;
    result.can_eval = impl.eval() != nullptr;
    result.optimizer = text(manifest.optimizer);
    result.lr = manifest.lr;
    result.weight_decay = manifest.weightDecay;
    result.clip_norm = manifest.clipNorm;
    result.accumulate = manifest.accumulate;
    for (const Manifest::Tensor &output : manifest.outputs)
      if (output.isWeight)
        result.loss_weight = output.name.c_str();
    result.loss_is_mean = manifest.lossIsMean;
    result.distribute = manifest.distribute.empty() ? nullptr : manifest.distribute.c_str();
    return writeStruct(result, "info", info);
  });
}

size_t trainrt_package_symbol_count(const trainrt_package *package) {
  return package ? package->impl->program().symbols.size() : 0;
}

/// `input` is NULL for a symbol that no input has by itself.
trainrt_status trainrt_package_symbol(const trainrt_package *package, size_t index,
                                      trainrt_symbol *symbol, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!package || !symbol)
      return nullArgument(package ? "symbol" : "package");
    const Program &program = package->impl->program();
    if (index >= program.symbols.size())
      return fail(Code::InvalidArgument, "there is no symbol ", index);
    const Symbol &from = program.symbols[index];
    *symbol = {from.name.c_str(),
               from.min,
               from.max,
               from.divisor,
               from.input < 0 ? nullptr : program.inputs[size_t(from.input)].name.c_str(),
               from.axis};
    return {};
  });
}

trainrt_status trainrt_package_symbol_value(const trainrt_package *package, size_t index,
                                            int64_t size, int64_t *value, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!package || !value)
      return nullArgument(package ? "value" : "package");
    const Program &program = package->impl->program();
    if (index >= program.symbols.size() || program.symbols[index].axis < 0)
      return fail(Code::InvalidArgument, "there is no symbol ", index, " of an axis");
    const Symbol &symbol = program.symbols[index];
    const TensorDecl &input = program.inputs[size_t(symbol.input)];
    if (!valueAt(symbol, size, *value))
      return fail(Code::InvalidArgument, "input '", input.name, "', axis ", symbol.axis, " ('",
                  program.text(input.shape[size_t(symbol.axis)]), "'): ", size,
                  " is not its size for any whole '", symbol.name, "'");
    return {};
  });
}

size_t trainrt_package_tensor_count(const trainrt_package *package, trainrt_kind kind) {
  return package && isKind(kind) ? tensorsOf(*package->impl, kind).size() : 0;
}

/// Names, texts and dims are the package's.
trainrt_status trainrt_package_tensor(const trainrt_package *package, trainrt_kind kind,
                                      size_t index, trainrt_tensor_info *info,
                                      trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!package || !info)
      return nullArgument(package ? "info" : "package");
    if (!isKind(kind))
      return fail(Code::InvalidArgument, "kind ", int(kind), " is unknown");
    const Package &impl = *package->impl;
    const auto &tensors = tensorsOf(impl, kind);
    if (index >= tensors.size())
      return fail(Code::InvalidArgument, "there is no ", kindName(kind), " ", index);
    // Made when the package was opened.
    const auto &described = package->described[kind][index];
    trainrt_tensor_info result = trainrt_tensor_info_default();
    result.name = tensors[index].name.c_str();
    result.dtype = static_cast<trainrt_dtype>(tensors[index].dtype);
    result.rank = int32_t(described.dims.size());
    result.dims = described.dims.data();
    if (kind == TRAINRT_INPUT) {
      // By what runs read, not by what the manifest says.
      if (reads(impl.step(), index) || reads(impl.micro(), index))
        result.flags |= TRAINRT_FLAG_USED_IN_TRAIN;
      if (reads(impl.eval(), index))
        result.flags |= TRAINRT_FLAG_USED_IN_EVAL;
      if (impl.input(index).optional)
        result.flags |= TRAINRT_FLAG_OPTIONAL;
    } else if (kind == TRAINRT_OUTPUT) {
      if (int32_t(index) == impl.lossOutput())
        result.flags |= TRAINRT_FLAG_LOSS;
      if (int32_t(index) == impl.gradNormOutput())
        result.flags |= TRAINRT_FLAG_GRAD_NORM;
      const std::vector<Manifest::Tensor> &outputs = impl.manifest().outputs;
      if (std::any_of(outputs.begin(), outputs.end(), [&](const Manifest::Tensor &output) {
            // By name, as the manifest has it.
            return output.isWeight && output.name == tensors[index].name;
          }))
        result.flags |= TRAINRT_FLAG_WEIGHT;
      if (computes(impl.step(), index) || computes(impl.micro(), index) ||
          computes(impl.update(), index))
        result.flags |= TRAINRT_FLAG_USED_IN_TRAIN;
      if (computes(impl.eval(), index))
        result.flags |= TRAINRT_FLAG_USED_IN_EVAL;
    } else if (kind == TRAINRT_PARAMETER) {
      const Manifest::Tensor &entry = impl.parameter(index);
      if (entry.trainable)
        result.flags |= TRAINRT_FLAG_TRAINABLE;
      if (entry.embedded)
        result.flags |= TRAINRT_FLAG_EMBEDDED;
      // Random values and rules have no file.
      if (entry.hasWeights) {
        result.weights_file = entry.file.c_str();
        result.weights_offset = entry.offset;
        result.weights_length = entry.length;
      }
    }
    return writeStruct(result, "info", info);
  });
}

trainrt_status trainrt_package_find(const trainrt_package *package, trainrt_kind kind,
                                    const char *name, size_t *index, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!package || !index)
      return nullArgument(package ? "index" : "package");
    if (!isKind(kind))
      return fail(Code::InvalidArgument, "kind ", int(kind), " is unknown");
    return findTensor(*package->impl, kind, name, *index);
  });
}

/// Symbols that are given twice have the value of the last one; those with one value need not be
/// given.
trainrt_status trainrt_package_memory(const trainrt_package *package,
                                      const trainrt_symbol_value *symbols, size_t symbol_count,
                                      uint32_t micro_batches, uint32_t threads,
                                      trainrt_memory *memory, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!package || !memory || (symbol_count && !symbols))
      return nullArgument(!package ? "package" : !memory ? "memory" : "symbols");
    const Package &impl = *package->impl;
    const Program &program = impl.program();
    std::vector<int64_t> values(program.symbols.size());
    std::vector<bool> known(program.symbols.size());
    // Symbols of one value need not be given, nor those of a run, which is one rank's then.
    program.setRunSymbols({}, values);
    for (size_t i = 0; i < values.size(); ++i)
      known[i] = program.symbols[i].run != Symbol::Run::None;
    for (size_t i = 0; i < values.size(); ++i)
      if (program.symbols[i].min == program.symbols[i].max) {
        values[i] = program.symbols[i].min;
        known[i] = true;
      }
    bool givesCounts = false;
    int64_t world = 1, shards = 0;
    for (size_t i = 0; i < symbol_count; ++i) {
      // Names are few: a search through all will do.
      size_t index = 0;
      while (index < values.size() &&
             (!symbols[i].name || program.symbols[index].name != symbols[i].name))
        ++index;
      // Of a run, not of its batches.
      const std::string name = symbols[i].name ? symbols[i].name : "";
      const bool isWorld = name == "world" && !impl.manifest().distribute.empty();
      if (isWorld)
        world = symbols[i].value;
      const bool isShards = name == "shards" && program.hasShards();
      if (isShards)
        shards = symbols[i].value;
      if (index == values.size() && (isWorld || isShards))
        continue;
      if (index == values.size())
        return fail(Code::InvalidArgument, "there is no symbol '",
                    shown(symbols[i].name ? symbols[i].name : "(NULL)"), "'");
      // As sizes of batches are checked.
      std::string reason;
      if (!allowedValue(program.symbols[index], symbols[i].value, reason))
        return fail(Code::InvalidArgument, "symbol '", shown(symbols[i].name),
                    "': ", symbols[i].value, " ", reason);
      values[index] = symbols[i].value;
      givesCounts |= program.symbols[index].counts;
      known[index] = true;
    }
    // Sizes that neither function needs may stay unknown.
    const Function *functions[] = {impl.step(), impl.micro(), impl.eval()};
    // Counts follow from the sizes, unless they are given.
    fillCounts(program, values, known);
    for (size_t i = 0; i < values.size(); ++i) {
      bool needed = false;
      for (const Function *function : functions)
        needed |= function && (function == impl.eval()) == (micro_batches == 0) &&
                  function->batchSymbols[i];
      if (needed && !known[i])
        return fail(Code::InvalidArgument, "symbol '", program.symbols[i].name, "' needs a value");
    }
    MemoryUse use;
    TRAINRT_TRY(
        estimateMemory(impl, values, micro_batches, threads, use, givesCounts, world, shards));
    return writeStruct(memoryOf(use), "memory", memory);
  });
}

trainrt_status trainrt_file_open(const char *path, trainrt_file **file, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!path || !file)
      return nullArgument(path ? "file" : "path");
    auto result = std::make_unique<trainrt_file>();
    TRAINRT_TRY(ArrayFile::open(path, result->impl));
    // Arrays are opened when they are asked for.
    result->arrays.resize(result->impl.size());
    *file = result.release();
    return {};
  });
}

void trainrt_file_free(trainrt_file *file) { delete file; }

size_t trainrt_file_count(const trainrt_file *file) { return file ? file->impl.size() : 0; }

const char *trainrt_file_name(const trainrt_file *file, size_t index) {
  return file && index < file->impl.size() ? file->impl.name(index).c_str() : nullptr;
}

/// Valid as long as the file. An array that was asked for twice lies where it lay.
trainrt_status trainrt_file_tensor(trainrt_file *file, size_t index, trainrt_tensor *tensor,
                                   trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!file || !tensor)
      return nullArgument(file ? "tensor" : "file");
    if (index >= file->impl.size())
      return fail(Code::InvalidArgument, "there is no array ", index);
    // The view stays with the file: its shape is what the caller points to.
    ArrayView &array = file->arrays[index];
    TRAINRT_TRY(file->impl.array(index, array));
    *tensor = makeTensor(array, array.shape.data());
    return {};
  });
}

trainrt_status trainrt_file_write(const char *path, const trainrt_named_tensor *tensors,
                                  size_t count, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!path || (count && !tensors))
      return nullArgument(path ? "tensors" : "path");
    std::vector<std::pair<std::string, ArrayView>> arrays(count);
    // All of them are checked before a byte is written.
    for (size_t i = 0; i < count; ++i) {
      if (!tensors[i].name)
        return fail(Code::InvalidArgument, "tensor ", i, " has no name");
      arrays[i].first = tensors[i].name;
      TRAINRT_TRY(readTensor(tensors[i].tensor, "tensor", tensors[i].name, arrays[i].second));
      if (arrays[i].second.bytes && !arrays[i].second.data)
        return fail(Code::InvalidArgument, "tensor '", arrays[i].first, "': data is NULL");
      // Quadratic, but files have few names.
      for (size_t j = 0; j < i; ++j)
        if (arrays[j].first == arrays[i].first)
          return fail(Code::InvalidArgument, "tensor '", arrays[i].first, "' is given twice");
    }
    // Without "format", transformers does not take it for weights.
    return writeSafetensors(path, arrays, {{"format", "pt"}});
  });
}

} // extern "C"
