// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two forms of a package's description.
#include "cli/info.h"

#include "cli/format.h"
#include "format/json.h"
#include "format/status.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string_view>

namespace trainrt::run {

namespace {

constexpr int64_t unbounded = std::numeric_limits<int64_t>::max();

/// What its axis is, where that is not the symbol alone.
std::string partOf(const Package &package, const trainrt_symbol &symbol) {
  for (const trainrt_tensor_info &input : package.inputs)
    if (std::string_view(input.name) == symbol.input && symbol.axis < input.rank &&
        input.dims[symbol.axis].symbol < 0)
      return ", which is " + std::string(input.dims[symbol.axis].text);
  return "";
}

/// The largest integer stands for no upper bound; JSON has null for it.
std::string range(const Package &package, const trainrt_symbol &symbol) {
  std::string text = symbol.max == symbol.min ? std::to_string(symbol.min)
                     : symbol.max == unbounded
                         ? std::to_string(symbol.min) + " or more"
                         : std::to_string(symbol.min) + " to " + std::to_string(symbol.max);
  if (symbol.divisor > 1)
    text += ", a multiple of " + std::to_string(symbol.divisor);
  if (symbol.input && symbol.axis < 0)
    text += " (counted in " + std::string(symbol.input) + ")";
  else if (!symbol.input && symbol.max != symbol.min)
    text += " (of the run)";
  else if (symbol.input)
    text += " (axis " + std::to_string(symbol.axis) + " of " + symbol.input +
            partOf(package, symbol) + ")";
  return text;
}

/// The functions that a tensor belongs to, where it is not both.
std::string use(const trainrt_tensor_info &tensor) {
  const bool train = tensor.flags & TRAINRT_FLAG_USED_IN_TRAIN;
  const bool eval = tensor.flags & TRAINRT_FLAG_USED_IN_EVAL;
  return train == eval ? "" : train ? "training only" : "evaluation only";
}

/// Where initial values come from; "" where the package has none for it.
std::string weights(const trainrt_tensor_info &tensor) {
  if (tensor.flags & TRAINRT_FLAG_EMBEDDED)
    return "the package";
  return tensor.weights_file ? tensor.weights_file : "";
}

/// Plug-ins whose code the package has, each with what that is for: "x86-64", "sm_90", "PTX".
std::map<std::string, std::vector<std::string>> plugins(const Package &package) {
  std::map<std::string, std::vector<std::string>> result;
  const std::string folder = "plugins/";
  const auto manifest = parseJson<nlohmann::json>(trainrt_package_manifest(package.handle.get()));
  for (const auto &[entry, checksum] : manifest["checksums"].items())
    if (entry.starts_with(folder)) {
      // NAME.PROCESSOR.so, NAME.sm_90.cubin or NAME.ptx, and no dot in the name.
      const size_t dot = std::min(entry.find('.'), entry.size()), last = entry.rfind('.');
      result[entry.substr(folder.size(), dot - folder.size())].push_back(
          dot < last && last < entry.size() ? entry.substr(dot + 1, last - dot - 1) : "PTX");
    }
  return result;
}

/// NaN is what the package cannot be told.
std::string hyper(double value) { return std::isnan(value) ? "null" : shortest(value); }

/// One object in one line, its keys in the order of this code. For one use.
class Json {
public:
  explicit Json(const Package &package) : package(package) {}

