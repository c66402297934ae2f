// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors, tensors and DLPack of the C API.

#include "capi/internal.h"

static_assert(int(TRAINRT_INTERNAL) == int(trainrt::Code::Internal));
static_assert(int(TRAINRT_DEVICE_ERROR) == int(trainrt::Code::DeviceError));
static_assert(int(TRAINRT_CANCELLED) == int(trainrt::Code::Cancelled));
static_assert(int(TRAINRT_MISSING_WEIGHTS) == int(trainrt::Code::MissingWeights));
static_assert(int(TRAINRT_BOOL) == int(trainrt::DType::Bool));
static_assert(int(TRAINRT_I64) == int(trainrt::DType::I64));

namespace trainrt::capi {

trainrt_error outOfMemory{TRAINRT_OUT_OF_MEMORY, "out of memory"};

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

trainrt_tensor makeTensor(const ArrayView &view, const int64_t *shape) {
  return {const_cast<void *>(view.data), static_cast<trainrt_dtype>(view.dtype),
          static_cast<int32_t>(view.shape.size()), shape};
}

} // namespace trainrt::capi

using namespace trainrt;
using namespace trainrt::capi;

extern "C" {

uint32_t trainrt_version(void) { return TRAINRT_VERSION; }

const char *trainrt_status_name(trainrt_status status) {
  static constexpr const char *names[] = {
      "ok",          "invalid_argument", "bad_package", "bad_data",  "missing_weights",
      "not_found",   "out_of_memory",    "io_error",    "nonfinite", "cancelled",
      "unsupported", "internal",         "device_error"};
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

// The layout of DLPack 0.x/1.x's DLManagedTensor, which is a fixed ABI.
namespace {
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void *data;
  int32_t deviceType, deviceId;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byteOffset;
};
constexpr int32_t deviceCpu = 1, deviceCuda = 2, deviceCudaHost = 3, deviceCudaManaged = 13;
enum DLCode : uint8_t { DLInt = 0, DLUInt = 1, DLFloat = 2, DLBfloat = 4, DLBool = 6 };

DLDataType toDLPack(DType dtype) {
  DLCode code = dtype == DType::BF16   ? DLBfloat
                : isFloat(dtype)       ? DLFloat
                : dtype == DType::Bool ? DLBool
                : isSigned(dtype)      ? DLInt
                                       : DLUInt;
  return {code, uint8_t(sizeOf(dtype) * 8), 1};
}
} // namespace

struct DLManagedTensor {
  DLTensor tensor;
  void *context;
  void (*deleter)(DLManagedTensor *self);
};

namespace {
Status readDLPack(const DLManagedTensor *managed, trainrt_tensor *tensor, int32_t &gpu) {
  if (!managed || !tensor)
    return nullArgument(managed ? "tensor" : "managed");
  const DLTensor &from = managed->tensor;
  if (from.deviceType != deviceCpu && from.deviceType != deviceCuda &&
      from.deviceType != deviceCudaHost && from.deviceType != deviceCudaManaged)
    return fail(Code::InvalidArgument, "DLPack tensor: it is on device type ", from.deviceType,
                ", neither a CPU nor a CUDA GPU; copy it to the CPU first");
  int dtype = 0;
  for (; dtype < numDTypes; ++dtype) {
    DLDataType candidate = toDLPack(static_cast<DType>(dtype));
    if (candidate.code == from.dtype.code && candidate.bits == from.dtype.bits &&
        from.dtype.lanes == 1)
      break;
  }
  if (dtype == numDTypes)
    return fail(Code::InvalidArgument, "DLPack tensor: element type (code ", int(from.dtype.code),
                ", ", int(from.dtype.bits), " bits) is not supported");
  if (from.ndim < 0 || (from.ndim && !from.shape))
    return fail(Code::InvalidArgument, "DLPack tensor: it has no shape");
  int64_t dense = 1;
  for (int32_t axis = from.ndim; from.strides && axis-- > 0;) {
    if (from.shape[axis] > 1 && from.strides[axis] != dense)
      return fail(Code::InvalidArgument,
                  "DLPack tensor: it is not dense row-major; make it contiguous first");
    dense *= from.shape[axis];
  }
  *tensor = {static_cast<char *>(from.data) + from.byteOffset, static_cast<trainrt_dtype>(dtype),
             from.ndim, from.shape};
  gpu = from.deviceType == deviceCuda || from.deviceType == deviceCudaManaged ? from.deviceId : -1;
  return {};
}
} // namespace

extern "C" {

trainrt_status trainrt_tensor_from_dlpack(const struct DLManagedTensor *managed,
                                          trainrt_tensor *tensor, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    int32_t gpu = -1;
    trainrt_tensor read;
    TRAINRT_TRY(readDLPack(managed, tensor ? &read : nullptr, gpu));
    if (gpu >= 0)
      return fail(Code::InvalidArgument, "DLPack tensor: it is on device type ",
                  managed->tensor.deviceType, "; copy it to the CPU first");
    *tensor = read;
    return {};
  });
}

trainrt_status trainrt_tensor_from_dlpack_device(const struct DLManagedTensor *managed,
                                                 trainrt_tensor *tensor, int32_t *gpu,
                                                 trainrt_error **error) {
  return guard(error, [&]() -> Status {
    return gpu ? readDLPack(managed, tensor, *gpu) : nullArgument("gpu");
  });
}

trainrt_status trainrt_tensor_to_dlpack(const trainrt_tensor *tensor,
                                        struct DLManagedTensor **managed, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!managed || !tensor)
      return nullArgument(managed ? "tensor" : "managed");
    ArrayView view;
    TRAINRT_TRY(readTensor(*tensor, "tensor", nullptr, view));
    struct Owned {
      DLManagedTensor managed;
      std::vector<int64_t> shape;
    };
    auto *owned = new Owned{{}, view.shape};
    owned->managed.tensor = {tensor->data,         deviceCpu,           0,       tensor->rank,
                             toDLPack(view.dtype), owned->shape.data(), nullptr, 0};
    owned->managed.context = owned;
    owned->managed.deleter = [](DLManagedTensor *self) {
      delete static_cast<Owned *>(self->context);
    };
    *managed = &owned->managed;
    return {};
  });
}

} // extern "C"
