// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's rows, written once over the type `V` of 16 floats. Included as gemm_kernels_impl.h
// is, and for its reasons: nothing here may be shared between translation units, and nothing from
// the standard library is used but `log`.
//
// V: Row (16 floats), load, store, set1, add, sub, mul, fma, max(a, b) (b where one is a NaN),
// exponential (2^n as a float for whole n in [-126, 127]), round, keepFrom(x, limit, y) (y where
// not x < limit, else 0), keepWords(words, threshold, y) (y where word >= threshold, else 0), sum
// and largest of the lanes.

/// e^x for x <= 0 or little more, 0 below the smallest normal number. The polynomial is that of
/// Cephes (Moshier): within 2 units in the last place.
inline V::Row exponential(V::Row x) {
  const V::Row least = V::set1(-87.33654f);
  V::Row in = V::max(least, x);
  V::Row n = V::round(V::mul(in, V::set1(1.44269504088896341f)));
  V::Row r = V::fma(n, V::set1(-0.693359375f), in);
  r = V::fma(n, V::set1(2.12194440e-4f), r);
  V::Row y = V::set1(1.9875691500e-4f);
  y = V::fma(y, r, V::set1(1.3981999507e-3f));
  y = V::fma(y, r, V::set1(8.3334519073e-3f));
  y = V::fma(y, r, V::set1(4.1665795894e-2f));
  y = V::fma(y, r, V::set1(1.6666665459e-1f));
  y = V::fma(y, r, V::set1(5.0000001201e-1f));
  y = V::fma(y, V::mul(r, r), V::add(r, V::set1(1)));
  return V::keepFrom(x, least, V::mul(y, V::exponential(n)));
}

inline int64_t padRow(float *row, int64_t n, float with) {
  int64_t padded = (n + attentionLanes - 1) / attentionLanes * attentionLanes;
  for (int64_t j = n; j < padded; ++j)
    row[j] = with;
  return padded;
}

inline V::Row dropped(V::Row weights, int64_t j, const AttentionMask &mask) {
  return mask.words ? V::keepWords(mask.words + j, mask.threshold, weights) : weights;
}

float weightsOfRow(float *s, int64_t n, const AttentionMask &mask) {
  const int64_t padded = padRow(s, n, -__builtin_inff());
  V::Row most = V::set1(-__builtin_inff());
  for (int64_t j = 0; j < padded; j += attentionLanes)
    most = V::max(most, V::load(s + j));
  const float highest = V::largest(most);
  const V::Row shift = V::set1(highest);
  V::Row total = V::set1(0);
  for (int64_t j = 0; j < padded; j += attentionLanes) {
    V::Row e = exponential(V::sub(V::load(s + j), shift));
    total = V::add(total, e);
    V::store(s + j, e);
  }
  const float sum = V::sum(total);
  const V::Row factor = V::set1(mask.factor / sum);
  for (int64_t j = 0; j < padded; j += attentionLanes)
    V::store(s + j, dropped(V::mul(V::load(s + j), factor), j, mask));
  return float(double(highest) + __builtin_log(double(sum)));
}

void gradientOfRow(float *s, float *d, int64_t n, float stats, float scale,
                   const AttentionMask &mask) {
  const int64_t padded = padRow(s, n, -__builtin_inff());
  padRow(d, n, 0);
  const V::Row shift = V::set1(stats), kept = V::set1(mask.factor);
  // With p the weights and f dropout's factors: the gradient of p is f d, that of the scores
  // p (f d - sum p f d). A row's add up to 0, and what rows have in common, as the gradient of a
  // bias of the keys, vanishes with that. So the exponentials are divided by their sum, which is
  // only nearly 1, as `stats` is rounded; and the mean is rounded: what is left of it is taken off,
  // too.
  V::Row total = V::set1(0), sum = V::set1(0);
  for (int64_t j = 0; j < padded; j += attentionLanes) {
    V::Row e = exponential(V::sub(V::load(s + j), shift));
    V::Row g = dropped(V::mul(V::load(d + j), kept), j, mask);
    sum = V::add(sum, e);
    total = V::fma(e, g, total);
    V::store(s + j, e);
    V::store(d + j, g);
  }
  const float all = V::sum(sum);
  const V::Row mean = V::set1(V::sum(total) / all);
  V::Row left = V::set1(0);
  for (int64_t j = 0; j < padded; j += attentionLanes) {
    V::Row centred = V::sub(V::load(d + j), mean);
    left = V::fma(V::load(s + j), centred, left);
    V::store(d + j, centred);
  }
  const V::Row rest = V::set1(V::sum(left) / all), by = V::set1(scale / all),
               weight = V::set1(mask.factor / all);
  for (int64_t j = 0; j < padded; j += attentionLanes) {
    V::Row e = V::load(s + j);
    V::store(d + j, V::mul(V::mul(e, by), V::sub(V::load(d + j), rest)));
    V::store(s + j, dropped(V::mul(e, weight), j, mask));
  }
}

void randomWords(uint32_t *words, uint32_t first, int64_t count, uint32_t row, uint32_t head,
                 uint32_t segment, uint64_t key) {
  constexpr int lanes = 16;
  for (int64_t begin = 0; begin < count; begin += lanes, words += 4 * lanes) {
    uint32_t c0[lanes], c1[lanes], c2[lanes], c3[lanes];
    for (int i = 0; i < lanes; ++i) {
      c0[i] = first + uint32_t(begin) + uint32_t(i);
      c1[i] = row;
      c2[i] = head;
      c3[i] = segment;
    }
    uint32_t key0 = uint32_t(key), key1 = uint32_t(key >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < lanes; ++i) {
        const uint64_t a = uint64_t(c0[i]) * 0xD2511F53u, b = uint64_t(c2[i]) * 0xCD9E8D57u;
        c0[i] = uint32_t(b >> 32) ^ c1[i] ^ key0;
        c1[i] = uint32_t(b);
        c2[i] = uint32_t(a >> 32) ^ c3[i] ^ key1;
        c3[i] = uint32_t(a);
      }
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    for (int i = 0; i < lanes; ++i) {
      words[4 * i] = c0[i];
      words[4 * i + 1] = c1[i];
      words[4 * i + 2] = c2[i];
      words[4 * i + 3] = c3[i];
    }
  }
}
