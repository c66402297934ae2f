// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What V of the GEMM's inner loops (gemm_kernels_impl.h) is for AVX-512. Included inside an
// anonymous namespace, after the instruction set has been switched on for the file.

struct Avx512Vector {
  using Vec = __m512;
  static constexpr int lanes = 16, prefetchDistance = 32;
  static __mmask16 first(int n) { return __mmask16((1u << n) - 1); }
  static Vec load(const float *from) { return _mm512_loadu_ps(from); }
  static void store(float *to, Vec value) { _mm512_storeu_ps(to, value); }
  static Vec loadFirst(const float *from, int n) { return _mm512_maskz_loadu_ps(first(n), from); }
  static void storeFirst(float *to, Vec value, int n) {
    _mm512_mask_storeu_ps(to, first(n), value);
  }
  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec set1(float value) { return _mm512_set1_ps(value); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }

  static Vec widenFirst(const uint16_t *from, int n) {
    const __m256i bits = n == lanes ? _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from))
                                    : _mm256_maskz_loadu_epi16(first(n), from);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }

  /// In three rounds: 2x2 and 4x4 within 128-bit lanes, then the lanes themselves.
  static void transpose(Vec (&r)[16]) {
    __m512 t[16];
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      __m512 a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
      __m512 c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
      t[i] = _mm512_shuffle_ps(a, c, 0x44);
      t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
      t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
      t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    // t[4 * q + j] holds, in its 128-bit lane l, column 4 * l + j of the rows 4 * q .. 4 * q + 3.
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      __m512 a = _mm512_shuffle_f32x4(t[j], t[4 + j], 0x44);
      __m512 b = _mm512_shuffle_f32x4(t[j], t[4 + j], 0xee);
      __m512 c = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0x44);
      __m512 d = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0xee);
      r[j] = _mm512_shuffle_f32x4(a, c, 0x88);
      r[4 + j] = _mm512_shuffle_f32x4(a, c, 0xdd);
      r[8 + j] = _mm512_shuffle_f32x4(b, d, 0x88);
      r[12 + j] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
  }
};
