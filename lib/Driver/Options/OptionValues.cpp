// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages say what was given and what is expected.

#include "lib/Driver/Options/OptionValues.h"
#include "trainc/Support/Regex.h"
#include <charconv>

using namespace trainc;

std::vector<double> trainc::parseNumbers(const std::string &option, const std::string &text,
                                         size_t count) {
  std::vector<double> numbers;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, ',')) {
    try {
      size_t used = 0;
      // "1x" is no number, though it begins as one.
      numbers.push_back(std::stod(part, &used));
      if (used != part.size())
        throw std::invalid_argument(part);
    } catch (const std::exception &) {
      throw CLI::ValidationError(option, "'" + part + "' is not a number");
    }
  }
  // Neither more nor fewer.
  if (numbers.size() != count)
    throw CLI::ValidationError(option, "expected " + std::to_string(count) + " numbers, got '" +
                                           text + "'");
  return numbers;
}

std::optional<double> trainc::parseLinkRate(const std::string &text) {
  // Links are sold in bits, and all of them in powers of ten.
  static constexpr std::pair<llvm::StringLiteral, double> units[] = {
      {"Gbit", 1e9 / 8}, {"Mbit", 1e6 / 8}, {"GB", 1e9}, {"MB", 1e6}};
  llvm::StringRef number = text;
  number.consume_back("/s");
  double factor = 0, value = 0;
  for (auto &[name, bytes] : units)
    if (!factor && number.consume_back(name))
      factor = bytes;
  if (number.getAsDouble(value) || !std::isfinite(value) || value <= 0)
    return std::nullopt;
  return value * (factor ? factor : 1e9);
}

void trainc::checkRegex(const std::string &option, const std::string &pattern) {
  Regex regex;
  if (std::string problem = regex.compile(pattern); !problem.empty())
    throw CLI::ValidationError(option, problem);
}

CLI::Validator trainc::number(bool zero) {
  // strtod takes spaces and "inf", too.
  return CLI::Validator(
      [zero](std::string &text) -> std::string {
        const char *start = text.c_str();
        char *end = nullptr;
        double value = std::strtod(start, &end);
        if (end != start && !*end && std::isfinite(value) && (zero ? value >= 0 : value > 0))
          return {};
        return "'" + text + "' is not a number " + (zero ? "of at least 0" : "above 0");
      },
      "F");
}

DimBound trainc::parseDim(const std::string &text) {
  // Names of sizes may have any other character.
  size_t equal = text.find('=');
  if (equal == std::string::npos || equal == 0)
    throw CLI::ValidationError("--dim", "expected NAME=N or NAME=MIN..MAX, got '" + text + "'");
  DimBound bound;
  bound.name = text.substr(0, equal);
  std::string range = text.substr(equal + 1);
  // One number stands for both ends.
  size_t dots = range.find("..");
  auto parse = [&](const std::string &number) {
    int64_t value = 0;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error == std::errc::result_out_of_range)
      throw CLI::ValidationError("--dim", "'" + text + "': " + number + " is out of range");
    if (error != std::errc() || end != number.data() + number.size())
      throw CLI::ValidationError("--dim", "expected NAME=N or NAME=MIN..MAX, got '" + text +
                                              "': '" + number + "' is not an integer");
    return value;
  };
  bound.min = parse(range.substr(0, dots));
  bound.max = dots == std::string::npos ? bound.min : parse(range.substr(dots + 2));
  // A size of 0 would make every tensor empty.
  if (bound.min < 1 || *bound.max < bound.min)
    throw CLI::ValidationError("--dim", "'" + text + "' is an empty range: sizes are at least 1");
  return bound;
}

PadToken trainc::parsePadToken(const std::string &text) {
  PadToken token;
  // The last sign: names of inputs may have any character.
  size_t equal = text.rfind('=');
  std::string value = equal == std::string::npos ? text : text.substr(equal + 1);
  if (equal != std::string::npos)
    token.input = text.substr(0, equal);
  int64_t id;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), id);
  if (error == std::errc() && end == value.data() + value.size())
    token.id = id;
  else
    token.mask = value;
  if (value.empty() || equal == 0 || (token.input.empty() && !token.id))
    throw CLI::ValidationError("--pad-token",
                               "expected ID, INPUT=ID or INPUT=MASK, got '" + text + "'");
  return token;
}

