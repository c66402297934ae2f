// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matching a file to a package's inputs, and cutting batches out of it.
#include "cli/data/dataset.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "format/hash.h"
#include "format/status.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <map>
#include <set>

namespace trainrt::run {

namespace {

std::string quoted(const char *name) { return "'" + shown(name) + "'"; }

/// The first names of a file, which may have any number.
std::string some(std::vector<std::string> names) {
  constexpr size_t most = 20;
  const size_t more = names.size() - std::min(names.size(), most);
  names.resize(names.size() - more);
  return join(names, ", ") + (more ? " and " + std::to_string(more) + " more" : "");
}

/// No overflow: these are shapes of arrays that are there.
int64_t product(const int64_t *from, const int64_t *to) {
  int64_t result = 1;
  for (; from != to; ++from)
    result *= *from;
  return result;
}

/// All problems at once, each on a line with the file.
[[noreturn]] void fail(const std::string &file, const std::vector<std::string> &problems) {
  throw Failure(exitInput, file + ": " + join(problems, "\n" + file + ": "));
}

/// Copies the first `cut[i]` places of each axis i of an array, and of axis `axis` (-1: none) those
/// that `rows` names.
/// Every `cut[i]` is at most the array's size there, and `cut[axis]` the number of rows: an axis
/// that --cut cuts is never cut to lengths as well (`trim` refuses it). What is given outlives the
/// object.
class CutCopy {
public:
  CutCopy(const trainrt_tensor &array, const std::vector<int64_t> &cut, int32_t axis,
          const std::vector<int64_t> &rows)
      : cut(cut), axis(axis), rows(rows), strides(cut.size()), flat(int32_t(cut.size())) {
    // Bytes from one place of an axis to the next.
    int64_t stride = int64_t(trainrt_dtype_size(array.dtype));
    for (size_t i = cut.size(); i-- > 0; stride *= array.shape[i])
      strides[i] = stride;
    block = size_t(trainrt_dtype_size(array.dtype));
    // Whole axes at the end are one block.
    while (flat > axis + 1 && cut[size_t(flat - 1)] == array.shape[flat - 1])
      block *= size_t(cut[size_t(--flat)]);
    // The first places of an axis follow each other as well.
    if (flat > axis + 1)
      block *= size_t(cut[size_t(--flat)]);
  }
  /// Returns the place behind what was written. The result is row-major, in the order of `rows`.
  char *run(const char *from, char *to, int32_t level = 0) const {
    // Behind `flat` everything lies side by side.
    if (level == flat) {
      std::memcpy(to, from, block);
      return to + block;
    }
    for (int64_t i = 0; i < cut[size_t(level)]; ++i)
      to =
          run(from + (level == axis ? rows[size_t(i)] : i) * strides[size_t(level)], to, level + 1);
    return to;
  }

private:
  const std::vector<int64_t> &cut;
  const int32_t axis;
  const std::vector<int64_t> &rows;
  std::vector<int64_t> strides; ///< bytes
  int32_t flat;                 ///< axes from here on are copied at once
  size_t block;
};

/// The row of the first of `rows` if they follow each other, else -1.
int64_t firstOfRun(const std::vector<int64_t> &rows) {
  for (size_t i = 1; i < rows.size(); ++i)
    if (rows[i] != rows[0] + int64_t(i))
      return -1;
  // An empty batch begins nowhere.
  return rows.empty() ? -1 : rows[0];
}

} // namespace

/// False where the file has no such array. Values belong to `handle`.
bool Dataset::openArray(const char *name, Entry &entry) {
  // Linear: files have few arrays.
  for (size_t i = 0, end = trainrt_file_count(handle.get()); i < end; ++i) {
    if (std::strcmp(trainrt_file_name(handle.get(), i), name) != 0)
      continue;
    ErrorSlot error;
    const trainrt_status status = trainrt_file_tensor(handle.get(), i, &entry.array, error);
    if (status != TRAINRT_OK)
      throw Failure(exitCodeOf(status), error.message(status));
    return true;
  }
  return false;
}

/// Entries come in the package's order. What is missing ends it here: without an array nothing else
/// can be said of it.
void Dataset::findEntries(Use use, const Reading &reading, std::vector<std::string> &warnings) {
  // An evaluation needs what its function reads, no labels that only training has.
  const uint32_t usedFlag =
      use == Use::train ? TRAINRT_FLAG_USED_IN_TRAIN : TRAINRT_FLAG_USED_IN_EVAL;
  std::vector<std::string> problems, extra, lackingNames, present;
  std::set<std::string> names;
  for (size_t i = 0, end = handle ? trainrt_file_count(handle.get()) : 0; i < end; ++i)
    names.insert(trainrt_file_name(handle.get(), i));
  if (source)
    for (const std::unique_ptr<RowColumn> &column : source->columns())
      names.insert(column->name);
  // Sorted, so that messages are the same every time.
  for (const std::string &name : names) {
    present.push_back(shown(name));
    const bool known =
        std::any_of(package.inputs.begin(), package.inputs.end(),
                    [&](const trainrt_tensor_info &input) { return name == input.name; });
    // The array of --complexity is no input, and no stranger.
    if (!known && name != reading.extraArray)
      extra.push_back(quoted(name.c_str()));
  }

  for (const trainrt_tensor_info &input : package.inputs) {
    if (!(input.flags & usedFlag))
      continue;
    // The axis is found later.
    Entry entry{&input, {}, -1};
    if (source ? openColumn(input.name, entry) : openArray(input.name, entry))
      entries.push_back(entry);
    else if (use == Use::predict)
      lackingNames.push_back(quoted(input.name));
    else if (!(input.flags & TRAINRT_FLAG_OPTIONAL))
      problems.push_back("input " + quoted(input.name) + " is missing: the model needs an array " +
                         quoted(input.name) + ", " + describe(input));
  }
  // Together with what the file has: names may only be spelled otherwise.
  if (!problems.empty()) {
    problems.push_back("it has " + (present.empty() ? "no arrays" : some(present)));
    fail(file, problems);
  }
  if (entries.empty() && !package.inputs.empty() && use == Use::predict)
    fail(file, {"it has none of the model's inputs"});
  if (!extra.empty())
    warnings.push_back(some(extra) + (extra.size() == 1
                                          ? " is no input of the model and is ignored"
                                          : " are no inputs of the model and are ignored"));
  // What is taken for zeros is told once.
  if (!lackingNames.empty()) {
    lacking = true;
    warnings.push_back(join(lackingNames, ", ") +
                       (lackingNames.size() == 1 ? " is missing and is" : " are missing and are") +
                       " taken as zeros: right for labels, wrong for what the outputs depend on");
  }
}

Dataset::Dataset(const Package &package, const std::string &path, Use use,
                 std::optional<int64_t> batchSize, const Reading &reading, Reporter &reporter)
    : file(path), source(openRows(package, path, reading.windows)), package(package) {
  if (!source) {
    ErrorSlot error;
    trainrt_file *opened = nullptr;
    error.check(trainrt_file_open(path.c_str(), &opened, error));
    handle.reset(opened);
  }
  // Problems are collected as long as they do not depend on each other.
  std::vector<std::string> problems, warnings;
  findEntries(use, reading, warnings);
  // Rows are converted when they are copied: their column is asked.
  for (const Entry &entry : entries) {
    const std::string name = quoted(entry.input->name);
    if (!entry.column && !isLossless(entry.array.dtype, entry.input->dtype))
      problems.push_back("input " + name + " must be " + trainrt_dtype_name(entry.input->dtype) +
                         ", the array is " + trainrt_dtype_name(entry.array.dtype) +
                         ", and the conversion could lose values: save it as " + entry.input->name +
                         ".astype(" + (entry.input->dtype == TRAINRT_BF16 ? "" : "numpy.") +
                         numpyName(entry.input->dtype) + ")");
    if (entry.array.rank != entry.input->rank)
      problems.push_back("input " + name + " must have rank " + std::to_string(entry.input->rank) +
                         ": it is " + describe(*entry.input) + ", the array is " +
                         describe(entry.array));
  }
  // Axes are only looked at where ranks are right.
  if (!problems.empty())
    fail(file, problems);

  for (Entry &entry : entries)
    entry.told = std::count(reading.whole.begin(), reading.whole.end(), entry.input->name);
  // In this order: axes, cuts, lengths, then sizes against each other.
  findBatchAxes(package, problems);
  cutAsTold(reading, problems);
  if (source)
    shapeRows(problems);
  checkShapes(package, problems);
  if (!problems.empty())
    fail(file, problems);
  if (rowCount == 0)
    fail(file, {"it has no rows"});
  chooseBatch(use, batchSize);
  checkWhole();
  // Warnings only now: a file that is refused needs none.
  for (const std::string &warning : warnings)
    reporter.warning(file + ": " + warning);
  if (!renamed.empty())
    reporter.warning(file + ": " + join(renamed, ", ") + (renamed.size() == 1 ? " has" : " have") +
                     " another name than '" + package.info.batch_symbol +
                     "' for the first axis, but the data's rows: taken as one of each row");
  if (source && !source->note().empty())
    reporter.note(file + ": " + source->note());
}

/// Rows and kind of batch are known. Afterwards `batch` is no more than the rows.
void Dataset::chooseBatch(Use use, std::optional<int64_t> batchSize) {
  if (isStatic) {
    // The package's own size, which the option may only repeat.
    if (batch < 1)
      throw Failure(exitInput, package.path + ": the package was compiled for batches of no rows");
    if (batchSize && *batchSize != batch)
      throw Failure(exitInput, "--batch-size " + std::to_string(*batchSize) +
                                   ": the package was compiled for batches of " +
                                   std::to_string(batch));
  } else {
    isChosen = !batchSize;
    batch = batchSize.value_or(possibleBatch(defaultBatch));
  }
  // Evaluation takes what there is.
  if (use != Use::train)
    batch = isStatic ? batch : std::min(batch, rowCount);
  if (batch > rowCount)
    throw Failure(exitInput, (batchSize ? "--batch-size " + std::to_string(batch)
                                        : "the package's batch size " + std::to_string(batch)) +
                                 " is larger than the data: " + file + " has " +
                                 std::to_string(rowCount) + " rows");
}

/// The nearest number of rows that the package takes: a multiple of its divisor, within its bounds.
int64_t Dataset::possibleBatch(int64_t rows) const {
  rows = std::min(rows, rowCount);
  if (package.info.batch_symbol_index < 0)
    return rows;
  const trainrt_symbol &symbol = package.symbols[size_t(package.info.batch_symbol_index)];
  const int64_t divisor = std::max<int64_t>(symbol.divisor, 1);
  return std::max(std::min(rows, symbol.max) / divisor * divisor, symbol.min);
}

/// Afterwards an entry has an axis or is whole in every batch, as long as --cut does not say more.
void Dataset::findBatchAxes(const Package &package, std::vector<std::string> &problems) {
  // The first input that has the axis decides how many rows there are.
  const Entry *first = nullptr; // whose rows are the data's rows
  const int32_t symbol = package.info.batch_symbol_index;
  if (symbol >= 0) {
    for (Entry &entry : entries) {
      // The first axis of that size; an input has one batch axis.
      for (int32_t i = 0; i < entry.input->rank && entry.axis < 0; ++i)
        if (entry.input->dims[i].symbol == symbol)
          entry.axis = i;
      if (entry.axis >= 0 && !first)
        first = &entry;
      const trainrt_dim *dims = entry.input->dims;
      // "batch * seq" and the like: no part of it is a row's.
      if (entry.axis < 0 && entry.input->rank > 0 && dims[0].value < 0 && dims[0].symbol < 0 &&
          std::string(dims[0].text).find(package.info.batch_symbol) != std::string::npos)
        problems.push_back("input " + quoted(entry.input->name) + " is " + describe(*entry.input) +
                           ": an axis of that size cannot be cut into batches");
    }
  } else {
    // No symbolic batch: batches are as long as the first input says, and the file may hold
    // several.
    for (Entry &entry : entries) {
      if (entry.input->rank == 0 || entry.input->dims[0].value < 0)
        continue;
      // The first input with a first axis of known size.
      if (!first) {
        batch = entry.input->dims[0].value;
        isStatic = true;
        entry.axis = 0;
        first = &entry;
      } else if (entry.input->dims[0].value == batch &&
                 (entry.array.shape[0] == first->array.shape[0] || entry.array.shape[0] != batch)) {
        entry.axis = 0;
      }
    }
  }
  // Without any, all inputs are whole: one batch.
  if (!first)
    return;
  rowCount = first->array.shape[first->axis];
  // Exporters give axes names of their own: such an axis is the batch's if it is as long.
  if (symbol >= 0)
    for (Entry &entry : entries)
      if (entry.axis < 0 && !entry.told && hasRowsOfOtherName(entry)) {
        entry.axis = 0;
        renamed.push_back(quoted(entry.input->name));
      }
  for (const Entry &entry : entries)
    if (entry.axis >= 0 && entry.array.shape[entry.axis] != rowCount)
      problems.push_back("the inputs' rows disagree: " + quoted(first->input->name) + " has " +
                         std::to_string(rowCount) + ", " + quoted(entry.input->name) + " has " +
                         std::to_string(entry.array.shape[entry.axis]));
}

/// Length alone would prove nothing: an axis of features may be as long by chance. So its size must
/// be a symbol that stands nowhere else.
bool Dataset::hasRowsOfOtherName(const Entry &entry) const {
  // As long as the data's rows, and of a size that no other axis has.
  if (entry.input->rank == 0 || entry.array.shape[0] != rowCount)
    return false;
  const int32_t symbol = entry.input->dims[0].symbol;
  if (symbol < 0)
    return false;
  for (const Entry &other : entries)
    for (int32_t i = 1; i < other.input->rank; ++i)
      if (other.input->dims[i].symbol == symbol)
        return false;
  return true;
}

/// A fixed axis is as long in every batch, so it cannot be cut.
int32_t Dataset::dynamicAxis(const Entry &entry) {
  for (int32_t i = 0; i < entry.input->rank; ++i)
    if (entry.input->dims[i].value < 0)
      return i;
  return -1;
}

/// An axis of a size that other inputs have elsewhere cannot be cut on its own.
bool Dataset::isShared(const Entry &entry, int32_t axis) const {
  const int32_t symbol = entry.input->dims[axis].symbol;
  for (const Entry &other : entries)
    for (int32_t i = 0; i < other.input->rank; ++i)
      if (other.input->dims[i].symbol == symbol && i != (other.axis < 0 ? axis : other.axis))
        return true;
  return symbol < 0; // made of such sizes
}

void Dataset::cutAsTold(const Reading &given, std::vector<std::string> &problems) {
  // Names are checked against the package before anything is done.
  for (const auto &[names, option] : {std::pair(&given.cut, "--cut "), {&given.whole, "--whole "}})
    for (const std::string &name : *names) {
      size_t ignored = 0;
      ErrorSlot error;
      const trainrt_status status =
          trainrt_package_find(package.handle.get(), TRAINRT_INPUT, name.c_str(), &ignored, error);
      if (status != TRAINRT_OK)
        throw Failure(exitInput, option + name + ": " + error.message(status));
      const bool isCut = names == &given.cut;
      for (Entry &entry : entries) {
        if (name != entry.input->name)
          continue;
        const std::string what = option + name + ": input " + quoted(entry.input->name) + " is " +
                                 describe(*entry.input);
        // Said for nothing, or wrongly.
        if (!isCut && entry.axis >= 0)
          problems.push_back(what + ": it has the batch's axis, and is always cut");
        if (!isCut || entry.axis >= 0)
          continue;
        const int32_t axis = dynamicAxis(entry);
        if (axis < 0) {
          problems.push_back(what + ": no axis of it can be cut");
          continue;
        }
        // Equal parts: each row has as many places.
        const int64_t places = entry.array.shape[axis];
        if (rowCount == 0 || places % rowCount)
          problems.push_back(what + ", and its " + std::to_string(places) + " positions on axis " +
                             std::to_string(axis) + " are no equal parts of " +
                             std::to_string(rowCount) +
                             " rows: pad them, so that every row has as many");
        else
          entry.each = places / rowCount;
        entry.axis = axis;
      }
    }
}

/// Silence here would train every row on the values of all: so guesses are refused, and a person
/// says what is meant.
void Dataset::checkWhole() const {
  // One batch of all: nothing has to be cut.
  if (batch >= rowCount)
    return;
  std::vector<std::string> problems;
  for (const Entry &entry : entries) {
    // Only what nobody has said anything of.
    const int32_t axis = entry.axis < 0 && !entry.told ? dynamicAxis(entry) : -1;
    if (axis < 0 || isShared(entry, axis))
      continue;
    const int64_t places = entry.array.shape[axis];
    const std::string name = entry.input->name;
    // A multiple of the rows looks like places of rows; guessing either way may be wrong.
    if (places >= rowCount && places % rowCount == 0)
      problems.push_back("input '" + name + "' is " + describe(*entry.input) +
                         ": no axis of it is the batch's, but its " + std::to_string(places) +
                         " positions on axis " + std::to_string(axis) + " look like " +
                         std::to_string(places / rowCount) + " for each of the " +
                         std::to_string(rowCount) + " rows: --cut " + name +
                         " gives every batch the part of its rows, --whole " + name +
                         " gives all of it to every batch");
    else if (places > 1 && places < rowCount && rowCount % places == 0)
      problems.push_back("input '" + name + "' is " + describe(*entry.input) +
                         ": no axis of it is the batch's, but its " + std::to_string(places) +
                         " positions on axis " + std::to_string(axis) + " look like one for each " +
                         std::to_string(rowCount / places) + " of the " + std::to_string(rowCount) +
                         " rows, and batches of rows would not cut it: --whole " + name +
                         " gives all of it to every batch, --batch-size " +
                         std::to_string(rowCount) + " makes one batch of all");
  }
  if (!problems.empty())
    fail(file, problems);
}

/// Of another size than before: what was fine may need an answer now.
void Dataset::setBatchSize(int64_t rows) {
  batch = rows;
  checkWhole();
}

/// "" also where one batch has all rows.
std::string Dataset::wholeInputs() const {
  std::string text;
  // Only inputs with axes are worth a word.
  for (const Entry &entry : entries)
    if (batch < rowCount && entry.axis < 0 && entry.input->rank > 0)
      text +=
          (text.empty() ? "" : ", ") + std::string(entry.input->name) + " " + describe(entry.array);
  return text;
}

/// A size such as 2*w, where no axis is w alone: whether there is a w.
void Dataset::checkPart(const Package &package, const Entry &entry, int32_t axis,
                        std::vector<std::string> &problems) {
  const trainrt_dim &dim = entry.input->dims[axis];
  for (size_t s = 0; dim.value < 0 && dim.symbol < 0 && s < package.symbols.size(); ++s) {
    const trainrt_symbol &symbol = package.symbols[s];
    if (!symbol.input || std::strcmp(symbol.input, entry.input->name) != 0 || symbol.axis != axis)
      continue;
    int64_t ignored = 0;
    ErrorSlot error;
    const trainrt_status status = trainrt_package_symbol_value(
        package.handle.get(), s, entry.array.shape[axis], &ignored, error);
    if (status != TRAINRT_OK)
      problems.push_back(error.message(status));
  }
}

/// Two sizes of one symbol, or a size that the package has fixed otherwise. The first input that
/// has a symbol is taken to be right.
void Dataset::checkShapes(const Package &package, std::vector<std::string> &problems) const {
  // The first size of each symbol, and where it was seen.
  std::map<int32_t, std::pair<int64_t, std::string>> symbols;
  for (const Entry &entry : entries)
    for (int32_t i = 0; i < entry.input->rank; ++i) {
      // The batch's axis is cut.
      if (i == entry.axis)
        continue;
      const trainrt_dim &dim = entry.input->dims[i];
      const int64_t size = entry.array.shape[i];
      const std::string where =
          "axis " + std::to_string(i) + " of input " + quoted(entry.input->name);
      if (dim.value >= 0 && dim.value != size)
        problems.push_back(where + " must be " + std::to_string(dim.value) + ", the array has " +
                           std::to_string(size) + ": the input is " + describe(*entry.input) +
                           ", the array " + describe(entry.array));
      checkPart(package, entry, i, problems);
      // The batch's own size may stand on another axis as well: that is checked with each batch.
      if (dim.symbol < 0 || dim.symbol == package.info.batch_symbol_index)
        continue;
      auto [at, fresh] = symbols.try_emplace(dim.symbol, size, where);
      if (!fresh && at->second.first != size)
        problems.push_back(where + " is " + std::to_string(size) + ", but " + at->second.second +
                           " is " + std::to_string(at->second.first) + ": both are '" + dim.text +
                           "'");
    }
}

/// Up to a multiple, not below the least, not beyond the array.
int64_t Dataset::Trim::cut(int64_t length) const {
  const int64_t rounded = (length + multiple - 1) / multiple * multiple;
  return std::min(std::max(rounded, least), full);
}

/// Nothing is added where an input cannot follow. Several symbols may be cut, each by its own
/// lengths.
void Dataset::trim(int32_t symbol, std::vector<int64_t> lengths, int64_t multiple) {
  assert(symbol >= 0 && size_t(symbol) < package.symbols.size() && "a size of the package");
  const trainrt_symbol &size = package.symbols[size_t(symbol)];
  const std::string name = size.name;
  int64_t full = 0;
  std::vector<std::string> problems;
  for (const Entry &entry : entries)
    for (int32_t i = 0; i < entry.input->rank; ++i) {
      const trainrt_dim &dim = entry.input->dims[i];
      // Both would cut the same axis.
      if (dim.symbol == symbol && entry.each > 1)
        problems.push_back("input " + quoted(entry.input->name) +
                           " cannot be cut by --cut and to the longest row of a batch (--trim) at "
                           "once");
      // All have the same size there: checked before.
      if (dim.symbol == symbol)
        full = entry.array.shape[i];
      if (dim.symbol < 0 && mentions(dim.text, name))
        problems.push_back("axis " + std::to_string(i) + " of input " + quoted(entry.input->name) +
                           " is " + dim.text +
                           ", which cannot be cut with the others to the longest row "
                           "of a batch (--trim): export it with an axis of " +
                           name);
    }
  if (!problems.empty())
    fail(file, problems);
  // Rounded like lengths are.
  const int64_t least = (size.min + multiple - 1) / multiple * multiple;
  trims.push_back({symbol, multiple, least, full, std::move(lengths)});
}

std::vector<trainrt_named_tensor> Dataset::arrays() const {
  std::vector<trainrt_named_tensor> result;
  // Rows in front, one place a row: what lengths are measured of.
  for (const Entry &entry : entries)
    if (entry.axis == 0 && entry.each == 1)
      result.push_back({entry.input->name, entry.array});
  return result;
}

std::optional<trainrt_tensor> Dataset::extra(const std::string &name) const {
  if (source)
    return extraColumn(name);
  for (size_t i = 0, end = trainrt_file_count(handle.get()); i < end; ++i)
    if (name == trainrt_file_name(handle.get(), i)) {
      trainrt_tensor tensor{};
      ErrorSlot error;
      error.check(trainrt_file_tensor(handle.get(), i, &tensor, error));
      return tensor;
    }
  return std::nullopt;
}

/// True if any axis is shorter than in the array.
bool Dataset::cutShape(const Entry &entry, const std::vector<int64_t> &rows,
                       std::vector<int64_t> &shape) const {
  shape.assign(entry.array.shape, entry.array.shape + entry.array.rank);
  // Along the batch's axis, as many places as the rows have.
  if (entry.axis >= 0)
    shape[size_t(entry.axis)] = int64_t(rows.size()) * entry.each;
  bool isShorter = false;
  for (const Trim &trim : trims)
    for (int32_t i = 0; i < entry.input->rank; ++i)
      if (entry.input->dims[i].symbol == trim.symbol) {
        // The longest row decides for all of the batch.
        int64_t longest = 0;
        for (int64_t row : rows)
          longest = std::max(longest, trim.lengths[size_t(row)]);
        shape[size_t(i)] = trim.cut(longest);
        isShorter |= shape[size_t(i)] < entry.array.shape[i];
      }
  return isShorter;
}

/// Names are the package's. Symbols that no array tells are left out.
std::vector<trainrt_symbol_value> Dataset::symbolValues(int64_t rows, int64_t length) const {
  std::vector<trainrt_symbol_value> values;
  for (size_t s = 0; s < package.symbols.size(); ++s) {
    const trainrt_symbol &symbol = package.symbols[s];
    if (int64_t(s) == package.info.batch_symbol_index) {
      values.push_back({symbol.name, rows});
      continue;
    }
    // A size that an input's axis tells.
    for (const Entry &entry : entries)
      if (symbol.input && std::strcmp(symbol.input, entry.input->name) == 0 && symbol.axis >= 0 &&
          symbol.axis < entry.array.rank) {
        const int64_t places =
            symbol.axis == entry.axis ? rows * entry.each : entry.array.shape[symbol.axis];
        int64_t value = 0;
        if (trainrt_package_symbol_value(package.handle.get(), s, places, &value, nullptr) ==
            TRAINRT_OK)
          values.push_back({symbol.name, value});
      }
    // The value that was just added is the one that is cut.
    for (const Trim &trim : trims)
      if (length && int32_t(s) == trim.symbol && !values.empty() &&
          values.back().name == symbol.name)
        values.back().value = trim.cut(length);
  }
  if (ranks > 1)
    values.push_back({"world", ranks});
  if (ranksPerReplica)
    values.push_back({"shards", ranksPerReplica});
  return values;
}

/// Earlier values may be lost. Valid until the next call for the same input, or the end of the
/// batch.
char *Batch::reserve(size_t index, size_t bytes) {
  // Buffers of this batch only: a step ahead has its own.
  while (buffers.size() <= index)
    buffers.push_back({std::unique_ptr<char, Release>(nullptr, Release{session})});
  Buffer &buffer = buffers[index];
  // Grows only: batches differ in length.
  if (buffer.bytes < bytes) {
    // The old one first, so that both are not needed at once.
    buffer.memory.reset();
    buffer.bytes = 0;
    void *memory = nullptr;
    ErrorSlot error;
    error.check(trainrt_host_alloc(session, bytes, &memory, error));
    buffer.memory.reset(static_cast<char *>(memory));
    buffer.bytes = bytes;
  }
  return buffer.memory.get();
}

/// Changes nothing of the data. Inputs that are whole
/// point into the file in every batch.
void Dataset::load(std::vector<int64_t> rows, Batch &into) const {
  into.tensors.clear();
  into.shapes.resize(entries.size());
  // Rows that follow each other need no copy on the host.
  const int64_t run = firstOfRun(rows);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry &entry = entries[i];
    trainrt_tensor tensor = entry.array;
    const int64_t *shape = entry.array.shape;
    std::vector<int64_t> &cut = into.shapes[i];
    // Rows of a folder are gathered one by one.
    if (entry.column) {
      gather(entry, rows, i, into);
      continue;
    }
    // Something is cut besides the rows.
    if (cutShape(entry, rows, cut)) {
      tensor.shape = cut.data();
      const int64_t elements = std::max<int64_t>(trainrt_tensor_elements(&tensor), 1);
      char *to = into.reserve(i, size_t(elements) * trainrt_dtype_size(entry.array.dtype));
      CutCopy(entry.array, cut, entry.axis, rows)
          .run(static_cast<const char *>(entry.array.data), to);
      tensor.data = to;
    } else if (entry.axis >= 0) {
      tensor.shape = cut.data();
      const int64_t outer = product(shape, shape + entry.axis);
      const size_t inner =
          size_t(entry.each * product(shape + entry.axis + 1, shape + entry.array.rank)) *
          trainrt_dtype_size(entry.array.dtype);
      const char *from = static_cast<const char *>(entry.array.data);
      const size_t bytes = size_t(outer) * rows.size() * inner;
      // A batch that is copied lies in memory from which the device reads; others stay in the file.
      if (outer == 1 && run >= 0 && (!into.copied || bytes == 0)) {
        tensor.data = const_cast<char *>(from) + size_t(run) * inner;
      } else if (outer == 1 && run >= 0) {
        tensor.data = std::memcpy(into.reserve(i, bytes), from + size_t(run) * inner, bytes);
      } else {
        char *to = into.reserve(i, std::max<size_t>(bytes, 1));
        tensor.data = to;
        // Row by row, for each index of the axes in front.
        for (int64_t o = 0; o < outer; ++o)
          for (int64_t row : rows) {
            std::memcpy(to, from + size_t(o * rowCount + row) * inner, inner);
            to += inner;
          }
      }
    }
    into.tensors.push_back({entry.input->name, tensor});
  }
  into.rows = std::move(rows);
}

