// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measuring rows, and the sampler that the options ask for.
#include "cli/data/batch_order.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "trainrt/data.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstring>
#include <numeric>

namespace trainrt::run {

namespace {

/// Takes the size of batches when it is made: it is made once the data's has been chosen.
class FileOrder : public BatchOrder {
public:
  FileOrder(const Dataset &data, bool shuffle, uint64_t seed)
      : order(data.rows(), data.batchSize(), shuffle, seed), data(data),
        dropShort(data.staticBatch()), batchSize(data.batchSize()) {}

  Position position() const override { return order.position(); }
  void seek(Position position) override { order.seek(position); }
  /// Position and rows are taken together, before the order moves on.
  std::vector<int64_t> next(bool wrap) override {
    const Position from = order.position();
    std::vector<int64_t> rows = order.next(wrap, dropShort);
    // Where the data repeats, a batch may end in the next epoch.
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = data.inEpoch(rows[i], from.epoch + (from.index + int64_t(i)) / data.rows());
    return rows;
  }
  int64_t batches(int64_t) override { return order.batchesPerEpoch(dropShort); }
  bool isRegular() const override { return true; }
  /// Rows are as long as the file has them: no length decides.
  void largest(int64_t &rows, int64_t &length) override {
    rows = batchSize;
    length = 0;
  }

private:
  DataOrder order;
  const Dataset &data;
  const bool dropShort;
  const int64_t batchSize;
};

class SampledOrder : public BatchOrder {
public:
  SampledOrder(trainrt_sampler *sampler, const Dataset &data, std::string options, bool regular)
      : sampler(sampler), data(data), options(std::move(options)), regular(regular) {}

