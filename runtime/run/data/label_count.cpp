// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counting labels, and finding out which of them a loss looks at.
#include "run/data/label_count.h"

#include "run/failure.h"
#include "trainrt/data.h"

#include <cmath>
#include <cstring>

namespace trainrt::run {

namespace {

/// Of any integer type.
int64_t valueAt(const trainrt_tensor &tensor, int64_t index) {
  const auto *at =
      static_cast<const char *>(tensor.data) + size_t(index) * trainrt_dtype_size(tensor.dtype);
  auto read = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return int64_t(value);
  };
  switch (tensor.dtype) {
  case TRAINRT_I64:
    return read(int64_t());
  case TRAINRT_I32:
    return read(int32_t());
  case TRAINRT_I16:
    return read(int16_t());
  case TRAINRT_I8:
    return read(int8_t());
  case TRAINRT_U32:
    return read(uint32_t());
  case TRAINRT_U16:
    return read(uint16_t());
  default:
    return read(uint8_t());
  }
}

/// Places along the last axis; 0 where rows have one label.
int64_t placesOf(const trainrt_tensor &tensor) {
  return tensor.rank < 2 ? 0 : tensor.shape[tensor.rank - 1];
}

} // namespace

LabelCount::LabelCount(const Package &package) {
  for (size_t i = 0; i < trainrt_package_token_input_count(package.handle.get()); ++i) {
    trainrt_token_input tokens = trainrt_token_input_default();
    ErrorSlot error;
    error.check(trainrt_package_token_input(package.handle.get(), i, &tokens, error));
    if (tokens.role != TRAINRT_LABEL)
      continue;
    if (isKnown()) { // a loss of several terms
      input.clear();
      return;
    }
    input = tokens.input;
    ignored = tokens.pad;
  }
}

bool LabelCount::counts(size_t end, const trainrt_batch &batch, size_t index, double loss,
                        const Loss &again) {
  if (ends[end])
    return *ends[end];
  const trainrt_tensor &labels = batch.inputs[index].tensor;
  const int64_t places = placesOf(labels), elements = trainrt_tensor_elements(&labels);
  const size_t size = trainrt_dtype_size(labels.dtype);
  std::vector<char> changed(size_t(elements) * size);
  std::memcpy(changed.data(), labels.data, changed.size());
  bool changes = false;
  for (int64_t at = end ? places - 1 : 0; at < elements; at += places) {
    changes |= valueAt(labels, at) != ignored;
    // Little endian: the low bytes are the value in a narrower type.
    std::memcpy(changed.data() + size_t(at) * size, &ignored, size);
  }
  if (!changes || std::isnan(loss))
    return true; // nothing to tell from, and nothing to count
  std::vector<trainrt_named_tensor> inputs(batch.inputs, batch.inputs + batch.count);
  inputs[index].tensor.data = changed.data();
  ends[end] = again({inputs.data(), inputs.size()}) != loss;
  return *ends[end];
}

double LabelCount::count(const trainrt_batch &batch, int64_t rows, double loss, const Loss &again) {
  size_t index = 0;
  while (index < batch.count && input != batch.inputs[index].name)
    ++index;
  if (!isKnown() || index == batch.count)
    return double(rows);
  const trainrt_tensor &labels = batch.inputs[index].tensor;
  const int64_t places = placesOf(labels);
  const bool first = places < 2 || counts(0, batch, index, loss, again);
  const bool last = places < 2 || counts(1, batch, index, loss, again);
  int64_t count = 0;
  for (int64_t at = 0, end = trainrt_tensor_elements(&labels); at < end; ++at) {
    const bool isLeftOut =
        places > 1 && ((!first && at % places == 0) || (!last && at % places == places - 1));
    count += !isLeftOut && valueAt(labels, at) != ignored;
  }
  return double(count);
}

} // namespace trainrt::run
