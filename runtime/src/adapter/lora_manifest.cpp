// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As the rest of the manifest, the section is untrusted text.

#include "adapter/lora_manifest.h"
#include "core/manifest.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

namespace trainrt {

using Json = nlohmann::json;

namespace {

template <typename... Args> Status bad(const Args &...what) {
  return fail(Code::BadPackage, "manifest.json: field 'lora", what...);
}

/// The members of one object; `path` is its place within the section.
class Members {
public:
  Members(const Json &object, std::string path) : object(object), path(std::move(path)) {}

  Status text(const char *key, std::string &value, bool needed = true) const {
    const Json *member = find(key);
    if (!member && !needed)
      return {};
    if (!member || !member->is_string() || (needed && member->get_ref<const std::string &>() == ""))
      return bad(path, ".", key, "' is missing or no text");
    value = member->get<std::string>();
    return {};
  }
  Status flag(const char *key, bool &value) const {
    const Json *member = find(key);
    if (member && !member->is_boolean())
      return bad(path, ".", key, "' is no boolean");
    value = member && member->get<bool>();
    return {};
  }
  Status rank(int64_t &value) const {
    const Json *member = find("rank");
    if (!member || !member->is_number_integer() || member->get<int64_t>() < 1)
      return bad(path, ".rank' is missing or not at least 1");
    value = member->get<int64_t>();
    return {};
  }
  Status number(const char *key, double &value) const {
    const Json *member = find(key);
    if (!member || !member->is_number() || !std::isfinite(member->get<double>()))
      return bad(path, ".", key, "' is missing or no number");
    value = member->get<double>();
    return {};
  }
  Status names(const char *key, std::vector<std::string> &value) const {
    const Json *member = find(key);
    if (!member)
      return {};
    if (!member->is_array())
      return bad(path, ".", key, "' is no list");
    for (const Json &name : *member) {
      if (!name.is_string())
        return bad(path, ".", key, "' holds ", name.dump(), ", which is no name");
      value.push_back(name.get<std::string>());
    }
    return {};
  }

private:
  const Json *find(const char *key) const {
    auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }
  const Json &object;
  std::string path;
};

Status readModule(const Json &json, const std::string &path, Lora::Module &module) {
  if (!json.is_object())
    return bad(path, "' is no object");
  Members members(json, path);
  TRAINRT_TRY(members.text("path", module.path));
  TRAINRT_TRY(members.text("weight", module.weight));
  TRAINRT_TRY(members.text("a", module.a));
  TRAINRT_TRY(members.text("b", module.b));
  TRAINRT_TRY(members.text("magnitude", module.magnitude, /*needed=*/false));
  TRAINRT_TRY(members.rank(module.rank));
  TRAINRT_TRY(members.number("alpha", module.alpha));
  TRAINRT_TRY(members.number("scale", module.scale));
  TRAINRT_TRY(members.flag("fan_in_fan_out", module.fanInFanOut));
  TRAINRT_TRY(members.flag("embedding", module.embedding));
  if (module.embedding && module.fanInFanOut)
    return bad(path, "': an embedding has no fan_in_fan_out");
  return {};
}

} // namespace

Status readLora(const Json &manifest, std::optional<Lora> &result) {
  auto section = manifest.find("lora");
  if (section == manifest.end() || section->is_null())
    return {};
  if (!section->is_object())
    return bad("' is no object");
  Lora lora;
  Members members(*section, "");
  TRAINRT_TRY(members.rank(lora.rank));
  TRAINRT_TRY(members.number("alpha", lora.alpha));
  TRAINRT_TRY(members.number("dropout", lora.dropout));
  TRAINRT_TRY(members.flag("rslora", lora.rslora));
  TRAINRT_TRY(members.flag("dora", lora.dora));
  TRAINRT_TRY(members.names("modules_to_save", lora.modulesToSave));
  TRAINRT_TRY(members.names("trained_biases", lora.trainedBiases));
  TRAINRT_TRY(members.text("bias", lora.bias));
  if (lora.bias != "none" && lora.bias != "all" && lora.bias != "lora_only")
    return bad(".bias': '", lora.bias, "' is none of none, all and lora_only");
  if (lora.bias == "none" && !lora.trainedBiases.empty())
    return bad(".trained_biases' is not empty, but 'bias' is none");
  auto modules = section->find("modules");
  if (modules == section->end() || !modules->is_array() || modules->empty())
    return bad(".modules' is missing, no list or empty");
  for (size_t i = 0; i < modules->size(); ++i) {
    const std::string path = ".modules[" + std::to_string(i) + "]";
    Lora::Module &module = lora.modules.emplace_back();
    TRAINRT_TRY(readModule((*modules)[i], path, module));
    if (module.magnitude.empty() == lora.dora)
      return bad(path, ".magnitude' ",
                 lora.dora ? "is missing" : "is there, but 'dora' is not set");
  }
  result = std::move(lora);
  return {};
}

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