  Position position() const override {
    Position at;
    ErrorSlot error;
    error.check(trainrt_sampler_position(sampler.get(), &at.epoch, &at.index, error));
    return at;
  }
  void seek(Position at) override {
    ErrorSlot error;
    error.check(trainrt_sampler_seek(sampler.get(), at.epoch, at.index, error));
  }
  /// A batch is of one epoch, whether the data repeats or not: plans are made for an epoch.
  std::vector<int64_t> next(bool) override {
    const int64_t epoch = position().epoch;
    const int64_t *rows = nullptr;
    size_t count = 0;
    ErrorSlot error;
    error.check(trainrt_sampler_next(sampler.get(), &rows, &count, error));
    // The sampler's list is valid until the next call only.
    std::vector<int64_t> result(rows, rows + count);
    for (int64_t &row : result)
      row = data.inEpoch(row, epoch);
    return result;
  }
  int64_t batches(int64_t epoch) override {
    const int64_t count = trainrt_sampler_batches(sampler.get(), epoch);
    // No plan, no epoch: memory is all that it can lack.
    if (count < 0)
      throw Failure(exitResources, "out of memory for the plan of epoch " + std::to_string(epoch));
    return count;
  }
  bool isRegular() const override { return regular; }
  /// For the data position of a checkpoint: ranks and runs compare it.
  std::string plan() const override {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx",
                  static_cast<unsigned long long>(trainrt_sampler_hash(sampler.get())));
    return text;
  }
  std::string planOptions() const override { return options; }
  void largest(int64_t &rows, int64_t &length) override {
    ErrorSlot error;
    error.check(trainrt_sampler_largest(sampler.get(), &rows, &length, error));
  }

private:
  struct Release {
    void operator()(trainrt_sampler *sampler) const { trainrt_sampler_free(sampler); }
  };
  std::unique_ptr<trainrt_sampler, Release> sampler;
  const Dataset &data;
  const std::string options;
  const bool regular;
};

/// What only a sampler does; anything else is the file's order.
/// --trim alone needs none: it cuts the batches that there are.
bool samples(const Options &options) {
  return options.groupByLength || options.tokensPerBatch || options.world > 1 || options.dropTail;
}

/// How a command line would say it; what decides on plans.
std::string textOf(const Options &options) {
  std::string text;
  auto add = [&](const char *name, const auto &value) {
    if (value)
      text += (text.empty() ? "" : " ") + std::string(name) + " " + std::to_string(*value);
  };
  add("--group-by-length", options.groupByLength);
  add("--tokens-per-batch", options.tokensPerBatch);
  add("--trim", options.trim);
  assert(options.world >= 1 && "ranks are counted from one");
  if (options.together() > 1)
    add("--balance", std::optional<int64_t>(options.together()));
  if (!options.complexity.empty())
    text += " --complexity " + options.complexity;
  add("--world", std::optional<int64_t>(options.world));
  if (options.dropTail)
    text += std::string(" --tail ") + (*options.dropTail ? "drop" : "repeat");
  return text;
}

/// The sizes that tell how long rows are: the last axes of inputs whose padding is known.
std::vector<int32_t> lengthSymbols(const Package &package, std::vector<std::string> &fixed) {
  std::vector<int32_t> symbols;
  for (size_t i = 0; i < trainrt_package_token_input_count(package.handle.get()); ++i) {
    trainrt_token_input tokens = trainrt_token_input_default();
    ErrorSlot error;
    error.check(trainrt_package_token_input(package.handle.get(), i, &tokens, error));
    for (const trainrt_tensor_info &input : package.inputs) {
      // Vectors have no axis that lengths could be along.
      if (std::strcmp(input.name, tokens.input) != 0 || input.rank < 2)
        continue;
      const trainrt_dim &last = input.dims[input.rank - 1];
      // An axis of one size cannot be cut.
      const bool isDynamic = last.symbol >= 0 && package.symbols[size_t(last.symbol)].min !=
                                                     package.symbols[size_t(last.symbol)].max;
      if (!isDynamic)
        fixed.push_back("axis " + std::to_string(input.rank - 1) + " of input '" + input.name +
                        "' is always " + last.text);
      else if (std::find(symbols.begin(), symbols.end(), last.symbol) == symbols.end())
        symbols.push_back(last.symbol);
    }
  }
  return symbols;
}

/// A length for each row, by one symbol or, with null, by all. Reads the values of all rows where
/// nothing else tells.
std::vector<int64_t> measure(const Package &package, const Dataset &data, const char *symbol) {
  // Folders of rows know it without reading values.
  if (std::optional<std::vector<int64_t>> known = data.knownLengths())
    return std::move(*known);
  std::vector<int64_t> lengths(size_t(data.rows()));
  const std::vector<trainrt_named_tensor> arrays = data.arrays();
  const trainrt_batch all{arrays.data(), arrays.size()};
  ErrorSlot error;
  const trainrt_status status = trainrt_package_row_lengths(package.handle.get(), &all, symbol,
                                                            lengths.data(), lengths.size(), error);
  // The file is named where something is wrong with it.
  error.check(status, status == TRAINRT_OK ? "" : "(" + data.path() + ")");
  return lengths;
}

std::vector<double> readComplexities(const Dataset &data, const std::string &name) {
  const std::optional<trainrt_tensor> array = data.extra(name);
  if (!array)
    throw Failure(exitInput, data.path() + ": --complexity " + name + ": there is no such array");
  const bool isReal = array->dtype == TRAINRT_F64 || array->dtype == TRAINRT_F32;
  const bool isInteger = array->dtype == TRAINRT_I64 || array->dtype == TRAINRT_I32;
  if (array->rank != 1 || array->shape[0] != data.rows() || (!isReal && !isInteger))
    throw Failure(exitInput, data.path() + ": --complexity " + name +
                                 " must be one number (float64, float32, int64 or int32) for each "
                                 "of the " +
                                 std::to_string(data.rows()) + " rows; it is " + describe(*array));
  std::vector<double> result;
  // As f64, whatever they are stored in: integers of 64 bits may be rounded, which sorts the same.
  for (int64_t row = 0; row < data.rows(); ++row)
    result.push_back(array->dtype == TRAINRT_F64   ? static_cast<const double *>(array->data)[row]
                     : array->dtype == TRAINRT_F32 ? static_cast<const float *>(array->data)[row]
                     : array->dtype == TRAINRT_I64
                         ? double(static_cast<const int64_t *>(array->data)[row])
                         : double(static_cast<const int32_t *>(array->data)[row]));
  return result;
}

/// Rows that say how long they are: as `trim`.
int64_t trimKnown(const Options &options, const Package &package, Dataset &data, int64_t &least) {
  const int64_t rounding = data.roundLengths(options.trim.value_or(1));
  // Rows that differ in length have to be cut, or the option says so for nothing.
  if (data.isRagged() && !data.leastLength())
    throw Failure(exitInput, package.path + ": " +
                                 (options.trim ? "--trim" : "--tokens-per-batch") +
                                 " cuts batches to their longest row, but the model's rows are of "
                                 "one length: export the model with a dynamic axis there, and "
                                 "compile it without --dim for it");
  least = std::max(least, data.leastLength());
  return rounding;
}

/// Sets what `data` cuts. Returns what the longest row of a batch is rounded up to.
int64_t trim(const Options &options, const Package &package, Dataset &data, int64_t &least) {
  if (data.hasRows())
    return trimKnown(options, package, data, least);
  const char *why = options.trim ? "--trim" : "--tokens-per-batch";
  std::vector<std::string> fixed;
  const std::vector<int32_t> symbols = lengthSymbols(package, fixed);
  // Its error tells what the model would have to know.
  if (symbols.empty() && fixed.empty())
    measure(package, data, nullptr); // says what is missing
  if (symbols.empty())
    throw Failure(exitInput, package.path + ": " + why +
                                 " cuts batches to their longest row, but " + join(fixed, ", ") +
                                 ": export the model with a dynamic axis there, and compile it "
                                 "without --dim for it");
  // A multiple of all divisors: any size may be the one that is padded.
  int64_t rounding = options.trim.value_or(1);
  for (int32_t index : symbols) {
    const trainrt_symbol &symbol = package.symbols[size_t(index)];
    rounding = std::lcm(rounding, symbol.divisor);
    least = std::max(least, symbol.min);
  }
  // Lengths by each size: inputs of one do not decide on another's.
  for (int32_t index : symbols)
    data.trim(index, measure(package, data, package.symbols[size_t(index)].name), rounding);
  return rounding;
}

} // namespace

