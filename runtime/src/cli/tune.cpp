// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first step's batches, without making the step.
#include "cli/tune.h"

#include "cli/data/loader.h"
#include "cli/failure.h"
#include "cli/format.h"
#include "format/target.h"

#include <cstdio>
#include <filesystem>

namespace trainrt::run {

/// Before a session is made. What the package refers to by a relative path has to be found from the
/// new one, too.
void checkTunable(const Options &options, const Package &package) {
  if (!traitsOf(package.info.target).hasTuning)
    throw Failure(exitInput, package.path + ": there is nothing to tune: it is for the CPU, whose "
                                            "kernels have no choices that are made by timing");
  namespace fs = std::filesystem;
  auto folder = [](const std::string &path) {
    std::error_code ignored;
    return fs::weakly_canonical(
        fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path("."), ignored);
  };
  for (const trainrt_tensor_info &parameter : package.parameters)
    if (parameter.weights_file && !(parameter.flags & TRAINRT_FLAG_EMBEDDED) &&
        fs::path(parameter.weights_file).is_relative() &&
        folder(options.output) != folder(package.path))
      throw Failure(exitInput, "-o " + options.output + ": a tuned package finds its weights ('" +
                                   parameter.weights_file +
                                   "') beside it, as the package that it comes from: write it into "
                                   "the same folder, or compile with --embed-weights");
}

/// No step is made. The batches are those of the file's
/// beginning.
void tune(const Options &options, trainrt_session *session, const Dataset &data,
          Reporter &reporter) {
  StepLoader::Settings settings;
  settings.microBatches = options.accumulate;
  // Made by this thread and once, so there is a step and `next` is not null.
  settings.steps = 1;
  StepLoader loader(data, makeFileOrder(data, false, 0), settings);
  std::unique_ptr<StepData> step = loader.next();
  trainrt_tune_result result = trainrt_tune_result_default();
  ErrorSlot error;
  error.check(trainrt_session_tune(session, step->views.data(), step->views.size(), *options.tune,
                                   options.output.c_str(), &result, error));
  reporter.table(result.report);
  char text[240];
  std::snprintf(text, sizeof text,
                "tuned %zu of %zu choices, %zu changed: their parts of a step take %.3f ms, before "
                "%.3f ms",
                result.reached, result.choices, result.changed, result.after_milliseconds,
                result.before_milliseconds);
  reporter.note(text);
  if (result.reached < result.choices)
    reporter.warning("time was up before the last " +
                     grouped(int64_t(result.choices - result.reached)) +
                     " choices, the least expensive ones; a longer --tune reaches them");
  reporter.note("wrote " + options.output);
}

} // namespace trainrt::run
