// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions, conversions, Philox: the runtime's arithmetic.

#include "format/program.h"
#include "io/convert.h"
#include "session/parameters/parameters.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace trainrt;

namespace {
using Kind = Expr::Kind;

struct Evaluated {
  bool ok;
  int64_t value;
};

Evaluated binary(Kind kind, int64_t a, int64_t b) {
  Program program;
  program.exprs = {{Kind::Constant, 0, 0, a}, {Kind::Constant, 0, 0, b}, {kind, 0, 1, 0}};
  std::vector<bool> exprs, symbols;
  program.collect(2, exprs, symbols);
  std::vector<int64_t> values;
  ExprId bad;
  bool ok = evaluate(program, exprs, {}, values, bad);
  return {ok, ok ? values[2] : 0};
}
} // namespace

TEST(Expr, Arithmetic) {
  EXPECT_EQ(binary(Kind::Add, 2, 3).value, 5);
  EXPECT_EQ(binary(Kind::Mul, -2, 3).value, -6);
  EXPECT_EQ(binary(Kind::FloorDiv, 7, 2).value, 3);
  EXPECT_EQ(binary(Kind::FloorDiv, -7, 2).value, -4);
  EXPECT_EQ(binary(Kind::FloorDiv, -8, 2).value, -4);
  EXPECT_EQ(binary(Kind::Mod, -7, 4).value, 1);
  EXPECT_EQ(binary(Kind::Max, 2, 3).value, 3);
  EXPECT_EQ(binary(Kind::Min, 2, 3).value, 2);
  EXPECT_EQ(binary(Kind::FloorDiv, INT64_MIN, 1).value, INT64_MIN);
}

TEST(Expr, OverflowAndDivisionAreErrors) {
  EXPECT_FALSE(binary(Kind::Add, INT64_MAX, 1).ok);
  EXPECT_FALSE(binary(Kind::Mul, INT64_MAX, 2).ok);
  EXPECT_FALSE(binary(Kind::FloorDiv, 1, 0).ok);
  EXPECT_FALSE(binary(Kind::Mod, 1, -1).ok);
}

TEST(Expr, OnlyWhatIsNeededIsEvaluated) {
  Program program;
  program.symbols.push_back({"batch", 1, 10, 1, 0, 0});
  program.symbols.push_back({"seq", 1, 10, 1, 0, 1});
  program.exprs = {{Kind::Symbol, 0, 0, 0},
                   {Kind::Constant, 0, 0, 0},
                   {Kind::FloorDiv, 0, 1, 0}, // divides by zero, but is not needed
                   {Kind::Symbol, 1, 0, 0},
                   {Kind::Add, 0, 3, 0}};
  std::vector<bool> exprs, symbols;
  program.collect(4, exprs, symbols);
  EXPECT_EQ(exprs, (std::vector<bool>{true, false, false, true, true}));
  EXPECT_EQ(symbols, (std::vector<bool>{true, true}));
  std::vector<int64_t> values;
  ExprId bad;
  ASSERT_TRUE(evaluate(program, exprs, {3, 4}, values, bad));
  EXPECT_EQ(values[4], 7);
  EXPECT_EQ(program.text(4), "batch + seq");
}

TEST(Convert, OnlyLosslessPairs) {
  EXPECT_TRUE(convertsExactly(DType::I32, DType::I64));
  EXPECT_TRUE(convertsExactly(DType::U32, DType::I64));
  EXPECT_TRUE(convertsExactly(DType::Bool, DType::I8));
  EXPECT_TRUE(convertsExactly(DType::F16, DType::F32));
  EXPECT_TRUE(convertsExactly(DType::BF16, DType::F64));
  EXPECT_FALSE(convertsExactly(DType::I64, DType::I32));
  EXPECT_FALSE(convertsExactly(DType::U64, DType::I64));
  EXPECT_FALSE(convertsExactly(DType::I8, DType::U16));
  EXPECT_FALSE(convertsExactly(DType::F64, DType::F32));
  EXPECT_FALSE(convertsExactly(DType::F16, DType::BF16));
  EXPECT_FALSE(convertsExactly(DType::I32, DType::F32));
  EXPECT_FALSE(convertsExactly(DType::I8, DType::Bool));
}

TEST(Convert, Values) {
  int32_t integers[] = {-5, 1 << 30};
  int64_t wide[2];
  convertElements(integers, DType::I32, wide, DType::I64, 2);
  EXPECT_EQ(wide[0], -5);
  EXPECT_EQ(wide[1], 1 << 30);
  uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7c00, 0x7bff};
  float floats[5];
  convertElements(halves, DType::F16, floats, DType::F32, 5);
  EXPECT_EQ(floats[0], 1.0f);
  EXPECT_EQ(floats[1], -2.0f);
  EXPECT_EQ(floats[2], std::ldexp(1.0f, -24));
  EXPECT_TRUE(std::isinf(floats[3]));
  EXPECT_EQ(floats[4], 65504.0f);
}

TEST(Philox, KnownAnswers) {
  // Random123's kat_vectors for philox4x32, 10 rounds.
  uint32_t result[4], zero[4] = {}, ones[4] = {~0u, ~0u, ~0u, ~0u};
  philox4x32(zero, zero, result);
  EXPECT_EQ(std::vector<uint32_t>(result, result + 4),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  philox4x32(ones, ones, result);
  EXPECT_EQ(std::vector<uint32_t>(result, result + 4),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  uint32_t counter[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
  uint32_t key[2] = {0xa4093822, 0x299f31d0};
  philox4x32(counter, key, result);
  EXPECT_EQ(std::vector<uint32_t>(result, result + 4),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}
