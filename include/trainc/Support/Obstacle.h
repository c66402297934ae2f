// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Why a pass leaves something as it is, for its missed remarks.
#ifndef TRAINC_SUPPORT_OBSTACLE_H
#define TRAINC_SUPPORT_OBSTACLE_H

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/Twine.h"
#include <string>

namespace trainc {

/// A reason, with what who compiles or exports can do about it, where there is something. Empty:
/// nothing is in the way.
struct Obstacle {
  Obstacle() = default;
  Obstacle(const llvm::Twine &reason, const llvm::Twine &wayOut = "")
      : reason(reason.str()), wayOut(wayOut.str()) {}
  Obstacle(const std::string &reason) : reason(reason) {}
  Obstacle(const char *reason) : reason(reason) {}

  bool empty() const { return reason.empty(); }
  void clear() { *this = {}; }
  /// Adds the way out to a remark that has the reason.
  void suggestTo(mlir::remark::detail::InFlightRemark &missed) const {
    if (!wayOut.empty())
      missed << mlir::remark::suggest("{0}", wayOut);
  }

  std::string reason, wayOut;
};

} // namespace trainc

#endif // TRAINC_SUPPORT_OBSTACLE_H
