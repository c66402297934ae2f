// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmuls and Einsum. Leading axes against one matrix are folded into rows, and a transpose
// of the last two axes becomes a flag, so that every matmul is one plain library call.

#include "lib/Conversion/ONNXToTrain/ExportHazards.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Looks through a transpose of the last two axes; tells whether there was one.
static bool takeTranspose(Value &x) {
  auto transpose = x.getDefiningOp<train::TransposeOp>();
  // Other permutations stay.
  if (!transpose)
    return false;
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  int64_t rank = permutation.size();
  // The axes in front have to stay where they are.
  for (int64_t i = 0; i + 2 < rank; ++i)
    if (permutation[i] != i)
      return false;
  if (rank < 2 || permutation[rank - 1] != rank - 2)
    return false;
  x = transpose.getOperand();
  return true;
}

static LogicalResult matmul(NodeContext &c) {
  if (!isa<FloatType>(c.element(0)) || c.element(0) != c.element(1))
    return c.fail("only matmuls of floats of one type are supported");
  if (c.rank(0) == 0 || c.rank(1) == 0)
    return c.fail("its operands need at least one axis");
  TrainBuilder &tb = c.tb;
  Value lhs = c.tensor(0), rhs = c.tensor(1);
  Dims left = c.dims(0), right = c.dims(1);
  // A vector is a row on the left and a column on the right; that axis goes again at the end.
  bool leftVector = left.size() == 1, rightVector = right.size() == 1;
  if (leftVector)
    left.insert(left.begin(), c.dim(1));
  if (rightVector)
    right.push_back(c.dim(1));
  if (left.back() != right[right.size() - 2])
    return failUnequal(c, left.back(), right[right.size() - 2],
                       "its inner sizes '" + left.back().str() + "' and '" +
                           right[right.size() - 2].str() + "' differ");
  lhs = tb.reshape(lhs, left);
  rhs = tb.reshape(rhs, right);
  Dims result(left.begin(), left.end() - 1);
  Value product;
  if (right.size() == 2) {
    // [a, b, k] x [k, n]: rows are all leading axes.
    // One large matmul instead of many small ones.
    if (left.size() > 2)
      lhs = tb.reshape(lhs, {train::product(c.context(), result), left.back()});
    bool transposed = takeTranspose(rhs);
    product = tb.matmul(lhs, rhs, false, transposed);
    result.push_back(right.back());
  } else {
    // ONNX broadcasts leading axes.
    std::optional<Dims> batch =
        c.broadcastDims({Dims(left.begin(), left.end() - 2), Dims(right.begin(), right.end() - 2)});
    if (!batch)
      return failure();
    result = *batch;
    auto grow = [&](Value x, ArrayRef<DimAttr> own) {
      Dims dims = *batch;
      dims.append(own.end() - 2, own.end());
      return c.broadcastTo(x, dims);
    };
    lhs = grow(lhs, left);
    // Looked through only behind the broadcast, which moves no axis.
    rhs = grow(rhs, right);
    bool transposedLhs = takeTranspose(lhs), transposedRhs = takeTranspose(rhs);
    product = tb.matmul(lhs, rhs, transposedLhs, transposedRhs);
    result.append({left[left.size() - 2], right.back()});
  }
  // The axes of vectors, the last one first.
  if (rightVector)
    result.pop_back();
  if (leftVector)
    result.erase(result.end() - (rightVector ? 1 : 2));
  return c.set(tb.reshape(product, result));
}

