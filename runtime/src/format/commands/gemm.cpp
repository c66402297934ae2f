// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which operands there are follows from the epilogue and beta.

#include "format/commands/gemm.h"
#include "format/program.h"
#include "program_generated.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace trainrt {

Status Gemm::read(const fb::Gemm &from, const CommandCheck &check) {
  const bool vendor = traitsOf(check.program.target).vendorProducts;
  // The enum has the floating-point types first, bf16 last of them.
  if (from.dtype() > fb::DType::bf16)
    return check.bad(".dtype ", int(from.dtype()), " is none that a matmul has");
  dtype = static_cast<DType>(from.dtype());
  if (!vendor && dtype != DType::F32 && (dtype != DType::BF16 || from.c_dtype() != fb::DType::f32))
    return check.bad(".dtype: the CPU multiplies matrices of f32, or of bf16 into f32");
  if (from.epilogue() > fb::GemmEpilogue::MAX)
    return check.bad(".epilogue ", int(from.epilogue()), " is unknown");
  epilogue = static_cast<GemmEpilogue>(from.epilogue());
  if (epilogue != GemmEpilogue::None && !vendor)
    return check.bad(".epilogue: only matmuls for cuda have one");
  // Sums of 16-bit matmuls may be kept as f32: what accumulates them loses nothing.
  const bool isWide = from.c_dtype() == fb::DType::f32 && sizeOf(dtype) == 2;
  if (from.c_dtype() != from.dtype() && (!isWide || epilogue != GemmEpilogue::None))
    return check.bad(".c_dtype: only plain matmuls of 16-bit types have another, f32");
  resultType = static_cast<DType>(from.c_dtype());
  tf32 = from.tf32();
  alpha = from.alpha();
  beta = from.beta();
  // The bias's gradient is what DGeluBGrad writes; all other epilogues with a bias read it.
  const Access bias = !hasBias(epilogue)                     ? Access::None
                      : epilogue == GemmEpilogue::DGeluBGrad ? Access::Write
                                                             : Access::Read;
  const bool makesAux = epilogue == GemmEpilogue::GeluAux || epilogue == GemmEpilogue::GeluAuxBias;
  const Access aux = !hasAux(epilogue) ? Access::None : makesAux ? Access::Write : Access::Read;
  // beta 0 never reads C: the buffer may be uninitialized then, and its lifetime begins here.
  TRAINRT_TRY(check.expect(operandNames, {{Access::Read},
                                          {Access::Read},
                                          {beta != 0 ? Access::Update : Access::Write},
                                          {bias},
                                          {aux}}));
  const size_t sizes = check.sizes.size();
  // No underflow: fewer sizes than the fixed ones are refused before. 16 is maxBatchRank of the
  // runtime's own kernels.
  if (sizes < GemmView::numFixed || (sizes - GemmView::numFixed) % 4 ||
      (sizes - GemmView::numFixed) / 4 > 16)
    return check.bad(".sizes: ", sizes, " are not those of a matmul with up to 16 batch axes");
  return {};
}

/// k may be 0 in a call that is not empty: C is then beta * C.
bool GemmView::isEmpty() const {
  return m() == 0 || n() == 0 || std::ranges::find(batch(), 0) != batch().end();
}