  std::string object() {
    const trainrt_package_info &info = package.info;
    text = "{";
    string("package", package.path.c_str());
    string("model", info.model);
    string("producer", info.producer);
    string("target", info.target);
    string("loss", info.loss);
    string("batch_symbol", info.batch_symbol);
    raw("can_train", info.can_train ? "true" : "false");
    raw("can_accumulate", info.can_accumulate ? "true" : "false");
    raw("can_eval", info.can_eval ? "true" : "false");
    string("optimizer", info.optimizer);
    raw("lr", hyper(info.lr));
    raw("weight_decay", hyper(info.weight_decay));
    raw("clip_norm", hyper(info.clip_norm));
    raw("accumulate", std::to_string(info.accumulate));
    std::string symbols;
    for (const trainrt_symbol &symbol : package.symbols)
      symbols += (symbols.empty() ? "" : ",") + std::string("{\"name\":") +
                 jsonString(symbol.name) + ",\"min\":" + std::to_string(symbol.min) +
                 ",\"max\":" + (symbol.max == unbounded ? "null" : std::to_string(symbol.max)) +
                 ",\"divisor\":" + std::to_string(symbol.divisor) + "}";
    raw("symbols", "[" + symbols + "]");
    std::string foreign;
    for (const auto &[name, code] : plugins(package)) {
      foreign += (foreign.empty() ? "" : ",") + jsonString(name) + ":[";
      for (const std::string &one : code)
        foreign += (&one == &code.front() ? "" : ",") + jsonString(one);
      foreign += "]";
    }
    raw("plugins", "{" + foreign + "}");
    tensors("inputs", package.inputs);
    tensors("outputs", package.outputs);
    tensors("parameters", package.parameters);
    tensors("state", package.state);
    return text + "}\n";
  }

private:
  /// `text` is never empty here: it begins with the brace.
  void raw(const char *key, const std::string &value) {
    text += (text.back() == '{' ? "\"" : ",\"") + std::string(key) + "\":" + value;
  }
  void string(const char *key, const char *value) { raw(key, value ? jsonString(value) : "null"); }
  void tensors(const char *key, const std::vector<trainrt_tensor_info> &list) {
    std::string all;
    for (const trainrt_tensor_info &tensor : list) {
      std::string shape;
      for (int32_t i = 0; i < tensor.rank; ++i)
        shape += (i ? "," : "") + (tensor.dims[i].value >= 0 ? std::to_string(tensor.dims[i].value)
                                                             : jsonString(tensor.dims[i].text));
      all += (all.empty() ? "{\"name\":" : ",{\"name\":") + jsonString(tensor.name) +
             ",\"dtype\":\"" + trainrt_dtype_name(tensor.dtype) + "\",\"shape\":[" + shape + "]";
      if (&list == &package.parameters)
        all += std::string(",\"trainable\":") +
               (tensor.flags & TRAINRT_FLAG_TRAINABLE ? "true" : "false");
      all += "}";
    }
    raw(key, "[" + all + "]");
  }

  const Package &package;
  std::string text;
};

std::string line(const std::string &name, const std::string &value) {
  return name + std::string(name.size() < 13 ? 13 - name.size() : 1, ' ') + shown(value) + "\n";
}

/// Widths are those of the escaped names, which is what is shown.
std::string tensorLines(const std::string &name, const std::vector<trainrt_tensor_info> &list,
                        const std::function<std::string(const trainrt_tensor_info &)> &remark) {
  std::string text = line(name, grouped(int64_t(list.size())));
  std::vector<std::string> names;
  size_t width = 0;
  for (const trainrt_tensor_info &tensor : list)
    width = std::max(width, names.emplace_back(shown(tensor.name)).size());
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string note = remark(list[i]);
    text += "  " + names[i] + std::string(width - names[i].size() + 2, ' ') +
            shown(describe(list[i])) + (note.empty() ? "" : "  " + shown(note)) + "\n";
  }
  return text;
}

} // namespace

namespace {

/// What the manifest says of a parameter that is stored in another way than the model has it.
struct Stored {
  bool isPart = false; ///< statistics of another one
  std::string format;  ///< "" for a plain one
  std::vector<int64_t> shape;
};

/// Plain parameters are left out.
std::map<std::string, Stored> storedOf(const Package &package) {
  std::map<std::string, Stored> result;
  const auto manifest = parseJson<nlohmann::json>(trainrt_package_manifest(package.handle.get()));
  for (const nlohmann::json &parameter : manifest["parameters"]) { // the package has checked it
    Stored stored;
    stored.isPart = parameter.contains("part_of") && !parameter["part_of"].is_null();
    if (parameter.contains("quantized") && !parameter["quantized"].is_null()) {
      stored.format = parameter["quantized"]["format"];
      stored.shape = parameter["quantized"]["shape"].get<std::vector<int64_t>>();
    }
    if (stored.isPart || !stored.format.empty())
      result.emplace(parameter["name"], std::move(stored));
  }
  return result;
}

} // namespace