static LogicalResult gemm(NodeContext &c) {
  if (c.rank(0) != 2 || c.rank(1) != 2 || !isa<FloatType>(c.element(0)) ||
      c.element(1) != c.element(0) || (c.has(2) && c.element(2) != c.element(0)))
    return c.fail("it needs two float matrices, and a bias of their type");
  TrainBuilder &tb = c.tb;
  // Flags of the matmul; a transpose of an operand is one more.
  bool transA = c.attr("transA", int64_t(0)), transB = c.attr("transB", int64_t(0));
  DimAttr left = c.dims(0)[transA ? 0 : 1], right = c.dims(1)[transB ? 1 : 0];
  if (left != right)
    return failUnequal(c, left, right,
                       "its inner sizes '" + left.str() + "' and '" + right.str() + "' differ");
  Value a = c.tensor(0), b = c.tensor(1);
  transA ^= takeTranspose(a);
  transB ^= takeTranspose(b);
  Value y = tb.matmul(a, b, transA, transB);
  double alpha = c.attr("alpha", 1.0), beta = c.attr("beta", 1.0);
  // Ones cost nothing, also in the backward pass.
  if (alpha != 1)
    y = tb.mul(y, tb.scalarLike(y, alpha));
  // A bias times 0 need not be finite.
  if (c.has(2) && beta != 0) {
    Dims dims = train::getDims(y);
    std::optional<Dims> common = c.broadcastDims({dims, c.dims(2)});
    if (!common)
      return failure();
    // A bias of more rows than the matmul would make it larger.
    if (*common != dims)
      return c.fail("its bias does not fit the matmul");
    Value bias = c.tensor(2);
    if (beta != 1)
      bias = tb.mul(bias, tb.scalarLike(bias, beta));
    y = tb.add(y, c.broadcastTo(bias, dims));
  }
  return c.set(y);
}

//===- Einsum -------------------------------------------------------------===//
// Operands are combined from left to right. Every pair is one batched matmul where it has
// something to sum, else a product of elements.

namespace {

/// A tensor whose axes have labels: letters, and for the axes of an ellipsis numbers below 64.
struct Labelled {
  Value x;
  std::string labels;

  bool has(char label) const { return labels.find(label) != std::string::npos; }
  DimAttr size(char label) const { return train::getDim(x, labels.find(label)); }
};

class Contraction {
public:
  explicit Contraction(NodeContext &c) : c(c), tb(c.tb) {}
  LogicalResult run();

private:
  /// Reads the equation; labels of operands and of the result.
  bool parse();
  bool readTerm(StringRef term, int64_t rank, std::string &labels);
  bool takeDiagonals(Labelled &operand);
  Labelled arrange(const Labelled &operand, StringRef labels);
  Labelled sumOut(const Labelled &operand, llvm::function_ref<bool(char)> keep);
  bool equalSizes(Labelled &a, Labelled &b);
  std::optional<Labelled> combine(Labelled a, Labelled b, StringRef kept);

  NodeContext &c;
  TrainBuilder &tb;
  SmallVector<Labelled> operands;
  std::string result;
  int64_t ellipsis = 0; // the most axes that any "..." stands for
};

} // namespace

/// Labels of one term. An ellipsis is aligned at its end, as in broadcasting.
/// A negative rank is the result's: as many axes as any operand's ellipsis has.
bool Contraction::readTerm(StringRef term, int64_t rank, std::string &labels) {
  auto [before, after] = term.split("...");
  bool dots = term.contains("...");
  // Axes that no letter stands for.
  int64_t letters = before.size() + after.size(), hidden = rank < 0 ? ellipsis : rank - letters;
  if (hidden < 0 || (!dots && hidden > 0) ||
      !llvm::all_of((before + after).str(), [](char letter) { return llvm::isAlpha(letter); })) {
    (void)c.fail("its equation does not fit its operands");
    return false;
  }
  labels = before.str();
  // The last axis has the number 1, so that ellipses of different lengths meet at their ends.
  for (int64_t i = hidden; dots && i-- > 0;)
    labels.push_back(char(i + 1));
  labels += after.str();
  // Operands come before the result, which takes the most of them.
  ellipsis = std::max(ellipsis, dots ? hidden : 0);
  return true;
}

