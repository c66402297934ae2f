// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Axes have values, counts follow from them.

#include "trainc/Report/Sizes.h"
#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Collectives/Shards.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// No size, and of no size.
static bool isRank(SymbolOp symbol) {
  return isOfRun(symbol) && symbol.getSymName() == kRankSymbol;
}

/// Axes with a maximum begin with it; others have no value yet.
Sizes::Sizes(ModuleOp module, const PackageInterface &interface)
    : interface(&interface), symbols(module.getOps<SymbolOp>()) {
  for (SymbolOp symbol : symbols)
    if (isOfRun(symbol)) // one rank, unless it is said
      values[symbol.getSymName()] = symbol.getMin();
    else if (!symbol.getDiffers() && symbol.getMax())
      values[symbol.getSymName()] = *symbol.getMax();
}

SymbolOp Sizes::find(StringRef name) const {
  auto *it = llvm::find_if(symbols, [&](SymbolOp symbol) { return symbol.getSymName() == name; });
  return it == symbols.end() ? SymbolOp() : *it;
}

/// A count follows from its input's size and the share; an axis has the value that it was given.
std::optional<int64_t> Sizes::operator()(StringRef name) const {
  // Programs know how many ranks share a replica, costs how many there are.
  if (auto shards = values.find(kShardsName); name == kWorldSymbol && shards != values.end())
    return shards->second;
  if (auto known = values.find(name == kAllRanksSymbol ? StringRef(kWorldSymbol) : name);
      known != values.end())
    return known->second;
  SymbolOp symbol = find(name);
  if (!symbol && (name == kWorldSymbol || name == kAllRanksSymbol))
    return 1;
  return symbol && symbol.getDiffers() ? countOf(symbol) : std::nullopt;
}

std::optional<int64_t> Sizes::countOf(SymbolOp symbol) const {
  int index = PackageInterface::find(interface->inputs, symbol.getInput().value_or(""));
  if (index < 0)
    return std::nullopt;
  // Of a full input.
  FailureOr<int64_t> all = getNumElements(interface->inputs[index].type).evaluate(*this);
  if (failed(all))
    return std::nullopt;
  const int64_t divisor = std::max<int64_t>(1, symbol.getDivisor());
  const int64_t whole = llvm::alignTo(uint64_t(*all), uint64_t(divisor));
  int64_t value = whole;
  // Not full: rounded up as the runtime does it.
  if (share < 1) {
    value = std::max<int64_t>(1, std::ceil(double(*all) * share));
    // Eight buckets between a power of two and the next, as docs/design/counts.md says.
    assert(value > 0 && "a logarithm needs a positive number");
    const int64_t step = llvm::alignTo(
        std::max<uint64_t>(divisor, (uint64_t(1) << llvm::Log2_64(value)) / 8), uint64_t(divisor));
    value = std::min<int64_t>(llvm::alignTo(uint64_t(value), uint64_t(step)), whole);
  }
  value = std::max<int64_t>(value, symbol.getMin());
  return symbol.getMax() ? std::min<int64_t>(value, *symbol.getMax()) : value;
}

/// Axes without a value. Counts follow from axes.
SmallVector<StringRef> Sizes::unbound() const {
  SmallVector<StringRef> names;
  for (SymbolOp symbol : symbols)
    if (!(*this)(symbol.getSymName()) && !symbol.getDiffers())
      names.push_back(const_cast<SymbolOp &>(symbol).getSymName());
  return names;
}

/// In the order of the module, then what is a run's.
SmallVector<StringRef> Sizes::named() const {
  SmallVector<StringRef> names;
  for (SymbolOp symbol : symbols)
    if (values.count(symbol.getSymName()) && !isRank(symbol))
      names.push_back(const_cast<SymbolOp &>(symbol).getSymName());
  for (StringRef name : {StringRef(kWorldSymbol), StringRef(kShardsName)})
    if (values.count(name) && !llvm::is_contained(names, name))
      names.push_back(name);
  return names;
}

std::vector<std::pair<std::string, int64_t>> Sizes::known() const {
  std::vector<std::pair<std::string, int64_t>> list;
  for (StringRef name : named())
    list.emplace_back(name.str(), values.lookup(name));
  return list;
}

std::string Sizes::text(StringRef but) const {
  std::string text;
  for (StringRef name : named())
    if (name != but)
      text += (text.empty() ? "" : ", ") + name.str() + " = " + std::to_string(values.lookup(name));
  // The share matters only if something is counted.
  if (share < 1 && llvm::any_of(symbols, [](SymbolOp symbol) { return symbol.getDiffers(); }))
    llvm::raw_string_ostream(text)
        << (text.empty() ? "" : ", ") << "density " << llvm::format("%g", share);
  return text;
}

/// Copies: a report compares many sizes.
Sizes Sizes::with(StringRef name, int64_t value) const {
  Sizes result = *this;
  result.values[name] = value;
  return result;
}

Sizes Sizes::filled(int64_t value) const {
  Sizes result = *this;
  for (StringRef name : unbound()) {
    const int64_t divisor = find(name).getDivisor();
    // Multiples of the divisor, and not below the minimum.
    const int64_t rounded = llvm::alignTo(uint64_t(value), uint64_t(std::max<int64_t>(1, divisor)));
    result.values[name] = std::max(rounded, min(name));
  }
  return result;
}

Sizes Sizes::counted(double part) const {
  Sizes result = *this;
  result.share = part;
  return result;
}

bool Sizes::isCount(StringRef name) const {
  SymbolOp symbol = find(name);
  return symbol && symbol.getDiffers();
}
int64_t Sizes::min(StringRef name) const {
  SymbolOp symbol = find(name);
  return symbol ? symbol.getMin() : 1;
}
std::optional<int64_t> Sizes::max(StringRef name) const {
  SymbolOp symbol = find(name);
  return symbol && symbol.getMax() ? std::optional<int64_t>(*symbol.getMax()) : std::nullopt;
}

/// As options of the command line have it.
SmallVector<std::string> trainc::sizesOf(ModuleOp module, const Sizes &sizes) {
  SmallVector<std::string> list;
  for (auto symbol : module.getOps<SymbolOp>())
    if (std::optional<int64_t> value = sizes(symbol.getSymName()))
      list.push_back((symbol.getSymName() + "=" + llvm::Twine(*value)).str());
  return list;
}
