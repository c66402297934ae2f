// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the CUDA device asks of cuBLASLt and cuDNN: calls that are decided once, when a plan is
// made, and only enqueued later, so that they can be captured into a graph. Neither library is
// linked; both are loaded when a plan first has a command for them.
#ifndef TRAINRT_DEVICE_CUDA_LIBRARIES_H
#define TRAINRT_DEVICE_CUDA_LIBRARIES_H

#include "format/attention_band.h"
#include "format/dtype.h"
#include "format/memory/workspace_bounds.h"
#include "format/program.h"
#include "format/status.h"
#include "plan/tuning.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace trainrt::cuda {

/// A CUstream, which is also a cudaStream_t.
using StreamHandle = void *;
/// A CUdeviceptr.
using DeviceAddress = uint64_t;

/// C[batch..., m, n] = alpha * A[batch..., m, k] * B[batch..., k, n] + beta * C, then the epilogue
/// (table Gemm in program.fbs); sums in f32 (f64 for f64). All strides are in elements of `dtype`,
/// any of them may be 0, 1 or anything else, and an extent of 1 makes its stride meaningless. k may
/// be 0 (C = beta * C); m, n and batch are not.
struct GemmCall {
  DType dtype = DType::F32; ///< of A and B: f32, f64, f16, bf16
  bool tf32 = false;        ///< f32 only: operands may be rounded to TF32
  DType resultType =
      DType::F32; ///< of C: `dtype`, or f32 where that has 16 bits, without an epilogue
  int64_t m = 0, n = 0, k = 0;
  int64_t aM = 0, aK = 0, bK = 0, bN = 0, cM = 0, cN = 0;
  /// Extents, and the strides of each operand. One length, at most 16.
  std::vector<int64_t> batch, aBatch, bBatch, cBatch;
  float alpha = 1, beta = 0;
  /// Where the operands will be. Equal to those of `enqueue` as far as alignment goes: it may
  /// decide the algorithm. (Buffers begin at multiples of 256, so that is a function of shapes
  /// only.)
  DeviceAddress a = 0, b = 0, c = 0, bias = 0, aux = 0;
  GemmEpilogue epilogue = GemmEpilogue::None;
  bool operator==(const GemmCall &) const = default;
};

/// Addresses of a GemmCall's operands; bias and aux are 0 where its epilogue has none.
struct GemmOperands {
  DeviceAddress a = 0, b = 0, c = 0, bias = 0, aux = 0;
};

/// See the table Attention in program.fbs.
struct AttentionCall {
  bool backward = false;
  DType dtype = DType::BF16;
  int64_t batch = 0, heads = 0, kvHeads = 0, queryRows = 0, keyRows = 0, keyColumns = 0,
          valueColumns = 0;
  /// Strides in elements of batch, head, row. The d* ones are those of the gradients (backward).
  int64_t q[3] = {}, k[3] = {}, v[3] = {}, o[3] = {}, dO[3] = {}, dQ[3] = {}, dK[3] = {},
          dV[3] = {};
  /// Of batch, head, row of q, row of k; 0 where it is repeated.
  int64_t bias[4] = {};
  bool hasBias = false;
  DType biasDtype = DType::F32;
  /// Backward: the gradient of the bias is wanted, row major, of its type and size.
  bool biasGradient = false;
  float scale = 1, dropout = 0;
  /// `band`: of as many rows as columns; `causal` is besides.
  bool causal = false;
  AttentionBand band;
  /// Not 0: the batch is 1, and the rows (as many of q as of k) are these segments, of at most
  /// `longest` rows, and a rest.
  int64_t segments = 0, longest = 0;
  /// Of segments: how many heads the statistics have, if those of the call are some of them.
  int64_t statsHeads = 0;
  bool operator==(const AttentionCall &) const = default;
};

inline AttentionSizes sizesOf(const AttentionCall &call) {
  const bool segmented = call.segments != 0;
  return {segmented ? call.segments : call.batch,
          call.heads,
          call.kvHeads,
          segmented ? call.longest : call.queryRows,
          segmented ? call.longest : call.keyRows,
          call.keyColumns,
          call.valueColumns,
          call.backward,
          segmented,
          call.dropout > 0,
          call.biasGradient};
}

