// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the tests' plug-in that are of C++ and do not keep to themselves what they throw.

#include "trainrt/plugin.h"

#include <stdexcept>

extern "C" TRAINRT_PLUGIN_EXPORT int throws(const trainrt_external_call *) {
  throw std::runtime_error("the matrix is singular");
}

extern "C" TRAINRT_PLUGIN_EXPORT int throws_a_number(const trainrt_external_call *) { throw 7; }
