// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The key by which equal fusions find each other: the body as text, with every non-constant size
// replaced by the number of its first use.

#include "mlir/IR/AttrTypeSubElements.h"
#include "trainc/Codegen/Structure.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// How sizes that share a symbol depend on each other, whatever the symbols' names; "" where none
/// do. A kernel has what it computes of sizes by the number of an equal one (the end of a padded
/// row is that of the result, if nothing is padded behind it), so they have to be equal in all
/// fusions that share it.
/// Only sizes that share symbols can be equal or differ by the symbols' values.
static std::string describeRelations(ArrayRef<DimAttr> dims) {
  llvm::StringMap<unsigned> numbers;
  bool areRelated = false;
  for (DimAttr dim : dims) {
    llvm::StringSet<> own;
    dim.forEachSymbol([&](StringRef symbol) {
      if (own.insert(symbol).second)
        areRelated |= !numbers.try_emplace(symbol, numbers.size()).second;
    });
  }
  std::string text;
  if (areRelated)
    for (DimAttr dim : dims)
      text += dim.substitute([&](StringRef symbol) {
                   return DimAttr::symbol(dim.getContext(),
                                          "s" + std::to_string(numbers.lookup(symbol)));
                 })
                  .str() +
              ';';
  return text;
}

/// Also equal for bodies whose sizes have other symbols, as long as these stand to each other in
/// the same way.
StructuralKey getStructuralKey(FusionOp fusion) {
  StructuralKey key;
  llvm::raw_string_ostream os(key.text);
  llvm::MapVector<Attribute, Attribute> numbers;
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](DimAttr dim) -> std::optional<std::pair<Attribute, WalkResult>> {
    if (dim.getConstant())
      return std::make_pair(Attribute(dim), WalkResult::skip());
    // Numbered in the order of first use: MapVector keeps it.
    auto [it, isNew] = numbers.try_emplace(dim, Attribute());
    if (isNew)
      it->second = DimAttr::symbol(dim.getContext(), "d" + std::to_string(numbers.size() - 1));
    return std::make_pair(it->second, WalkResult::skip());
  });

  llvm::DenseMap<Value, unsigned> names;
  auto define = [&](Value value) {
    unsigned number = names.size();
    names[value] = number;
    os << replacer.replace(value.getType()) << ';';
  };
  Block &body = fusion.getBody().front();
  for (Value argument : body.getArguments())
    define(argument);
  for (Operation &op : body) {
    os << op.getName() << '(';
    for (Value operand : op.getOperands())
      os << names[operand] << ',';
    os << ')';
    // Properties are part of the dictionary; locations are not.
    os << replacer.replace(op.getAttrDictionary()) << ':';
    for (Value result : op.getResults())
      define(result);
    os << '\n';
  }
  for (auto &entry : numbers)
    key.dims.push_back(cast<DimAttr>(entry.first));
  os << describeRelations(key.dims);
  return key;
}

} // namespace trainc::codegen
