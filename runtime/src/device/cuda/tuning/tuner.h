// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which of several ways to compute the same is the quickest, by timing each as a step runs it:
// captured, over all places of the step in turn.
#ifndef TRAINRT_DEVICE_CUDA_TUNER_H
#define TRAINRT_DEVICE_CUDA_TUNER_H

#include "device/cuda/context.h"
#include "device/cuda/libraries.h"
#include "plan/tuning.h"

#include <functional>
#include <string>
#include <vector>

namespace trainrt::cuda {

/// One way to compute it.
struct Alternative {
  std::string name; ///< as it is stored
  /// Enqueues the computation at one of the places.
  std::function<Status(size_t use, CUstream stream)> enqueue;
};

/// Something with a choice.
struct Subject {
  std::string machine, key; ///< of the choice, see plan/tuning.h
  size_t uses = 0;          ///< places of a step
  /// All of them, or only the one in use so far, which is the first.
  std::function<Status(bool all, std::vector<Alternative> &found)> alternatives;
};

/// The algorithms of a convolution, as those of a matmul below.
Subject convolutionSubject(Dnn &dnn, const std::string &key, const ConvolutionCall &call,
                           std::vector<ConvolutionOperands> uses, Workspace workspace);

/// The algorithms of a matmul, which has operands at some places. `blas` outlives it.
Subject productSubject(Blas &blas, const std::string &key, const GemmCall &call,
                       std::vector<GemmOperands> uses, Workspace workspace);

class Tuner {
public:
  /// `stream` runs the work, `captureStream` only captures it.
  Tuner(const Context &context, CUstream stream, CUstream captureStream)
      : context(context), driver(context.driver()), stream(stream), captureStream(captureStream) {}
  Status start();
  /// The most expensive subjects first, until `limit` seconds have passed.
  Status tune(const std::vector<Subject> &subjects, double limit, TuningResult &result);

private:
  class Candidate;
  Status capture(Candidate &candidate, size_t uses, size_t launches);
  Status time(Candidate &candidate);
  /// Seconds of the way in use so far.
  Status measure(const Subject &subject, double &seconds);
  /// Compares all. `seconds`: as `measure` said; `choice`: the name of the quickest.
  Status compare(const Subject &subject, double seconds, TuningResult::Line &line,
                 std::string &choice);

  const Context &context;
  const Driver &driver;
  CUstream stream, captureStream;
  Event begin, end;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_TUNER_H
