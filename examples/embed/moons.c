/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Half circles drawn with splitmix64. */
#include "moons.h"

#include <math.h>

static double draw(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

void make_moons(uint64_t number, int count, float *points, int64_t *labels) {
  uint64_t state = number * 0x2545f4914f6cdd1du;
  for (int i = 0; i < count; ++i) {
    const int upper = draw(&state) < 0.5;
    const double angle = 3.141592653589793 * draw(&state);
    const double x = upper ? cos(angle) : 1 - cos(angle);
    const double y = upper ? sin(angle) : 0.5 - sin(angle);
    points[2 * i] = (float)(x + 0.3 * (draw(&state) - 0.5));
    points[2 * i + 1] = (float)(y + 0.3 * (draw(&state) - 0.5));
    labels[i] = !upper;
  }
}
