// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --eval and --predict.
#include "cli/evaluate.h"

#include "cli/data/memory_fit.h"
#include "cli/failure.h"
#include "cli/format.h"
#include "format/byte_text.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

namespace trainrt::run {

namespace {

/// Runs `visit(batch, result)` after every batch of `data` that is the rank's: one of `world`.
/// One pass in the file's order, without shuffling: outputs can be put together in order of rows.
/// `together`: all ranks evaluate at once; one without a further batch does the first one again.
template <typename Visit>
void forEachBatch(trainrt_session *session, const Dataset &data, int64_t rank, int64_t world,
                  bool together, Visit visit) {
  assert(rank < world);
  // The position's epoch is 1 as soon as the last batch was given out.
  DataOrder order(data.rows(), data.batchSize(), false, 0);
  trainrt_eval_options settings = trainrt_eval_options_default();
  if (data.lacksInputs())
    settings.flags |= TRAINRT_EVAL_FILL_MISSING;
  Batch batch(session);
  auto run = [&](std::vector<int64_t> rows) {
    data.load(std::move(rows), batch);
    trainrt_batch view = batch.view();
    trainrt_eval_result result = trainrt_eval_result_default();
    ErrorSlot error;
    trainrt_status status = trainrt_eval(session, &view, &settings, &result, error);
    error.check(status, status == TRAINRT_BAD_DATA ? data.where(batch, error.message(status)) : "");
    return result;
  };
  std::vector<int64_t> first;
  int64_t number = 0;
  for (; order.position().epoch == 0; ++number) {
    // A signal ends it between batches; no result of a half read batch is shown.
    if (const char *signal = interruption())
      throw Failure(exitInput, std::string("interrupted by ") + signal);
    std::vector<int64_t> rows = order.next(false, data.staticBatch());
    if (number == 0)
      first = rows;
    if (number % world == rank)
      visit(batch, run(std::move(rows)));
  }
  if (together && number % world && rank >= number % world)
    run(std::move(first));
}

/// Only packages of one batch size leave rows out: others have a smaller batch at the end.
void warnAboutRest(const Dataset &data, Reporter &reporter) {
  if (int64_t rest = data.rows() % data.batchSize(); data.staticBatch() && rest)
    reporter.warning(data.path() + ": the last " + std::to_string(rest) +
                     " rows are left out: the package was compiled for batches of " +
                     std::to_string(data.batchSize()) +
                     " alone; export the model with a dynamic batch to use them");
}

/// One output, collected over batches.
/// Without an axis there may be one piece only. `shape` is that of all pieces joined.
struct Collected {
  const trainrt_tensor_info *info = nullptr;
  int32_t axis = -1; ///< that the batch runs along
  std::vector<int64_t> shape;
  std::vector<std::vector<char>> pieces;
  std::vector<int64_t> lengths;
};

/// The bytes of all pieces joined along `axis`.
/// Pieces differ along `axis` only (`lengths`): before it they have the same number of parts, and
/// parts of one index lie one after the other in the result.
std::vector<char> joined(const Collected &output) {
  if (output.pieces.size() == 1)
    return output.pieces[0];
  size_t total = 0;
  for (const std::vector<char> &piece : output.pieces)
    total += piece.size();
  std::vector<char> result(total);
  int64_t outer = 1;
  for (int32_t i = 0; i < output.axis; ++i)
    outer *= output.shape[size_t(i)];
  size_t at = 0;
  // The loop over pieces is the inner one: that is the row-major order of the joined tensor.
  for (int64_t o = 0; o < outer; ++o)
    for (const std::vector<char> &piece : output.pieces) {
      const size_t stride = piece.size() / size_t(outer);
      std::memcpy(result.data() + at, piece.data() + size_t(o) * stride, stride);
      at += stride;
    }
  return result;
}

/// What --outputs selects, or all outputs of an evaluation but the loss.
/// In the order of --outputs, else in the package's. Never empty. Pointers are into `package`.
std::vector<Collected> chooseOutputs(const Options &options, const Package &package) {
  std::vector<Collected> chosen;
  auto add = [&](const trainrt_tensor_info &info) {
    Collected output;
    output.info = &info;
    for (int32_t i = 0; i < info.rank && output.axis < 0; ++i)
      if (info.dims[i].symbol >= 0 && info.dims[i].symbol == package.info.batch_symbol_index)
        output.axis = i;
    if (package.info.batch_symbol_index < 0 && info.rank > 0)
      output.axis = 0; // a static batch: outputs are rows, like the inputs
    chosen.push_back(std::move(output));
  };
  for (const std::string &name : options.outputs) {
    size_t index = 0;
    ErrorSlot error;
    error.check(
        trainrt_package_find(package.handle.get(), TRAINRT_OUTPUT, name.c_str(), &index, error));
    if (!(package.outputs[index].flags & TRAINRT_FLAG_USED_IN_EVAL))
      throw Failure(exitInput, "output '" + name + "' is not computed in evaluation mode");
    add(package.outputs[index]);
  }
  if (options.outputs.empty())
    for (const trainrt_tensor_info &info : package.outputs)
      if ((info.flags & TRAINRT_FLAG_USED_IN_EVAL) &&
          !(info.flags & (TRAINRT_FLAG_LOSS | TRAINRT_FLAG_WEIGHT)))
        add(info);
  if (chosen.empty())
    throw Failure(exitInput,
                  package.path + ": the model has no output but the loss; --eval shows it");
  return chosen;
}

/// What the loss of the batch that has just been evaluated is divided by, where that is known.
/// Reads the session's outputs, so between an evaluation and the next call that makes others.
std::optional<double> lossWeight(const Package &package, trainrt_session *session) {
  const char *name = package.info.loss_weight;
  if (!name)
    return std::nullopt;
  trainrt_tensor tensor;
  ErrorSlot error;
  error.check(trainrt_session_output(session, name, &tensor, error));
  if (tensor.dtype != TRAINRT_F32 || trainrt_tensor_elements(&tensor) != 1)
    throw Failure(exitInput, package.path + ": output '" + name +
                                 "', which the losses of batches are weighted by, is not one f32; "
                                 "compile the model again");
  float value;
  std::memcpy(&value, tensor.data, sizeof value);
  return double(value);
}

/// A single batch has its loss whatever it is divided by.
EvalRecord::Weighting weighting(const Package &package, bool single) {
  if (!single && package.info.loss && !package.info.loss_is_mean)
    return EvalRecord::rowsOnly;
  return package.info.loss_weight ? EvalRecord::denominator : EvalRecord::rows;
}

/// What an evaluation keeps of a batch.
struct Score {
  int64_t rows = 0;
  uint64_t peakBytes = 0;
  double loss = 0;
  /// What it counts for.
  double weight = 0;
  Accuracy::Counts counts;
};

void visit(auto &bytes, MessageOf<Score> auto &score) {
  bytes.fields(score.rows, score.peakBytes, score.loss, score.weight, score.counts.looked,
               score.counts.tooLarge);
  bytes.list(score.counts.parts, [&](auto &part) {
    bytes.fields(part.pair, part.explains, part.right, part.counted, part.distance);
  });
}

/// The scores of batches, put together in the order of the file. Sums are doubles.
class Total {
public:
  explicit Total(Accuracy &accuracy) : accuracy(accuracy) {}

