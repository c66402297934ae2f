// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The manifest is untrusted text: each field is read through `Fields`.

#include "format/manifest.h"
#include "format/file.h"
#include "format/hash.h"
#include "format/json.h"
#include "format/manifest_fields.h"

#include <algorithm>
#include <set>

namespace trainrt {

using Json = nlohmann::json;

namespace {

enum class Role { Input, Output, Parameter, State };

Status readTokens(const Fields &fields, bool isNumber, std::vector<Manifest::Tokens> &all) {
  std::vector<Fields> items;
  TRAINRT_TRY(fields.list("tokens", items));
  for (const Fields &item : items) {
    Manifest::Tokens tokens;
    std::string role;
    TRAINRT_TRY(item.text("role", role));
    tokens.isLabel = role == "label";
    if (!tokens.isLabel && role != "embed")
      continue; // of a newer compiler
    TRAINRT_TRY(item.optionalText("mask", tokens.mask));
    if (item.has("pad")) {
      if (!item.raw("pad").is_number_integer())
        return badManifest("field '", item.at("pad"), "' is no integer");
      if (isNumber)
        return badManifest("field '", item.at("pad"), "': the input holds floats, no ids");
      tokens.pad = item.raw("pad").get<int64_t>();
    }
    if (tokens.pad.has_value() == !tokens.mask.empty())
      return badManifest("field '", item.at("pad"), "' or '", item.at("mask"),
                         "' must be there, and only one of them");
    all.push_back(std::move(tokens));
  }
  return {};
}

/// Offset and length are compared with the file's size where it is opened, since external files may
/// change after the package was made.
Status readWeights(const Fields &fields, Manifest::Tensor &tensor) {
  if (!fields.has("weights"))
    return {};
  if (!fields.raw("weights").is_object())
    return badManifest("field '", fields.at("weights"), "' is no object");
  Fields weights(fields.raw("weights"), fields.at("weights"));
  tensor.hasWeights = true;
  TRAINRT_TRY(weights.text("file", tensor.file));
  TRAINRT_TRY(weights.count("offset", tensor.offset));
  TRAINRT_TRY(weights.count("length", tensor.length));
  TRAINRT_TRY(weights.flag("embedded", tensor.embedded));
  if (!isRelativePath(tensor.file))
    return badManifest("field '", weights.at("file"), "': '", tensor.file,
                       "' is no path relative to the package");
  return {};
}

/// Extents of a tensor that has no symbols.
Status readExtents(const Fields &fields, std::vector<int64_t> &shape) {
  if (!fields.has("shape") || !fields.raw("shape").is_array())
    return badManifest("field '", fields.at("shape"), "' is missing or no list");
  // Counted as the largest type: later sums of bytes of any type cannot overflow then.
  int64_t bytes;
  for (const Json &extent : fields.raw("shape")) {
    if (!extent.is_number_integer() || extent.get<int64_t>() < 0)
      return badManifest("field '", fields.at("shape"), "': ", extent.dump(), " is no extent");
    shape.push_back(extent.get<int64_t>());
  }
  if (!countBytes(DType::F64, shape.data(), shape.size(), bytes))
    return badManifest("field '", fields.at("shape"), "' has too many elements");
  return {};
}

Status readInit(const Fields &fields, Manifest::Tensor &tensor) {
  std::optional<Fields> rule;
  TRAINRT_TRY(fields.object("init", rule));
  if (!rule)
    return {};
  // Codes have no value by themselves; a cast parameter is narrower, but a number.
  const bool isCoded = tensor.quantized && tensor.quantized->format != QuantFormat::Cast;
  if (!isFloat(tensor.dtype) || isCoded)
    return badManifest("field '", fields.at("init"), "': '", tensor.name,
                       "' holds no plain numbers");
  // A rule is one of these keys, and only one: which of two would count is not to be guessed.
  Manifest::Init *init = nullptr;
  for (auto [key, kind] : {std::pair("constant", Manifest::Init::Kind::Constant),
                           std::pair("uniform", Manifest::Init::Kind::Uniform),
                           std::pair("normal", Manifest::Init::Kind::Normal)}) {
    if (!rule->has(key))
      continue;
    if (init)
      return badManifest("field '", fields.at("init"), "' has two rules");
    init = &tensor.init.emplace();
    init->kind = kind;
    TRAINRT_TRY(rule->number(key, init->value));
    // The value is a constant, half the width of a uniform distribution, or a standard deviation:
    // the latter two are not negative.
    if (!std::isfinite(init->value) || (kind != Manifest::Init::Kind::Constant && init->value < 0))
      return badManifest("field '", rule->at(key), "': ", init->value, " is not possible");
  }
  if (rule->has("norms_of")) {
    if (init)
      return badManifest("field '", fields.at("init"), "' has two rules");
    init = &tensor.init.emplace();
    init->kind = Manifest::Init::Kind::Norms;
    TRAINRT_TRY(rule->text("norms_of", init->matrix));
    TRAINRT_TRY(rule->count("axis", init->axis));
  }
  if (!init)
    return badManifest("field '", fields.at("init"), "' has no rule that is known");
  return {};
}

/// Needs `dtype`, `shape`, `trainable` and `updated` of `codes` to be read already.
Status readQuantized(const Fields &fields, const Manifest::Tensor &codes,
                     std::optional<Manifest::Quantized> &result) {
  std::optional<Fields> object, parts;
  TRAINRT_TRY(fields.object("quantized", object));
  if (!object)
    return {};
  Manifest::Quantized &quantized = result.emplace();
  std::string format, dtype;
  TRAINRT_TRY(object->text("format", format));
  if (!parseQuantFormat(format, quantized.format))
    return badManifest("field '", object->at("format"), "': '", format, "' is unknown");
  TRAINRT_TRY(object->text("dtype", dtype));
  // Quantizing starts from values with at most the 24 digits of f32.
  if (!parseDType(dtype, quantized.dtype) || !isFloat(quantized.dtype) ||
      quantized.dtype == DType::F64)
    return badManifest("field '", object->at("dtype"), "': '", dtype, "' is not f32, bf16 or f16");
  TRAINRT_TRY(readExtents(*object, quantized.shape));
  // Codes cannot take a gradient; a cast parameter is trained in its own type.
  if ((codes.trainable || codes.updated) && quantized.format != QuantFormat::Cast)
    return badManifest("field '", fields.at("quantized"), "': '", codes.name, "' is not frozen");
  TRAINRT_TRY(object->object("parts", parts));
  if (parts) {
    TRAINRT_TRY(parts->optionalText("absmax", quantized.absmax));
    TRAINRT_TRY(parts->optionalText("nested_absmax", quantized.nestedAbsmax));
    TRAINRT_TRY(parts->optionalText("nested_offset", quantized.nestedOffset));
    TRAINRT_TRY(parts->optionalText("row_absmax", quantized.rowAbsmax));
  }
  const bool fourBit = isFourBit(quantized.format);
  // Each format has its own statistics, and none that another has: 4 bits those of blocks, int8
  // those of rows, and only those of blocks are quantized once more, which needs both parts.
  if (quantized.absmax.empty() == fourBit ||
      quantized.rowAbsmax.empty() == (quantized.format == QuantFormat::Int8) ||
      quantized.nestedAbsmax.empty() != quantized.nestedOffset.empty() ||
      (!fourBit && !quantized.nestedAbsmax.empty()))
    return badManifest("field '", object->at("parts"), "' has not the parts of ", format);

  DType expected = codes.dtype;
  std::vector<int64_t> shape = quantized.shape;
  if (fourBit) {
    TRAINRT_TRY(object->count("block", quantized.block));
    if (!isBlock(quantized.block))
      return badManifest("field '", object->at("block"), "': ", quantized.block,
                         " is no power of 2 between ", minBlock, " and ", maxBlock);
    // Cannot overflow: readExtents has counted it as f64.
    int64_t count = 0;
    (void)countElements(shape.data(), shape.size(), count);
    expected = DType::U8;
    // Two codes a byte; an odd last one has the byte for itself.
    shape = {(count + 1) / 2};
  } else if (quantized.format == QuantFormat::Int8) {
    expected = DType::I8;
    if (shape.size() != 2)
      return badManifest("field '", object->at("shape"), "': int8 is for matrices");
  } else if (expected != DType::BF16 && expected != DType::F16) {
    // A cast has no statistics: what is stored is the value, in fewer bits.
    return badManifest("field '", fields.at("dtype"), "': a cast parameter is bf16 or f16");
  }
  if (codes.dtype != expected || codes.shape != shape)
    return badManifest("field '", fields.at("quantized"), "': '", codes.name, "' must be ",
                       nameOf(expected), " ", shapeText(shape), " for ", format, " of ",
                       shapeText(quantized.shape));
  return {};
}

/// Whether norms are of a matrix that is there, and as many as it has vectors.
Status checkNorms(const std::vector<Manifest::Tensor> &parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Manifest::Tensor &norms = parameters[i];
    if (!norms.init || norms.init->kind != Manifest::Init::Kind::Norms)
      continue;
    const Manifest::Init &init = *norms.init;
    // Quadratic, but with DoRA alone, whose parameters are some hundreds.
    auto matrix = std::find_if(parameters.begin(), parameters.end(),
                               [&](const auto &other) { return other.name == init.matrix; });
    const std::string at = "field 'parameters[" + std::to_string(i) + "].init.norms_of': '";
    // Norms of norms would need an order of initializing.
    if (matrix == parameters.end() || (matrix->init && matrix->init->kind == init.kind))
      return badManifest(at, init.matrix, "' is no parameter with values of its own");
    const std::vector<int64_t> &shape =
        matrix->quantized ? matrix->quantized->shape : matrix->shape;
    if ((!isFloat(matrix->dtype) && !matrix->quantized) || shape.size() != 2 || init.axis > 1 ||
        norms.shape != std::vector{shape[size_t(init.axis)]})
      return badManifest(at, init.matrix, "' is ", nameOf(matrix->dtype), " ", shapeText(shape),
                         ": '", norms.name, "', ", shapeText(norms.shape),
                         ", cannot hold norms along axis ", init.axis);
  }
  return {};
}

/// Parts and what they are parts of know each other, and the parts are as the format needs them.
/// Every part belongs to one parameter, which names it as it names its owner. A part is frozen and
/// takes its values from quantizing: a file, a rule or a gradient for it would contradict the
/// codes.
Status checkParts(const std::vector<Manifest::Tensor> &parameters) {
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < parameters.size(); ++i)
    places[parameters[i].name] = i;
  std::set<std::string_view> used;
  auto field = [](size_t i, const char *key) {
    return "field 'parameters[" + std::to_string(i) + "]." + key + "': ";
  };
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Manifest::Tensor &owner = parameters[i];
    if (!owner.quantized)
      continue;
    const Manifest::Quantized &quantized = *owner.quantized;
    const bool nested = !quantized.nestedAbsmax.empty();
    int64_t count = 0;
    (void)countElements(quantized.shape.data(), quantized.shape.size(), count);
    // Only four-bit formats have blocks; without, no absmax is looked at.
    const int64_t blocks = quantized.block ? blocksOf(count, quantized.block) : 0;
    auto part = [&](const char *key, const std::string &name, DType dtype,
                    const std::vector<int64_t> &shape) -> Status {
      if (name.empty())
        return {};
      const std::string where = field(i, "quantized.parts") + key + " ";
      auto found = places.find(name);
      if (found == places.end())
        return badManifest(where, "'", name, "' is no parameter");
      const Manifest::Tensor &tensor = parameters[found->second];
      if (tensor.partOf != owner.name || !used.insert(tensor.name).second)
        return badManifest(where, "'", name, "' is no part of '", owner.name, "', or is one twice");
      // Statistics of blocks that are not quantized may be rounded.
      // `name` is a reference to the field: compared by its address, so that two parts of equal
      // name are told apart.
      const bool anyFloat = dtype == DType::F32 && &name == &quantized.absmax;
      if ((anyFloat ? !isFloat(tensor.dtype) || tensor.dtype == DType::F64
                    : tensor.dtype != dtype) ||
          tensor.shape != shape)
        return badManifest(where, "'", name, "' is ", nameOf(tensor.dtype), " ",
                           shapeText(tensor.shape), ", expected ", nameOf(dtype), " ",
                           shapeText(shape));
      if (tensor.hasWeights || tensor.trainable || tensor.updated || tensor.init ||
          tensor.quantized)
        return badManifest(where, "'", name, "' has values of its own");
      return {};
    };
    // Nested statistics are codes themselves, with a scale for each 256 of them and one offset for
    // all.
    TRAINRT_TRY(part("absmax", quantized.absmax, nested ? DType::U8 : DType::F32, {blocks}));
    TRAINRT_TRY(
        part("nested_absmax", quantized.nestedAbsmax, DType::F32, {blocksOf(blocks, nestedBlock)}));
    TRAINRT_TRY(part("nested_offset", quantized.nestedOffset, DType::F32, {}));
    TRAINRT_TRY(part("row_absmax", quantized.rowAbsmax, DType::F32,
                     {quantized.shape.empty() ? 0 : quantized.shape[0]}));
  }
  // The other direction: who says that it is a part is named by an owner.
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!parameters[i].partOf.empty() && !used.count(parameters[i].name))
      return badManifest(field(i, "part_of"), "'", parameters[i].partOf, "' has no part '",
                         parameters[i].name, "'");
  return {};
}

