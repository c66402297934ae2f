/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The data of the example, made in memory: points on two half circles that reach into each other,
 * with noise. The same number gives the same points everywhere. */
#ifndef TRAINRT_EXAMPLES_EMBED_MOONS_H
#define TRAINRT_EXAMPLES_EMBED_MOONS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MOONS_BATCH = 32, MOONS_HELD_OUT = 512 };

/* `count` points (x, y) and their half circles, 0 or 1. */
void make_moons(uint64_t number, int count, float *points, int64_t *labels);

#ifdef __cplusplus
}
#endif

#endif
