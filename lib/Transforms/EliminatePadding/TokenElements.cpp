// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements are looked at backwards, once for each value and set of labels.

#include "lib/Transforms/EliminatePadding/TokenElements.h"

#include "dialects/Train/TrainDetail.h"
#include "lib/Transforms/Support/RestrictLoops.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// Axes of size 1.
constexpr int kNone = -1;
/// The sample and the position of the token.
constexpr int kSample = 0, kToken = 1;
} // namespace

/// The range of elements of `value` at tokens: those of the token itself (`row` none), or with the
/// token's own position in another axis. Over all ranges that the mask may hold at a token; none
/// where the axes cannot be followed.
std::optional<Range> TokenElements::get(Value value, const TokenAxes &axes,
                                        std::optional<int64_t> row) {
  SmallVector<DimAttr> dims = getDims(value);
  DimAttr samples = getDim(mask.input, 0), positions = getDim(mask.input, 1);
  std::optional<Range> all;
  // A mask of two ranges (below and above padding's number) is looked at twice, so that each look
  // has one.
  for (const Range &held : mask.tokens) {
    token = held;
    known.clear();
    bases.clear();
    baseRanges.clear();
    merged.clear();
    numLabels = kToken + 1;
    Labels labels;
    // Every axis gets a coordinate of its own; equal labels mean equal coordinates.
    for (size_t axis = 0; axis < dims.size(); ++axis)
      labels.push_back(dims[axis].isConstant(1) ? kNone : numLabels++);
    if (axes.size() == 2) {
      labels[axes[1]] = kToken;
      if (dims[axes[0]] == samples) {
        labels[axes[0]] = kSample;
      } else {
        // Heads or the like beside the samples.
        DimAttr several = divideExactly(dims[axes[0]], samples);
        if (!several)
          return std::nullopt;
        labels[axes[0]] = merge({kSample, numLabels++}, {samples, several});
      }
    } else {
      DimAttr several = divideExactly(dims[axes[0]], samples * positions);
      if (!several)
        return std::nullopt;
      labels[axes[0]] = several.isConstant(1)
                            ? merge({kSample, kToken}, {samples, positions})
                            : merge({kSample, kToken, numLabels++}, {samples, positions, several});
    }
    if (row)
      labels[*row] = kToken;
    Range range = rangeOf(visit(value, labels));
    all = all ? all->unite(range) : range;
  }
  return all;
}

/// For any element of the value, wherever it is.
Range TokenElements::contentOf(Value value) const {
  auto it = contents.find(value);
  return it == contents.end() ? Content::ofType(getElementType(value)).usual : it->second.usual;
}

/// A base stands for one number that is the same wherever the same value is read at the same
/// labels; offsets are exact beside it.
Range TokenElements::rangeOf(const Element &element) const {
  if (element.base < 0)
    return element.offset;
  Range base = baseRanges[element.base];
  if (element.offset.isNumber(0))
    return base;
  // Integers only have offsets.
  // Clamped: unbounded plus anything stays unbounded, and NaN never comes of it.
  auto sum = [](double a, double b) {
    return std::clamp(a + b, -Range::kUnbounded, Range::kUnbounded);
  };
  return {sum(base.lo, element.offset.lo), sum(base.hi, element.offset.hi)};
}

/// An element that nothing more is known of than its range. The same element for the same value and
/// labels: differences of both are 0.
TokenElements::Element TokenElements::opaque(Value value, const Labels &labels,
                                             const Range &range) {
  auto [it, isNew] =
      bases.try_emplace({value.getAsOpaquePointer(), {labels.begin(), labels.end()}}, 0);
  if (isNew) {
    it->second = int(baseRanges.size());
    baseRanges.push_back(range);
  }
  return {it->second, Range::number(0)};
}

/// Memoized: graphs share values, and each is asked for once for each set of labels.
TokenElements::Element TokenElements::visit(Value value, const Labels &labels) {
  std::pair<void *, std::vector<int>> key{value.getAsOpaquePointer(),
                                          {labels.begin(), labels.end()}};
  if (auto it = known.find(key); it != known.end())
    return it->second;
  Element element = compute(value, labels);
  return known[key] = element;
}

TokenElements::Element TokenElements::compute(Value value, const Labels &labels) {
  if (value == mask.input && labels == Labels{kSample, kToken})
    return token.isNumber() ? Element{-1, token} : opaque(value, labels, token);
  if (mask.beside && value == mask.beside && labels == Labels{kSample, kToken})
    return {-1, Range::number(1)};
  if (std::optional<Element> element = computeAffine(value, labels))
    return *element;
  Operation *op = value.getDefiningOp();
  if (!op)
    return opaque(value, labels, contentOf(value));
  if (std::optional<Element> element = computeConstant(value, labels))
    return *element;
  if (isa<PointwiseOpInterface>(op))
    return computePointwise(op, labels);
  if (isView(op))
    return visit(op->getOperand(0), throughReshape(op->getOperand(0), value, labels));
  if (std::optional<Labels> moved = throughMove(op, labels))
    return visit(op->getOperand(0), *moved);
  return opaque(value, labels, contentOf(value));
}

