// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counting, by element type.

#include "session/data/density.h"

#include <limits>

namespace trainrt {

namespace {

template <typename T, typename Real>
void count(const ArrayView &array, const Real &isReal, int64_t rows, DensityRecord &record,
           /// Rows are the first axis; the last axis is the place in a row, for lengths.
           std::vector<int64_t> *lengths) {
  const T *element = static_cast<const T *>(array.data);
  int64_t all = 1;
  for (int64_t extent : array.shape)
    all *= extent;
  // Without rows there is nothing to divide.
  const int64_t perRow = rows ? all / rows : 0;
  const int64_t last = array.shape.size() < 2 ? perRow : array.shape.back();
  for (int64_t row = 0; row < rows; ++row) {
    int64_t valid = 0, length = 0;
    for (int64_t at = 0; at < perRow;)
      for (int64_t place = 0; place < last; ++place, ++at, ++element)
        if (isReal(*element)) {
          ++valid;
          length = std::max(length, place + 1);
        }
    // A length is the last place that counts, so that holes do not shorten a row.
    record.valid += valid;
    record.validByRow.push_back(valid);
    if (lengths)
      (*lengths)[size_t(row)] = std::max((*lengths)[size_t(row)], length);
  }
  record.total += all;
}

template <typename T>
void countIntegers(const ArrayView &array, std::optional<int64_t> pad, int64_t rows,
                   DensityRecord &record, std::vector<int64_t> *lengths) {
  const int64_t wanted = pad.value_or(0);
  const T value = T(wanted);
  // A pad that the type cannot hold is nowhere.
  const bool fits = std::numeric_limits<T>::is_signed || wanted >= 0
                        ? int64_t(value) == wanted && (value < T(0)) == (wanted < 0)
                        : false;
  count<T>(array, [&](T element) { return !fits || element != value; }, rows, record, lengths);
}

/// Null where the batch does not have it.
const NamedArray *find(const Batch &batch, const std::string &name) {
  for (const NamedArray &entry : batch)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

} // namespace

Status countReal(const ArrayView &array, std::optional<int64_t> pad, DensityRecord &record,
                 std::vector<int64_t> *lengths) {
  const int64_t rows = array.shape.empty() ? 1 : array.shape[0];
  // The first array says how many rows there are.
  if (lengths && lengths->empty())
    lengths->resize(size_t(rows));
  if (lengths && int64_t(lengths->size()) != rows)
    return fail(Code::InvalidArgument, rows, " rows where others have ", lengths->size());
  if (visitInteger(array.dtype,
                   [&]<typename T>(T) { countIntegers<T>(array, pad, rows, record, lengths); }))
    return {};
  // Masks only.
  // Anything but 0 and -0 is real, NaN included.
  auto floats = [&](auto bits, auto sign) {
    using Bits = decltype(bits);
    if (pad)
      return fail(Code::Unsupported, "an array of ", nameOf(array.dtype), " holds no ids");
    count<Bits>(
        array, [&](Bits element) { return Bits(element & Bits(~sign)) != 0; }, rows, record,
        lengths);
    return Status();
  };
  switch (array.dtype) {
  case DType::F64:
    return floats(uint64_t(), uint64_t(1) << 63);
  case DType::F32:
    return floats(uint32_t(), uint32_t(1) << 31);
  case DType::F16:
  case DType::BF16:
    return floats(uint16_t(), uint16_t(1) << 15);
  default:
    break;
  }
  return fail(Code::Internal, "dtype ", int(array.dtype));
}

Status measureDensity(const Package &package, const std::vector<BoundBatch> &batches, int64_t step,
                      const std::function<void(const DensityRecord &)> &density) {
  const Program &program = package.program();
  // An index beyond all where there is none: the batch has no such array then.
  auto index = [&](const std::string &name) {
    size_t i = 0;
    while (i < program.inputs.size() && program.inputs[i].name != name)
      ++i;
    return i;
  };
  for (const Manifest::Tensor &input : package.manifest().inputs)
    for (const Manifest::Tokens &tokens : input.tokens) {
      // Ids are counted themselves, others by their mask.
      const std::string &counted = tokens.pad ? input.name : tokens.mask;
      const size_t from = index(counted);
      DensityRecord record;
      record.step = step;
      record.input = &input;
      record.tokens = &tokens;
      // All batches of the step in one record.
      for (const BoundBatch &batch : batches) {
        if (from >= batch.arrays.size())
          continue;
        const ArrayView &array = batch.arrays[from];
        if (array.onDevice)
          return fail(Code::Unsupported, "input '", counted,
                      "' lies in the GPU's memory, where its density is not counted: give it in "
                      "host memory, or make the session without 'density'");
        if (array.data)
          TRAINRT_TRY(countReal(array, tokens.pad, record).within("input '" + counted + "': "));
      }
      // Inputs that the batch left out are no zeros.
      if (record.total)
        density(record);
    }
  return {};
}

Status countRealOf(const Package &package, const Batch &arrays, bool labels,
                   DensityRecord &record) {
  for (const Manifest::Tensor &input : package.manifest().inputs)
    for (const Manifest::Tokens &tokens : input.tokens) {
      const std::string &counted = tokens.pad ? input.name : tokens.mask;
      const NamedArray *array = tokens.isLabel == labels ? find(arrays, counted) : nullptr;
      if (array)
        TRAINRT_TRY(
            countReal(array->array, tokens.pad, record).within("input '" + counted + "': "));
    }
  return {};
}

Status measureRowLengths(const Package &package, const Batch &rows, int32_t symbol,
                         std::vector<int64_t> &lengths) {
  const Program &program = package.program();
  // Several inputs may have such rows: the longest counts.
  lengths.clear();
  bool known = false;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const TensorDecl &decl = program.inputs[i];
    if (decl.shape.size() < 2)
      continue;
    // By the size of the last axis: the one that is padded to.
    const Expr &last = program.exprs[decl.shape.back()];
    if (symbol >= 0 && (last.kind != Expr::Kind::Symbol || int32_t(last.a) != symbol))
      continue;
    for (const Manifest::Tokens &tokens : package.input(i).tokens) {
      const std::string &counted = tokens.pad ? decl.name : tokens.mask;
      const NamedArray *array = find(rows, counted);
      if (!array)
        continue;
      if (array->array.shape.size() != decl.shape.size())
        return fail(Code::BadData, "input '", counted, "' has rank ", array->array.shape.size(),
                    " and must have ", decl.shape.size());
      // Only the lengths are wanted.
      DensityRecord ignored;
      TRAINRT_TRY(countReal(array->array, tokens.pad, ignored, &lengths)
                      .as(Code::BadData)
                      .within("input '" + counted + "': "));
      known = true;
    }
  }
  if (!known)
    return fail(Code::NotFound, "nothing tells how long rows are: ",
                symbol >= 0 ? "no input with the size '" + program.symbols[size_t(symbol)].name +
                                  "' has a mask, ids with a known padding, or labels that may be "
                                  "ignored"
                            : "the model has no input of rows with a mask, ids with a known "
                              "padding, or labels that may be ignored",
                "; compile it with trainc --pad-token ID if ids are padded");
  return {};
}

} // namespace trainrt
