// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quantizers against stored results of bitsandbytes (quantized/make_results.py), bit by bit.

#include "io/safetensors.h"
#include "session/quantize/arithmetic.h"
#include "session/quantize/device_mean.h"
#include "session/quantize/four_bit.h"
#include "session/quantize/rows.h"

#include <bit>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace trainrt;

namespace {

class QuantizeTest : public ::testing::Test {
protected:
  void SetUp() override {
    Status status = SafetensorsReader::open(TRAINRT_QUANTIZED_RESULTS, results);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  const ArrayView &result(const std::string &name) const {
    const SafetensorsReader::Entry *entry = results.find(name);
    EXPECT_TRUE(entry) << name;
    static const ArrayView none;
    return entry ? entry->array : none;
  }
  std::vector<float> floats(const std::string &name) const {
    const ArrayView &array = result(name);
    std::vector<float> values(size_t(array.bytes) / sizeOf(array.dtype));
    elementsOf(array.data, array.dtype)(0, int64_t(values.size()), values.data());
    return values;
  }
  /// Whether these are the stored bytes; if not, where they differ first.
  void expectBytes(const std::string &name, const void *data, size_t size) const {
    const ArrayView &array = result(name);
    ASSERT_EQ(size_t(array.bytes), size) << name;
    auto *actual = static_cast<const unsigned char *>(data);
    auto *expected = static_cast<const unsigned char *>(array.data);
    for (size_t i = 0; i < size; ++i)
      ASSERT_EQ(int(actual[i]), int(expected[i])) << name << ", byte " << i;
  }

  SafetensorsReader results;
  ThreadPool pool{2};
};

struct FourBit {
  std::vector<float> absmax;
  std::vector<unsigned char> codes;
};

FourBit encode(QuantFormat format, const Elements &elements, int64_t count, int64_t block,
               ThreadPool &pool) {
  FourBit result;
  int64_t bad;
  EXPECT_TRUE(blockMaxima(elements, count, block, pool, result.absmax, bad));
  result.codes.resize(size_t(count + 1) / 2);
  encodeFourBit(format, elements, count, block, result.absmax.data(), pool, result.codes.data(), 0,
                int64_t(result.codes.size()));
  return result;
}

std::vector<float> normal(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float &value : values)
    value = distribution(random);
  return values;
}

} // namespace

TEST_F(QuantizeTest, TablesAreBitsandbytes) {
  expectBytes("dynamic_map", dynamicMap().data(), sizeof dynamicMap());
  expectBytes("nf4.map", codeValues(QuantFormat::NF4).data(), 64);
  // Code 8 of FP4 is a zero, whose sign its table does not have, but its kernels do.
  const std::array<float, 16> &fp4 = codeValues(QuantFormat::FP4);
  EXPECT_EQ(floats("fp4.map"), std::vector<float>(fp4.begin(), fp4.end()));
}

TEST_F(QuantizeTest, CodesAndStatisticsAreBitsandbytes) {
  size_t cases = 0;
  for (const SafetensorsReader::Entry &entry : results.entries()) {
    // "random.bf16/nf4.64/codes"
    const size_t slash = entry.name.find('/'), end = entry.name.rfind("/codes");
    const size_t dot = entry.name.find('.', slash);
    QuantFormat format;
    if (end == entry.name.npos || dot == entry.name.npos ||
        !parseQuantFormat(entry.name.substr(slash + 1, dot - slash - 1), format))
      continue;
    ++cases;
    const ArrayView &input = result(entry.name.substr(0, slash));
    const Elements elements = elementsOf(input.data, input.dtype);
    const int64_t block = std::stoll(entry.name.substr(dot + 1)),
                  count = input.bytes / int64_t(sizeOf(input.dtype));
    const FourBit ours = encode(format, elements, count, block, pool);
    const std::string prefix = entry.name.substr(0, end + 1);
    expectBytes(prefix + "codes", ours.codes.data(), ours.codes.size());
    expectBytes(prefix + "absmax", ours.absmax.data(), ours.absmax.size() * 4);
    if (!results.find(prefix + "nested_codes"))
      continue;
    const NestedStatistics nested = encodeStatistics(ours.absmax, pool);
    expectBytes(prefix + "nested_codes", nested.codes.data(), nested.codes.size());
    expectBytes(prefix + "nested_absmax", nested.absmax.data(), nested.absmax.size() * 4);
    expectBytes(prefix + "nested_offset", &nested.offset, 4);
    std::vector<float> absmax(ours.absmax.size()), values(static_cast<size_t>(count));
    decodeStatistics(nested.codes.data(), nested.absmax.data(), nested.offset, 0,
                     int64_t(absmax.size()), absmax.data());
    decodeFourBit(format, ours.codes.data(), block, absmax.data(), 0, count, values.data());
    std::vector<unsigned char> rounded(size_t(input.bytes));
    roundElements(values.data(), count, input.dtype, rounded.data());
    expectBytes(prefix + "decoded", rounded.data(), rounded.size());
  }
  EXPECT_GT(cases, 60u);
}