/// Coordinates that have the same label cancel.
std::optional<TokenElements::Element> TokenElements::computeAffine(Value value,
                                                                   const Labels &labels) {
  std::optional<AffineInteger> integer = affine.get(value);
  std::optional<int64_t> constant = integer ? integer->constant.getConstant() : std::nullopt;
  if (!constant)
    return std::nullopt;
  // The sum over axes with one label is one coordinate times the sum of their factors.
  llvm::MapVector<int, DimAttr> factors;
  for (auto [label, factor] : llvm::zip_equal(labels, integer->factors)) {
    if (label == kNone || factor.isConstant(0))
      continue;
    auto [it, isNew] = factors.insert({label, factor});
    if (!isNew)
      it->second = it->second + factor;
  }
  factors.remove_if([](const auto &entry) { return entry.second.isConstant(0); });
  Range offset = Range::number(double(*constant));
  if (factors.empty())
    return Element{-1, offset};
  // More than one coordinate, or a multiple of one, is no base that others could share.
  if (factors.size() > 1 || !factors.front().second.isConstant(1))
    return std::nullopt;
  // The coordinate itself.
  Element coordinate = opaque(Value(), {factors.front().first}, {0, Range::kUnbounded});
  return Element{coordinate.base, offset};
}

/// Of a constant the elements whose coordinates agree with the labels.
/// Small constants (tables of masks) are looked at element by element; splats have a range of their
/// own.
std::optional<TokenElements::Element> TokenElements::computeConstant(Value value,
                                                                     const Labels &labels) {
  DenseIntElementsAttr integers;
  if (!matchPattern(value, m_Constant(&integers)) || integers.isSplat())
    return std::nullopt;
  ArrayRef<int64_t> shape = integers.getType().getShape();
  SmallVector<int64_t> index(shape.size(), 0);
  bool isBool = getElementType(value).isInteger(1);
  std::optional<Range> all;
  for (const APInt &element : integers) {
    bool agrees = true;
    // Axes with equal labels are read on the diagonal only.
    for (size_t i = 0; i < labels.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        agrees &= labels[i] == kNone || labels[i] != labels[j] || index[i] == index[j];
    if (agrees) {
      Range number =
          Range::number(isBool ? double(element.getBoolValue()) : double(element.getSExtValue()));
      all = all ? all->unite(number) : number;
    }
    // Counts up the index as the elements come, last axis first.
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];)
      index[axis] = 0;
  }
  if (!all)
    return std::nullopt;
  return all->isNumber() ? Element{-1, *all} : opaque(value, labels, *all);
}

/// Keeps a base where the op passes one operand's number on and the other has none; where both have
/// the same base, their difference is exact.
TokenElements::Element TokenElements::computePointwise(Operation *op, const Labels &labels) {
  SmallVector<Element> elements;
  SmallVector<Range> ranges;
  for (Value operand : op->getOperands()) {
    elements.push_back(visit(operand, getRank(operand) == 0 ? Labels() : labels));
    ranges.push_back(rangeOf(elements.back()));
  }
  auto known = dyn_cast<RangeOpInterface>(op);
  if (known && elements.size() == 2 && elements[0].base >= 0 &&
      elements[0].base == elements[1].base && known.cancelsTerm()) {
    Range difference = inferRange(op, 0, {elements[0].offset, elements[1].offset});
    return {-1, difference};
  }
  for (auto [i, element] : llvm::enumerate(elements)) {
    bool alone = llvm::all_of(llvm::enumerate(elements), [&](auto other) {
      return other.index() == i || other.value().base < 0;
    });
    if (element.base < 0 || !alone || !known || !known.carriesTerm(i))
      continue;
    SmallVector<Range> offsets = ranges;
    offsets[i] = element.offset;
    return {element.base, inferRange(op, 0, offsets)};
  }
  // What the type cannot hold is cut off the range: overflow is not modelled.
  Type type = getElementType(op->getResult(0));
  Range range = inferRange(op, 0, ranges);
  range = Content{range, range}.assume(type).usual;
  if (range.isNumber())
    return {-1, range};
  return opaque(op->getResult(0), labels, range);
}

