// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As the rest of the manifest, the section is untrusted text.

#include "format/lora_manifest.h"
#include "format/manifest.h"
#include "format/manifest_fields.h"

#include <cmath>
#include <map>
#include <set>
#include <string_view>

namespace trainrt {

namespace {

/// The text of callers goes on behind the section's name, with the quote that closes the field.
template <typename... Args> Status bad(const Args &...what) {
  return fail(Code::BadPackage, "manifest.json: field 'lora", what...);
}

Status readName(const Fields &fields, const char *key, std::string &value) {
  TRAINRT_TRY(fields.text(key, value));
  return value.empty() ? badManifest("field '", fields.at(key), "' is empty") : Status();
}

/// The value is 0 where the field is missing, which the test for 1 finds.
Status readRank(const Fields &fields, int64_t &value) {
  value = 0;
  TRAINRT_TRY(fields.integer("rank", value));
  return value < 1 ? badManifest("field '", fields.at("rank"), "' is missing or not at least 1")
                   : Status();
}

Status readNumber(const Fields &fields, const char *key, double &value) {
  // NaN stands for a missing field, and is refused as such; JSON has no NaN of its own.
  value = NAN;
  TRAINRT_TRY(fields.number(key, value));
  return std::isfinite(value) ? Status()
                              : badManifest("field '", fields.at(key), "' is missing or no number");
}

Status readModule(const Fields &fields, Lora::Module &module) {
  TRAINRT_TRY(readName(fields, "path", module.path));
  TRAINRT_TRY(readName(fields, "weight", module.weight));
  TRAINRT_TRY(readName(fields, "a", module.a));
  TRAINRT_TRY(readName(fields, "b", module.b));
  TRAINRT_TRY(fields.optionalText("magnitude", module.magnitude));
  TRAINRT_TRY(readRank(fields, module.rank));
  TRAINRT_TRY(readNumber(fields, "alpha", module.alpha));
  TRAINRT_TRY(readNumber(fields, "scale", module.scale));
  TRAINRT_TRY(fields.flag("fan_in_fan_out", module.fanInFanOut));
  TRAINRT_TRY(fields.flag("embedding", module.embedding));
  if (module.embedding && module.fanInFanOut)
    return badManifest("field '", fields.at("embedding"), "': an embedding has no fan_in_fan_out");
  return {};
}

} // namespace

Status readLora(const nlohmann::json &manifest, std::optional<Lora> &result) {
  std::optional<Fields> section;
  TRAINRT_TRY(Fields(manifest, "").object("lora", section));
  if (!section)
    return {};
  Lora lora;
  TRAINRT_TRY(readRank(*section, lora.rank));
  TRAINRT_TRY(readNumber(*section, "alpha", lora.alpha));
  TRAINRT_TRY(readNumber(*section, "dropout", lora.dropout));
  TRAINRT_TRY(section->flag("rslora", lora.rslora));
  TRAINRT_TRY(section->flag("dora", lora.dora));
  TRAINRT_TRY(section->names("modules_to_save", lora.modulesToSave));
  TRAINRT_TRY(section->names("trained_biases", lora.trainedBiases));
  TRAINRT_TRY(section->text("bias", lora.bias));
  if (lora.bias != "none" && lora.bias != "all" && lora.bias != "lora_only")
    return bad(".bias': '", lora.bias, "' is none of none, all and lora_only");
  if (lora.bias == "none" && !lora.trainedBiases.empty())
    return bad(".trained_biases' is not empty, but 'bias' is none");
  std::vector<Fields> modules;
  TRAINRT_TRY(section->list("modules", modules));
  if (modules.empty())
    return bad(".modules' is missing or empty");
  for (const Fields &fields : modules) {
    Lora::Module &module = lora.modules.emplace_back();
    TRAINRT_TRY(readModule(fields, module));
    // With DoRA every module has a magnitude, without it none.
    if (module.magnitude.empty() == lora.dora)
      return badManifest("field '", fields.at("magnitude"), "' ",
                         lora.dora ? "is missing" : "is there, but 'dora' is not set");
  }
  result = std::move(lora);
  return {};
}

/// Names are looked up among the parameters, each part of a module once: two modules with one
/// matrix would train it twice. Shapes as LoRA defines them: a is [rank, K], b is [N, rank].
Status checkLora(const Lora &lora, const Manifest &manifest) {
  std::map<std::string_view, const Manifest::Tensor *> parameters;
  for (const Manifest::Tensor &parameter : manifest.parameters)
    parameters[parameter.name] = &parameter;
  std::set<std::string_view> paths, used;
  for (size_t i = 0; i < lora.modules.size(); ++i) {
    const Lora::Module &module = lora.modules[i];
    auto field = [&](const char *key) { return ".modules[" + std::to_string(i) + "]." + key; };
    if (!paths.insert(module.path).second)
      return bad(field("path"), "': '", module.path, "' is there twice");
    auto part = [&](const char *key, const std::string &name,
                    const Manifest::Tensor *&found) -> Status {
      auto at = parameters.find(name);
      if (at == parameters.end())
        return bad(field(key), "': '", name, "' is no parameter");
      if (!used.insert(name).second)
        return bad(field(key), "': '", name, "' is there twice");
      found = at->second;
      return {};
    };
    const Manifest::Tensor *weight, *a, *b, *magnitude;
    TRAINRT_TRY(part("weight", module.weight, weight));
    TRAINRT_TRY(part("a", module.a, a));
    TRAINRT_TRY(part("b", module.b, b));
    // Each matrix has the rank on the axis that the product of both sums over.
    auto fits = [&](const Manifest::Tensor &tensor, size_t rankAxis) {
      return isFloat(tensor.dtype) && tensor.shape.size() == 2 &&
             tensor.shape[rankAxis] == module.rank;
    };
    if (!fits(*a, 0))
      return bad(field("a"), "': '", module.a, "' is ", nameOf(a->dtype), " ", shapeText(a->shape),
                 ", no [", module.rank, ", K]");
    if (!fits(*b, 1))
      return bad(field("b"), "': '", module.b, "' is ", nameOf(b->dtype), " ", shapeText(b->shape),
                 ", no [N, ", module.rank, "]");
    const int64_t k = a->shape[1], n = b->shape[0];
    // A quantized weight is stored as codes; the product is added to what these stand for.
    const std::vector<int64_t> &shape =
        weight->quantized ? weight->quantized->shape : weight->shape;
    const std::vector<int64_t> expected =
        module.isTransposed() ? std::vector{k, n} : std::vector{n, k};
    if (shape != expected || (!isFloat(weight->dtype) && !weight->quantized))
      return bad(field("weight"), "': '", module.weight, "' is ", nameOf(weight->dtype), " ",
                 shapeText(shape), ", its adapter is for ", shapeText(expected));
    if (module.magnitude.empty())
      continue;
    TRAINRT_TRY(part("magnitude", module.magnitude, magnitude));
    if (!isFloat(magnitude->dtype) || magnitude->shape != std::vector{n})
      return bad(field("magnitude"), "': '", module.magnitude, "' is ", nameOf(magnitude->dtype),
                 " ", shapeText(magnitude->shape), ", expected [", n, "]");
  }
  auto present = [&](const char *key, const std::vector<std::string> &names) -> Status {
    for (const std::string &name : names)
      if (!parameters.count(name))
        return bad(".", key, "': '", name, "' is no parameter");
    return {};
  };
  TRAINRT_TRY(present("modules_to_save", lora.modulesToSave));
  return present("trained_biases", lora.trainedBiases);
}

} // namespace trainrt
