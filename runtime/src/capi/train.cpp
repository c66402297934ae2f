// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The training loop of the C API, in terms of its other functions: steps whose data comes from a
// callback, the results of lagged ones told in order.

#include "capi/internal.h"

#include <optional>
#include <utility>

using namespace trainrt;
using namespace trainrt::capi;

namespace {

/// Lives as long as a call of `trainrt_train`. It goes through the C API's functions, so that
/// steps, lagged ones and errors are what they are in a loop of the caller's own.
class TrainingLoop {
public:
  TrainingLoop(trainrt_session &session, const trainrt_train_options &options)
      : session(session), options(options) {}

  Status run() {
    TRAINRT_TRY(drain()); // a lagged step of the caller's own
    // Steps are counted as they are given: a lagged one is told later.
    int64_t given = session.impl->stepCount();
    while (!stopped && (options.last_step == 0 || given < options.last_step)) {
      trainrt_next_step next{sizeof next, ++given, nullptr, 0, &stepOptions};
      stepOptions = trainrt_step_options_default();
      // 0: no more data, 1: a step, anything else ends the training.
      const int answer = options.next(options.next_user, &next);
      if (answer == 0)
        break;
      if (answer != 1) {
        // What was given is made all the same.
        TRAINRT_TRY(drain());
        return Status(Code::Cancelled, "the callback 'next' cancelled the training");
      }
      TRAINRT_TRY(step(next));
    }
    return drain();
  }

  trainrt_step_result last = trainrt_step_result_default();

private:
  /// A failed step's error is that of the last one given, unless an earlier one has an error, too.
  Status step(const trainrt_next_step &next) {
    trainrt_step_result result = trainrt_step_result_default();
    trainrt_error *error = nullptr;
    Status status =
        take(trainrt_step(&session, next.batches, next.batch_count, &stepOptions, &result, &error),
             error);
    if (status.ok() || status.code() == Code::Nonfinite)
      tell(result);
    if (status.ok())
      return status;
    // A lagged step may still be under way: its outcome goes first.
    TRAINRT_TRY(drain());
    return status;
  }

  /// Waits for a lagged step.
  Status drain() {
    trainrt_step_result result = trainrt_step_result_default();
    trainrt_error *error = nullptr;
    Status status = take(trainrt_session_finish(&session, &result, &error), error);
    if (status.ok() || status.code() == Code::Nonfinite)
      tell(result);
    return status;
  }

  void tell(const trainrt_step_result &result) {
    // A step that nothing was told of yet.
    if (result.step == 0)
      return;
    // Also of a step that failed: its numbers were told.
    last = result;
    if (options.done && options.done(options.done_user, &result) != 0)
      stopped = true;
  }

  /// The C API's outcome as a Status again. The error is read after the call that sets it, though
  /// both may be arguments here.
  static Status take(trainrt_status status, trainrt_error *const &error) {
    if (status == TRAINRT_OK)
      return {};
    // The message is all that C keeps of an error.
    std::string message = error ? error->message : trainrt_status_name(status);
    trainrt_error_free(error);
    return Status(static_cast<Code>(status), std::move(message));
  }

  trainrt_session &session;
  const trainrt_train_options &options;
  trainrt_step_options stepOptions = trainrt_step_options_default();
  bool stopped = false;
};

} // namespace

extern "C" {

trainrt_status trainrt_train(trainrt_session *session, const trainrt_train_options *options,
                             trainrt_step_result *result, trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || !options)
      return nullArgument(session ? "options" : "session");
    trainrt_train_options chosen = trainrt_train_options_default();
    TRAINRT_TRY(readStruct(options, "options", chosen));
    TRAINRT_TRY(checkStruct(result, "result"));
    if (!chosen.next)
      return nullArgument("options->next");
    if (chosen.last_step < 0)
      return fail(Code::InvalidArgument, "options->last_step: ", chosen.last_step,
                  " is no number of a step");
    TrainingLoop loop(*session, chosen);
    Status status = loop.run();
    TRAINRT_TRY(writeStruct(loop.last, "result", result));
    return status;
  });
}

} // extern "C"