Dataset::Reading readingOf(const Options &options) {
  return {options.cut,
          options.whole,
          {options.window, options.binInputs, options.binShift, /*random=*/false},
          {}};
}

std::unique_ptr<BatchOrder> makeFileOrder(const Dataset &data, bool shuffle, uint64_t seed) {
  return std::make_unique<FileOrder>(data, shuffle, seed);
}

std::unique_ptr<BatchOrder> makeBatchOrder(const Options &options, const Package &package,
                                           Dataset &data, int64_t seed) {
  // Also for the file's order: random windows depend on it.
  data.seed(uint64_t(seed));
  int64_t rounding = 1, least = 1;
  if (options.trim || options.tokensPerBatch)
    rounding = trim(options, package, data, least);
  // Otherwise the sampler has nothing to do.
  if (!samples(options))
    return makeFileOrder(data, options.shuffle, uint64_t(seed));

  // Batches of as many rows as the package was made for.
  if (options.tokensPerBatch && data.staticBatch())
    throw Failure(exitInput,
                  package.path +
                      ": --tokens-per-batch makes batches of different numbers of rows, but the "
                      "package was compiled for batches of " +
                      std::to_string(data.batchSize()) +
                      ": export the model with a dynamic batch axis, and compile it without --dim "
                      "for it; --group-by-length --trim works with this package");
  trainrt_sampler_options settings = trainrt_sampler_options_default();
  settings.rows = data.rows();
  std::vector<int64_t> lengths;
  std::vector<double> complexities;
  if (!options.complexity.empty()) {
    complexities = readComplexities(data, options.complexity);
    // Asked while the sampler is created, and not after.
    settings.complexity = [](void *user, int64_t row) {
      return (*static_cast<std::vector<double> *>(user))[size_t(row)];
    };
    settings.complexity_user = &complexities;
  }
  // Lengths cost a look at all data.
  const bool sorts = options.groupByLength || options.tokensPerBatch;
  if (options.tokensPerBatch || (sorts && options.complexity.empty())) {
    lengths = measure(package, data, nullptr);
    // A row takes at least the smallest size.
    for (int64_t &length : lengths)
      length = std::max(length, least);
    settings.lengths = lengths.data();
  }
  settings.batch_size = options.tokensPerBatch && !options.batchSize ? 0 : data.batchSize();
  settings.tokens_per_batch = options.tokensPerBatch.value_or(0);
  settings.length_multiple = rounding;
  // 1: nothing is sorted; 0: as many as the sampler thinks right.
  settings.group = !sorts ? 1 : options.groupByLength.value_or(0);
  settings.shuffle = options.shuffle;
  settings.seed = seed;
  settings.rank = int32_t(options.rank);
  settings.world = int32_t(options.world);
  settings.full_batches = data.staticBatch();
  settings.together = sorts ? options.together() : 1;
  // With batches of one size what is left is dropped, unless the option says otherwise.
  settings.drop_tail = options.dropTail.value_or(data.staticBatch());
  trainrt_sampler *sampler = nullptr;
  ErrorSlot error;
  const trainrt_status status = trainrt_sampler_create(&settings, &sampler, error);
  error.check(status, status == TRAINRT_OK ? "" : "(" + data.path() + ")");
  return std::make_unique<SampledOrder>(sampler, data, textOf(options), !options.tokensPerBatch);
}

} // namespace trainrt::run
