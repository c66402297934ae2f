// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `stream-weights`: which right factors are made of fewer bytes, and by how many rows they
// are multiplied.

#include "lib/Transforms/StreamWeights/StreamWeights.h"

#include "mlir/IR/Remarks.h"
#include "trainc/Support/Location.h"
#include "trainc/Support/Obstacle.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_STREAMWEIGHTSPASS
#include "lib/Transforms/StreamWeights/StreamWeights.h.inc"
} // namespace trainc

/// The kernel's tiles.
constexpr int64_t kInnerTile = 64, kColumnTile = 32;

static remark::RemarkOpts options(StringRef name, Operation *op) {
  return remark::RemarkOpts::name(name)
      .category("stream-weights")
      .function(op->getParentOfType<func::FuncOp>().getName());
}

/// Bytes of a tensor of known size; a great many where it is not. A number that does not overflow:
/// a model may name any size.
static double bytesOf(Value value) {
  constexpr int64_t unknown = std::numeric_limits<int64_t>::max() / 4;
  return double(getBytes(value.getType()).getConstant().value_or(unknown));
}

/// Bytes that a kernel reads to make `value`, each tensor once.
/// What library calls and reductions make is in memory: read, not looked through.
static double sourceBytes(Value value, DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return 0;
  Operation *def = value.getDefiningOp();
  auto fusion = dyn_cast_or_null<FusionOpInterface>(def);
  if (!fusion || (fusion.getFusionRole() != FusionRole::Pointwise &&
                  fusion.getFusionRole() != FusionRole::Access))
    return bytesOf(value);
  double bytes = 0;
  for (Value operand : def->getOperands())
    bytes += sourceBytes(operand, seen);
  return bytes;
}

/// At most three quarters: a kernel that dequantizes as it reads has to save more than it costs.
static bool isMadeOfLess(Value value) {
  DenseSet<Value> seen;
  return value.getDefiningOp() && 4 * sourceBytes(value, seen) <= 3 * bytesOf(value);
}

namespace {
struct StreamWeightsPass : trainc::impl::StreamWeightsPassBase<StreamWeightsPass> {
  using StreamWeightsPassBase::StreamWeightsPassBase;

  void runOnOperation() override {
    // As --dim has bounded the sizes.
    for (const std::string &text : sizes) {
      auto [name, number] = StringRef(text).split('=');
      int64_t value;
      if (name.empty() || number.getAsInteger(10, value)) {
        getOperation().emitError("stream-weights: '" + text + "' is not name=value");
        return signalPassFailure();
      }
      largest[name] = value;
    }
    getOperation()->walk([&](ContractionOpInterface op) {
      if (op.canStream())
        stream(op);
    });
  }

private:
  /// The largest value that the dimension has for these sizes; none where one is not bounded.
  std::optional<int64_t> mostOf(DimAttr dim) {
    FailureOr<int64_t> value = dim.evaluate([&](StringRef name) -> std::optional<int64_t> {
      auto it = largest.find(name);
      return it == largest.end() ? std::nullopt : std::optional(it->second);
    });
    return succeeded(value) ? std::optional<int64_t>(*value) : std::nullopt;
  }

  /// Marks the matmul with the most rows that it may have; the target's kernel is made for these.
  void stream(ContractionOpInterface op) {
    // Nothing to tell: most matmuls are of plain weights.
    if (!isMadeOfLess(op.getRhs()))
      return;
    Value result = op->getResult(0);
    const unsigned bits = getElementType(result).getIntOrFloatBitWidth();
    auto isMultiple = [](DimAttr dim, int64_t tile) {
      std::optional<int64_t> size = dim.getConstant();
      return size && *size % tile == 0;
    };
    std::optional<int64_t> rows = mostOf(getDim(result, 0));
    Obstacle obstacle;
    // With many rows the weight is read again for each tile of rows: dequantizing once is less.
    if (!rows || *rows > maxRows)
      obstacle = {"there may be too many rows",
                  "bound the sizes that rows come of: trainc --dim NAME=MIN..MAX"};
    else if (bits != 16 || getElementType(op.getLhs()) != getElementType(result))
      obstacle = {"it is not of 16-bit floats alone", bits == 16 ? "" : "trainc --precision bf16"};
    else if (!isMultiple(op.getInnerDim(), kInnerTile) ||
             !isMultiple(getDim(result, 1), kColumnTile))
      obstacle = "a size is no multiple of the kernel's tiles";
    if (!obstacle.empty()) {
      auto missed = remark::missed(op->getLoc(), options("NotStreamed", op));
      missed << remark::add("{0} reads a weight that is dequantized in memory", describeOp(op))
             << remark::reason("{0}", obstacle.reason);
      obstacle.suggestTo(missed);
      return;
    }
    op.setStreamedRows(*rows);
    remark::passed(op->getLoc(), options("Streamed", op)) << remark::add(
        "{0} dequantizes its weight as it reads it, for at most {1} rows", describeOp(op), *rows);
  }

  llvm::StringMap<int64_t> largest;
};
} // namespace
