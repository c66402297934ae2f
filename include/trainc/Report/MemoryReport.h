// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `--report`: the memory of a step, told before anything runs (docs/memory.md).
#ifndef TRAINC_REPORT_MEMORYREPORT_H
#define TRAINC_REPORT_MEMORYREPORT_H

#include "trainc/Report/MemoryModel.h"

namespace trainc {

struct MemoryReport {
  MemoryReport(mlir::ModuleOp module, const PackageInterface &interface, const Target &target,
               int64_t accumulate, int64_t world, bool embedded, int64_t shards = 0)
      : step(module, interface, target, accumulate, embedded, world, shards),
        sizes(module, interface), accumulate(accumulate), world(world), shards(shards),
        link(target.traits.link), batch(interface.batchSymbol) {
    if (world > 1)
      sizes = sizes.with("world", world);
    if (shards)
      sizes = sizes.with("shards", shards);
  }

  std::string model;
  StepMemory step;
  Sizes sizes;
  /// Micro-batches of a rank's step, ranks, and how many of these share a replica of what is in
  /// shards (0: all); the link between them.
  int64_t accumulate, world, shards;
  LinkSpeed link;
  /// Whether there may be several ranks: then the report tells the time, too.
  bool distributed = false;
  /// The share of elements that counts count, in `sizes`.
  double density = 1;
  /// The symbol of the batch; "" where it is fixed.
  std::string batch;
  /// Bytes of the device at hand and its name; 0: it is not known.
  int64_t device = 0;
  std::string deviceName;
  /// The same without recompute, to be compared with; null: none.
  const MemoryReport *baseline = nullptr;
};

/// As text for people.
void printMemoryText(const MemoryReport &report, llvm::raw_ostream &out);
/// As an object of JSON for programs.
void printMemoryJson(const MemoryReport &report, llvm::raw_ostream &out);
/// As a page of HTML that refers to nothing outside.
void printMemoryHtml(const MemoryReport &report, llvm::raw_ostream &out);

/// What has to be given for numbers: "" or "needs a size of batch, ...".
std::string missingSizes(const Sizes &sizes, llvm::StringRef but = "");
/// " --dim NAME=N" for each size that has no number.
std::string dimOptions(const Sizes &sizes);

/// A buffer of the arena at some moment, for tables of them.
struct PeakBuffer {
  const BufferLifetime *life;
  int64_t bytes;
  std::string node; ///< with its element type
  std::string name; ///< of the ONNX node alone; "" if it has none
};
/// Those in use in a command, the largest first.
std::vector<PeakBuffer> buffersAt(const FunctionMemory &function,
                                  const FunctionMemory::Numbers &numbers, int32_t command);

/// What recompute has changed in a function: values that are no longer kept for the backward, by
/// node, the largest first.
std::vector<PeakBuffer> noLongerKept(const FunctionMemory &function, const FunctionMemory &before,
                                     const FunctionMemory::Numbers &numbersBefore);

/// One line for each category of the whole step.
struct MemoryCategory {
  std::string name;
  std::optional<int64_t> bytes;
  std::string formula;
};
std::vector<MemoryCategory> categoriesOf(const MemoryReport &report);

/// Shares of the elements that count, and bytes at the peak of batches that have no more, in the
/// variants that take such batches. Empty where nothing depends on counts, or sizes are missing.
std::vector<std::pair<double, int64_t>> peaksByDensity(const MemoryReport &report);

/// The largest batch that fits into memories of common sizes and into the device's; `batch` is 0
/// where none does. Empty where the batch is fixed, or sizes are missing.
struct LargestBatch {
  std::string name; ///< of the memory
  int64_t memory, batch;
};
std::vector<LargestBatch> largestBatches(const MemoryReport &report);

/// The function of that name in another report; null if it has none.
const FunctionMemory *findFunction(const StepMemory &step, llvm::StringRef name);

} // namespace trainc

#endif // TRAINC_REPORT_MEMORYREPORT_H
