// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors, tensors and sizes of memory in the C API.

#include "capi/internal.h"

#include <cassert>

static_assert(int(TRAINRT_INTERNAL) == int(trainrt::Code::Internal));
static_assert(int(TRAINRT_DEVICE_ERROR) == int(trainrt::Code::DeviceError));
static_assert(int(TRAINRT_RANK_LOST) == int(trainrt::Code::RankLost));
static_assert(int(TRAINRT_CANCELLED) == int(trainrt::Code::Cancelled));
static_assert(int(TRAINRT_MISSING_WEIGHTS) == int(trainrt::Code::MissingWeights));
static_assert(int(TRAINRT_BOOL) == int(trainrt::DType::Bool));
static_assert(int(TRAINRT_I64) == int(trainrt::DType::I64));

namespace trainrt::capi {

/// Handed out where there is no memory for an error; `trainrt_error_free` leaves it alone.
trainrt_error outOfMemory{TRAINRT_OUT_OF_MEMORY, "out of memory"};

/// Never throws: it is the last thing before the caller's own code. Without a place for it the
/// error's text is dropped, and the code alone tells.
trainrt_status report(const Status &status, trainrt_error **error) noexcept {
  auto code = static_cast<trainrt_status>(status.code());
  if (error && !status.ok()) {
    try {
      *error = new trainrt_error{code, status.message()};
    } catch (...) {
      *error = &outOfMemory;
    }
  }
  return code;
}

/// The view is the caller's memory, which is not looked at. Whether the shape is the right one is
/// for others to say.
Status readTensor(const trainrt_tensor &tensor, const char *kind, const char *name,
                  ArrayView &view) {
  auto what = [&] { return name ? std::string(kind) + " '" + name + "'" : std::string(kind); };
  if (sizeOf(static_cast<DType>(tensor.dtype)) == 0)
    return fail(Code::InvalidArgument, what(), ": dtype ", int(tensor.dtype), " is unknown");
  if (tensor.rank < 0 || tensor.rank > 64 || (tensor.rank > 0 && !tensor.shape))
    return fail(Code::InvalidArgument, what(), ": rank ", tensor.rank,
                " or its shape is not valid");
  view.data = tensor.data;
  view.dtype = static_cast<DType>(tensor.dtype);
  view.shape.assign(tensor.shape, tensor.shape + tensor.rank);
  if (!countBytes(view.dtype, view.shape.data(), view.shape.size(), view.bytes))
    return fail(Code::InvalidArgument, what(), ": shape ", shapeText(view.shape), " is impossible");
  return {};
}

/// `shape` is the view's, at a place that lasts as long as the tensor is to be valid.
trainrt_tensor makeTensor(const ArrayView &view, const int64_t *shape) {
  return {const_cast<void *>(view.data), static_cast<trainrt_dtype>(view.dtype),
          static_cast<int32_t>(view.shape.size()), shape};
}

/// All of it in bytes.
trainrt_memory memoryOf(const MemoryUse &use) {
  trainrt_memory result = trainrt_memory_default();
  result.total = uint64_t(use.total());
  result.parameters = uint64_t(use.parameters);
  result.state = uint64_t(use.state);
  result.gradients = uint64_t(use.gradients);
  result.arena = uint64_t(use.arena);
  result.arena_lower_bound = uint64_t(use.arenaLowerBound);
  result.inputs = uint64_t(use.inputs);
  result.outputs = uint64_t(use.outputs);
  result.scratch = uint64_t(use.scratch);
  result.mapped = uint64_t(use.mapped);
  result.pinned = uint64_t(use.pinned);
  result.driver = uint64_t(use.driver);
  return result;
}

} // namespace trainrt::capi

using namespace trainrt;
using namespace trainrt::capi;

extern "C" {

uint32_t trainrt_version(void) { return TRAINRT_VERSION; }

const char *trainrt_status_name(trainrt_status status) {
  static constexpr const char *names[] = {
      "ok",          "invalid_argument", "bad_package",  "bad_data",  "missing_weights",
      "not_found",   "out_of_memory",    "io_error",     "nonfinite", "cancelled",
      "unsupported", "internal",         "device_error", "rank_lost"};
  return size_t(status) < std::size(names) ? names[size_t(status)] : "unknown";
}

trainrt_status trainrt_error_status(const trainrt_error *error) {
  return error ? error->status : TRAINRT_OK;
}

const char *trainrt_error_message(const trainrt_error *error) {
  return error ? error->message.c_str() : "";
}

void trainrt_error_free(trainrt_error *error) {
  if (error != &outOfMemory)
    delete error;
}

size_t trainrt_dtype_size(trainrt_dtype dtype) { return sizeOf(static_cast<DType>(dtype)); }
const char *trainrt_dtype_name(trainrt_dtype dtype) { return nameOf(static_cast<DType>(dtype)); }

int64_t trainrt_tensor_elements(const trainrt_tensor *tensor) {
  int64_t count;
  if (!tensor || tensor->rank < 0 || (tensor->rank && !tensor->shape) ||
      !countElements(tensor->shape, size_t(tensor->rank), count))
    return -1;
  return count;
}

} // extern "C"
