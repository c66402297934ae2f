// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages say what was given and what is expected.

#include "lib/Driver/OptionValues.h"
#include "lib/Driver/CudaDevice.h"
#include "trainc/Codegen.h"
#include "trainc/Regex.h"
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
      numbers.push_back(std::stod(part, &used));
      if (used != part.size())
        throw std::invalid_argument(part);
    } catch (const std::exception &) {
      throw CLI::ValidationError(option, "'" + part + "' is not a number");
    }
  }
  if (numbers.size() != count)
    throw CLI::ValidationError(option, "expected " + std::to_string(count) + " numbers, got '" +
                                           text + "'");
  return numbers;
}

static int64_t parseInteger(const std::string &option, const std::string &text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw CLI::ValidationError(option, "'" + text + "' is not an integer");
  return value;
}

void trainc::checkRegex(const std::string &option, const std::string &pattern) {
  Regex regex;
  if (std::string problem = regex.compile(pattern); !problem.empty())
    throw CLI::ValidationError(option, problem);
}

CLI::Validator trainc::number(bool zero) {
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
  size_t equal = text.find('=');
  if (equal == std::string::npos || equal == 0)
    throw CLI::ValidationError("--dim", "expected NAME=N or NAME=MIN..MAX, got '" + text + "'");
  DimBound bound;
  bound.name = text.substr(0, equal);
  std::string range = text.substr(equal + 1);
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
  if (bound.min < 1 || *bound.max < bound.min)
    throw CLI::ValidationError("--dim", "'" + text + "' is an empty range: sizes are at least 1");
  return bound;
}

PadToken trainc::parsePadToken(const std::string &text) {
  PadToken token;
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
    size_t equal = part.rfind('=');
    if (equal == std::string::npos)
      throw CLI::ValidationError("--lr-scale", "expected REGEX=FACTOR, got '" + part + "'");
    checkRegex("--lr-scale", part.substr(0, equal));
    scales.emplace_back(part.substr(0, equal),
                        parseNumbers("--lr-scale", part.substr(equal + 1), 1)[0]);
  }
  return scales;
}

void trainc::parseTargets(const std::string &text, CompileOptions &options) {
  auto invalid = [&](const std::string &why) {
    return CLI::ValidationError("--target", "'" + text + "': " + why);
  };
  if (text.rfind("cuda", 0) == 0 || text == "auto") {
    std::string device = findCudaDevice();
    options.cuda = text != "auto" || !device.empty();
    if (options.cuda)
      options.targets.clear();
    if (text == "cuda" && device.empty())
      throw invalid("no CUDA device here to take the architecture from; name it: cuda:sm_90");
    if (options.cuda && text.rfind("cuda:", 0) != 0) {
      options.targets = {device};
      return;
    }
  }
  if (text == "auto" || text == "cpu")
    return;
  if (text.rfind("cuda:", 0) == 0) {
    std::stringstream stream(text.substr(5));
    std::string part;
    while (std::getline(stream, part, ',')) {
      int number = part.rfind("sm_", 0) == 0 ? int(parseInteger("--target", part.substr(3))) : 0;
      if (number < 80)
        throw invalid("expected architectures from sm_80 on, such as cuda:sm_80,sm_90");
      options.targets.push_back(part);
    }
    if (!options.targets.empty())
      return;
  }
  if (text == "cpu:native") {
    llvm::StringRef level = codegen::getHostLevel();
    if (level.empty())
      throw invalid("kernels need x86-64-v3 or better, which this machine is not");
    options.targets = {level.str()};
    return;
  }
  for (const char *level : {"x86-64-v3", "x86-64-v4"})
    if (text == std::string("cpu:") + level) {
      options.targets = {level};
      return;
    }
  throw invalid("expected auto, cpu, cpu:x86-64-v3, cpu:x86-64-v4, cpu:native, cuda or "
                "cuda:sm_NN[,sm_NN...]");
}

Precision trainc::parsePrecision(const std::string &text, bool cuda) {
  if (text == "fp32")
    return Precision::Graph;
  if (!cuda)
    throw CLI::ValidationError("--precision", "'" + text +
                                                  "' needs --target cuda; on the CPU models train "
                                                  "in the graph's own types");
  return text == "tf32"   ? Precision::TF32
         : text == "bf16" ? Precision::BF16
         : text == "fp16" ? Precision::FP16
                          : Precision::PureBF16;
}
