// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PEFT finds modules by the ends of their paths: a list of names, and patterns (regular
// expressions) for ranks and alphas other than the common ones.
#include "export/adapter_config.h"

#include "format/json.h"
#include "format/status.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <regex>
#include <set>

namespace trainrt {

using Json = nlohmann::ordered_json;

namespace {

std::string lastPart(const std::string &path) { return path.substr(path.rfind('.') + 1); }

/// All but the last part.
std::string moduleOf(const std::string &parameter) {
  return parameter.substr(0, std::max<size_t>(parameter.rfind('.'), 0));
}

/// The shortest text that reads back as `value`.
std::string shortest(double value) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, std::end(buffer), value).ptr);
}

/// Whole numbers as such: PEFT's type of alpha is int.
/// Above 1e15 a double is whole as well, but its digits are no number that anybody has chosen.
Json numberOf(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15)
    return int64_t(value);
  return value;
}

/// The last parts of the modules' paths where no other module ends in one of them, else the paths.
/// PEFT adapts every module whose path ends in one of the targets: an end that a frozen module
/// shares would adapt that one, too.
std::set<std::string> targetsOf(const Lora &lora, const std::vector<std::string> &weights) {
  std::set<std::string> paths, ends;
  for (const Lora::Module &module : lora.modules) {
    paths.insert(module.path);
    ends.insert(lastPart(module.path));
  }
  for (const std::string &weight : weights) {
    const std::string module = moduleOf(weight);
    if (ends.count(lastPart(module)) && !paths.count(module))
      return paths;
  }
  return ends;
}

/// A pattern that only this path matches.
/// PEFT puts "(.*\.)?(" before it: the anchor then allows nothing in front. Of a path's characters
/// only the dot means something in an expression.
std::string patternOf(const std::string &path) {
  std::string pattern = "^";
  for (char c : path)
    pattern += c == '.' ? "\\." : std::string(1, c);
  return pattern;
}

/// Of a path that ends in `pattern`. Throws std::regex_error, also for one that is too long: the
/// library calls itself for each of its parentheses and, but for the polynomial way, for each
/// character of what is matched.
std::regex moduleExpression(const std::string &pattern) {
  if (pattern.size() > 2000)
    throw std::regex_error(std::regex_constants::error_complexity);
  auto flags = std::regex::ECMAScript;
#ifdef __GLIBCXX__
  flags |= std::regex_constants::__polynomial;
#endif
  return std::regex("(.*\\.)?(" + pattern + ")", flags);
}

/// The value that `patterns` (an object, or nothing) has for a module, as PEFT looks it up.
/// The first pattern that fits counts, in the order of the file: ordered_json keeps it.
/// Throws what `moduleExpression` throws. Patterns behind the one that fits are never read.
double lookUp(const Json &config, const char *key, const std::string &path, double otherwise) {
  auto patterns = config.find(key);
  if (patterns == config.end() || !patterns->is_object())
    return otherwise;
  for (auto &[pattern, value] : patterns->items())
    if (value.is_number() && std::regex_match(path, moduleExpression(pattern)))
      return value.get<double>();
  return otherwise;
}

/// Of a parameter that is trained itself the module that PEFT saves: the outermost one that has
/// nothing else, as a head of several layers is. PEFT saves such a head whole, and does not look
/// for parts of it.
std::string savedModule(const std::string &parameter, const std::set<std::string> &saved,
                        const std::vector<std::string> &weights) {
  std::string module = moduleOf(parameter);
  for (size_t dot; (dot = module.rfind('.')) != std::string::npos;) {
    const std::string inside = module.substr(dot + 1), outer = module.substr(0, dot);
    // Lists cannot be saved, only what is in them.
    const bool isList = inside.find_first_not_of("0123456789") == std::string::npos;
    if (isList || std::any_of(weights.begin(), weights.end(), [&](const std::string &name) {
          return name.starts_with(outer + ".") && !saved.count(name);
        }))
      break;
    module = outer;
  }
  return module;
}

/// False, null, an empty list and an empty object mean what a missing key does.
bool isSet(const Json &config, const char *key) {
  auto found = config.find(key);
  return found != config.end() && !found->is_null() && *found != false && !found->empty();
}

} // namespace

/// A key that is missing, or of another type, says nothing: `base` then stays as it is.
void readBaseModel(const std::string &text, BaseModel &base) {
  const Json config = parseJson<Json>(text);
  // What the caller has said already goes before what an adapter's file says.
  for (const auto &[key, value] :
       {std::pair("base_model_name_or_path", &base.name), {"task_type", &base.taskType}})
    if (auto at = config.find(key); value->empty() && at != config.end() && at->is_string())
      *value = at->get<std::string>();
}

