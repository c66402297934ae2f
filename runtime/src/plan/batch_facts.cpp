// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conditions are tested row by row: within a row without a branch, and no further than the first
// row for which one does not hold.

#include "plan/batch_facts.h"
#include "io/convert.h"
#include "plan/counts.h"
#include "plan/runs.h"

#include <algorithm>
#include <type_traits>

namespace trainrt {

namespace {

/// Calls `visit` with elements [begin, begin + count) of the array in a type of their own; halves
/// become floats.
template <typename Visit>
void withValues(const ArrayView &array, int64_t begin, int64_t count, std::vector<float> &room,
                const Visit &visit) {
  const char *from = static_cast<const char *>(array.data) + begin * int64_t(sizeOf(array.dtype));
  if (array.dtype == DType::F32)
    return visit(reinterpret_cast<const float *>(from));
  if (array.dtype == DType::F64)
    return visit(reinterpret_cast<const double *>(from));
  if (visitInteger(array.dtype, [&]<typename T>(T) { visit(reinterpret_cast<const T *>(from)); }))
    return;
  room.resize(size_t(count));
  convertElements(from, array.dtype, room.data(), DType::F32, count);
  visit(room.data());
}

/// `value` in the type of the elements; false if they cannot have it.
/// Integers compare in their own type only after this: a value out of range equals no element.
template <typename T> bool asElement(int64_t value, T &element) {
  element = static_cast<T>(value);
  if constexpr (std::is_floating_point_v<T>)
    return true;
  else if constexpr (std::is_unsigned_v<T>)
    return value >= 0 && static_cast<uint64_t>(value) == static_cast<uint64_t>(element);
  else
    return static_cast<int64_t>(element) == value;
}

/// Compares an element of any type; floats are none of these inputs'.
/// Unsigned and negative numbers are never below one another by a conversion.
template <typename T> bool isBelow(T element, int64_t number) {
  if constexpr (std::is_floating_point_v<T>)
    return element < double(number);
  else if constexpr (std::is_unsigned_v<T>)
    return number > 0 && static_cast<uint64_t>(element) < static_cast<uint64_t>(number);
  else
    return static_cast<int64_t>(element) < number;
}

class Judge {
public:
  Judge(const std::vector<ArrayView> &arrays, const std::vector<bool> &filled)
      : arrays(arrays), filled(filled) {}

  /// The first condition that does not hold decides, at its first bad row: the reports are the same
  /// for the same batch.
  Verdict judge(const Function &variant) {
    for (size_t i = 0; i < variant.conditions.size(); ++i) {
      const Condition &condition = variant.conditions[i];
      Verdict verdict{int32_t(i), -1};
      // Not seen is not shown: no condition holds for data that are on the device, or filled in.
      if (!seesAll(condition))
        return verdict;
      verdict.row = firstBadRow(condition);
      if (verdict.row >= 0)
        return verdict;
    }
    return {};
  }

private:
  /// Inputs that are filled in are no data to have properties.
  bool sees(uint32_t input) const { return !filled[input] && !arrays[input].onDevice; }
  bool seesAll(const Condition &condition) const {
    return (!condition.hasMask() || sees(condition.mask)) &&
           (!condition.hasInput() || sees(condition.input));
  }

  int64_t firstBadRow(const Condition &condition) {
    const ArrayView &array = arrays[condition.hasMask() ? condition.mask : condition.input];
    int64_t elements = 1, rows = array.shape.empty() ? 1 : array.shape[0];
    // The shape was bound before; its elements fit.
    countElements(array.shape.data(), array.shape.size(), elements);
    if (elements == 0)
      return -1;
    // rows > 0: there are elements.
    const int64_t columns = elements / rows;
    for (int64_t row = 0; row < rows; ++row)
      if (!holds(condition, array, row, columns))
        return row;
    return -1;
  }