/// Names are unique in one list; inputs and parameters may share one.
Status readTensors(const Fields &root, const char *key, Role role,
                   std::vector<Manifest::Tensor> &tensors) {
  std::vector<Fields> items;
  std::set<std::string> names;
  TRAINRT_TRY(root.list(key, items));
  for (const Fields &fields : items) {
    Manifest::Tensor tensor;
    std::string dtype;
    TRAINRT_TRY(fields.text("name", tensor.name));
    if (!names.insert(tensor.name).second)
      return badManifest("field '", fields.at("name"), "': '", tensor.name, "' is there twice");
    TRAINRT_TRY(fields.text("dtype", dtype));
    if (!parseDType(dtype, tensor.dtype))
      return badManifest("field '", fields.at("dtype"), "': '", dtype, "' is unknown");
    if (!fields.has("shape") || !fields.raw("shape").is_array())
      return badManifest("field '", fields.at("shape"), "' is missing or no list");
    for (const Json &extent : fields.raw("shape")) {
      // -1: the extent is a symbol, whose name `extents` has.
      if (extent.is_string())
        tensor.shape.push_back(-1);
      else if (extent.is_number_integer() && extent.get<int64_t>() >= 0)
        tensor.shape.push_back(extent.get<int64_t>());
      else
        return badManifest("field '", fields.at("shape"), "': ", extent.dump(), " is no extent");
      tensor.extents.push_back(extent.is_string() ? extent.get<std::string>() : "");
    }
    // What a role has no use for is ignored there: a newer compiler may add keys.
    if (role == Role::Input) {
      TRAINRT_TRY(fields.flag("optional", tensor.optional));
      TRAINRT_TRY(readTokens(fields, isFloat(tensor.dtype), tensor.tokens));
    } else if (role == Role::Output) {
      std::string kind;
      TRAINRT_TRY(fields.optionalText("role", kind));
      tensor.isLoss = kind == "loss";
      tensor.isWeight = kind == "weight";
      tensor.isGradNorm = kind == "grad_norm";
    } else if (role == Role::Parameter) {
      TRAINRT_TRY(fields.flag("trainable", tensor.trainable));
      TRAINRT_TRY(fields.flag("updated", tensor.updated));
      TRAINRT_TRY(readWeights(fields, tensor));
      TRAINRT_TRY(readQuantized(fields, tensor, tensor.quantized));
      TRAINRT_TRY(readInit(fields, tensor));
      TRAINRT_TRY(fields.optionalText("part_of", tensor.partOf));
    } else if (role == Role::State) {
      TRAINRT_TRY(readWeights(fields, tensor));
    }
    tensors.push_back(std::move(tensor));
  }
  return {};
}