bool Contraction::parse() {
  std::string equation;
  for (char letter : c.attr("equation", ""))
    if (letter != ' ')
      equation.push_back(letter);
  // Without spaces, which may stand anywhere.
  auto [left, right] = StringRef(equation).split("->");
  SmallVector<StringRef> terms;
  left.split(terms, ',');
  if (int64_t(terms.size()) != c.numInputs()) {
    (void)c.fail("its equation does not have one term an operand");
    return false;
  }
  // Each operand's own repeated labels first: after that labels are unique.
  for (auto [i, term] : llvm::enumerate(terms)) {
    Labelled operand{c.tensor(i), ""};
    if (c.element(i) != c.element(0) || c.element(0).isInteger(1)) {
      (void)c.fail("its operands need numbers of one type");
      return false;
    }
    if (!readTerm(term, c.rank(i), operand.labels) || !takeDiagonals(operand))
      return false;
    operands.push_back(operand);
  }
  if (StringRef(equation).contains("->"))
    return readTerm(right, -1, result);
  // Implicit: the ellipsis, then the letters that occur once, in alphabetical order.
  for (int64_t i = ellipsis; i-- > 0;)
    result.push_back(char(i + 1));
  for (char letter = 'A'; letter <= 'z'; ++letter)
    if (llvm::isAlpha(letter) && left.count(letter) == 1)
      result.push_back(letter);
  return true;
}

/// A label that an operand has twice means its diagonal: all else is set to zero and summed.
bool Contraction::takeDiagonals(Labelled &operand) {
  for (size_t i = 0; i < operand.labels.size(); ++i) {
    size_t j = operand.labels.find(operand.labels[i], i + 1);
    if (j == std::string::npos)
      continue;
    Dims dims = train::getDims(operand.x);
    if (dims[i] != dims[j]) {
      (void)c.fail("it takes the diagonal of sizes '" + dims[i].str() + "' and '" + dims[j].str() +
                   "'");
      return false;
      // Refused as well if only known to be unequal at run time.
    }
    Value hit = tb.compare("eq", tb.iota(dims, tb.b().getI64Type(), i),
                           tb.iota(dims, tb.b().getI64Type(), j));
    Value kept = tb.select(hit, operand.x, tb.scalarLike(operand.x, 0));
    assert(i < j && "the second one goes");
    operand.x = tb.sum(kept, {int64_t(j)});
    operand.labels.erase(j, 1);
    // Once more, for a third.
    --i;
  }
  return true;
}

/// The operand with its axes in the order of `labels`, which are all of its own.
Labelled Contraction::arrange(const Labelled &operand, StringRef labels) {
  SmallVector<int64_t> permutation;
  assert(labels.size() == operand.labels.size() && "all of its labels, once each");
  for (char label : labels)
    permutation.push_back(operand.labels.find(label));
  Value x = llvm::is_sorted(permutation) ? operand.x : tb.transpose(operand.x, permutation);
  return {x, labels.str()};
}

/// Axes whose label is not kept are summed.
Labelled Contraction::sumOut(const Labelled &operand, llvm::function_ref<bool(char)> keep) {
  SmallVector<int64_t> axes;
  Labelled sum;
  for (auto [axis, label] : llvm::enumerate(operand.labels)) {
    if (keep(label))
      sum.labels.push_back(label);
    else
      axes.push_back(axis);
  }
  sum.x = axes.empty() ? operand.x : tb.sum(operand.x, axes);
  return sum;
}

/// Common labels have equal sizes, or one of them is 1 and is dropped there.
bool Contraction::equalSizes(Labelled &a, Labelled &b) {
  // A copy: labels may go while it goes on.
  for (char label : std::string(a.labels)) {
    if (!b.has(label) || a.size(label) == b.size(label))
      continue;
    Labelled &small = a.size(label).isConstant(1) ? a : b;
    if (!small.size(label).isConstant(1)) {
      (void)failUnequal(c, a.size(label), b.size(label),
                        "sizes '" + a.size(label).str() + "' and '" + b.size(label).str() +
                            "' of one label have to be equal");
      return false;
    }
    // Broadcast: the axis repeats what the other has.
    small = sumOut(small, [&](char other) { return other != label; });
  }
  return true;
}