  bool holds(const Condition &condition, const ArrayView &array, int64_t row, int64_t columns) {
    const int64_t begin = row * columns;
    bool bad = false;
    switch (condition.kind) {
    case Condition::Kind::Binary:
      withValues(array, begin, columns, room, [&](const auto *values) {
        uint8_t other = 0;
        // Without a branch: a row is a vectorized pass.
        for (int64_t i = 0; i < columns; ++i)
          other |= uint8_t((values[i] != 0) & (values[i] != 1));
        bad = other;
      });
      return !bad;
    case Condition::Kind::RealAt: {
      // -2: any column will do.
      const int64_t first = condition.index == -2   ? 0
                            : condition.index == -1 ? columns - 1
                                                    : condition.index;
      const int64_t count = condition.index == -2 ? columns : 1;
      // A column that the batch does not have is no real one.
      if (first + count > columns)
        return false;
      withValues(array, begin + first, count, room, [&](const auto *values) {
        std::remove_cvref_t<decltype(*values)> padding;
        // A padding that the type cannot hold is in no element.
        bad = asElement(condition.padding, padding);
        for (int64_t i = 0; i < count; ++i)
          bad &= values[i] == padding;
      });
      return !bad;
    }
    case Condition::Kind::Above:
      withValues(array, begin, columns, room, [&](const auto *values) {
        uint8_t below = 0;
        for (int64_t i = 0; i < columns; ++i)
          below |= uint8_t(isBelow(values[i], condition.padding));
        bad = below;
      });
      return !bad;
    case Condition::Kind::Contiguous:
      findRuns(array, row, condition.padding, runs);
      return hasWholeRuns(runs);
    case Condition::Kind::Unbroken:
      // Behind padding another number goes on.
      withValues(array, begin, columns, room, [&](const auto *values) {
        std::remove_cvref_t<decltype(*values)> padding;
        if (!asElement(condition.padding, padding))
          return;
        int64_t last = -1;
        for (int64_t i = 0; i < columns && !bad; ++i) {
          if (values[i] == padding)
            continue;
          bad = last >= 0 && last < i - 1 && values[last] == values[i];
          last = i;
        }
      });
      return !bad;
    // The input has the mask's shape (readConditions); element i + shift of it belongs to element i
    // of the mask.
    case Condition::Kind::FixedWherePadded:
      break;
    }
    // Shifted out of the row there is nothing to compare.
    const int64_t count = columns - condition.shift;
    if (count <= 0)
      return true;
    padded.resize(size_t(columns));
    withValues(array, begin, count, room, [&](const auto *values) {
      std::remove_cvref_t<decltype(*values)> padding;
      const bool can = asElement(condition.padding, padding);
      for (int64_t i = 0; i < count; ++i)
        padded[size_t(i)] = uint8_t(can & (values[i] == padding));
    });
    withValues(arrays[condition.input], begin + condition.shift, count, room,
               [&](const auto *values) {
                 std::remove_cvref_t<decltype(*values)> fixed;
                 const bool can = asElement(condition.value, fixed);
                 uint8_t other = 0;
                 for (int64_t i = 0; i < count; ++i)
                   other |= padded[size_t(i)] & uint8_t(!can | (values[i] != fixed));
                 bad = other;
               });
    return !bad;
  }

