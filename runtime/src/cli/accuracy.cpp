// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matching scores with labels, and counting.
#include "cli/accuracy.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "format/status.h"
#include "io/convert.h"
#include "trainrt/data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace trainrt::run {

namespace {

/// Beyond it the scores of a batch are only copied where they are asked for.
constexpr uint64_t mostBytes = uint64_t(256) << 20;

bool isInteger(trainrt_dtype type) { return type >= TRAINRT_I8 && type <= TRAINRT_U64; }

/// Scores have one axis more, the classes, behind those of the labels. Sizes are compared as
/// written, so symbols are equal only by name.
bool haveSameSizes(const trainrt_tensor_info &scores, const trainrt_tensor_info &labels) {
  if (scores.rank != labels.rank + 1 || labels.rank < 1)
    return false;
  for (int32_t i = 0; i < labels.rank; ++i)
    if (std::strcmp(scores.dims[i].text, labels.dims[i].text) != 0)
      return false;
  return true;
}

/// One label after the other as it lies with its scores.
/// `scores` has the classes as its last axis, and before that the sizes of `labels`.
class Walk {
public:
  Walk(const trainrt_tensor &scores, const trainrt_tensor &labels, int64_t shift,
       std::optional<int64_t> ignored)
      : scores(scores), labels(labels), shift(shift), ignored(ignored),
        classes(scores.shape[scores.rank - 1]), columns(labels.shape[labels.rank - 1]),
        row(size_t(classes)) {}

  /// Calls `visit(scores, label)` for each label that counts.
  template <typename Visit> void forEach(const Visit &visit) {
    const int64_t all = trainrt_tensor_elements(&labels);
    for (int64_t at = 0; at < all; ++at) {
      // With a shift the last place of a row has no label of its own.
      if (at % columns + shift >= columns)
        continue;
      const int64_t label = labelAt(at + shift);
      // Padding is often -100; what is no class has no score either.
      if (label < 0 || label >= classes || label == ignored)
        continue;
      const char *from = static_cast<const char *>(scores.data) +
                         size_t(at * classes) * trainrt_dtype_size(scores.dtype);
      convertElements(from, DType(scores.dtype), row.data(), DType::F32, classes);
      visit(row, label);
    }
  }

private:
  int64_t labelAt(int64_t at) const {
    const char *from =
        static_cast<const char *>(labels.data) + size_t(at) * trainrt_dtype_size(labels.dtype);
    int64_t value = 0;
    // By its bits: what is too large is negative then, and counts as no class.
    if (labels.dtype == TRAINRT_U64)
      std::memcpy(&value, from, sizeof value);
    else
      convertElements(from, DType(labels.dtype), &value, DType::I64, 1);
    return value;
  }

  const trainrt_tensor &scores, &labels;
  const int64_t shift;
  const std::optional<int64_t> ignored;
  const int64_t classes, columns;
  std::vector<float> row;
};

/// Minus the logarithm of the label's probability, with the maximum taken out of the sum.
/// `most` is the largest score, so no exponential is above 1 and the sum is 1 at least.
double surprise(const std::vector<float> &scores, size_t label, float most) {
  double total = 0;
  for (float score : scores)
    total += std::exp(double(score) - most);
  return std::log(total) + most - scores[label];
}

const trainrt_tensor *find(const trainrt_batch &batch, const char *name) {
  for (size_t i = 0; i < batch.count; ++i)
    if (std::strcmp(batch.inputs[i].name, name) == 0)
      return &batch.inputs[i].tensor;
  return nullptr;
}

} // namespace

Accuracy::Accuracy(const Package &package, bool wanted) : wanted(wanted) {
  auto ignoredOf = [&](const char *input) -> std::optional<int64_t> {
    for (size_t i = 0; i < trainrt_package_token_input_count(package.handle.get()); ++i) {
      trainrt_token_input tokens = trainrt_token_input_default();
      ErrorSlot error;
      error.check(trainrt_package_token_input(package.handle.get(), i, &tokens, error));
      if (tokens.role == TRAINRT_LABEL && std::strcmp(tokens.input, input) == 0)
        return tokens.pad;
    }
    return std::nullopt;
  };
  for (const trainrt_tensor_info &labels : package.inputs) {
    if (!isInteger(labels.dtype) || !(labels.flags & TRAINRT_FLAG_USED_IN_EVAL))
      continue;
    const std::optional<int64_t> ignored = ignoredOf(labels.name);
    knownLabels |= ignored.has_value();
    for (const trainrt_tensor_info &scores : package.outputs)
      if ((scores.flags & TRAINRT_FLAG_USED_IN_EVAL) && isLossless(scores.dtype, TRAINRT_F32) &&
          haveSameSizes(scores, labels))
        for (int64_t shift : {0, 1})
          if (shift == 0 || labels.rank > 1)
            pairs.push_back({pairs.size(), scores.name, labels.name, shift, ignored});
  }
  if (knownLabels) // then no other input is
    std::erase_if(pairs, [](const Pair &pair) { return !pair.ignored; });
  if (pairs.empty())
    why = "no output of the model has the scores of labels";
}

