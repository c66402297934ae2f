// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers of 16 bits that ranks add up in f32: what is sent is half of what is made.
#ifndef TRAINRT_FORMAT_SUM_TYPES_H
#define TRAINRT_FORMAT_SUM_TYPES_H

#include "format/dtype.h"
#include "format/memory/exchange_work.h"

namespace trainrt {

/// Types of what ranks send each other, and of what they make of it: mostly one.
struct SumTypes {
  DType sent, made;

  SumTypes(DType both) : sent(both), made(both) {}
  SumTypes(DType sent, DType made) : sent(sent), made(made) {}
  bool widens() const { return sent != made; }
  ElementBytes bytes() const { return {int64_t(sizeOf(sent)), int64_t(sizeOf(made))}; }
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_SUM_TYPES_H