/// Without the list the optional stays empty, which is another thing than a list without entries:
/// older packages do not repeat the program's symbols.
Status readSymbols(const Fields &root, std::optional<std::vector<Manifest::Symbol>> &symbols) {
  std::vector<Fields> items;
  TRAINRT_TRY(root.list("symbols", items));
  if (root.has("symbols"))
    symbols.emplace();
  for (const Fields &fields : items) {
    Manifest::Symbol symbol;
    TRAINRT_TRY(fields.text("name", symbol.name));
    TRAINRT_TRY(fields.optionalText("input", symbol.input));
    TRAINRT_TRY(fields.integer("min", symbol.min));
    TRAINRT_TRY(fields.integer("max", symbol.max));
    TRAINRT_TRY(fields.integer("divisor", symbol.divisor));
    TRAINRT_TRY(fields.integer("axis", symbol.axis));
    // Whether it counts is whether it says what differs; 0 is a value that may differ.
    symbol.counts = fields.has("differs");
    TRAINRT_TRY(fields.integer("differs", symbol.differs));
    TRAINRT_TRY(fields.optionalText("counts", symbol.what));
    TRAINRT_TRY(fields.optionalText("run", symbol.run));
    symbols->push_back(std::move(symbol));
  }
  return {};
}

Status readFunctions(const Fields &root,
                     std::optional<std::vector<Manifest::Function>> &functions) {
  std::vector<Fields> items;
  TRAINRT_TRY(root.list("functions", items));
  if (root.has("functions"))
    functions.emplace();
  for (const Fields &fields : items) {
    Manifest::Function function;
    std::vector<Fields> conditions;
    TRAINRT_TRY(fields.text("name", function.name));
    TRAINRT_TRY(fields.optionalText("variant_of", function.variantOf));
    TRAINRT_TRY(fields.list("conditions", conditions));
    for (const Fields &item : conditions) {
      Manifest::Condition &condition = function.conditions.emplace_back();
      TRAINRT_TRY(item.text("kind", condition.kind));
      TRAINRT_TRY(item.optionalText("mask", condition.mask));
      TRAINRT_TRY(item.optionalText("input", condition.input));
      TRAINRT_TRY(item.integer("padding", condition.padding));
      TRAINRT_TRY(item.integer("shift", condition.shift));
      TRAINRT_TRY(item.integer("value", condition.value));
      TRAINRT_TRY(item.integer("index", condition.index));
    }
    functions->push_back(std::move(function));
  }
  return {};
}

