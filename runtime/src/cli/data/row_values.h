// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements of any type: a number as one of them, and as many of it as are wanted.
#ifndef TRAINRT_CLI_DATA_ROW_VALUES_H
#define TRAINRT_CLI_DATA_ROW_VALUES_H

#include "trainrt/trainrt.h"

#include <cstdint>
#include <variant>

namespace trainrt::run {

/// An integer, or another number.
using Number = std::variant<int64_t, double>;

/// Whether elements of `type` can be `number`; of 16-bit floats only 0 and 1 are asked for.
bool canBe(trainrt_dtype type, Number number);

/// Writes `count` elements that are `number`, which `canBe`.
void fill(Number number, trainrt_dtype type, int64_t count, char *to);

} // namespace trainrt::run

#endif // TRAINRT_CLI_DATA_ROW_VALUES_H
