// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes that are equal for some values of a symbol only: those that are a multiple of what they are
// divided by on the way.

#include "lib/Conversion/ONNXToTrain/Sizes/LearnedSizes.h"
#include "trainc/Conversion/ONNXToTrain/Bounds.h"
#include "llvm/ADT/SetVector.h"
#include <numeric>

using namespace mlir;
using trainc::train::DimFnAttr;
using trainc::train::DimFnKind;

namespace trainc::legalize {

/// Far above what any net halves its images to, and few enough to try all.
constexpr int64_t kMostFactor = 1024, kMostOffsets = 64;

/// The numbers that parts of `size` are divided by.
static void findDivisors(DimAttr size, llvm::SmallSetVector<int64_t, 4> &divisors) {
  for (ArrayAttr monomial : size.getMonomials())
    for (Attribute factor : monomial) {
      auto fn = dyn_cast<DimFnAttr>(factor);
      if (!fn)
        continue;
      auto lhs = cast<DimAttr>(fn.getLhs()), rhs = cast<DimAttr>(fn.getRhs());
      const bool divides = fn.getKind() == DimFnKind::floordiv || fn.getKind() == DimFnKind::mod;
      std::optional<int64_t> divisor = divides ? rhs.getConstant() : std::nullopt;
      if (divisor && *divisor > 1 && *divisor <= kMostFactor)
        divisors.insert(*divisor);
      findDivisors(lhs, divisors);
      findDivisors(rhs, divisors);
    }
}

bool Bounds::demandEqual(DimAttr a, DimAttr b, const std::string &reason) {
  llvm::SmallSetVector<int64_t, 4> divisors;
  findDivisors(a, divisors);
  findDivisors(b, divisors);
  // All of them together, where each divides another part.
  int64_t common = 1;
  for (int64_t divisor : divisors)
    common = std::lcm(std::min(common, kMostFactor), divisor);
  if (common <= kMostFactor)
    divisors.insert(common);
  // Rows have a size of their own, whatever they are called.
  llvm::SmallSetVector<StringAttr, 4> names;
  for (DimAttr size : {a, b})
    size.forEachSymbol([&](StringRef name) {
      auto symbol = symbols.find(StringAttr::get(size.getContext(), name));
      if (symbol != symbols.end() && symbol->second.axis > 0)
        names.insert(symbol->first);
    });
  auto areEqual = [&](ArrayRef<StringAttr> changed, int64_t factor, int64_t offset) {
    auto number = [&](int64_t value) { return DimAttr::constant(a.getContext(), value); };
    auto form = [&](StringRef name) -> DimAttr {
      const bool changes =
          llvm::any_of(changed, [&](StringAttr symbol) { return symbol.getValue() == name; });
      return changes ? number(factor) * DimAttr::symbol(a.getContext(), name) + number(offset)
                     : DimAttr();
    };
    return a.substitute(form) == b.substitute(form);
  };
  auto demand = [&](ArrayRef<StringAttr> changed, int64_t factor, int64_t offset) {
    if (!areEqual(changed, factor, offset))
      return false;
    for (StringAttr name : changed)
      forms.insert({name, {factor, offset, reason}});
    return true;
  };
  for (int64_t factor : divisors) {
    for (int64_t offset = 0; offset < std::min(factor, kMostOffsets); ++offset)
      for (StringAttr name : names)
        if (demand(name, factor, offset))
          return true;
    // An area, of which both sides are halved.
    if (names.size() > 1 && demand(names.getArrayRef(), factor, 0))
      return true;
  }
  return false;
}

std::string LearnedSizes::symbolOf(StringRef axis) const {
  auto form = forms.find(axis.str());
  return form == forms.end() ? axis.str() : (axis + "_by_" + Twine(form->second.factor)).str();
}

bool LearnedSizes::learn(const Bounds &demanded, bool lacking) {
  bool any = false;
  for (auto &[name, info] : demanded.symbols) {
    auto [it, added] = bounds.try_emplace(name.getValue());
    DimBound &known = it->second;
    if (added)
      known.min = info.min;
    // min(seq, 512) may be seq with it, which other nodes compare with.
    if (info.max && (!known.max || *info.max < *known.max)) {
      any = true;
      known.max = info.max;
    }
    // It makes a size of what might have been below 0; where nothing failed, nothing lacked it.
    if (info.min > known.min) {
      any |= lacking;
      known.min = info.min;
    }
  }
  for (auto &[name, form] : demanded.forms) {
    std::string axis = name.getValue().str();
    for (auto &[known, _] : forms)
      if (symbolOf(known) == name.getValue())
        axis = known;
    SizeForm &all = forms.try_emplace(axis, SizeForm{1, 0, form.reason}).first->second;
    // factor * (form) + offset. Ends: a form's factor is 2 at least, and all of them are limited.
    if (all.factor > kMostFactor / form.factor)
      continue;
    all.offset += all.factor * form.offset;
    all.factor *= form.factor;
    any = true;
  }
  return any;
}

} // namespace trainc::legalize
