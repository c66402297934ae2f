// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of a module's size symbols, for numbers about it.
#ifndef TRAINC_REPORT_SIZES_H
#define TRAINC_REPORT_SIZES_H

#include "dialects/Train/TrainDialect.h"
#include "trainc/Package/Interface.h"

namespace trainc {

class Sizes {
public:
  /// A symbol that is an axis has its largest value, if it has one; one that counts has that of all
  /// elements of its input. There is one rank.
  Sizes(mlir::ModuleOp module, const PackageInterface &interface);

  /// The value of a symbol, nothing where it has none.
  std::optional<int64_t> operator()(llvm::StringRef name) const;
  /// Axes without a value, in the order of the module.
  llvm::SmallVector<llvm::StringRef> unbound() const;
  bool isComplete() const { return unbound().empty(); }
  /// "batch = 4, seq = 128" of the axes that have a value, and the share that is counted; ""
  /// without any.
  std::string text(llvm::StringRef but = "") const;

  /// Axes that have a value.
  std::vector<std::pair<std::string, int64_t>> known() const;

  /// The same with another value for an axis.
  Sizes with(llvm::StringRef name, int64_t value) const;
  /// The same with `value`, or the bound that it exceeds, for all axes that have none.
  Sizes filled(int64_t value) const;
  /// The same with so much of all elements counted, rounded up as the runtime does.
  Sizes counted(double share) const;

  /// Whether it is a count, and what it counts.
  bool isCount(llvm::StringRef name) const;
  /// Bounds of a symbol.
  int64_t min(llvm::StringRef name) const;
  std::optional<int64_t> max(llvm::StringRef name) const;

private:
  std::optional<int64_t> countOf(train::SymbolOp symbol) const;
  train::SymbolOp find(llvm::StringRef name) const;

  const PackageInterface *interface;
  llvm::SmallVector<train::SymbolOp> symbols;
  /// Names of those in `values`, in order.
  llvm::SmallVector<llvm::StringRef> named() const;

  llvm::StringMap<int64_t> values;
  double share = 1;
};

/// NAME=VALUE of all symbols of the module that have one, as passes take them.
llvm::SmallVector<std::string> sizesOf(mlir::ModuleOp module, const Sizes &sizes);

} // namespace trainc

#endif // TRAINC_REPORT_SIZES_H
