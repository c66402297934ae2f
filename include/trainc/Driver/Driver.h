// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler as a library: what `trainc` does with its command line.
#ifndef TRAINC_DRIVER_DRIVER_H
#define TRAINC_DRIVER_DRIVER_H

#include "format/log_level.h"
#include "trainc/Conversion/Legalize.h"
#include "trainc/Conversion/ParameterGroups.h"
#include "trainc/Pipelines/Pipelines.h"
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainc {

/// Exit codes of the command line.
enum ExitCode { ExitSuccess = 0, ExitInput = 1, ExitUsage = 2, ExitDevice = 3, ExitInternal = 4 };

/// What is told of the decisions of passes: counts with examples, or every one.
enum class Explain { Nothing, Summary, All };

struct CompileOptions {
  /// A model, or a folder with training artifacts of ONNX Runtime.
  std::string model;
  /// Artifacts beside a training model that is given by itself; "": none.
  std::string optimizerModel, checkpoint;
  /// Descriptions of operators from outside.
  std::vector<std::string> plugins;
  /// Write what a plug-in for this operator, DOMAIN::NAME, begins with, and nothing else; "": no.
  std::string pluginStub;
  /// "": the model's name with .tpk.
  std::string output;
  LegalizeOptions legalize;
  GraphOptions graph;
  ScheduleOptions schedule;
  /// What code is generated for, and its processors ("x86-64-v4", "sm_90"): setTarget.
  const Target *target = &getHostTarget();
  std::vector<std::string> processors = target->getDefaultProcessors();
  /// Folder of the vendor's tools (--cuda-path); "": looked for.
  std::string toolkit;
  /// Folder where compiled kernels are kept for later compilations; "": none.
  std::string cache;
  /// Kernels in a few ways each, for `trainc-run --tune` to choose from.
  bool variants = false;
  /// In the order in which they count.
  std::vector<ParameterGroup> groups;
  /// A layer's share of the learning rate of the one above it; 1: the same.
  double layerDecay = 1;
  /// NaN, and what GraphOptions has as "", negative or empty: the default, by model and optimizer.
  double lr = 1e-3, weightDecay = 0;
  std::vector<PadToken> padTokens;
  double clipNorm = 0;
  /// What the backward pass computes again: list, level:N, patterns, or a file with patterns; "":
  /// nothing.
  std::string recompute;
  /// SIZE, FRACTION, fit or fit:SIZE; "": none.
  std::string memoryBudget;
  /// Share of the elements that counts count (tokens, labelled rows) in what is said about memory.
  double density = 1;
  OffloadOptions offload;
  int64_t accumulate = 1;
  /// Ranks that --report is for, of which so many share a replica (0: all), and the link between
  /// them where it is not the target's: seconds, bytes a second.
  int64_t world = 1, shards = 0;
  std::optional<double> linkLatency, linkBandwidth;
  /// What is told on standard error (docs/inspection.md); warnings that end the compilation.
  trainrt::run::LogLevel logLevel = trainrt::run::LogLevel::info;
  bool warningsAsErrors = false;
  /// Remarks of the passes on standard error, and in this file as JSON; "": none.
  Explain explain = Explain::Nothing;
  std::string remarks;
  /// Read the command line, and nothing else.
  bool checkOptions = false;
  /// Print the passes of the phases graph, schedule and codegen, and stop before them.
  bool printPipeline = false;
  /// Tell the time of each phase and pass on standard error.
  bool timing = false;
  bool embedIR = false, embedWeights = false;
  /// Whether the package tells the command line that made it.
  bool tellCommandLine = true;
  /// File with the private key that signs the package; "": none does.
  std::string signKey;
  /// Tell the memory of a step: "text", or a file as well (.json, .html, else text); "": no.
  std::string report;
  /// Phase after which to stop: import legalize graph schedule codegen; "": none.
  std::string stopAfter;
  /// Folder for the IR after each phase; "": none.
  std::string saveIR;
  /// Folder for the code of each kernel; "": none.
  std::string saveKernels;
  /// Phase whose IR is `savedIR`, a file of --save-ir that the compilation goes on with; "": none.
  std::string startFrom, savedIR;
  /// A reproducer to run, instead of a compilation; "": none.
  std::string replay;
  /// The command line without the program, for the manifest and for reproducers.
  std::vector<std::string> arguments;
  /// Called at the beginning of each phase, with its passes where it has some: for programs that
  /// add passes of their own. A crash in it is one of the phase.
  std::function<void(llvm::StringRef phase, mlir::OpPassManager *passes)> onPhase;
};

/// Takes a target, and what the phases are to do for it.
void setTarget(CompileOptions &options, const TargetChoice &choice);
/// A precision that the target has.
void setPrecision(CompileOptions &options, Precision precision);

/// Reads the command line. Returns an exit code where there is nothing to compile (--help: 0,
/// misuse: 2, with a message on standard error).
std::optional<int> parseCommandLine(int argc, const char *const *argv, CompileOptions &options);

/// Compiles a model into a package. Diagnostics go to standard error.
int compile(const CompileOptions &options);

} // namespace trainc

#endif // TRAINC_DRIVER_DRIVER_H
