// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command that multiplies matrices.
#ifndef TRAINRT_FORMAT_COMMANDS_GEMM_H
#define TRAINRT_FORMAT_COMMANDS_GEMM_H

#include "format/commands/operand.h"

#include <array>

namespace trainrt {

namespace fb {
struct Gemm;
}

/// See program.fbs.
enum class GemmEpilogue : uint8_t { None, Bias, GeluAux, GeluAuxBias, DGelu, DGeluBGrad };

inline bool hasBias(GemmEpilogue epilogue) {
  return epilogue == GemmEpilogue::Bias || epilogue == GemmEpilogue::GeluAuxBias ||
         epilogue == GemmEpilogue::DGeluBGrad;
}
inline bool hasAux(GemmEpilogue epilogue) {
  return epilogue != GemmEpilogue::None && epilogue != GemmEpilogue::Bias;
}

/// See program.fbs.
struct Gemm {
  static constexpr const char *kindName = "gemm";
  enum OperandNumber { A, B, C, Bias, Aux };
  static constexpr std::array operandNames = {"a", "b", "c", "bias", "aux"};
  static constexpr std::array sizeNames = {"m",   "n",   "k",   "a_m", "a_k",
                                           "b_k", "b_n", "c_m", "c_n", "batch"};

  DType dtype = DType::F32, resultType = DType::F32;
  bool tf32 = false;
  float alpha = 1, beta = 0;
  GemmEpilogue epilogue = GemmEpilogue::None;

  Status read(const fb::Gemm &from, const CommandCheck &check);
  Status checkPlaces(const PlaceCheck &check) const;
  std::string describe(const Program &, const StepView &) const { return "a matmul"; }
  std::string name(const Program &program, const StepView &step) const;
  int64_t bytes(const StepView &step) const;
  /// Of the products and their sums; epilogues are not counted.
  int64_t flops(const StepView &step) const;
  CommandClass commandClass(const StepView &) const { return CommandClass::Matmul; }
  /// Batch, m, n, k, and which factors lie with m or k, k or n together.
  CommandShape shape(const StepView &step) const;
  void results(const Program &program, const StepView &step, std::vector<Region> &regions) const;
};

struct GemmView : StepView {
  GemmView(const StepView &step, const Gemm &op) : StepView(step), op(op) {}
  const Gemm &op;

  int64_t m() const { return sizes[0]; }
  int64_t n() const { return sizes[1]; }
  int64_t k() const { return sizes[2]; }
  /// In elements.
  int64_t aM() const { return sizes[3]; }
  int64_t aK() const { return sizes[4]; }
  int64_t bK() const { return sizes[5]; }
  int64_t bN() const { return sizes[6]; }
  int64_t cM() const { return sizes[7]; }
  int64_t cN() const { return sizes[8]; }
  size_t batchRank() const { return (sizes.size() - numFixed) / 4; }
  std::span<const int64_t> batch() const { return list(0); }
  std::span<const int64_t> aBatch() const { return list(1); }
  std::span<const int64_t> bBatch() const { return list(2); }
  std::span<const int64_t> cBatch() const { return list(3); }
  /// Whether there is no element to compute.
  bool isEmpty() const;

  static constexpr size_t numFixed = 9;

private:
  std::span<const int64_t> list(size_t i) const {
    return sizes.subspan(numFixed + i * batchRank(), batchRank());
  }
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_COMMANDS_GEMM_H