/// Names in `lora` and in `weights` are those of the base model. Sets `text`
/// only where the status is good.
Status writeAdapterConfig(const Lora &lora, const BaseModel &base,
                          const std::vector<std::string> &weights, std::string &text) {
  Json ranks = Json::object(), alphas = Json::object();
  bool transposed = false;
  for (const Lora::Module &module : lora.modules) {
    if (module.rank != lora.rank)
      ranks[patternOf(module.path)] = module.rank;
    if (module.alpha != lora.alpha)
      alphas[patternOf(module.path)] = numberOf(module.alpha);
    transposed |= module.fanInFanOut;
  }
  const std::set<std::string> trained(lora.modulesToSave.begin(), lora.modulesToSave.end());
  // Of a module that is saved whole, weight and bias are two parameters and one entry.
  std::set<std::string> saved;
  for (const std::string &parameter : lora.modulesToSave)
    saved.insert(savedModule(parameter, trained, weights));
  Json config{{"peft_type", "LORA"},
              {"task_type", base.taskType.empty() ? Json() : Json(base.taskType)},
              {"base_model_name_or_path", base.name.empty() ? Json() : Json(base.name)},
              {"r", lora.rank},
              {"lora_alpha", numberOf(lora.alpha)},
              {"lora_dropout", lora.dropout},
              {"bias", lora.bias},
              {"target_modules", targetsOf(lora, weights)},
              {"rank_pattern", ranks},
              {"alpha_pattern", alphas},
              {"use_rslora", lora.rslora},
              {"use_dora", lora.dora},
              {"fan_in_fan_out", transposed},
              {"modules_to_save", saved.empty() ? Json() : Json(saved)},
              {"init_lora_weights", true},
              {"inference_mode", true}};
  try {
    text = config.dump(2) + "\n";
  } catch (const Json::type_error &) { // names of the package have been read as JSON
    return fail(Code::InvalidArgument, "the base model's name or task is no UTF-8, which ",
                "adapter_config.json is");
  }
  return {};
}

/// What does not fit, the first that is found; "" where the adapter computes what the package does.
std::string compareAdapterConfig(const Lora &lora, const std::string &text) {
  const Json config = parseJson<Json>(text);
  if (!config.is_object())
    return std::string("it ") + notJsonObject(text);
  const std::string type = config.value("peft_type", Json("")).dump();
  if (type != "\"LORA\"")
    return "its peft_type is " + shown(type) + ", not \"LORA\"";
  // Keys of PEFT that change what the adapter computes, or which tensors it has: an adapter that
  // uses one must not be read as if it did not. Keys that concern only PEFT's training are ignored.
  for (const char *unknown :
       {"lora_bias", "layer_replication", "target_parameters", "use_qalora", "use_bdlora",
        "kasa_config", "velora_config", "arrow_config", "monteclora_config",
        "trainable_token_indices", "alora_invocation_tokens"})
    if (isSet(config, unknown))
      return std::string("it uses ") + unknown + ", which is not supported";
  if (isSet(config, "use_dora") != lora.dora)
    return std::string("the adapter is ") +
           (lora.dora ? "not DoRA, the package is" : "DoRA, the package is not");
  for (const char *number : {"r", "lora_alpha"})
    if (auto found = config.find(number); found == config.end() || !found->is_number())
      return std::string("it has no number ") + number;
  const bool rslora = isSet(config, "use_rslora");
  for (const Lora::Module &module : lora.modules) {
    double rank, alpha;
    try {
      rank = lookUp(config, "rank_pattern", module.path, config["r"].get<double>());
      alpha = lookUp(config, "alpha_pattern", module.path, config["lora_alpha"].get<double>());
    } catch (const std::regex_error &) {
      return "a pattern of rank_pattern or alpha_pattern is no regular expression, or too long";
    }
    // Ranks are compared exactly, scales up to rounding: alpha / rank is made of decimal text, by
    // two programs.
    if (rank != double(module.rank))
      return "the rank of '" + shown(module.path) + "' is " + shortest(rank) + ", expected " +
             shortest(double(module.rank));
    const double scale = alpha / (rslora ? std::sqrt(rank) : rank);
    if (std::fabs(scale - module.scale) > 1e-6 * std::fabs(module.scale))
      return "it scales '" + shown(module.path) + "' by " + shortest(scale) +
             (rslora ? " (lora_alpha / sqrt(r))" : " (lora_alpha / r)") + ", the package by " +
             shortest(module.scale);
  }
  return "";
}

} // namespace trainrt