Status Gemm::checkPlaces(const PlaceCheck &check) const {
  const GemmView view(check.step, *this);
  for (int64_t extent : {view.m(), view.n(), view.k()})
    TRAINRT_TRY(check.notNegative(extent));
  for (int64_t extent : view.batch())
    TRAINRT_TRY(check.notNegative(extent));
  auto covers = [&](size_t operand, int64_t extent0, int64_t stride0, int64_t extent1,
                    int64_t stride1, std::span<const int64_t> strides, DType type) {
    __int128 low = 0, high = 0;
    PlaceCheck::reach(extent0, stride0, low, high);
    PlaceCheck::reach(extent1, stride1, low, high);
    for (size_t i = 0; i < strides.size(); ++i)
      PlaceCheck::reach(view.batch()[i], strides[i], low, high);
    return check.covers(operand, low, high + 1, sizeOf(type));
  };
  const int64_t m = view.m(), n = view.n(), k = view.k();
  // A call that is not made writes no gradient of the bias, which would have to be zeros.
  if (epilogue == GemmEpilogue::DGeluBGrad && view.isEmpty() && n > 0)
    return check.bad(" has no rows to sum a bias's gradient over");
  // With k 0 neither A nor B is read, and may lie anywhere.
  if (!view.isEmpty() && k > 0) {
    TRAINRT_TRY(covers(A, m, view.aM(), k, view.aK(), view.aBatch(), dtype));
    TRAINRT_TRY(covers(B, k, view.bK(), n, view.bN(), view.bBatch(), dtype));
  }
  if (hasBias(epilogue))
    TRAINRT_TRY(check.covers(Bias, 0, n, sizeOf(dtype)));
  if (view.isEmpty())
    return {};
  TRAINRT_TRY(covers(C, m, view.cM(), n, view.cN(), view.cBatch(), resultType));
  return hasAux(epilogue) ? covers(Aux, m, view.cM(), n, view.cN(), view.cBatch(), dtype)
                          : Status();
}

/// Of extents that checkPlaces has accepted.
static int64_t product(std::span<const int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t(1), std::multiplies<>());
}

std::string Gemm::name(const Program &, const StepView &step) const {
  const GemmView view(step, *this);
  std::string text = std::string("gemm ") + nameOf(dtype) + " ";
  if (view.batchRank())
    text += std::to_string(product(view.batch())) + "x";
  return text + std::to_string(view.m()) + "x" + std::to_string(view.n()) + "x" +
         std::to_string(view.k());
}

/// For estimates of time and traffic: each element once, whatever the library reads again.
int64_t Gemm::bytes(const StepView &step) const {
  const GemmView view(step, *this);
  // An operand has no elements of its own along the axes where its stride is 0.
  auto own = [&](std::span<const int64_t> strides) {
    int64_t extents = 1;
    for (size_t i = 0; i < strides.size(); ++i)
      extents *= strides[i] ? view.batch()[i] : 1;
    return extents;
  };
  const int64_t size = int64_t(sizeOf(dtype)), results = view.m() * view.n() * own(view.cBatch());
  return view.m() * view.k() * own(view.aBatch()) * size +
         view.k() * view.n() * own(view.bBatch()) * size +
         results * int64_t(sizeOf(resultType)) * (beta != 0 ? 2 : 1) +
         (hasAux(epilogue) ? results * size : 0) + (hasBias(epilogue) ? view.n() * size : 0);
}

int64_t Gemm::flops(const StepView &step) const {
  const GemmView view(step, *this);
  return 2 * product(view.batch()) * view.m() * view.n() * view.k();
}

CommandShape Gemm::shape(const StepView &step) const {
  const GemmView view(step, *this);
  return {{"batch", product(view.batch())},
          {"m", view.m()},
          {"n", view.n()},
          {"k", view.k()},
          {"a_transposed", view.aK() != 1},
          {"b_transposed", view.bN() != 1},
          {"tf32", tf32}};
}

/// Strides of C also serve the aux, which lies as C does.
void Gemm::results(const Program &, const StepView &step, std::vector<Region> &regions) const {
  const GemmView view(step, *this);
  auto add = [&](size_t operand, DType type) {
    Region region{step.places[operand].buffer, type, step.places[operand].offset, {}, {}};
    region.extents.assign(view.batch().begin(), view.batch().end());
    region.strides.assign(view.cBatch().begin(), view.cBatch().end());
    region.extents.insert(region.extents.end(), {view.m(), view.n()});
    region.strides.insert(region.strides.end(), {view.cM(), view.cN()});
    regions.push_back(std::move(region));
  };
  add(C, resultType);
  if (step.operands[Aux].isWritten())
    add(Aux, dtype);
  if (step.operands[Bias].isWritten())
    regions.push_back({step.places[Bias].buffer, dtype, step.places[Bias].offset, {view.n()}, {1}});
}

} // namespace trainrt