/// Addresses of an AttentionCall's operands; 0 where it has none. `stats`, `seed` and `segments`
/// (the offsets) as in program.fbs.
struct AttentionOperands {
  DeviceAddress q = 0, k = 0, v = 0, o = 0, stats = 0, bias = 0, seed = 0;
  DeviceAddress dO = 0, dQ = 0, dK = 0, dV = 0, segments = 0, dBias = 0;
};

/// See the table Convolution in program.fbs: the operands are row major.
struct ConvolutionCall {
  Convolution::Kind kind = Convolution::Kind::Forward;
  DType dtype = DType::F32;
  bool tf32 = false; ///< f32 only: operands may be rounded to TF32
  int64_t batch = 0, channels = 0, filters = 0, groups = 1;
  /// One to three axes; of those that are not there all is 0.
  size_t axes = 0;
  int64_t positions[3] = {}, taps[3] = {}, windows[3] = {}, strides[3] = {}, dilations[3] = {},
          pads[3] = {};
  bool operator==(const ConvolutionCall &) const = default;
};

/// Addresses of a ConvolutionCall's operands.
struct ConvolutionOperands {
  DeviceAddress input = 0, filter = 0, output = 0;
};

/// Device memory for the length of one call, undefined before and after. 256-byte aligned.
struct Workspace {
  DeviceAddress address = 0;
  uint64_t bytes = 0;
};

// In all of these the device's primary context is current on the calling thread, which is the one
// whose memory the addresses are of. Errors: DeviceError for the library itself (absent: what was
// looked for and where; a status of its own: the name of that status), Unsupported for a call that
// it cannot do (with the shapes, and what to compile differently).

/// A call with everything decided but its operands' addresses.
template <typename Operands> class LibraryPlan {
public:
  virtual ~LibraryPlan() = default;
  virtual uint64_t workspaceBytes() const = 0;
  /// Only enqueues work on `stream`; may be captured.
  virtual Status enqueue(StreamHandle stream, const Operands &operands,
                         Workspace workspace) const = 0;
};

class GemmPlan : public LibraryPlan<GemmOperands> {
public:
  /// What decides the algorithm, and which one it is. One line each; "" where none is needed.
  virtual std::string key() const = 0;
  virtual std::string algorithm() const = 0;
};

using AttentionPlan = LibraryPlan<AttentionOperands>;

class ConvolutionPlan : public LibraryPlan<ConvolutionOperands> {
public:
  /// What decides the algorithm, one line.
  virtual std::string key() const = 0;
};

/// cuBLASLt.
class Blas {
public:
  /// Defined in blas.cpp.
  static Status load(std::unique_ptr<Blas> &blas);
  virtual ~Blas() = default;
  /// Several threads may call it at once. The result depends on nothing but `call` and the device;
  /// equal calls may share a plan.
  virtual Status prepare(const GemmCall &call, std::shared_ptr<const GemmPlan> &plan) = 0;

  /// Up to `count` plans with different algorithms, that of `prepare` first. None if the call needs
  /// none.
  virtual Status alternatives(const GemmCall &call, size_t count,
                              std::vector<std::shared_ptr<const GemmPlan>> &plans) = 0;
  /// The kind of machine that choices are valid for: this library, this device.
  virtual std::string machine() const = 0;
  /// What `prepare` uses from now on: algorithms by key. BadData if one is damaged.
  virtual Status choose(const Choices &choices) = 0;
};

/// cuDNN.
class Dnn {
public:
  /// Defined in dnn.cpp.
  static Status load(std::unique_ptr<Dnn> &dnn);
  virtual ~Dnn() = default;
  /// Several threads may call it at once (it may serialize them). The result depends on nothing but
  /// `call` and the device; equal calls may share a plan.
  virtual Status prepare(const AttentionCall &call, std::shared_ptr<const AttentionPlan> &plan) = 0;
  virtual Status prepare(const ConvolutionCall &call,
                         std::shared_ptr<const ConvolutionPlan> &plan) = 0;

  /// A plan, and the name of its algorithm, one line.
  struct Algorithm {
    std::string name;
    std::shared_ptr<const ConvolutionPlan> plan;
  };
  /// Up to `count` of different algorithms, that of `prepare` first.
  virtual Status alternatives(const ConvolutionCall &call, size_t count,
                              std::vector<Algorithm> &found) = 0;
  /// The kind of machine that choices are valid for: this library, this device.
  virtual std::string machine() const = 0;
  /// What `prepare` uses from now on: algorithms by key.
  virtual void choose(const Choices &choices) = 0;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_LIBRARIES_H
