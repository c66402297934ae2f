// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Of a quantized weight the shape and type that it had are in its attribute.

#include "lib/Driver/ParameterSummary.h"
#include "dialects/Train/TrainDialect.h"
#include "lib/Report/MemoryModel.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

static int64_t bytesOf(Type element) {
  return llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
}

ParameterSummary::ParameterSummary(func::FuncOp forward) {
  for (BlockArgument argument : forward.getArguments()) {
    const unsigned i = argument.getArgNumber();
    auto role = forward.getArgAttrOfType<StringAttr>(i, kRoleAttr);
    if (!role || role.getValue() != "parameter")
      continue;
    Type element = getElementType(argument);
    const int64_t stored = getNumElements(argument.getType()).getConstant().value_or(0);
    if (forward.getArgAttr(i, kPartOfAttr)) {
      bytesAfter += stored * bytesOf(element);
      continue;
    }
    int64_t values = stored;
    if (auto how = forward.getArgAttrOfType<DictionaryAttr>(i, kQuantizedAttr)) {
      values = 1;
      for (auto size : how.getAs<ArrayAttr>("shape").getAsRange<IntegerAttr>())
        values *= size.getInt();
      ++quantized;
      format = how.getAs<StringAttr>("format").str();
      bytesBefore += values * bytesOf(how.getAs<TypeAttr>("dtype").getValue());
      bytesAfter += stored * bytesOf(element);
    }
    elements += values;
    if (forward.getArgAttr(i, kTrainableAttr)) {
      ++trained;
      trainedElements += values;
      trainedBytes += values * bytesOf(element);
    }
  }
}

std::string ParameterSummary::text() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "of " << elements << " parameters " << trainedElements << " are trained ("
      << llvm::format("%.2g", elements ? 100. * trainedElements / elements : 0.)
      << " %) and saved, " << formatBytes(trainedBytes);
  if (quantized)
    out << "; " << quantized << (quantized == 1 ? " weight is" : " weights are") << " stored as "
        << format << ": " << formatBytes(bytesBefore) << " -> " << formatBytes(bytesAfter);
  return text;
}
