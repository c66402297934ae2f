// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Flags are told with the names of the sizes that are in the way.

#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace trainc::legalize {

using Symbols = llvm::SmallSetVector<StringRef, 4>;

/// Each once, in the order in which they appear.
static Symbols symbolsOf(ArrayRef<DimAttr> sizes) {
  Symbols symbols;
  for (DimAttr size : sizes)
    size.forEachSymbol([&](StringRef name) { symbols.insert(name); });
  return symbols;
}

/// " --dim batch=..." for each.
static std::string flags(const Symbols &symbols, llvm::function_ref<std::string(size_t)> range) {
  std::string text;
  for (auto [i, name] : llvm::enumerate(symbols))
    text += (" --dim " + name + "=" + range(i)).str();
  return text;
}

std::string fixHint(ArrayRef<DimAttr> sizes) {
  // Constants have no flag.
  const Symbols symbols = symbolsOf(sizes);
  if (symbols.empty())
    return {};
  return ";" + flags(symbols, [](size_t) { return std::string("N"); }) +
         (symbols.size() == 1 ? " fixes it" : " fix it");
}

std::string boundHint(ArrayRef<DimAttr> sizes, int64_t least) {
  const Symbols symbols = symbolsOf(sizes);
  if (symbols.empty())
    return {};
  // The first so large that the size is, whatever the others are.
  constexpr int64_t tries = 4096;
  int64_t low = 1;
  auto value = [&](DimAttr size, StringRef symbol, int64_t number) {
    // The other symbols at their least.
    return size.evaluate(
        [&](StringRef name) -> std::optional<int64_t> { return name == symbol ? number : 1; });
  };
  auto first = [&](DimAttr size) { return value(size, symbols[0], low); };
  assert(!symbols.empty() && "asked above");
  // One after the other, up to a limit.
  for (DimAttr size : sizes)
    while (low < least + tries && succeeded(first(size)) && *first(size) < least)
      ++low;
  // What a size becomes smaller with may be as large as leaves it `least`: 2048 - seq.
  auto most = [&](StringRef symbol, int64_t from) {
    int64_t end = std::max<int64_t>(64, 8 * from);
    // Linear from here on: as far as it falls no lower than `least`.
    for (DimAttr size : sizes) {
      FailureOr<int64_t> at = value(size, symbol, from), next = value(size, symbol, from + 1);
      if (succeeded(at) && succeeded(next) && *next < *at && *at >= least)
        end = from + (*at - least) / (*at - *next);
    }
    return end;
  };
  return ";" +
         flags(symbols,
               [&](size_t i) {
                 // Only the first one was searched.
                 const int64_t from = i ? 1 : low;
                 return std::to_string(from) + ".." + std::to_string(most(symbols[i], from));
               }) +
         (symbols.size() == 1 ? " bounds it" : " bound it");
}

/// The sizes that a value of the graph is computed from, where it is from nothing else but
/// constants; empty where data are in it.
static SmallVector<DimAttr> sizesBehind(NodeContext &c, Value value) {
  SmallVector<DimAttr> sizes;
  SmallVector<Value> work = {value};
  // Each value once: graphs share.
  llvm::SmallSetVector<Value, 16> seen;
  while (!work.empty()) {
    Value at = work.pop_back_val();
    if (!seen.insert(at))
      continue;
    auto node = at.getDefiningOp<onnx::NodeOp>();
    if (!node) {
      if (isa<BlockArgument>(at) || isa_and_nonnull<onnx::InitializerOp>(at.getDefiningOp())) {
        auto initializer = at.getDefiningOp<onnx::InitializerOp>();
        // What comes from inputs or large initializers is data.
        if (!initializer || !initializer.getValue())
          return {};
      }
      continue;
    }
    // Its shape is what counts, not what it is made of.
    if (node.getOpType() == "Shape" || node.getOpType() == "Size")
      llvm::append_range(sizes, c.state.valueOf(node.getInputs()[0]).dims);
    else
      llvm::append_range(work, node.getInputs());
  }
  return sizes;
}

std::string NodeContext::inputHint(int64_t input) {
  Value value = op.getInputs()[input];
  auto argument = dyn_cast<BlockArgument>(value);
  auto graph = argument ? dyn_cast<onnx::GraphOp>(argument.getOwner()->getParentOp()) : nullptr;
  // An input cannot be known while compiling, whatever its sizes are.
  if (graph)
    return ("; the graph's input '" + graph.getInputName(argument.getArgNumber()) +
            "' would have to be an initializer")
        .str();
  const Symbols symbols = symbolsOf(sizesBehind(*this, value));
  if (symbols.empty())
    return {};
  return "; it is computed from sizes, and may be known within bounds:" +
         flags(symbols, [](size_t) { return std::string("1..64"); }) +
         ", or for fixed ones:" + flags(symbols, [](size_t) { return std::string("N"); });
}

} // namespace trainc::legalize