/// The runtime's arguments of a step, as far as the package has values for them.
/// Defaults of the command line: what a run is told replaces them.
Status readOptimizer(const Fields &root, Manifest &manifest) {
  std::optional<Fields> optimizer;
  TRAINRT_TRY(root.object("optimizer", optimizer));
  if (!optimizer)
    return {};
  TRAINRT_TRY(optimizer->optionalText("name", manifest.optimizer));
  for (auto [key, value] :
       {std::pair("lr", &manifest.lr), std::pair("weight_decay", &manifest.weightDecay),
        std::pair("clip_norm", &manifest.clipNorm)}) {
    TRAINRT_TRY(optimizer->number(key, *value));
    // The limits of what a caller may set: a package must not smuggle in what an option refuses.
    if (optimizer->has(key) && !isHyper(*value))
      return badManifest("field '", optimizer->at(key), "': ", *value,
                         " is no value for it (it must be finite and not negative)");
  }
  TRAINRT_TRY(optimizer->optionalText("distribute", manifest.distribute));
  if (!manifest.distribute.empty() && manifest.distribute != "data" &&
      manifest.distribute != "zero1" && manifest.distribute != "zero2" &&
      manifest.distribute != "zero3")
    return badManifest("field 'optimizer.distribute': '", manifest.distribute,
                       "' is unknown; use a newer runtime");
  TRAINRT_TRY(optimizer->integer("accumulate", manifest.accumulate));
  if (manifest.accumulate < 1 || manifest.accumulate > 1 << 20)
    return badManifest("field 'optimizer.accumulate' is not between 1 and 1048576");
  if (optimizer->has("steps"))
    TRAINRT_TRY(optimizer->count("steps", manifest.steps));
  if (manifest.steps > maxSteps)
    return badManifest("field 'optimizer.steps': ", manifest.steps, " is too large");
  return {};
}