/// Of large data a guess that is good enough to notice another file, not a proof that it is the
/// same.
std::string Dataset::hash() const {
  // Large arrays by pieces all over: a change anywhere else goes unnoticed.
  constexpr int64_t most = 1 << 20, pieces = 64, piece = most / pieces;
  if (source)
    return hex64(source->identity());
  uint64_t state = fnvBasis;
  auto add = [&](const void *data, int64_t size) { state = fnv1a64(data, size_t(size), state); };
  for (const Entry &entry : entries) {
    // With the zero at the end, so that names and types do not run together.
    add(entry.input->name, int64_t(std::strlen(entry.input->name) + 1));
    const auto dtype = int32_t(entry.array.dtype);
    add(&dtype, sizeof dtype);
    add(entry.array.shape, entry.array.rank * int64_t(sizeof(int64_t)));
    const auto *bytes = static_cast<const char *>(entry.array.data);
    const int64_t size = std::max<int64_t>(trainrt_tensor_elements(&entry.array), 0) *
                         int64_t(trainrt_dtype_size(entry.array.dtype));
    for (int64_t i = 0; size > most && i < pieces; ++i)
      add(bytes + (size - piece) / (pieces - 1) * i, piece);
    if (size <= most)
      add(bytes, size);
  }
  return hex64(state);
}