std::vector<std::pair<std::string, double>> trainc::parseLrScale(const std::string &text) {
  std::vector<std::pair<std::string, double>> scales;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, ',')) {
    // The last one: an expression may have one, too.
    size_t equal = part.rfind('=');
    if (equal == std::string::npos)
      throw CLI::ValidationError("--lr-scale", "expected REGEX=FACTOR, got '" + part + "'");
    checkRegex("--lr-scale", part.substr(0, equal));
    scales.emplace_back(part.substr(0, equal),
                        parseNumbers("--lr-scale", part.substr(equal + 1), 1)[0]);
  }
  return scales;
}

/// "16x" is a factor, "16" a number; none may be negative.
static void parseRate(const std::string &setting, const std::string &value,
                      std::optional<double> &factor, std::optional<double> &number) {
  const bool isFactor = !value.empty() && value.back() == 'x';
  const std::string digits = value.substr(0, value.size() - isFactor);
  const char *start = digits.c_str();
  char *end = nullptr;
  // NaN and infinite ones are none.
  const double parsed = std::strtod(start, &end);
  if (end == start || *end || !std::isfinite(parsed) || parsed < 0)
    throw CLI::ValidationError("--group", "'" + setting +
                                              "': expected a number of at least 0, or one with an "
                                              "x behind it for a factor");
  (isFactor ? factor : number) = parsed;
}

ParameterGroup trainc::parseGroup(const std::string &text) {
  ParameterGroup group;
  group.option = "--group";
  // The last colon: an expression may have some.
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    throw CLI::ValidationError("--group", "expected 'REGEX: SETTING,...', got '" + text + "'");
  group.pattern = text.substr(0, colon);
  checkRegex("--group", group.pattern);
  std::stringstream stream(text.substr(colon + 1));
  std::string part;
  while (std::getline(stream, part, ',')) {
    // Spaces around settings.
    const size_t first = part.find_first_not_of(' ');
    part = first == std::string::npos ? ""
                                      : part.substr(first, part.find_last_not_of(' ') + 1 - first);
    const size_t equal = part.find('=');
    const std::string key = part.substr(0, equal);
    const bool isRate = key == "lr" && equal != std::string::npos;
    const bool isDecay = key == "weight_decay" && equal != std::string::npos;
    // Each setting once.
    if ((isRate && (group.lr || group.lrFactor)) ||
        (isDecay && (group.decay || group.decayFactor)) || (part == "freeze" && group.freeze))
      throw CLI::ValidationError("--group", "'" + text + "' has " + key + " twice");
    if (isRate)
      parseRate(part, part.substr(equal + 1), group.lrFactor, group.lr);
    else if (isDecay)
      parseRate(part, part.substr(equal + 1), group.decayFactor, group.decay);
    else if (part == "freeze")
      group.freeze = true;
    else
      throw CLI::ValidationError(
          "--group",
          "expected lr=Fx, lr=F, weight_decay=Fx, weight_decay=F or freeze, got '" + part + "'");
  }
  // A group says something, and nothing that contradicts itself.
  if (group.freeze && (group.lr || group.lrFactor || group.decay || group.decayFactor))
    throw CLI::ValidationError("--group",
                               "'" + text + "': what is frozen has no rate and no decay");
  if (!group.freeze && !group.lr && !group.lrFactor && !group.decay && !group.decayFactor)
    throw CLI::ValidationError("--group", "'" + text + "' has no setting behind the colon");
  return group;
}

Precision trainc::parsePrecision(const std::string &text, const TargetTraits &target) {
  const Precision precision = text == "fp32"   ? Precision::Graph
                              : text == "tf32" ? Precision::TF32
                              : text == "bf16" ? Precision::BF16
                              : text == "fp16" ? Precision::FP16
                                               : Precision::PureBF16;
  auto has = [&](const TargetTraits &traits) {
    return llvm::is_contained(traits.precisions, precision);
  };
  // The graph's own types are there on all targets.
  if (precision == Precision::Graph || has(target))
    return precision;
  std::string others;
  for (Precision other : target.precisions)
    others += " or " + nameOf(other).str();
  throw CLI::ValidationError("--precision", "'" + text + "' needs --target " + namesOfTargets(has) +
                                                "; on " + target.phrase.str() +
                                                " models train in the graph's own types" + others);
}

void trainc::checkTarget(const std::string &option, const TargetTraits &target,
                         llvm::function_ref<bool(const TargetTraits &)> has,
                         const std::string &but) {
  if (!has(target))
    throw CLI::ValidationError(option, "is for --target " + namesOfTargets(has) + ": " + but);
}