  void add(const Score &score) {
    record.samples += score.rows;
    record.peakBytes = std::max(record.peakBytes, score.peakBytes);
    // One batch: exactly its loss, without a rounding on the way.
    if (record.samples == score.rows)
      record.loss = score.loss;
    if (score.weight == 0)
      return; // the mean of nothing
    accuracy.add(score.counts);
    sum += score.loss * score.weight;
    weight += score.weight;
    if (record.samples != score.rows)
      record.loss = sum / weight;
  }

  EvalRecord record{0, 0, 0, 0, 0, EvalRecord::rows};

private:
  Accuracy &accuracy;
  double sum = 0, weight = 0;
};

/// Calls `take` with the score of each of the rank's batches, in order.
template <typename Take>
void scoreBatches(const Package &package, trainrt_session *session, const Dataset &data,
                  int64_t rank, int64_t world, const Accuracy &accuracy, Take take) {
  forEachBatch(session, data, rank, world, sharesParameters(package),
               [&](const Batch &batch, const trainrt_eval_result &result) {
                 const std::optional<double> divisor = lossWeight(package, session);
                 Score score{int64_t(batch.rows.size()), result.peak_bytes, result.loss, 0, {}};
                 score.weight = divisor.value_or(double(score.rows));
                 if (score.weight != 0)
                   score.counts = accuracy.count(session, batch.view(), result.loss, divisor);
                 take(score);
               });
}

/// Batch after batch goes from rank to rank. All ranks add up all scores in the order of one
/// process, and so come to its bits.
void shareOut(const Package &package, trainrt_session *session, const Dataset &data,
              JoinedRanks &ranks, const Accuracy &accuracy, Total &total) {
  const std::vector<std::string> texts = ranks.together([&] {
    ByteWriter writer;
    scoreBatches(package, session, data, ranks.rank(), ranks.world(), accuracy,
                 [&](const Score &score) { visit(writer, score); });
    return writer.bytes;
  });
  std::vector<ByteReader> readers(texts.begin(), texts.end());
  // The first rank whose scores are at their end is the first one without a further batch.
  for (size_t rank = 0; !readers[rank].isDone(); rank = (rank + 1) % readers.size()) {
    Score score;
    visit(readers[rank], score);
    total.add(score);
  }
}

} // namespace

/// The mean over all rows, as if they were one batch, where the weighting allows that. No step is
/// under way. Told to the reporter before it returns.
EvalRecord evaluate(const Package &package, trainrt_session *session, const Dataset &data,
                    JoinedRanks &ranks, Accuracy &accuracy, Reporter &reporter) {
  accuracy.restart();
  warnAboutRest(data, reporter);
  auto start = std::chrono::steady_clock::now();
  Total total(accuracy);
  if (ranks.isAlone())
    scoreBatches(package, session, data, 0, 1, accuracy,
                 [&](const Score &score) { total.add(score); });
  else
    shareOut(package, session, data, ranks, accuracy, total);
  EvalRecord record = total.record;
  record.step = trainrt_session_step(session);
  record.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  record.weighting = weighting(package, /*single=*/record.samples <= data.batchSize());
  record.isCrossEntropy = accuracy.isCrossEntropy();
  record.accuracy = accuracy.value();
  record.labels = accuracy.labels();
  reporter.eval(record);
  if (const std::string why = accuracy.untold(); !why.empty())
    reporter.note("accuracy is not told: " + why);
  return record;
}

/// All values are kept until the last batch, and then written as one file: an interrupted run
/// leaves none.
void predict(const Options &options, const Package &package, trainrt_session *session,
             Reporter &reporter) {
  if (!package.info.can_eval)
    throw Failure(exitInput, package.path + ": the package has no evaluation mode");
  std::vector<Collected> outputs = chooseOutputs(options, package);
  Dataset data(package, options.predict, Dataset::Use::predict, options.batchSize,
               readingOf(options), reporter);
  data.roundLengths(options.trim.value_or(1));
  // Values of several batches are joined, which needs them to be of one length.
  for (const Collected &output : outputs)
    for (int32_t i = 0; i < output.info->rank; ++i)
      if (i != output.axis && data.follows(output.info->dims[i])) {
        data.padToLongest();
        break;
      }
  chooseBatch(package, session, data, 0);
  requireMemory(package, session, data, 0, data.batchSize(), 0, "--batch-size", reporter);
  warnAboutRest(data, reporter);
  int64_t rows = 0;
  forEachBatch(session, data, 0, 1, /*together=*/false,
               [&](const Batch &batch, const trainrt_eval_result &) {
                 rows += int64_t(batch.rows.size());
                 for (Collected &output : outputs) {
                   trainrt_tensor tensor;
                   ErrorSlot error;
                   error.check(trainrt_session_output(session, output.info->name, &tensor, error));
                   const std::string name = "output '" + std::string(output.info->name) + "'";
                   if (output.pieces.empty())
                     output.shape.assign(tensor.shape, tensor.shape + tensor.rank);
                   else if (output.axis < 0)
                     throw Failure(exitInput,
                                   name +
                                       " does not follow the batch, so the values of several "
                                       "batches cannot be joined: predict with --batch-size " +
                                       std::to_string(data.rows()));
                   else
                     output.shape[size_t(output.axis)] += tensor.shape[output.axis];
                   const char *from = static_cast<const char *>(tensor.data);
                   const size_t bytes =
                       size_t(trainrt_tensor_elements(&tensor)) * trainrt_dtype_size(tensor.dtype);
                   output.pieces.emplace_back(from, from + bytes);
                 }
               });

  std::vector<trainrt_named_tensor> tensors;
  // Pieces go as soon as they are joined: no more than one output is held twice.
  std::vector<std::vector<char>> values;
  for (Collected &output : outputs) {
    values.push_back(joined(output));
    output.pieces.clear();
    tensors.push_back({output.info->name,
                       {values.back().data(), output.info->dtype, int32_t(output.shape.size()),
                        output.shape.data()}});
  }
  ErrorSlot error;
  error.check(trainrt_file_write(options.output.c_str(), tensors.data(), tensors.size(), error));
  std::vector<std::string> names;
  for (const Collected &output : outputs)
    names.push_back(output.info->name);
  reporter.note("wrote " + join(names, ", ") + " for " + grouped(rows) + " rows to " +
                options.output);
}

} // namespace trainrt::run