// As decimals they lie beside the middle of two floats, as doubles right on it: these bits are in
// the code objects of bitsandbytes' kernels.
TEST_F(QuantizeTest, ThresholdsAreRoundedOnce) {
  for (auto [bits, code] : {std::pair(0xbf591cd9u, 0), std::pair(0x3df64863u, 8),
                            std::pair(0x3f006d03u, 12), std::pair(0x3f5c89d9u, 14)}) {
    const float threshold = std::bit_cast<float>(bits), values[] = {1, threshold};
    const float above[] = {1, std::nextafter(threshold, 2.0f)};
    auto codeOf = [&](const float *pair) {
      return encode(QuantFormat::NF4, elementsOf(pair, DType::F32), 2, 16, pool).codes[0] & 15;
    };
    EXPECT_EQ(codeOf(values), code);
    EXPECT_EQ(codeOf(above), code + 1);
  }
}

TEST_F(QuantizeTest, RowsAreBitsandbytes) {
  size_t cases = 0;
  for (const SafetensorsReader::Entry &entry : results.entries()) {
    const size_t at = entry.name.find("/int8/codes");
    if (at == entry.name.npos)
      continue;
    ++cases;
    const std::string name = entry.name.substr(0, at);
    const ArrayView &input = result(name);
    const Elements elements = elementsOf(input.data, input.dtype);
    std::vector<float> absmax;
    std::vector<int8_t> codes(size_t(input.shape[0] * input.shape[1]));
    int64_t bad;
    ASSERT_TRUE(rowMaxima(elements, input.shape[0], input.shape[1], pool, absmax, bad));
    encodeRows(elements, input.shape[1], absmax.data(), pool, codes.data(), 0,
               int64_t(codes.size()));
    expectBytes(entry.name, codes.data(), codes.size());
    expectBytes(name + "/int8/absmax", absmax.data(), absmax.size() * 4);
    std::vector<float> values(codes.size());
    decodeRows(codes.data(), input.shape[1], absmax.data(), 0, int64_t(values.size()),
               values.data());
    const std::vector<float> source = floats(name);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_LE(std::fabs(values[i] - source[i]),
                absmax[i / size_t(input.shape[1])] * 0.00425f + 0x1p-24f)
          << name << " " << i;
  }
  EXPECT_GT(cases, 15u);
}

TEST_F(QuantizeTest, MeanIsAddedAsOnAGpu) {
  const ArrayView &counts = result("mean/counts");
  const std::vector<float> expected = floats("mean/values");
  for (size_t i = 0; i < expected.size(); ++i) {
    const int64_t count = static_cast<const int64_t *>(counts.data)[i];
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t j = 0; j < count; ++j)
      values[size_t(j)] = float(uint32_t(uint64_t(j) * 2654435761u) >> 8) * 0x1p-24f;
    EXPECT_EQ(deviceMean(values.data(), count), expected[i]) << count;
  }
}