/// Whether the loss is the mean surprise of these labels, and how many of them are right.
Accuracy::Part Accuracy::count(const Pair &pair, const trainrt_tensor &scores,
                               const trainrt_tensor &labels, double loss,
                               std::optional<double> weight) const {
  // The sum is what costs time, and one that is the only one left needs none.
  const bool compares = !isFound || pairs.size() > 1;
  Part part{pair.number};
  double sum = 0;
  Walk(scores, labels, pair.shift, pair.ignored)
      .forEach([&](const std::vector<float> &row, int64_t label) {
        const auto most = std::max_element(row.begin(), row.end());
        part.right += most - row.begin() == label;
        sum += compares ? surprise(row, size_t(label), *most) : 0;
        ++part.counted;
      });
  // Without a label that counts it is NaN, which the comparison below refuses.
  part.distance = compares ? std::abs(sum / double(part.counted) - loss) : 0;
  // Losses are computed in another order, and maybe with fewer bits.
  part.explains = !compares || (part.distance <= 5e-3 * std::max(1.0, std::abs(loss)) &&
                                (!weight || *weight == double(part.counted)));
  return part;
}

/// Reads the outputs of the batch that has just been evaluated.
Accuracy::Counts Accuracy::count(trainrt_session *session, const trainrt_batch &batch, double loss,
                                 std::optional<double> weight) const {
  Counts counts;
  counts.looked = why.empty() && std::isfinite(loss);
  for (size_t i = 0; counts.looked && i < pairs.size(); ++i) {
    const Pair &pair = pairs[i];
    const trainrt_tensor *labels = find(batch, pair.labels);
    if (!labels)
      continue;
    trainrt_tensor scores;
    ErrorSlot error;
    error.check(trainrt_session_output(session, pair.scores, &scores, error));
    const uint64_t bytes =
        uint64_t(trainrt_tensor_elements(&scores)) * trainrt_dtype_size(scores.dtype);
    if (bytes > mostBytes && !wanted && !isFound)
      counts.tooLarge = "the scores of a batch, output '" + shown(pair.scores) + "', are " +
                        byteSize(bytes) + "; --metric accuracy reads them nevertheless";
    else
      counts.parts.push_back(count(pair, scores, *labels, loss, weight));
  }
  return counts;
}

/// Pairs never become more. Once one has been found one always stays.
void Accuracy::add(const Counts &counts) {
  if (!why.empty() || !counts.looked)
    return;
  auto take = [&](Pair &pair, bool always) {
    for (const Part &part : counts.parts)
      if (part.pair == pair.number && (part.explains || always)) {
        pair.right += part.right;
        pair.counted += part.counted;
        pair.distance += part.distance;
        return true;
      }
    return false;
  };
  std::vector<Pair> left;
  for (Pair pair : pairs)
    if (take(pair, /*always=*/false))
      left.push_back(pair);
  if (!left.empty()) {
    isFound = true;
    pairs = std::move(left);
  } else if (isFound) {
    // By rounding alone: the nearest one it is.
    pairs = {*best()};
    take(pairs.front(), /*always=*/true);
  } else {
    why = counts.tooLarge.empty() ? "the loss is not the cross-entropy of an output and labels"
                                  : counts.tooLarge;
  }
}

const Accuracy::Pair *Accuracy::best() const {
  if (!isFound)
    return nullptr;
  return &*std::min_element(pairs.begin(), pairs.end(), [](const Pair &one, const Pair &other) {
    return one.distance < other.distance;
  });
}

/// Before each evaluation. Which pair it is stays known.
void Accuracy::restart() {
  for (Pair &pair : pairs)
    pair.right = pair.counted = 0;
}

int64_t Accuracy::labels() const { return best() ? best()->counted : 0; }

std::optional<double> Accuracy::value() const {
  const Pair *pair = best();
  return pair && pair->counted ? std::optional(double(pair->right) / double(pair->counted))
                               : std::nullopt;
}

/// Not empty once at most: a run has many evaluations, with the same reason.
std::string Accuracy::untold() {
  const bool tells = !told && isCrossEntropy() && !why.empty();
  told |= tells;
  return tells ? why : std::string();
}

} // namespace trainrt::run
