// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --check-numerics: looks at everything that commands write, and remembers the first values of a
// step that are not finite. An infinity may be meant (masks are made of them), so what was seen is
// told only when something that counts, the loss or a gradient, is not finite.
#ifndef TRAINRT_SESSION_INSPECT_NUMERICS_H
#define TRAINRT_SESSION_INSPECT_NUMERICS_H

#include "device/observer.h"
#include "plan/command_info.h"

#include <string>
#include <vector>

namespace trainrt {

class NumericsCheck final : public CommandObserver {
public:
  explicit NumericsCheck(const Program &program) : program(program) {}

  /// What was seen before is forgotten.
  void reset() { infinite = notANumber = std::string(); }
  /// One line for the first infinity and one for the first NaN; "" if there was none.
  std::string found() const;

  bool reads() const override { return true; }
  Status begin(const ExecutionPlan &plan, const Read &read) override;
  Status ran(const ExecutionPlan &plan, size_t index, double start, double seconds,
             const Read &read) override;

private:
  /// `origin`: what wrote it, for the message.
  template <typename Origin>
  Status check(const ExecutionPlan &plan, const Region &region, const Read &read,
               const Origin &origin);

  const Program &program;
  std::string infinite, notANumber;
  std::vector<Region> results;
};

} // namespace trainrt

#endif // TRAINRT_SESSION_INSPECT_NUMERICS_H
