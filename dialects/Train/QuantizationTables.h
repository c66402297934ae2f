// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What codes of 4 and 8 bits stand for, as bitsandbytes has them (Dettmers et al., "QLoRA", 2023,
// and "8-bit optimizers via block-wise quantization", 2022).
#ifndef TRAINC_DIALECTS_TRAIN_QUANTIZATIONTABLES_H
#define TRAINC_DIALECTS_TRAIN_QUANTIZATIONTABLES_H

#include <vector>

namespace trainc::train {

inline constexpr float kNf4Table[16] = {-1.0f,
                                        -0.6961928009986877f,
                                        -0.5250730514526367f,
                                        -0.39491748809814453f,
                                        -0.28444138169288635f,
                                        -0.18477343022823334f,
                                        -0.09105003625154495f,
                                        0.0f,
                                        0.07958029955625534f,
                                        0.16093020141124725f,
                                        0.24611230194568634f,
                                        0.33791524171829224f,
                                        0.44070982933044434f,
                                        0.5626170039176941f,
                                        0.7229568362236023f,
                                        1.0f};
/// The highest bit is the sign.
inline constexpr float kFp4Table[16] = {
    0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};

/// The signed dynamic map of 8 bits, ascending: an exponent of base 10 in unary, then a linear
/// fraction; zero and one.
std::vector<float> dynamicMap();

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_QUANTIZATIONTABLES_H
