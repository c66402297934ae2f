// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the two command lines decide.

#include "lib/Driver/StoredCommandLine.h"

#include "lib/Driver/Log.h"

using namespace trainc;

int trainc::takeStoredOptions(const std::vector<std::string> &stored, const std::string &file,
                              const CompileOptions &given, CompileOptions &options) {
  std::vector<const char *> arguments = {"trainc"};
  // Pointers into `stored`, which outlives the call.
  for (const std::string &argument : stored)
    arguments.push_back(argument.c_str());
  // It was understood when it was stored: another version may have written it.
  if (std::optional<int> code = parseCommandLine(arguments.size(), arguments.data(), options)) {
    Log::error(file, "its command line is not understood");
    return *code ? *code : int(ExitInput);
  }
  // What concerns this run only is given anew.
  options.cache = given.cache;
  options.logLevel = given.logLevel;
  options.warningsAsErrors = given.warningsAsErrors;
  options.explain = given.explain;
  options.timing = given.timing;
  options.remarks = given.remarks;
  options.saveIR = given.saveIR;
  options.saveKernels = given.saveKernels;
  options.onPhase = given.onPhase;
  return ExitSuccess;
}