Status readFiles(const Fields &root, std::vector<Manifest::File> &files) {
  std::vector<Fields> items;
  TRAINRT_TRY(root.list("files", items));
  for (const Fields &fields : items) {
    Manifest::File file;
    TRAINRT_TRY(fields.text("path", file.path));
    if (!isRelativePath(file.path))
      return badManifest("field '", fields.at("path"), "': '", file.path,
                         "' is no path relative to the package");
    // A file that was absent when the package was made has nothing that could be compared with.
    TRAINRT_TRY(fields.flag("absent", file.absent));
    if (!file.absent) {
      TRAINRT_TRY(fields.count("size", file.size));
      TRAINRT_TRY(fields.hex("head_fnv1a64", file.head));
      TRAINRT_TRY(fields.hex("tail_fnv1a64", file.tail));
    }
    files.push_back(std::move(file));
  }
  return {};
}

} // namespace

/// The checksum is of the text with its own 16 digits as zeros. Found in the text, not by writing
/// the JSON again, which would depend on the library's layout.
bool manifestChecksum(std::string_view text, uint64_t &checksum, size_t &position) {
  Json root = parseJson<Json>(text);
  uint64_t ignored;
  if (!root.is_object() || !root.contains("checksums") || !root["checksums"].is_object() ||
      !root["checksums"].contains("manifest") ||
      !parseHex64(root["checksums"]["manifest"], ignored))
    return false;
  std::string digits = root["checksums"]["manifest"].get<std::string>();
  // The value belongs to the key "manifest"; only white space and a colon may lie between.
  position = std::string_view::npos;
  for (size_t at = text.find("\"manifest\""); at != text.npos;
       at = text.find("\"manifest\"", at + 1)) {
    size_t value = text.find_first_not_of(" \t\r\n:", at + 10);
    if (value == text.npos || text.substr(value, 18) != "\"" + digits + "\"")
      continue;
    // Two places that look like it: which one is meant is not to be guessed.
    if (position != text.npos)
      return false;
    position = value + 1;
  }
  if (position == text.npos)
    return false;
  checksum = fnv1a64(text.data(), position);
  checksum = fnv1a64("0000000000000000", 16, checksum);
  checksum = fnv1a64(text.data() + position + 16, text.size() - position - 16, checksum);
  return true;
}

