// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A running sum gives a row its slot, a scatter a slot its row.

#include "lib/Transforms/Support/PackedRows.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Rows keep their order.
PackedRows trainc::buildPackedRows(TrainBuilder &tb, Value wanted, DimAttr slots) {
  Value counted = tb.cast(wanted, tb.b().getI32Type());
  // Exclusive: the number of wanted rows before.
  Value position = tb.cumsum(counted, /*axis=*/0, /*exclusive=*/true);
  return placeRows(tb, tb.select(wanted, position, tb.scalarLike(position, -1)), slots);
}

/// A slot that is left over has row 0, told from a real one by `rowsOrNone`.
PackedRows trainc::placeRows(TrainBuilder &tb, Value slots, DimAttr count) {
  Type i32 = tb.b().getI32Type(), f64 = tb.b().getF64Type();
  PackedRows packed;
  packed.slots = slots;
  // A row beyond the slots has an index out of range, which ends the run: nothing is left out
  // silently. Row numbers are exact in f64.
  // unique: no two rows have one slot.
  Value rowOfSlot = tb.scatterAdd(slots, tb.iota({getDim(slots, 0)}, f64, 0), 0,
                                  getTensorType({count}, f64), /*unique=*/true);
  packed.rows = tb.cast(rowOfSlot, i32);
  // A left-over slot has row 0, whose slot is another one, or -1.
  Value owner = tb.gather(slots, packed.rows, 0);
  Value taken = tb.compare("eq", owner, tb.iota({count}, i32, 0));
  packed.rowsOrNone = tb.select(taken, packed.rows, tb.scalarLike(packed.rows, -1));
  return packed;
}

/// By what it counts, not by its name.
std::optional<DimAttr> trainc::findCountSymbol(ModuleOp module, StringRef input, int64_t value,
                                               CountKind counts) {
  for (SymbolOp symbol : module.getOps<SymbolOp>())
    if (symbol.getDiffers() == value && symbol.getInput() == input && symbol.getCounts() == counts)
      return DimAttr::symbol(module.getContext(), symbol.getSymName());
  return std::nullopt;
}

/// Declared behind the others at its first use. Minimum and divisor are the bucket: the runtime
/// rounds up to it.
DimAttr trainc::getCountSymbol(ModuleOp module, StringRef input, int64_t value, int64_t bucket,
                               CountKind counts) {
  if (std::optional<DimAttr> symbol = findCountSymbol(module, input, value, counts))
    return *symbol;
  SmallVector<SymbolOp> symbols(module.getOps<SymbolOp>());
  // Names of symbols are identifiers.
  std::string name =
      counts == CountKind::elements ? "count_" : (stringifyCountKind(counts) + "_").str();
  for (char c : input)
    name += llvm::isAlnum(c) ? c : '_';
  std::string unique = name;
  for (int next = 2; module.lookupSymbol(unique); ++next)
    unique = name + "_" + std::to_string(next);
  // Symbols stand in front of functions, in the order in which they were declared.
  OpBuilder builder(module.getContext());
  symbols.empty() ? builder.setInsertionPointToStart(module.getBody())
                  : builder.setInsertionPointAfter(symbols.back());
  SymbolOp::create(
      builder, module.getLoc(), builder.getStringAttr(unique), builder.getI64IntegerAttr(bucket),
      IntegerAttr(), builder.getI64IntegerAttr(bucket), builder.getStringAttr(input), IntegerAttr(),
      builder.getI64IntegerAttr(value), CountKindAttr::get(module.getContext(), counts));
  return DimAttr::symbol(module.getContext(), unique);
}