TEST_F(QuantizeTest, AnySplitHasTheSameBytes) {
  constexpr int64_t count = 200001; // odd, and no multiple of a block
  const std::vector<float> values = normal(count, 5);
  const Elements elements = elementsOf(values.data(), DType::F32);
  ThreadPool alone(1), many(4);
  for (QuantFormat format : {QuantFormat::NF4, QuantFormat::FP4})
    for (int64_t block = minBlock; block <= maxBlock; block *= 2) {
      const FourBit whole = encode(format, elements, count, block, alone);
      EXPECT_EQ(encode(format, elements, count, block, many).codes, whole.codes) << block;
      std::vector<unsigned char> pieces(whole.codes.size());
      const auto size = int64_t(pieces.size());
      for (int64_t begin = 0; begin < size; begin += 64 * 37)
        encodeFourBit(format, elements, count, block, whole.absmax.data(), many,
                      pieces.data() + begin, begin, std::min(size, begin + 64 * 37));
      EXPECT_EQ(pieces, whole.codes) << block;
      // No value is farther from its code than half of the widest gap, and the largest of a block
      // keep their value.
      std::vector<float> decoded(values.size());
      decodeFourBit(format, whole.codes.data(), block, whole.absmax.data(), 0, count,
                    decoded.data());
      for (int64_t i = 0; i < count; ++i) {
        const float most = whole.absmax[size_t(i / block)], value = values[size_t(i)];
        ASSERT_LE(std::fabs(decoded[size_t(i)] - value), 0.1667f * most) << block << " " << i;
        if (std::fabs(value) == most)
          ASSERT_EQ(decoded[size_t(i)], value);
      }
    }
}

TEST_F(QuantizeTest, WhatIsNotFiniteIsFound) {
  std::vector<float> values = normal(100000, 6);
  std::vector<float> absmax;
  int64_t bad;
  for (float wrong : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> damaged = values;
    damaged[70007] = damaged[99999] = wrong;
    const Elements elements = elementsOf(damaged.data(), DType::F32);
    EXPECT_FALSE(blockMaxima(elements, 100000, 64, pool, absmax, bad));
    EXPECT_EQ(bad, 70007);
    EXPECT_FALSE(rowMaxima(elements, 100, 1000, pool, absmax, bad));
    EXPECT_EQ(bad, 70007);
    std::vector<unsigned char> cast(200000);
    EXPECT_EQ(castElements(elements, DType::BF16, pool, cast.data(), 0, 100000), 70007);
  }
  values[5] = 65519.99f; // rounds to 65504
  values[6] = 65520;
  const Elements elements = elementsOf(values.data(), DType::F32);
  EXPECT_TRUE(blockMaxima(elements, 100000, 64, pool, absmax, bad));
  EXPECT_FALSE(rowMaxima(elements, 100, 1000, pool, absmax, bad));
  EXPECT_EQ(bad, 6);
}

TEST_F(QuantizeTest, RoundsToTheNearest) {
  auto widen = [](uint16_t bits, DType dtype) {
    float value;
    elementsOf(&bits, dtype)(0, 1, &value);
    return value;
  };
  for (DType dtype : {DType::BF16, DType::F16}) {
    const uint16_t infinity = dtype == DType::BF16 ? 0x7f80 : 0x7c00;
    auto round = [&](float value) {
      uint16_t bits;
      roundElements(&value, 1, dtype, &bits);
      return bits;
    };
    for (uint16_t bits = 0; bits < infinity; ++bits) {
      const float value = widen(bits, dtype);
      ASSERT_EQ(round(value), bits);
      ASSERT_EQ(round(-value), bits | 0x8000);
      const auto next = uint16_t(bits + 1);
      const float after =
          next == infinity ? (dtype == DType::F16 ? 65536.0f : INFINITY) : widen(next, dtype);
      if (std::isinf(after))
        continue;
      const float middle = value / 2 + after / 2; // exact but for bf16's smallest
      if (middle == value || middle == after)
        continue;
      ASSERT_EQ(round(middle), bits % 2 ? next : bits) << bits;
      ASSERT_EQ(round(std::nextafter(middle, 0.0f)), bits) << bits;
      ASSERT_EQ(round(std::nextafter(middle, INFINITY)), next) << bits;
    }
    EXPECT_EQ(round(INFINITY), infinity);
    EXPECT_GT(round(NAN) & 0x7fff, infinity);
  }
}