/// Labels of the operand of an op that only puts its elements elsewhere.
std::optional<TokenElements::Labels> TokenElements::throughMove(Operation *op,
                                                                const Labels &labels) {
  auto mapped = dyn_cast<AxisMapOpInterface>(op);
  if (!mapped || op->getNumOperands() != 1 || op->getNumResults() != 1 ||
      !isa<ElementAccessOpInterface>(op))
    return std::nullopt;
  AxisMap map = mapped.getAxisMap();
  auto slice = dyn_cast<SliceOpInterface>(op);
  // A prefix has the coordinates of its operand.
  bool isPrefix = slice && slice.getSlicedAxis() >= 0 && !slice.dropsAxis() && slice.isPrefix();
  Labels moved;
  for (auto [axis, loop] : llvm::enumerate(map.operands[0])) {
    if (isPrefix && int64_t(axis) == slice.getSlicedAxis()) {
      moved.push_back(labels[axis]);
      continue;
    }
    if (loop < 0) {
      if (!getDim(op->getOperand(0), axis).isConstant(1))
        return std::nullopt;
      moved.push_back(kNone);
      continue;
    }
    auto it = llvm::find(map.results[0], loop);
    if (map.loops[loop] != LoopKind::Parallel || it == map.results[0].end())
      return std::nullopt;
    moved.push_back(getDim(op->getOperand(0), axis).isConstant(1)
                        ? kNone
                        : labels[it - map.results[0].begin()]);
  }
  return moved;
}

/// Groups of axes with as many elements on both sides are the same coordinates, written otherwise.
TokenElements::Labels TokenElements::throughReshape(Value from, Value to, const Labels &labels) {
  SmallVector<DimAttr> fromDims = getDims(from), toDims = getDims(to);
  Labels result(fromDims.size(), kNone);
  size_t i = 0, j = 0;
  // Axes of one element are in neither group.
  auto skipOnes = [&] {
    while (i < fromDims.size() && fromDims[i].isConstant(1))
      ++i;
    while (j < toDims.size() && toDims[j].isConstant(1))
      ++j;
  };
  for (skipOnes(); i < fromDims.size() && j < toDims.size(); skipOnes()) {
    DimAttr fromCount = fromDims[i], toCount = toDims[j];
    SmallVector<size_t> axes = {i++};
    Labels of = {labels[j]};
    SmallVector<DimAttr> fromSizes = {fromCount}, toSizes = {toCount};
    ++j;
    // Both counts end equal, since the value has as many elements on both sides, unless sizes
    // cannot be compared: then the rest is told by labels of its own.
    while (fromCount != toCount) {
      skipOnes();
      bool behind = divideExactly(toCount, fromCount) || j >= toDims.size();
      if (behind && i < fromDims.size()) {
        axes.push_back(i);
        fromSizes.push_back(fromDims[i]);
        fromCount = fromCount * fromDims[i++];
      } else if (j < toDims.size()) {
        of.push_back(labels[j]);
        toSizes.push_back(toDims[j]);
        toCount = toCount * toDims[j++];
      } else {
        break;
      }
    }
    int label = of.size() == 1 ? of[0] : merge(of, toSizes);
    // The group's coordinate is one number; each side writes it in its own digits.
    Labels parts = axes.size() == 1 ? Labels{label} : split(label, fromSizes);
    for (auto [axis, part] : llvm::zip_equal(axes, parts))
      result[axis] = part;
  }
  return result;
}

/// The same parts are the same label, so that merging twice and splitting again gives the
/// coordinates that were.
int TokenElements::merge(ArrayRef<int> labels, ArrayRef<DimAttr> dims) {
  for (auto &[label, parts] : merged)
    if (ArrayRef<int>(parts.labels) == labels && ArrayRef<DimAttr>(parts.dims) == dims)
      return label;
  merged[numLabels] = {Labels(labels), SmallVector<DimAttr>(dims)};
  return numLabels++;
}

/// The labels of the parts; those that the label was made of where the sizes agree, else new ones.
TokenElements::Labels TokenElements::split(int label, ArrayRef<DimAttr> dims) {
  auto it = merged.find(label);
  if (it == merged.end()) {
    Labels parts;
    for (size_t i = 0; i < dims.size(); ++i)
      parts.push_back(numLabels++);
    merged[label] = {parts, SmallVector<DimAttr>(dims)};
    return parts;
  }
  Parts parts = it->second;
  if (ArrayRef<DimAttr>(parts.dims) == dims)
    return parts.labels;
  // The same sizes in front; what follows is cut otherwise.
  size_t common = 0;
  while (common + 1 < std::min(dims.size(), parts.dims.size()) &&
         parts.dims[common] == dims[common])
    ++common;
  Labels result(parts.labels.begin(), parts.labels.begin() + common);
  if (common > 0) {
    ArrayRef<int> rest = ArrayRef<int>(parts.labels).drop_front(common);
    int tail =
        rest.size() == 1 ? rest[0] : merge(rest, ArrayRef<DimAttr>(parts.dims).drop_front(common));
    ArrayRef<DimAttr> wanted = dims.drop_front(common);
    llvm::append_range(result, wanted.size() == 1 ? Labels{tail} : split(tail, wanted));
    return result;
  }
  // Not to be told apart: labels that nothing else has.
  for (size_t i = 0; i < dims.size(); ++i)
    result.push_back(numLabels++);
  return result;
}
