// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The C API's handles, and the guard that turns statuses and exceptions into its error objects.
#ifndef TRAINRT_CAPI_INTERNAL_H
#define TRAINRT_CAPI_INTERNAL_H

#include "export/adapter_config.h"
#include "io/array_file.h"
#include "plan/package.h"
#include "session/adapter/lora_merge.h"
#include "session/checkpoint.h"
#include "session/data/sampler.h"
#include "session/ranks/rank_group.h"
#include "session/session.h"
#include "trainrt/ranks.h"
#include "trainrt/trainrt.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

struct trainrt_error {
  trainrt_status status;
  std::string message;
};

struct trainrt_package {
  std::shared_ptr<const trainrt::Package> impl;
  /// Texts and dims of `trainrt_tensor_info`, by kind and index.
  struct Described {
    std::vector<trainrt_dim> dims;
    std::vector<std::string> texts;
  };
  std::vector<Described> described[4];
  std::string modelPath;
};

struct trainrt_session {
  /// The thread whose call it is in, if any.
  mutable std::atomic<std::thread::id> user{};
  std::unique_ptr<trainrt::Session> impl;
  /// The other ranks, where this session emulates several.
  std::unique_ptr<trainrt::RankGroup> group;
  trainrt::CheckpointInfo checkpoint;
  trainrt::CheckpointClaim claim;
  /// Of the last tuning.
  std::string tuningReport, declined;
  /// Of the last step: memory that the next one uses again.
  std::vector<trainrt::Batch> batches;
  /// Of the last weight with its adapter.
  trainrt::OwnedArray merged;
  /// What the adapter says that was loaded.
  trainrt::BaseModel base;
};

struct trainrt_ranks {
  std::shared_ptr<trainrt::Communicator> impl;
  /// Of the last gathering.
  std::vector<std::string> gathered;
  std::vector<trainrt_bytes> views;
};

struct trainrt_sampler {
  trainrt::Sampler impl;
};

struct trainrt_file {
  trainrt::ArrayFile impl;
  std::vector<trainrt::ArrayView> arrays;
};

namespace trainrt::capi {

/// The error that is returned when there is no memory for another one; never freed.
extern trainrt_error outOfMemory;

trainrt_status report(const Status &status, trainrt_error **error) noexcept;

/// As callers see it; `total` is theirs to set where it is no sum.
trainrt_memory memoryOf(const MemoryUse &use);

/// Runs `body`, which returns a Status; nothing is thrown out of it.
template <typename Body> trainrt_status guard(trainrt_error **error, Body body) noexcept {
  try {
    return report(body(), error);
  } catch (const std::bad_alloc &) {
    if (error)
      *error = &outOfMemory;
    return TRAINRT_OUT_OF_MEMORY;
  } catch (const std::exception &exception) {
    try {
      return report(Status(Code::Internal, exception.what()), error);
    } catch (...) {
      return TRAINRT_INTERNAL;
    }
  } catch (...) {
    return TRAINRT_INTERNAL;
  }
}

/// The same for a call that only one thread at a time may make of a session. Callbacks are on the
/// thread of the call that they belong to, and may make further ones.
template <typename Body>
trainrt_status guardSession(const trainrt_session *session, trainrt_error **error,
                            Body body) noexcept {
  std::thread::id user{};
  const bool first =
      !session || session->user.compare_exchange_strong(user, std::this_thread::get_id());
  if (!first && user != std::this_thread::get_id())
    return guard(error, [] {
      return fail(
          Code::InvalidArgument,
          "another thread is using the session: a session is for one thread at a time (only "
          "trainrt_session_cancel and trainrt_session_check are for any)");
    });
  const trainrt_status status = guard(error, body);
  if (first && session)
    session->user.store({});
  return status;
}

inline Status nullArgument(const char *name) {
  return fail(Code::InvalidArgument, "argument '", name, "' is NULL");
}

/// Copies the caller's struct, which may be of an older and shorter version, over the defaults.
template <typename Struct> Status readStruct(const Struct *from, const char *name, Struct &to) {
  if (!from)
    return {};
  if (from->size < sizeof(size_t) || from->size > sizeof(Struct))
    return fail(Code::InvalidArgument, name, "->size is ", from->size,
                "; this library knows up to ", sizeof(Struct),
                " bytes (set it with the *_default() function, or use a newer "
                "library)");
  std::memcpy(&to, from, from->size);
  to.size = sizeof(Struct);
  return {};
}

/// Copies a result into the caller's struct, as far as it reaches.
template <typename Struct> Status writeStruct(const Struct &from, const char *name, Struct *to) {
  if (!to)
    return {};
  size_t size = to->size;
  if (size < sizeof(size_t) || size > sizeof(Struct))
    return fail(Code::InvalidArgument, name, "->size is ", size, "; this library knows up to ",
                sizeof(Struct), " bytes (set it with the *_default() function)");
  std::memcpy(to, &from, size);
  to->size = size;
  return {};
}

/// Checks `size` of a result before work is done.
template <typename Struct> Status checkStruct(const Struct *to, const char *name) {
  if (to && (to->size < sizeof(size_t) || to->size > sizeof(Struct)))
    return fail(Code::InvalidArgument, name, "->size is ", to->size, "; this library knows up to ",
                sizeof(Struct), " bytes (set it with the *_default() function)");
  return {};
}

/// The caller's tensor as a view; InvalidArgument says "KIND 'NAME'", or KIND without a name.
Status readTensor(const trainrt_tensor &tensor, const char *kind, const char *name,
                  ArrayView &view);
/// Reads the tensors of `from`.
Status readBatch(const trainrt_batch &from, Batch &to);
/// `shape` must outlive the tensor.
trainrt_tensor makeTensor(const ArrayView &view, const int64_t *shape);

/// NotFound suggests the nearest name.
Status findTensor(const Package &package, trainrt_kind kind, const char *name, size_t &index);

} // namespace trainrt::capi

#endif // TRAINRT_CAPI_INTERNAL_H
