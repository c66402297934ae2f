// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The values of trainc's options. What is wrong with one is thrown, as CLI11 does.
#ifndef TRAINC_LIB_DRIVER_OPTIONS_OPTIONVALUES_H
#define TRAINC_LIB_DRIVER_OPTIONS_OPTIONVALUES_H

#include "trainc/Driver/Driver.h"
#include <CLI/CLI.hpp>

namespace trainc {

/// `count` comma-separated numbers.
std::vector<double> parseNumbers(const std::string &option, const std::string &text, size_t count);
/// Bytes a second of N (GB/s), NGB, NMB, NGbit or NMbit; nothing where it is none above 0.
std::optional<double> parseLinkRate(const std::string &text);
void checkRegex(const std::string &option, const std::string &pattern);
/// Accepts finite numbers of at least 0; without `zero`, above 0.
CLI::Validator number(bool zero);
/// NAME=N or NAME=MIN..MAX
DimBound parseDim(const std::string &text);
/// ID, INPUT=ID or INPUT=MASK
PadToken parsePadToken(const std::string &text);
/// REGEX=F, ... : the factor stands behind the last '='.
std::vector<std::pair<std::string, double>> parseLrScale(const std::string &text);
/// --group REGEX: SETTING,...
ParameterGroup parseGroup(const std::string &text);
/// --precision
Precision parsePrecision(const std::string &text, const TargetTraits &target);
/// Refuses an option where the target lacks what it is for (`has`): "is for --target A: but".
void checkTarget(const std::string &option, const TargetTraits &target,
                 llvm::function_ref<bool(const TargetTraits &)> has, const std::string &but);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONS_OPTIONVALUES_H
