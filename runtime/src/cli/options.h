// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command line of trainc-run.
#ifndef TRAINRT_CLI_OPTIONS_H
#define TRAINRT_CLI_OPTIONS_H

#include "cli/schedule.h"
#include "format/log_level.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trainrt::run {

struct Options {
  std::string package;
  std::vector<std::string> arguments; ///< all of the command line
  std::set<std::string> given;        ///< names of options in it, as "--lr"

  std::string data;
  std::optional<int64_t> batchSize, steps, epochs, seed;
  bool shuffle = false;
  int64_t accumulate = 0;   ///< 0: as the package asks
  std::string accumulateBy; ///< rows, tokens or mean; "": as the loss asks
  /// Inputs without the batch's axis: cut with the rows, or given to every batch.
  std::vector<std::string> cut, whole;
  // Streams of tokens.
  std::optional<int64_t> window;
  std::vector<std::string> binInputs;
  bool binShift = false;
  // Rows of different lengths (docs/data.md).
  std::optional<int64_t> groupByLength; ///< rows sorted together; 0: the default
  std::optional<int64_t> tokensPerBatch;
  std::optional<int64_t> trim; ///< to a multiple of it
  std::string complexity;
  std::optional<int64_t> balance; ///< batches of about equal work that follow each other
  int64_t rank = 0, world = 1;
  // Processes that train together.
  int64_t ranks = 0;       ///< that this one starts; 0: none
  int64_t gpus = 0;        ///< the same, each with a GPU
  int64_t localRank = -1;  ///< on this machine, which says the GPU; -1: not known
  std::string reduce;      ///< "nccl": its own sums; "": ours
  std::string coordinator; ///< HOST:PORT
  int64_t maxRestarts = 0, joinTimeout = 60, exchangeTimeout = 120;
  /// Ranks that share a step's micro-batches, and which this one is: set where they have joined.
  int64_t share = 1, ownRank = 0;
  int64_t emulateWorld = 0; ///< ranks that train together in this process; 0: none
  int64_t ranksPerNode = 0; ///< 0: as launcher and hosts say
  int64_t shardWithin = 0;  ///< ranks that share a replica; 0: all
  std::optional<bool> dropTail;

  std::string weights;
  std::optional<double> initStd;
  std::string resume, save;
  bool anyModel = false;
  bool overwrite = false; ///< checkpoints of another run in `save`
  std::optional<int64_t> saveEvery, keep;

  std::string eval;
  std::optional<int64_t> evalEvery;
  std::string metric = "loss"; ///< what of an evaluation is compared
  std::optional<int64_t> keepBest, patience;
  std::optional<double> lr, weightDecay, clipNorm;
  LrSchedule schedule;

  std::string predict, output;
  std::vector<std::string> outputs;
  std::string exportPath, model;
  std::string adapter, mergeAdapter;
  std::string baseName, taskType; ///< of the model that an adapter is for
  std::string dumpGradients;
  std::optional<double> tune; ///< seconds; writes `output`

  bool info = false;             ///< only describe the package
  bool dryRun = false;           ///< end before the first step
  std::string verifyKey;         ///< public key that must have signed it
  bool requireSignature = false; ///< there must be such a key
  LogLevel logLevel = LogLevel::info;
  bool warningsAsErrors = false;
  bool json = false;
  bool allRanksSpeak = false; ///< not only rank 0
  bool memoryStats = false;
  std::string logDir, summary;
  /// Operations a second that the device can make; nothing: it is measured where it is asked for.
  std::optional<double> peakFlops;
  bool measurePeak = false;
  std::optional<int64_t> density; ///< told every so many steps
  bool allowNonfinite = false;
  std::optional<int64_t> threads;
  int64_t device = 0;
  bool synchronous = false;
  std::string profile;
  bool checkNumerics = false;
  bool variants = true; ///< may take the place of functions

  /// Whether the share of the device's peak is told.
  bool tellsPeakShare() const {
    return peakFlops || measurePeak || !logDir.empty() || !summary.empty();
  }
  /// Of a step, on all ranks together.
  int64_t microBatches() const { return accumulate * allRanks(); }
  int64_t allRanks() const { return std::max<int64_t>(emulateWorld, share); }
  /// Batches of about equal work that follow each other: those of a step, where ranks wait for the
  /// one that has most.
  int64_t together() const {
    return balance.value_or(share > 1 || emulateWorld ? microBatches() : 1);
  }
  /// Whether this process does to folders what is done once for all ranks.
  bool speaks() const { return ownRank == 0; }
  bool exportsOnnx() const { return exportPath.ends_with(".onnx"); }
  /// A folder of PEFT: one that is there, or a path that ends in "/" or has no ".".
  bool exportsAdapter() const;
};

/// Either options, or text to print and the code to exit with (0: help or version on standard
/// output, 2: a usage error on standard error).
struct ParsedOptions {
  std::optional<Options> options;
  std::string text;
  int exitCode = 0;
};

/// `arguments` without the program's name.
ParsedOptions parseOptions(std::vector<std::string> arguments);

} // namespace trainrt::run

#endif // TRAINRT_CLI_OPTIONS_H
