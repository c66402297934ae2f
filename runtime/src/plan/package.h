// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An opened package: zip, manifest and program, verified against each other. Immutable, so sessions
// of several threads share one. Its native code is loaded with the first session, not before: what
// a package says of itself can be read without running anything of it.
#ifndef TRAINRT_PLAN_PACKAGE_H
#define TRAINRT_PLAN_PACKAGE_H

#include "format/manifest.h"
#include "format/program.h"
#include "format/zip.h"
#include "plan/externals.h"
#include "plan/kernels.h"
#include "plan/tuning.h"

#include <memory>
#include <mutex>
#include <string>

namespace trainrt {

class Package {
public:
  /// Errors are BadPackage and name path, entry and field; NotFound or IoError for the file itself.
  /// `key`: a public key that must have signed it (format/signature.h), which is checked before
  /// anything in it is read; "": anybody may have made it.
  static Status open(const std::string &path, std::shared_ptr<const Package> &package,
                     const std::string &key = {});

  const std::string &path() const { return name; }
  const std::string &manifestText() const { return text; }
  const Manifest &manifest() const { return description; }
  const Program &program() const { return code; }
  /// Loads the kernels of the CPU, once; null if the program has none. BadPackage names the entry.
  Status kernels(std::shared_ptr<const KernelLibrary> &result) const;
  /// The same of the functions of plug-ins.
  Status externals(std::shared_ptr<const ExternalFunctions> &result) const;
  /// "cpu:x86-64-v3": what is in use; "cuda:sm_90": what it was compiled for.
  const std::string &target() const { return targetName; }
  const ZipReader &zip() const { return archive; }
  /// What a tuned package chooses, by the machine that it was tuned on.
  const Tuning &tuning() const { return choices; }

  /// The manifest's entry of parameter `index` of the program.
  const Manifest::Tensor &parameter(size_t index) const {
    return description.parameters[parameterEntry[index]];
  }
  /// Whether steps may write to parameter `index` of the program.
  bool isWritten(size_t index) const {
    return parameter(index).trainable || parameter(index).updated;
  }
  const Manifest::Tensor &input(size_t index) const {
    return description.inputs[inputEntry[index]];
  }
  const Manifest::Tensor &state(size_t index) const { return description.state[stateEntry[index]]; }
  /// Index of the loss in Program::outputs; -1 without one.
  int32_t lossOutput() const { return loss; }
  /// The same of the norm of a step's gradients.
  int32_t gradNormOutput() const { return gradNorm; }
  /// Index of the denominator of the loss in Program::outputs; -1 without one.
  int32_t lossWeightOutput() const { return weight; }
  /// Index of `nonfinite` in Program::state; -1 without one.
  int32_t nonfiniteState() const { return nonfinite; }
  /// Index of the batch symbol; -1 without one.
  int32_t batchSymbol() const { return batch; }

  const Function *step() const { return code.function("step"); }
  /// For a step that only other ranks have a batch for; null where ranks make none in one function.
  const Function *absentStep() const { return code.function("absent_step"); }
  const Function *micro() const { return code.function("micro"); }
  /// For a micro-batch that only other ranks have; null where micro-batches exchange nothing.
  const Function *absent() const { return code.function("absent"); }
  const Function *update() const { return code.function("update"); }
  const Function *init() const { return code.function("init"); }
  /// Makes what is kept beside the parameters (Program::derived); null where nothing is.
  const Function *derive() const { return code.function("derive"); }
  const Function *eval() const { return code.function("eval"); }
  /// Computes the denominator of the loss, alone; null where rows are that, or the loss is no mean.
  const Function *lossWeight() const { return code.function("loss_weight"); }

private:
  Status openEntries();
  Status checkEntry(const ZipEntry &entry) const;
  /// Code is loaded only with a checksum.
  Status requireChecksum(const std::string &entry) const;
  Status chooseKernels();
  Status checkExternals() const;
  Status crossCheck();

  std::string name, text, targetName;
  ZipReader archive;
  Manifest description;
  Program code;
  Tuning choices;
  /// Of the CPU's kernels that this machine runs best; null if there are none.
  const ZipEntry *kernelEntry = nullptr;
  mutable std::mutex loading;
  mutable std::shared_ptr<const KernelLibrary> library;          ///< under the mutex
  mutable std::shared_ptr<const ExternalFunctions> externalCode; ///< under the mutex
  std::vector<size_t> parameterEntry, inputEntry, stateEntry;
  int32_t loss = -1, weight = -1, gradNorm = -1, nonfinite = -1, batch = -1;
};

} // namespace trainrt

#endif // TRAINRT_PLAN_PACKAGE_H
