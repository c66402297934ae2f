/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * A library that has only to be found. */
int trainrt_empty_library(void) { return 0; }
