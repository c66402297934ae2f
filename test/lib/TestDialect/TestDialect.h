// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dialect of tests; see TestDialect.td.
#ifndef TRAINC_TEST_LIB_TESTDIALECT_H
#define TRAINC_TEST_LIB_TESTDIALECT_H

#include "dialects/Plan/CallEmitter.h"
#include "dialects/Train/TrainDialect.h"

#include "test/lib/TestDialect/TestDialect.h.inc"

#define GET_OP_CLASSES
#include "test/lib/TestDialect/TestOps.h.inc"

#endif // TRAINC_TEST_LIB_TESTDIALECT_H
