// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of a dataset that is about rows which are copied one by one: their lengths, their
// padding, and how people find them again.
#include "cli/data/dataset.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "format/status.h"
#include "trainrt/data.h"

#include <algorithm>
#include <cassert>
#include <cctype>
#include <map>
#include <numeric>

namespace trainrt::run {

/// Whether there is such a column. `shapes` is a deque: what entries point to stays in place when
/// others are added.
bool Dataset::openColumn(const char *name, Entry &entry) {
  // Null where the folder has no such column.
  entry.column = source->find(name);
  if (!entry.column)
    return false;
  // The first axis is the rows; the shape is kept where it stays in place.
  std::vector<int64_t> &shape = shapes.emplace_back(entry.column->shape);
  shape.insert(shape.begin(), source->rows());
  entry.array = {nullptr, entry.column->dtype, int32_t(shape.size()), shape.data()};
  entry.sizes = &shape;
  return true;
}

/// All problems are found, not the first alone. Trims are whole only where there were none.
void Dataset::shapeRows(std::vector<std::string> &problems) {
  // All that is of one size is as long as the longest row of any column that has it.
  std::map<int32_t, int64_t> longest;
  for (const Entry &entry : entries) {
    assert(entry.column && "all entries are columns here");
    const std::string name = "input '" + shown(entry.input->name) + "'";
    if (entry.axis != 0)
      problems.push_back(name + " is " + describe(*entry.input) +
                         ": its first axis must be the batch's, since the data has one value of it "
                         "for each row");
    if (const std::string why = entry.column->misfit(entry.input->dtype); !why.empty())
      problems.push_back(name + " must be " + trainrt_dtype_name(entry.input->dtype) + ", but " +
                         why);
    // Only rows of different lengths have more to fit.
    if (!entry.column->ragged)
      continue;
    const trainrt_dim &dim = entry.input->dims[1];
    // A size of its own, or a symbol's maximum; sums of sizes have none.
    const int64_t most = dim.value >= 0   ? dim.value
                         : dim.symbol < 0 ? -1
                                          : package.symbols[size_t(dim.symbol)].max;
    if (most < 0)
      problems.push_back(name + " is " + describe(*entry.input) +
                         ": rows of different lengths need an axis of one size for them");
    // The first row that is too long is named below, if nothing else is wrong.
    if (most < 0 || !problems.empty())
      continue;
    // One look at all rows, only where one is known to be too long.
    if (entry.array.shape[1] > most)
      for (int64_t row = 0; row < rowCount; ++row)
        if (const int64_t length = entry.column->length(row); length > most) {
          problems.push_back(name + ": row " + std::to_string(row) + " (" + source->whereIs(row) +
                             ") has " + std::to_string(length) + " places, the model takes " +
                             std::to_string(most) +
                             " at most: write the data with a smaller "
                             "--max-length");
          break;
        }
    if (dim.symbol >= 0 && dim.value < 0) {
      int64_t &all = longest[dim.symbol];
      all = std::max(all, entry.array.shape[1]);
    } else {
      assert(entry.sizes && "a column has its shape beside it");
      (*entry.sizes)[1] = dim.value;
    }
  }
  // Each symbol that rows follow is cut to the longest row of a batch.
  for (auto [symbol, length] : longest)
    trims.push_back({symbol, 1, 0, length, std::vector<int64_t>(size_t(rowCount))});
  // Columns of fixed width cannot follow.
  for (const Entry &entry : entries) {
    for (int32_t i = 1; i < entry.input->rank && !entry.column->ragged; ++i)
      if (follows(entry.input->dims[i]))
        problems.push_back("input '" + shown(entry.input->name) + "' is " + describe(*entry.input) +
                           ": it has to have the lengths of its rows, as other columns have");
    for (Trim &trim : trims)
      for (int64_t row = 0; entry.column->ragged && row < rowCount; ++row)
        if (entry.input->dims[1].symbol == trim.symbol)
          trim.lengths[size_t(row)] =
              std::max(trim.lengths[size_t(row)], entry.column->length(row));
  }
  // Rounded to what the package can take, even without an option.
  if (problems.empty())
    roundLengths(1);
}

bool Dataset::isRagged() const {
  return source && std::any_of(entries.begin(), entries.end(),
                               [](const Entry &entry) { return entry.column->ragged; });
}

/// May be called again with another multiple: it begins from the rows' own lengths.
int64_t Dataset::roundLengths(int64_t multiple) {
  if (!isRagged())
    return multiple;
  // One multiple for all, so that any of the sizes may be the longest.
  for (const Trim &trim : trims)
    multiple = std::lcm(multiple, package.symbols[size_t(trim.symbol)].divisor);
  for (Trim &trim : trims) {
    const trainrt_symbol &symbol = package.symbols[size_t(trim.symbol)];
    assert(!trim.lengths.empty() && "there are rows");
    const int64_t longest = *std::max_element(trim.lengths.begin(), trim.lengths.end());
    trim.multiple = multiple;
    trim.least = (std::max<int64_t>(symbol.min, 1) + multiple - 1) / multiple * multiple;
    // The largest size that the package has may be no such multiple.
    trim.full = std::min(std::max((longest + multiple - 1) / multiple * multiple, trim.least),
                         symbol.max / symbol.divisor * symbol.divisor);
    // Shapes show the size that a batch of all rows would have.
    for (const Entry &entry : entries)
      for (int32_t i = 1; i < entry.input->rank; ++i)
        if (entry.input->dims[i].symbol == trim.symbol)
          (*entry.sizes)[size_t(i)] = trim.full;
  }
  return multiple;
}

int64_t Dataset::leastLength() const {
  int64_t least = 0;
  for (const Trim &trim : trims)
    least = std::max({least, package.symbols[size_t(trim.symbol)].min, int64_t(1)});
  return least;
}

/// Without reading values: lengths are in the folder.
std::optional<std::vector<int64_t>> Dataset::knownLengths() const {
  if (!source)
    return std::nullopt;
  std::vector<int64_t> lengths(size_t(rowCount), 1);
  // Matrices of rows; without ragged ones, whatever width they have.
  for (const Entry &entry : entries)
    if (entry.input->rank == 2 && (entry.column->ragged || !isRagged()))
      for (int64_t row = 0; row < rowCount; ++row)
        lengths[size_t(row)] =
            std::max(lengths[size_t(row)],
                     entry.column->ragged ? entry.column->length(row) : entry.array.shape[1]);
  return lengths;
}

bool Dataset::follows(const trainrt_dim &dim) const {
  // The symbol itself, or a sum with it.
  return dim.value < 0 &&
         std::any_of(
             trims.begin(), trims.end(),
             [&](const Trim &trim) {
               return dim.symbol == trim.symbol ||
                      (dim.symbol < 0 &&
                       mentions(dim.text, package.symbols[size_t(trim.symbol)].name));
             });
}

bool Dataset::mentions(const std::string &text, const std::string &symbol) {
  // "seq + 1", but not "seq_2 + 1".
  auto isPart = [&](size_t at) {
    return at < text.size() && (std::isalnum((unsigned char)text[at]) || text[at] == '_');
  };
  // Every place where the name stands, until it stands alone.
  for (size_t at = text.find(symbol); at != text.npos; at = text.find(symbol, at + 1))
    if (!isPart(at + symbol.size()) && !(at && isPart(at - 1)))
      return true;
  return false;
}

/// Rows lie in the batch in the order of `rows`, each padded to the batch's length, in the input's
/// type.
void Dataset::gather(const Entry &entry, const std::vector<int64_t> &rows, size_t index,
                     Batch &into) const {
  std::vector<int64_t> &shape = into.shapes[index];
  cutShape(entry, rows, shape);
  assert(!shape.empty() && "rows are an axis");
  int64_t places = 1;
  for (size_t i = 1; i < shape.size(); ++i)
    places *= shape[i];
  const size_t each = size_t(places) * trainrt_dtype_size(entry.input->dtype);
  // Pinned where the device has such memory.
  char *to = into.reserve(index, std::max<size_t>(each * rows.size(), 1));
  into.tensors.push_back(
      {entry.input->name, {to, entry.input->dtype, int32_t(shape.size()), shape.data()}});
  for (int64_t row : rows) {
    entry.column->copy(row, places, entry.input->dtype, to);
    to += each;
  }
}

/// -1: nothing tells.
int64_t Dataset::tokensOf(const Batch &batch) const {
  const trainrt_batch view = batch.view();
  int64_t real = 0, all = 0;
  ErrorSlot error;
  error.check(
      trainrt_package_count_real(package.handle.get(), &view, TRAINRT_EMBED, &real, &all, error));
  // By padding, where the package knows it.
  if (all || !source)
    return all ? real : -1;
  int64_t tokens = 0;
  const RowColumn *longest = nullptr;
  // By length, of the column that has most places.
  for (const Entry &entry : entries)
    if (entry.input->rank == 2 && (entry.column->ragged || !isRagged()))
      longest = longest && longest->shape[0] >= entry.column->shape[0] ? longest : entry.column;
  for (size_t i = 0; longest && i < batch.rows.size(); ++i)
    tokens += longest->ragged ? longest->length(batch.rows[i]) : longest->shape[0];
  return longest ? tokens : -1;
}

std::optional<trainrt_tensor> Dataset::extraColumn(const std::string &name) const {
  const RowColumn *column = source->find(name);
  if (!column)
    return std::nullopt;
  // Kept: the tensor points to them.
  std::vector<int64_t> &shape = extraShapes.emplace_back(column->shape);
  shape.insert(shape.begin(), rowCount);
  trainrt_tensor tensor{nullptr, column->dtype, int32_t(shape.size()), shape.data()};
  if (column->ragged || shape.size() != 1) // of another form than is asked for
    return tensor;
  std::vector<char> &values =
      extraValues.emplace_back(size_t(rowCount) * trainrt_dtype_size(column->dtype));
  tensor.data = values.data();
  for (int64_t row = 0; row < rowCount; ++row)
    column->copy(row, 1, column->dtype,
                 values.data() + size_t(row) * trainrt_dtype_size(column->dtype));
  return tensor;
}

/// As people find it: the number in the data, and the file it lies in.
std::string Dataset::nameOf(int64_t row) const {
  if (!source)
    return "row " + std::to_string(row);
  return row < rowCount ? "row " + std::to_string(row) + " (" + source->whereIs(row) + ")"
                        : source->whereIs(row);
}

} // namespace trainrt::run
