// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parsing of --lora and --quantize.

#include "lib/Driver/Options/AdapterValues.h"

#include "format/quant_format.h"
#include "trainc/Support/Regex.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cmath>

using namespace trainc;
using llvm::StringRef;

namespace {

constexpr llvm::StringLiteral kLoraKeys[] = {"r",    "alpha",    "dropout", "targets", "rslora",
                                             "dora", "existing", "save",    "bias"};

/// Whether a setting begins here: a key, then what may follow one.
bool beginsSetting(StringRef text) {
  // A key alone is a flag.
  return llvm::any_of(kLoraKeys, [&](StringRef key) {
    StringRef rest = text;
    return rest.consume_front(key) && (rest.empty() || StringRef("=[,").contains(rest.front()));
  });
}

/// At the commas in front of settings.
llvm::SmallVector<StringRef> splitSettings(StringRef text) {
  llvm::SmallVector<StringRef> settings;
  size_t begin = 0;
  // Commas inside of an expression belong to it.
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == ',' && beginsSetting(text.substr(i + 1))) {
      settings.push_back(text.slice(begin, i));
      begin = i + 1;
    }
  settings.push_back(text.substr(begin));
  return settings;
}

/// What follows a comma and has a setting's form, where there is no such key: an expression would
/// swallow it.
StringRef unknownSetting(StringRef setting) {
  for (size_t i = setting.find(','); i != StringRef::npos; i = setting.find(',', i + 1)) {
    StringRef rest = setting.substr(i + 1);
    StringRef key = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (!key.empty() && rest.substr(key.size()).starts_with("="))
      return rest;
  }
  return {};
}

/// Empty if it is one.
std::string checkExpression(StringRef expression) { return Regex().compile(expression); }

/// With any other number the branch has no effect, or none that is a number.
std::string checkAlpha(double alpha, StringRef text) {
  return std::isfinite(alpha) && alpha != 0
             ? ""
             : "alpha must be a number other than 0, not '" + text.str() + "'";
}

std::string parseLoraSetting(StringRef setting, LoraOptions &options) {
  // A typing error in a key would become part of the expression before it.
  StringRef unknown = unknownSetting(setting);
  const std::string expected =
      "expected r=N, alpha=F, dropout=F, targets=REGEX, r[REGEX]=N, alpha[REGEX]=F, rslora, "
      "dora, existing, save=REGEX or bias=none|all|lora_only, got '" +
      (unknown.empty() ? setting : unknown).str() + "'";
  if (!unknown.empty())
    return expected;
  if (setting == "rslora") {
    options.rslora = true;
    return {};
  }
  if (setting == "dora") {
    options.dora = true;
    return {};
  }
  if (setting == "existing") {
    options.existing = true;
    return {};
  }
  // "r[REGEX]=N": the bracket comes before the sign.
  size_t bracket = setting.find('['), equal = setting.find('=');
  if (bracket < equal) {
    // The last bracket, as expressions may have some.
    size_t end = setting.rfind("]=");
    StringRef key = setting.take_front(bracket);
    double number;
    if (end == StringRef::npos || setting.substr(end + 2).getAsDouble(number) ||
        (key != "r" && key != "alpha"))
      return expected;
    StringRef expression = setting.slice(bracket + 1, end);
    if (expression.empty())
      return expected;
    if (key == "alpha")
      if (std::string problem = checkAlpha(number, setting.substr(end + 2)); !problem.empty())
        return problem;
    // As the pass takes it: number first, since expressions may have any character.
    (key == "r" ? options.rankPattern : options.alphaPattern)
        .push_back((setting.substr(end + 2) + "=" + expression).str());
    return checkExpression(expression);
  }
  auto [key, value] = setting.split('=');
  // All others have a value.
  if (equal == StringRef::npos || value.empty())
    return expected;
  if (key == "targets") {
    options.targets = value == "all-linear" ? "" : value.str();
    return checkExpression(options.targets);
  }
  if (key == "save") {
    options.save = value.str();
    return checkExpression(value);
  }
  if (key == "bias") {
    options.bias = value.str();
    return value == "none" || value == "all" || value == "lora_only" ? "" : expected;
  }
  // Whole numbers, then real ones.
  if (key == "r")
    return value.getAsInteger(10, options.rank) || options.rank < 1
               ? "r must be a whole number above 0, not '" + value.str() + "'"
               : "";
  double number;
  if (value.getAsDouble(number) || (key != "alpha" && key != "dropout"))
    return expected;
  // Also false for NaN.
  if (key == "dropout" && !(number >= 0 && number < 1))
    return "dropout must be in [0, 1), not " + value.str();
  if (key == "alpha")
    if (std::string problem = checkAlpha(number, value); !problem.empty())
      return problem;
  (key == "alpha" ? options.alpha : options.dropout) = number;
  return {};
}
} // namespace

std::string trainc::parseLoraOptions(const std::string &text, LoraOptions &options) {
  const llvm::SmallVector<StringRef> settings = splitSettings(text);
  for (StringRef setting : settings)
    if (std::string problem = parseLoraSetting(setting, options); !problem.empty())
      return problem;
  // Once all settings are known.
  for (StringRef setting : settings)
    if (options.existing && setting != "existing" && setting != "rslora" &&
        !setting.starts_with("save=") && !setting.starts_with("bias="))
      return "existing trains the branches that the model has: it goes with rslora, save= and "
             "bias= "
             "only, not with '" +
             setting.str() + "'";
  return {};
}

std::string trainc::parseFusedKinds(const std::string &text, std::vector<std::string> &kinds) {
  // The default is replaced.
  kinds.clear();
  for (StringRef kind : llvm::split(text, ',')) {
    if (kind != "mlp" && kind != "qkv" && kind != "o")
      return "expected some of mlp,qkv,o, got '" + kind.str() + "'";
    kinds.push_back(kind.str());
  }
  return {};
}

std::string trainc::parseQuantizeOptions(const std::string &text, QuantizeOptions &options) {
  auto [format, rest] = StringRef(text).split(':');
  options.format = format.str();
  if (format != "nf4" && format != "fp4" && format != "int8")
    return "expected nf4, fp4 or int8, got '" + format.str() + "'";
  // An expression may have colons: skip= takes the rest.
  while (!rest.empty()) {
    if (rest.consume_front("skip=")) {
      options.skip = rest.str();
      return rest.empty() ? "expected an expression behind skip=" : checkExpression(rest);
    }
    StringRef setting;
    std::tie(setting, rest) = rest.split(':');
    // Rows are its blocks.
    if (format == "int8")
      return "int8 has a scale for each row: it takes skip=REGEX only, not '" + setting.str() + "'";
    if (setting == "double") {
      options.doubled = true;
    } else if (setting.consume_front("block=")) {
      if (setting.getAsInteger(10, options.block) || !trainrt::isBlock(options.block))
        return "a block must be a power of two from 16 to 4096, not '" + setting.str() + "'";
    } else if (setting.consume_front("absmax=")) {
      options.scaleType = setting.str();
      if (setting != "f32" && setting != "bf16" && setting != "f16")
        return "absmax must be f32, bf16 or f16, not '" + setting.str() + "'";
    } else {
      return "expected double, block=N, absmax=f32|bf16|f16 or skip=REGEX, got '" + setting.str() +
             "'";
    }
  }
  // One of both.
  if (options.doubled && options.scaleType != "f32")
    return "double stores scales in 8 bits: it does not go with absmax=" + options.scaleType;
  return {};
}
