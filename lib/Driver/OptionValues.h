// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The values of trainc's options. What is wrong with one is thrown, as CLI11 does.
#ifndef TRAINC_LIB_DRIVER_OPTIONVALUES_H
#define TRAINC_LIB_DRIVER_OPTIONVALUES_H

#include "trainc/Driver.h"
#include <CLI/CLI.hpp>

namespace trainc {

/// `count` comma-separated numbers.
std::vector<double> parseNumbers(const std::string &option, const std::string &text, size_t count);
void checkRegex(const std::string &option, const std::string &pattern);
/// Accepts finite numbers of at least 0; without `zero`, above 0.
CLI::Validator number(bool zero);
/// NAME=N or NAME=MIN..MAX
DimBound parseDim(const std::string &text);
/// ID, INPUT=ID or INPUT=MASK
PadToken parsePadToken(const std::string &text);
/// REGEX=F, ... : the factor stands behind the last '='.
std::vector<std::pair<std::string, double>> parseLrScale(const std::string &text);
/// --target
void parseTargets(const std::string &text, CompileOptions &options);
Precision parsePrecision(const std::string &text, bool cuda);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONVALUES_H