  const std::vector<ArrayView> &arrays;
  const std::vector<bool> &filled;
  std::vector<float> room;
  std::vector<uint8_t> padded;
  std::vector<Run> runs;
};

} // namespace

/// Counts and verdicts of a batch; all that a variant is chosen by. For arrays on the device -1 and
/// "does not hold".
BatchFacts lookAt(const Program &program, const Function &function,
                  const std::vector<ArrayView> &arrays, const std::vector<bool> &filled) {
  BatchFacts facts;
  for (uint32_t index : function.batchCounts) {
    const Symbol &symbol = program.symbols[index];
    const ArrayView &array = arrays[size_t(symbol.input)];
    int64_t whole = 0;
    // Filled-in inputs are zeros: all of their elements count where zeros do, as sequences zeros
    // are one each, and otherwise none.
    const bool ofZeros = symbol.differs || symbol.what == Symbol::What::Sequences ||
                         symbol.what == Symbol::What::LongestSequence;
    if (filled[size_t(symbol.input)] && ofZeros)
      whole = mostOf(symbol, array.shape);
    facts.needed.push_back(filled[size_t(symbol.input)] ? whole
                           : array.onDevice             ? -1
                                                        : countOf(symbol, array));
  }
  // Buffers for rows are reused over all variants.
  Judge judge(arrays, filled);
  for (uint32_t variant : function.variants)
    facts.verdicts.push_back(judge.judge(program.functions[variant]));
  return facts;
}

const char *nameOf(Condition::Kind kind) {
  return kind == Condition::Kind::Binary             ? "binary"
         : kind == Condition::Kind::FixedWherePadded ? "fixed_where_padded"
         : kind == Condition::Kind::RealAt           ? "real_at"
         : kind == Condition::Kind::Contiguous       ? "contiguous"
         : kind == Condition::Kind::Above            ? "above"
                                                     : "unbroken";
}

std::string describe(const Program &program, const Condition &condition) {
  auto quoted = [&](uint32_t input) { return "'" + program.inputs[input].name + "'"; };
  std::string text = "'" + std::string(nameOf(condition.kind)) + "' (";
  switch (condition.kind) {
  case Condition::Kind::Binary:
    return text + quoted(condition.input) + " is 0 or 1)";
  case Condition::Kind::FixedWherePadded:
    return text + quoted(condition.input) + " is " + std::to_string(condition.value) +
           (condition.shift ? ", " + std::to_string(condition.shift) + " further on," : "") +
           " where " + quoted(condition.mask) + " is " + std::to_string(condition.padding) + ")";
  case Condition::Kind::Above:
    return text + quoted(condition.mask) + " is nowhere below " +
           std::to_string(condition.padding) + ")";
  case Condition::Kind::Unbroken:
    return text + "no " + std::to_string(condition.padding) + " stands between equal elements of " +
           quoted(condition.mask) + ")";
  case Condition::Kind::Contiguous:
    return text + "equal elements of " + quoted(condition.mask) + " lie next to each other, " +
           std::to_string(condition.padding) + " left out)";
  case Condition::Kind::RealAt:
    break;
  }
  return text + quoted(condition.mask) + " is not " + std::to_string(condition.padding) + " in " +
         (condition.index == -2   ? "some column"
          : condition.index == -1 ? "the last column"
                                  : "column " + std::to_string(condition.index)) +
         ")";
}

std::vector<const void *> KnownFacts::placesOf(const Function &function,
                                               const std::vector<ArrayView> &arrays) {
  std::vector<const void *> places;
  for (uint32_t input : function.batchInputs)
    places.push_back(arrays[input].data);
  return places;
}

/// By the addresses of the arrays: callers say `checked` only where the same addresses hold the
/// same data.
void KnownFacts::remember(const Function &function, const std::vector<ArrayView> &arrays,
                          const BatchFacts &facts) {
  Entry entry{&function, placesOf(function, arrays), facts};
  std::lock_guard lock(mutex);
  for (Entry &other : entries)
    if (other.function == entry.function && other.data == entry.data) {
      other.facts = std::move(entry.facts);
      return;
    }
  // The oldest goes first; a few batches ahead are all that is remembered.
  if (entries.size() == most)
    entries.pop_front();
  entries.push_back(std::move(entry));
}

bool KnownFacts::find(const Function &function, const std::vector<ArrayView> &arrays,
                      BatchFacts &facts) const {
  const std::vector<const void *> places = placesOf(function, arrays);
  std::lock_guard lock(mutex);
  for (const Entry &entry : entries)
    if (entry.function == &function && entry.data == places) {
      facts = entry.facts;
      return true;
    }
  return false;
}

} // namespace trainrt
