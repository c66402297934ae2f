// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A package small enough to be written by hand: pred = x . w + table[id], mean squared error, SGD
// with momentum 0.5. It has every function, space and kind of command, so the runtime is tested
// without the compiler.
#ifndef TRAINRT_TEST_TINY_PACKAGE_H
#define TRAINRT_TEST_TINY_PACKAGE_H

#include "session/session.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainrt::fb {
struct ProgramT;
}

namespace trainrt::test {

/// A second symbol, "labelled": how many of the ids are not -100. "step", "micro" and "eval" have
/// 1024 bytes of activations for each.
struct TinyCount {
  int64_t min = 8, max = INT64_MAX, divisor = 8, differs = -100;
  int32_t input = 1, axis = -1;
  bool inInput = false, inOutput = false, inRule = false; ///< where no count may be
};

/// Variants "step.packed" and "micro.packed", which do the same.
struct TinyVariant {
  std::vector<Condition> conditions; ///< input 0 is x [batch, 3], 1 id [batch], 2 y [batch]
  /// Of the functions and of the variants, a row of the batch; none if negative.
  int64_t baseFlops = 100, flops = 50;
  int64_t flopsOfCount = 0; ///< for each of "labelled", of both
  std::string of = "step";  ///< what "step.packed" is a variant of
  bool otherOutputs = false, otherState = false;
};

/// A parameter that no function uses.
struct TinyParameter {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::string fields; ///< of its entry in the manifest, beside these: ", \"trainable\": false"
};

/// What a test wants different. Defaults make a good package.
struct TinyOptions {
  int formatMajor = 1;
  uint32_t programMajor = 3;
  std::string weightsFile = "weights.raw"; ///< beside the package, holds w and table
  bool embedded = false;
  bool absent = false;
  bool cuda = false;                                      ///< for a GPU, see cuda/fake_driver.h
  std::string cudaKernels = "kernels/cuda-sm_90-0.cubin"; ///< the entry's name
  std::string cpuKernels = "kernels/cpu-x86-64.so";
  bool missingKernel = false; ///< the shared object lacks one
  bool inference = false;     ///< with "eval" alone
  bool valueRule = true;      ///< without it the kernel itself meets bad ids
  uint32_t forwardKernel = 0;
  int32_t lastUse = 3;       ///< of `pred`'s gradient in "step"
  uint8_t gemmEpilogue = 0;  ///< of matmuls
  bool cudaVariants = false; ///< other kernels for "forward" and "update"
  bool cudaGemm = false;     ///< a matmul for the GPU, too: needs a cuBLASLt
  /// In "step" the gradient of `pred` is on the host while other things take all of the arena.
  bool offload = false;
  bool offloadInKernel = false; ///< and a kernel reads it there
  /// Where the forward and the backward of "step" end.
  std::optional<std::pair<int32_t, int32_t>> phases;
  std::optional<TinyCount> count;
  std::vector<TinyParameter> extra;
  /// Written beside the package and listed in it, for parameters that refer to it.
  std::vector<std::pair<std::string, std::vector<unsigned char>>> extraFiles;
  std::optional<TinyVariant> variant;
  std::vector<std::pair<std::string, std::vector<unsigned char>>> entries; ///< more of them
  std::function<void(std::string &manifest)> editManifest; ///< before its checksum is made
  std::function<void(fb::ProgramT &program)> editProgram;
};

/// The tiny package for several ranks: its update begins with the exchange of its gradient.
TinyOptions distributedTiny();
/// The same, but the exchange is in `micro` (and in `absent`), where one command beside it and two
/// that need it follow; without `needed` the update alone needs it.
TinyOptions overlappingTiny(bool needed = true);

/// The same, and `step` has the exchange, behind the verdict of all ranks; `absent_step` is there
/// for ranks without a batch.
TinyOptions togetherTiny();

/// A folder that is removed at the end of the test.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string operator/(const std::string &name) const { return path + "/" + name; }
  const std::string path;
};

/// The entry "program.fb".
std::vector<unsigned char> makeTinyProgram(const TinyOptions &options = {});

/// Writes PATH (and the weights' file beside it).
void writeTinyPackage(const std::string &path, const TinyOptions &options = {});

/// Puts the checksum into a manifest whose "manifest" checksum is 16 zeros.
void sealManifest(std::string &manifest);

std::vector<unsigned char> readBytes(const std::string &path);
void writeBytes(const std::string &path, const std::vector<unsigned char> &bytes);

/// A batch of the tiny model; keeps the arrays.
struct TinyBatch {
  explicit TinyBatch(int64_t rows, unsigned seed = 1);
  Batch batch() const;
  int64_t rows;
  std::vector<float> x, y;
  std::vector<int64_t> id;
};

/// The initial values of w and table.
inline constexpr float initialW[3] = {0.5f, -1.0f, 2.0f};
inline constexpr float table[4] = {0.0f, 0.25f, -0.5f, 1.0f};

} // namespace trainrt::test

#endif // TRAINRT_TEST_TINY_PACKAGE_H
