// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How an error leaves the walks over files that are read and written here: as an exception that
// carries its Status. None leaves this stratum: what others call returns it.
#ifndef TRAINRT_EXPORT_FAILURE_H
#define TRAINRT_EXPORT_FAILURE_H

#include "format/status.h"

#include <exception>

namespace trainrt {

class Failure : public std::exception {
public:
  explicit Failure(Status status) : status(std::move(status)) {}
  const char *what() const noexcept override { return status.message().c_str(); }
  const Status status;
};

inline void check(const Status &status) {
  if (!status.ok())
    throw Failure(status);
}

/// What `body` throws, as what it returns.
template <typename Body> Status returned(Body body) {
  try {
    body();
  } catch (const Failure &failure) {
    return failure.status;
  }
  return {};
}

} // namespace trainrt

#endif // TRAINRT_EXPORT_FAILURE_H