/// The product of both, summed over the labels that `kept` lacks.
std::optional<Labelled> Contraction::combine(Labelled a, Labelled b, StringRef kept) {
  auto isKept = [&](char label) { return kept.contains(label); };
  // What neither the other nor the result has is summed before the matmul, which gets smaller.
  a = sumOut(a, [&](char label) { return isKept(label) || b.has(label); });
  b = sumOut(b, [&](char label) { return isKept(label) || a.has(label); });
  if (!equalSizes(a, b))
    return std::nullopt;
  std::string batch, inner, rows, columns;
  // A label is in both: batch if it stays, inner if it is summed. Else it is rows or columns.
  for (char label : a.labels)
    (!b.has(label) ? rows : isKept(label) ? batch : inner).push_back(label);
  for (char label : b.labels)
    if (!a.has(label))
      columns.push_back(label);
  auto sizes = [&](const Labelled &x, StringRef labels) {
    Dims dims;
    for (char label : labels)
      dims.push_back(x.size(label));
    return dims;
  };
  // The order in which the matmul has its axes.
  std::string all = batch + rows + columns;
  Dims dims = sizes(a, batch + rows);
  dims.append(sizes(b, columns));
  // Matmuls of integers have no kernel.
  if (!inner.empty() && isa<FloatType>(c.element(0))) {
    auto count = [&](const Labelled &x, StringRef labels) {
      return train::product(c.context(), sizes(x, labels));
    };
    // As many axes as a batched matmul has: each group of labels is one.
    Dims left = sizes(a, batch), right = left;
    left.append({count(a, rows), count(a, inner)});
    right.append({count(b, columns), count(b, inner)});
    // Both with the inner axis last: the right one is transposed.
    Value lhs = tb.reshape(arrange(a, batch + rows + inner).x, left);
    Value rhs = tb.reshape(arrange(b, batch + columns + inner).x, right);
    return Labelled{tb.reshape(tb.matmul(lhs, rhs, false, true), dims), all};
  }
  // Elements: both are repeated along what they lack, then summed.
  std::string space = all + inner;
  dims.append(sizes(a, inner));
  auto spread = [&](const Labelled &x) {
    SmallVector<int64_t> axes;
    std::string own;
    // Its own labels, in the order of the space.
    for (auto [axis, label] : llvm::enumerate(space))
      if (x.has(label)) {
        axes.push_back(axis);
        own.push_back(label);
      }
    return tb.broadcast(arrange(x, own).x, dims, axes);
  };
  Labelled product{tb.mul(spread(a), spread(b)), space};
  return sumOut(product, isKept);
}

LogicalResult Contraction::run() {
  assert(c.numInputs() > 0 && "a variadic operator has one operand at least");
  if (!parse())
    return failure();
  Labelled total = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string kept = result; // what the result and later operands need
    for (const Labelled &later : ArrayRef(operands).drop_front(i + 1))
      kept += later.labels;
    std::optional<Labelled> next = combine(total, operands[i], kept);
    if (!next)
      return failure();
    total = *next;
  }
  // With one operand, or what only the last one had.
  total = sumOut(total, [&](char label) { return result.find(label) != std::string::npos; });
  // Labels are unique: equal numbers are equal sets.
  if (total.labels.size() != result.size())
    return c.fail("its equation's result has a label that no operand has");
  return c.set(arrange(total, result).x);
}

static LogicalResult einsum(NodeContext &c) { return Contraction(c).run(); }

void registerLinear(HandlerTable &table) {
  table.addExact("MatMul", matmul, 2, 1);
  table.add("Gemm", gemm, 2, 7);
  table.addVariadic("Einsum", einsum, 12);
  table.describe({"Einsum"}, HandlerTable::kNumbers);
}

} // namespace trainc::legalize
