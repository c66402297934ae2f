/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* LLVM names temporary files by arc4random, which glibc has since 2.36 only. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number)
    abort(); /* up to 256 bytes are never given in part once the system has random numbers */
  return number;
}