Status readManifest(std::string_view text, Manifest &manifest) {
  Json json = parseJson<Json>(text);
  if (!json.is_object())
    return badManifest("it ", notJsonObject(text));
  Fields root(json, "");
  // The version first: everything below may look different in a newer one.
  int64_t major = 0;
  if (!root.has("format") || !root.raw("format").is_object())
    return badManifest("field 'format' is missing or no object");
  // Only the major version: a newer minor one adds what may be ignored.
  TRAINRT_TRY(Fields(root.raw("format"), "format").count("major", major));
  if (major > formatMajor)
    return badManifest("field 'format.major' is ", major, "; this runtime reads up to ",
                       formatMajor,
                       ": use a newer runtime, or compile the model with a matching trainc");
  if (!root.has("checksums") || !root.raw("checksums").is_object())
    return badManifest("field 'checksums' is missing or no object");
  Fields checksums(root.raw("checksums"), "checksums");
  for (auto &[name, value] : root.raw("checksums").items())
    if (!parseHex64(value, manifest.checksums[name]))
      return badManifest("field 'checksums.", name, "' is no checksum (16 hex digits)");
  uint64_t stated = 0, actual = 0;
  size_t position;
  // Before any other field is used: a damaged one would be told as something else. Against
  // accidents only; signatures are against intent.
  TRAINRT_TRY(checksums.hex("manifest", stated));
  if (!manifestChecksum(text, actual, position) || stated != actual)
    return badManifest(
        "field 'checksums.manifest' does not match: the manifest was damaged or changed");

  std::string kind;
  TRAINRT_TRY(root.text("kind", kind));
  if (kind != "training" && kind != "inference")
    return badManifest("field 'kind': '", kind, "' is unknown");
  manifest.training = kind == "training";
  TRAINRT_TRY(root.optionalText("producer", manifest.producer));
  TRAINRT_TRY(root.optionalText("model", manifest.model));
  TRAINRT_TRY(root.optionalText("loss", manifest.loss));
  TRAINRT_TRY(root.flag("loss_is_mean", manifest.lossIsMean));
  TRAINRT_TRY(root.optionalText("identity", manifest.identity));
  TRAINRT_TRY(root.optionalText("batch_symbol", manifest.batchSymbol));
  if (root.has("targets") && root.raw("targets").is_array())
    for (const Json &target : root.raw("targets"))
      if (target.is_string())
        manifest.targets.push_back(target.get<std::string>());
  TRAINRT_TRY(readTensors(root, "inputs", Role::Input, manifest.inputs));
  // After all inputs: a mask may be listed behind what it masks.
  for (const Manifest::Tensor &input : manifest.inputs)
    for (const Manifest::Tokens &tokens : input.tokens)
      if (!tokens.mask.empty() &&
          std::none_of(manifest.inputs.begin(), manifest.inputs.end(),
                       [&](const Manifest::Tensor &other) { return other.name == tokens.mask; }))
        return badManifest("field 'inputs': '", input.name, "' is masked by '", tokens.mask,
                           "', which is no input");
  TRAINRT_TRY(readTensors(root, "outputs", Role::Output, manifest.outputs));
  TRAINRT_TRY(readTensors(root, "parameters", Role::Parameter, manifest.parameters));
  TRAINRT_TRY(checkParts(manifest.parameters));
  TRAINRT_TRY(checkNorms(manifest.parameters));
  TRAINRT_TRY(readTensors(root, "state", Role::State, manifest.state));
  TRAINRT_TRY(readSymbols(root, manifest.symbols));
  TRAINRT_TRY(readFunctions(root, manifest.functions));
  TRAINRT_TRY(readLora(json, manifest.lora));
  if (manifest.lora)
    TRAINRT_TRY(checkLora(*manifest.lora, manifest));
  TRAINRT_TRY(readFiles(root, manifest.files));
  // Field and role say the same twice. Either may be missing, but they must not differ.
  for (const Manifest::Tensor &output : manifest.outputs)
    if (output.isLoss && manifest.loss.empty())
      manifest.loss = output.name;
    else if (output.isLoss && output.name != manifest.loss)
      return badManifest("field 'outputs': the role of '", output.name,
                         "' is loss, but field 'loss' is '", manifest.loss, "'");
  return readOptimizer(root, manifest);
}

} // namespace trainrt
