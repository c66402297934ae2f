// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions and their gradients: verifier, axis maps, gradients, cost.

#include "dialects/Train/Convolution/Convolution.h"
#include "dialects/Train/Diagnostics/Notes.h"

using namespace mlir;
using namespace trainc::train;

#include "dialects/Train/TrainConvolutionInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Train/TrainConvolution.cpp.inc"

SmallVector<int64_t> trainc::train::channelsLast(int64_t rank) {
  SmallVector<int64_t> permutation = {0};
  llvm::append_range(permutation, llvm::seq<int64_t>(2, rank));
  permutation.push_back(1);
  return permutation;
}

SmallVector<int64_t> trainc::train::channelsFirst(int64_t rank) {
  SmallVector<int64_t> permutation = {0, rank - 1};
  llvm::append_range(permutation, llvm::seq<int64_t>(1, rank - 1));
  return permutation;
}

SmallVector<Sliding> trainc::train::getSlidings(ConvolutionOpInterface op) {
  SmallVector<Sliding> slidings;
  for (int64_t i = 0; i < getRank(op.getInput()) - 2; ++i) {
    Sliding &s = slidings.emplace_back();
    s.taps = *getDim(op.getFilter(), 1 + i).getConstant();
    s.stride = op.getStrides()[i];
    s.dilation = op.getDilations()[i];
    s.size = getDim(op.getInput(), 1 + i);
    s.count = getDim(op.getOutput(), 1 + i);
    s.low = op.getLow().getDims()[i];
    s.high = op.getHigh().getDims()[i];
  }
  return slidings;
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

/// Ranks, element types, and one number an axis in each list.
static LogicalResult verifyLists(ConvolutionOpInterface op) {
  int64_t rank = getRank(op.getInput());
  if (rank < 3 || getRank(op.getFilter()) != rank || getRank(op.getOutput()) != rank)
    return op->emitOpError("expected input, filter and output of one rank of at least 3, got ")
           << rank << ", " << getRank(op.getFilter()) << " and " << getRank(op.getOutput());
  for (Value value : {op.getFilter(), op.getOutput()})
    if (getElementType(value) != getElementType(op.getInput()))
      return op->emitOpError("expected input, filter and output of one element type, got ")
             << getElementType(op.getInput()) << " and " << getElementType(value);
  size_t axes = rank - 2;
  for (size_t count : {op.getStrides().size(), op.getDilations().size(),
                       op.getLow().getDims().size(), op.getHigh().getDims().size()})
    if (count != axes)
      return op->emitOpError("expected strides, dilations, low and high for ")
             << axes << " axes, got " << count;
  for (int64_t step : llvm::concat<const int64_t>(op.getStrides(), op.getDilations()))
    if (step < 1)
      return op->emitOpError("expected strides and dilations of at least 1, got ") << step;
  return success();
}

LogicalResult trainc::train::detail::verifyConvolution(ConvolutionOpInterface op) {
  if (failed(verifyLists(op)))
    return failure();
  SmallVector<DimAttr> input = getDims(op.getInput()), filter = getDims(op.getFilter()),
                       output = getDims(op.getOutput());
  if (input.front() != output.front())
    return op->emitOpError("expected one batch, got ")
           << input.front().str() << " and " << output.front().str();
  if (filter.front() != output.back())
    return op->emitOpError("expected an output of as many channels as there are filters, ")
           << filter.front().str() << ", got " << output.back().str();
  if (int64_t(op.getGroups()) < 1)
    return op->emitOpError("expected a group at least, got ") << int64_t(op.getGroups());
  DimAttr groups = DimAttr::constant(op->getContext(), int64_t(op.getGroups()));
  if (filter.back() * groups != input.back() || !divideExactly(filter.front(), groups))
    return op->emitOpError("expected ")
           << groups.str() << " groups of " << filter.back().str()
           << " channels that divide the filters, got " << input.back().str() << " channels and "
           << filter.front().str() << " filters";
  for (DimAttr taps : ArrayRef<DimAttr>(filter).drop_front().drop_back())
    if (taps.getConstant().value_or(0) < 1)
      return op->emitOpError("expected a constant number of taps, at least 1, got ") << taps.str();
  for (const Sliding &s : getSlidings(op)) {
    std::optional<int64_t> room = (s.size + s.low + s.high).getConstant(),
                           count = s.count.getConstant();
    if (!room || !count)
      continue;
    int64_t end = (*count - 1) * s.stride + s.reach();
    if (*count > 0 && end > *room)
      return op->emitOpError("expected windows within the ")
             << *room << " positions of an axis and what surrounds it, got " << *count
             << " windows that end at " << end;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Axis maps and cost
//===----------------------------------------------------------------------===//

AxisMap trainc::train::detail::convolutionAxisMap(ConvolutionOpInterface op) {
  AxisMap map;
  auto loop = [&](LoopKind kind) {
    map.loops.push_back(kind);
    return int(map.loops.size()) - 1;
  };
  // What the result does not run along is summed over.
  auto loopBeside = [&](Value value) {
    return loop(value == op->getResult(0) ? LoopKind::Reduction : LoopKind::Parallel);
  };
  int batch = loopBeside(op.getFilter());
  SmallVector<int> input = {batch}, filter, output = {batch};
  for (const Sliding &s : getSlidings(op)) {
    // Each window is a position of its own.
    bool isPoint = s.taps == 1 && s.stride == 1 && s.low.isConstant(0) && s.size == s.count;
    int position = isPoint ? loopBeside(op.getFilter()) : loop(LoopKind::Opaque);
    input.push_back(position);
    output.push_back(position);
    filter.push_back(loop(LoopKind::Opaque));
  }
  // Of groups, neither channels nor filters can be cut without cutting the others.
  bool isGrouped = op.getGroups() != 1;
  int filters = isGrouped ? loop(LoopKind::Opaque) : loopBeside(op.getInput());
  output.push_back(filters);
  filter.insert(filter.begin(), filters);
  int channels = isGrouped ? loop(LoopKind::Opaque) : loopBeside(op.getOutput());
  input.push_back(channels);
  filter.push_back(isGrouped ? loop(LoopKind::Opaque) : channels);
  Value result = op->getResult(0);
  // Operands in the order of all three ops; they may be the same value.
  if (result == op.getInput())
    map.operands = {output, filter}, map.results = {input};
  else if (result == op.getFilter())
    map.operands = {input, output}, map.results = {filter};
  else
    map.operands = {input, filter}, map.results = {output};
  return map;
}

DimAttr trainc::train::detail::convolutionFlops(ConvolutionOpInterface op) {
  SmallVector<DimAttr> filter = getDims(op.getFilter());
  return DimAttr::constant(op->getContext(), 2) * getNumElements(op.getOutput().getType()) *
         product(op->getContext(), ArrayRef<DimAttr>(filter).drop_front());
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// Another one of the three, with the attributes of `op`.
template <typename Op>
static Value buildSibling(TrainBuilder &tb, ConvolutionOpInterface op, Value like, Value first,
                          Value second) {
  return Op::create(tb.b(), tb.loc(), like.getType(), first, second, op.getStrides(),
                    op.getDilations(), op.getLow(), op.getHigh(), op.getGroups());
}

void ConvOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                      MutableArrayRef<Value> gradients) {
  Value g = cotangents[0];
  if (needed[1])
    gradients[1] = buildSibling<ConvFilterGradOp>(tb, *this, getFilter(), getInput(), g);
  if (needed[0])
    gradients[0] = buildSibling<ConvDataGradOp>(tb, *this, getInput(), g, getFilter());
}

void ConvDataGradOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                              MutableArrayRef<Value> gradients) {
  Value g = cotangents[0];
  if (needed[1])
    gradients[1] = buildSibling<ConvFilterGradOp>(tb, *this, getFilter(), g, getOutput());
  if (needed[0])
    gradients[0] = buildSibling<ConvOp>(tb, *this, getOutput(), g, getFilter());
}

void ConvFilterGradOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                                MutableArrayRef<Value> gradients) {
  Value g = cotangents[0];
  if (needed[0])
    gradients[0] = buildSibling<ConvDataGradOp>(tb, *this, getInput(), getOutput(), g);
  if (needed[1])
    gradients[1] = buildSibling<ConvOp>(tb, *this, getOutput(), getInput(), g);
}