/// As the model has them: quantized ones by the values that they stand for, and their statistics
/// not at all. All is -1 where a shape has a size that the package does not fix.
ParameterCount countParameters(const Package &package) {
  ParameterCount count;
  const std::map<std::string, Stored> all = storedOf(package);
  for (const trainrt_tensor_info &parameter : package.parameters) {
    const auto stored = all.find(parameter.name);
    if (stored != all.end() && stored->second.isPart)
      continue;
    ++count.tensors;
    if (stored != all.end()) {
      int64_t values = 1;
      for (int64_t extent : stored->second.shape)
        values *= extent;
      count.all += values;
      count.trained += parameter.flags & TRAINRT_FLAG_TRAINABLE ? values : 0;
      ++count.quantized[stored->second.format];
      continue;
    }
    int64_t elements = 1;
    for (int32_t i = 0; i < parameter.rank; ++i) {
      if (parameter.dims[i].value < 0)
        return {-1, -1, 0, {}};
      elements *= parameter.dims[i].value;
    }
    count.all += elements;
    if (parameter.flags & TRAINRT_FLAG_TRAINABLE)
      count.trained += elements;
  }
  return count;
}

std::string ParameterCount::text() const {
  std::string result =
      grouped(all) + " in " + grouped(tensors) + " tensors, " + grouped(trained) + " trained";
  for (const auto &[format, number] : quantized)
    result += ", " + grouped(number) + " tensors as " + format;
  return result;
}

/// For people a line a fact, with control characters of names made visible; for programs one
/// object.
std::string packageInfo(const Package &package, bool json) {
  if (json)
    return Json(package).object();
  const trainrt_package_info &info = package.info;
  std::string text = line("package", package.path + ": " + info.model + ", by " + info.producer);
  text += line("target", info.target);
  std::string can;
  for (auto [able, what] : {std::pair(info.can_train, "training"),
                            {info.can_accumulate, "accumulation of gradients"},
                            {info.can_eval, "evaluation"}})
    if (able)
      can += (can.empty() ? "" : ", ") + std::string(what);
  text += line("can do", can);
  if (info.loss)
    text += line("loss", info.loss);
  if (info.optimizer)
    text += line(
        "optimizer",
        std::string(info.optimizer) + ", learning rate " + shortest(info.lr) +
            (std::isnan(info.weight_decay) ? "" : ", weight decay " + shortest(info.weight_decay)) +
            (std::isnan(info.clip_norm) ? ", no clipping"
                                        : ", clip norm " + shortest(info.clip_norm)) +
            (info.accumulate > 1 ? ", " + std::to_string(info.accumulate) + " micro-batches a step"
                                 : ""));
  for (const auto &[name, code] : plugins(package)) {
    std::string all;
    for (const std::string &one : code)
      all += (all.empty() ? "" : ", ") + one;
    text += line("plug-in", name + ": code for " + all);
  }
  for (const trainrt_symbol &symbol : package.symbols)
    text += line("size", std::string(symbol.name) + ": " + range(package, symbol));
  text += tensorLines("inputs", package.inputs, use);
  text += tensorLines("outputs", package.outputs, [](const trainrt_tensor_info &output) {
    return output.flags & TRAINRT_FLAG_LOSS        ? std::string("the loss")
           : output.flags & TRAINRT_FLAG_WEIGHT    ? std::string("what the loss is divided by")
           : output.flags & TRAINRT_FLAG_GRAD_NORM ? std::string("the norm of the gradients")
                                                   : use(output);
  });
  const ParameterCount count = countParameters(package);
  if (count.all >= 0)
    text += line("elements", count.text());
  const std::map<std::string, Stored> all = storedOf(package);
  text += tensorLines("parameters", package.parameters, [&](const trainrt_tensor_info &parameter) {
    const std::string from = weights(parameter);
    const auto stored = all.find(parameter.name);
    if (stored != all.end() && stored->second.isPart)
      return std::string("statistics of codes");
    std::string shape;
    for (size_t i = 0; stored != all.end() && i < stored->second.shape.size(); ++i)
      shape += (i ? ", " : "") + std::to_string(stored->second.shape[i]);
    return (stored == all.end() ? "" : stored->second.format + " of [" + shape + "], ") +
           std::string(parameter.flags & TRAINRT_FLAG_TRAINABLE ? "trained" : "fixed") +
           (from.empty() ? ", no initial value" : ", from " + from);
  });
  return text + line("state", grouped(int64_t(package.state.size())) + " tensors");
}

} // namespace trainrt::run
