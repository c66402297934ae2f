// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Describes a value by what defines it.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainDialect.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace trainc::train;

static void describe(Diagnostic &note, Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    note << "the result ";
    if (result.getOwner()->getNumResults() > 1)
      note << result.getResultNumber() << " ";
    note << "of " << result.getOwner()->getName();
    return;
  }
  auto argument = cast<BlockArgument>(value);
  note << "argument " << argument.getArgNumber();
  auto function = dyn_cast_or_null<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (!function)
    return;
  if (auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr))
    note << " '" << name.getValue() << "'";
  note << " of @" << function.getName();
}

InFlightDiagnostic &&trainc::train::attachNotes(InFlightDiagnostic &&error,
                                                ArrayRef<NamedValue> values) {
  for (auto [name, value] : values) {
    if (!value)
      continue;
    Diagnostic &note = error.attachNote(value.getLoc());
    note << name << " is ";
    describe(note, value);
    note << ", of type " << value.getType();
  }
  return std::move(error);
}
