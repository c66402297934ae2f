// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays of other libraries, and a session's values as theirs: DLPack.

#include "capi/internal.h"
#include "device/memory.h"

#include <cassert>

using namespace trainrt;
using namespace trainrt::capi;

static_assert(int(TRAINRT_VALUE_STATE) == int(Session::Value::State));
static_assert(int(TRAINRT_VALUE_OUTPUT) == int(Session::Value::Output));

// The layout of DLPack 0.x/1.x's DLManagedTensor, which is a fixed ABI.
/// As they are in memory of whoever has made the tensor.
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

/// One lane an element, as all of ours have.
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
/// Checks what the other library says; the values themselves are not looked at. `gpu` is -1 for
/// memory of the host alone.
Status readDLPack(const DLManagedTensor *managed, trainrt_tensor *tensor, int32_t &gpu) {
  if (!managed || !tensor)
    return nullArgument(managed ? "tensor" : "managed");
  // What it points to stays the library's.
  const DLTensor &from = managed->tensor;
  if (from.deviceType != deviceCpu && from.deviceType != deviceCuda &&
      from.deviceType != deviceCudaHost && from.deviceType != deviceCudaManaged)
    return fail(Code::InvalidArgument, "DLPack tensor: it is on device type ", from.deviceType,
                ", neither a CPU nor a CUDA GPU; copy it to the CPU first");
  int dtype = 0;
  // By trying all: the codes have no other order than ours.
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
  // From the last axis on: strides of axes of one element do not matter.
  int64_t dense = 1;
  for (int32_t axis = from.ndim; from.strides && axis-- > 0;) {
    if (from.shape[axis] > 1 && from.strides[axis] != dense)
      return fail(Code::InvalidArgument,
                  "DLPack tensor: it is not dense row-major; make it contiguous first");
    dense *= from.shape[axis];
  }
  // The shape is not copied: it lives as long as the tensor.
  *tensor = {static_cast<char *>(from.data) + from.byteOffset, static_cast<trainrt_dtype>(dtype),
             from.ndim, from.shape};
  // Managed memory counts as its device's.
  gpu = from.deviceType == deviceCuda || from.deviceType == deviceCudaManaged ? from.deviceId : -1;
  return {};
}

/// On GPU `gpu`, -1: in host memory. `owner` lives as long as the tensor.
DLManagedTensor *makeDLPack(const ArrayView &view, int gpu, std::shared_ptr<const void> owner) {
  struct Owned {
    DLManagedTensor managed;
    std::vector<int64_t> shape;
    std::shared_ptr<const void> owner;
  };
  // Shape, tensor and owner go with one deletion, by whoever gets it.
  auto *owned = new Owned{{}, view.shape, std::move(owner)};
  owned->managed.tensor = {const_cast<void *>(view.data),
                           gpu < 0 ? deviceCpu : deviceCuda,
                           std::max(gpu, 0),
                           int32_t(view.shape.size()),
                           toDLPack(view.dtype),
                           owned->shape.data(),
                           nullptr,
                           0};
  owned->managed.context = owned;
  owned->managed.deleter = [](DLManagedTensor *self) {
    delete static_cast<Owned *>(self->context);
  };
  return &owned->managed;
}
} // namespace

extern "C" {

/// `managed` stays the caller's: its deleter is not called here.
trainrt_status trainrt_tensor_from_dlpack(const struct DLManagedTensor *managed,
                                          trainrt_tensor *tensor, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    int32_t gpu = -1;
    trainrt_tensor read;
    TRAINRT_TRY(readDLPack(managed, tensor ? &read : nullptr, gpu));
    // Asked by a caller who can only read on the host.
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

/// The shape is copied, the values are not: their memory has to outlive `managed`.
trainrt_status trainrt_tensor_to_dlpack(const trainrt_tensor *tensor,
                                        struct DLManagedTensor **managed, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!managed || !tensor)
      return nullArgument(managed ? "tensor" : "managed");
    ArrayView view;
    TRAINRT_TRY(readTensor(*tensor, "tensor", nullptr, view));
    // Without an owner: the caller keeps the memory.
    *managed = makeDLPack(view, -1, nullptr);
    return {};
  });
}

trainrt_status trainrt_session_export(trainrt_session *session, trainrt_value which,
                                      const char *name, void *stream,
                                      struct DLManagedTensor **managed, trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || !managed)
      return nullArgument(session ? "managed" : "session");
    if (unsigned(which) > TRAINRT_VALUE_OUTPUT)
      return fail(Code::InvalidArgument, "which: ", int(which), " is no kind of value");
    // A gradient is found under its parameter's name.
    constexpr trainrt_kind kinds[] = {TRAINRT_PARAMETER, TRAINRT_STATE, TRAINRT_PARAMETER,
                                      TRAINRT_OUTPUT};
    assert(std::size(kinds) == TRAINRT_VALUE_OUTPUT + 1 && "a kind for each value");
    size_t index = 0;
    TRAINRT_TRY(findTensor(session->impl->package(), kinds[which], name, index));
    Session::Place place;
    TRAINRT_TRY(session->impl->place(static_cast<Session::Value>(which), index, place));
    // Others would write into the file's pages, or die of it.
    if (place.readOnly) {
      auto copy = std::make_shared<Memory>();
      TRAINRT_TRY(copy->allocate({}, place.array.bytes, "copy of a frozen parameter", false));
      if (place.array.bytes)
        std::memcpy(copy->data(), place.array.data, size_t(place.array.bytes));
      place.array.data = copy->data();
      place.owner = std::move(copy);
    } else if (which == TRAINRT_VALUE_PARAMETER) {
      session->impl->exposeParameters();
    }
    // The caller's stream waits for what the session has enqueued.
    if (stream != TRAINRT_NO_STREAM)
      TRAINRT_TRY(session->impl->signal(stream));
    *managed = makeDLPack(place.array, session->impl->gpu(), std::move(place.owner));
    return {};
  });
}

} // extern "C"