/// "" is never the result: if the message tells no place, the rows of the batch are told.
std::string Dataset::where(const Batch &batch, const std::string &message) const {
  std::string text;
  // "input 'x': value 7 at [1, 3]": a position within the batch; people want the file's.
  for (const Entry &entry : entries) {
    const size_t name = message.find("input " + quoted(entry.input->name) + ": ");
    const size_t at = name == std::string::npos ? name : message.find(" at [", name);
    const size_t end = at == std::string::npos ? at : message.find(']', at);
    // Another message, or another input's.
    if (end == std::string::npos)
      continue;
    if (entry.axis < 0) {
      text = quoted(entry.input->name) + " is whole in every batch; ";
      break;
    }
    const std::vector<std::string> place = split(message.substr(at + 5, end - at - 5), ',');
    if (size_t(entry.axis) >= place.size())
      continue;
    // The position along the axis that rows are cut from.
    const std::string &number = place[size_t(entry.axis)];
    const std::optional<int64_t> along =
        parseInteger(number.substr(std::min(number.find_first_not_of(' '), number.size())));
    if (along && *along / entry.each < int64_t(batch.rows.size()))
      text = "that is " + nameOf(batch.rows[size_t(*along / entry.each)]) + " of " + file + "; ";
    break;
  }
  assert(!batch.rows.empty() && "a batch has rows");
  const int64_t run = firstOfRun(batch.rows);
  if (source)
    return text + "the batch is " + std::to_string(batch.rows.size()) + " rows of " + file +
           ", the first of them " + nameOf(batch.rows[0]);
  if (run >= 0)
    return text + "the batch is rows " + std::to_string(run) + " to " +
           std::to_string(run + int64_t(batch.rows.size()) - 1) + " of " + file;
  text += "the batch is, in this order, rows ";
  // A line of a message holds so many.
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    if (i == 64) {
      text += ", ...";
      break;
    }
    text += (i ? ", " : "") + std::to_string(batch.rows[i]);
  }
  return text + " of " + file;
}

} // namespace trainrt::run
