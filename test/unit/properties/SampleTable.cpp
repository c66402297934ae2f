// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The samples. Elements are f64 where an op takes any float, so that only the formula is tested and
// not rounding; sizes differ from axis to axis, so that no two are mixed up by luck.
#include "Samples.h"

namespace trainc::properties {
namespace {

#define UNARY(op, fills)                                                                           \
  {"train." op, "%x: tensor<2x3xf64>", "%0 = train." op " %x : tensor<2x3xf64>", fills}
#define BINARY(op, fills)                                                                          \
  {"train." op, "%x: tensor<2x3xf64>, %y: tensor<2x3xf64>",                                        \
   "%0 = train." op " %x, %y : tensor<2x3xf64>", fills}
#define INTEGER(op, fills)                                                                         \
  {"train." op, "%x: tensor<2x3xi64>, %y: tensor<2x3xi64>",                                        \
   "%0 = train." op " %x, %y : tensor<2x3xi64>", fills}
#define LOGICAL(op)                                                                                \
  {"train." op, "%x: tensor<4x3xi1>, %y: tensor<4x3xi1>",                                          \
   "%0 = train." op " %x, %y : tensor<4x3xi1>", "b b"}
#define COMPARE(predicate)                                                                         \
  {"train.compare", "%x: tensor<2x9xi64>, %y: tensor<2x9xi64>",                                    \
   "%0 = train.compare " predicate " %x, %y : tensor<2x9xi64> -> tensor<2x9xi1>", "i:0:3 i:0:3"}
#define BS "tensor<?x?x4xf64, #train.dims<batch, seq, 4>>"
#define SHARDS "tensor<?x4xf64, #train.dims<floordiv(world + 3, world), 4>>"

const Sample samples[] = {
    // Pointwise.
    UNARY("neg", "n"),
    UNARY("abs", "n"),
    UNARY("sign", "n"),
    UNARY("exp", "n"),
    UNARY("log", "p"),
    UNARY("sqrt", "p"),
    UNARY("rsqrt", "p"),
    UNARY("reciprocal", "p"),
    UNARY("tanh", "n"),
    UNARY("erf", "n"),
    UNARY("sigmoid", "n"),
    UNARY("relu", "n"),
    UNARY("detach", "n"),
    UNARY("floor", "n"),
    UNARY("ceil", "n"),
    UNARY("round", "n"),
    UNARY("sin", "n"),
    UNARY("cos", "n"),
    UNARY("tan", "u"),
    UNARY("asin", "u"),
    UNARY("acos", "u"),
    UNARY("atan", "n"),
    UNARY("sinh", "n"),
    UNARY("cosh", "n"),
    UNARY("asinh", "n"),
    {"train.acosh", "%x: tensor<2x3xf64>",
     "%1 = train.cosh %x : tensor<2x3xf64>\n%0 = train.acosh %1 : tensor<2x3xf64>", "p"},
    UNARY("atanh", "u"),
    UNARY("gelu", "n"),
    {"train.gelu", "%x: tensor<2x3xf64>", "%0 = train.gelu %x tanh : tensor<2x3xf64>", "n"},
    UNARY("gelu_grad", "n"),
    {"train.gelu_grad", "%x: tensor<2x3xf64>", "%0 = train.gelu_grad %x tanh : tensor<2x3xf64>",
     "n"},
    {"train.neg", "%x: " BS, "%0 = train.neg %x : " BS, "n"},
    BINARY("add", "n n"),
    BINARY("sub", "n n"),
    BINARY("mul", "n n"),
    BINARY("div", "n p"),
    BINARY("max", "n n"),
    BINARY("min", "n n"),
    BINARY("pow", "p n"),
    BINARY("mod", "n p"),
    INTEGER("add", "i:-9:9 i:-9:9"),
    INTEGER("sub", "i:-9:9 i:-9:9"),
    INTEGER("mul", "i:-9:9 i:-9:9"),
    INTEGER("div", "i:-9:9 i:1:4"),
    INTEGER("max", "i:-9:9 i:-9:9"),
    INTEGER("min", "i:-9:9 i:-9:9"),
    INTEGER("mod", "i:-9:9 i:1:4"),
    {"train.mul", "%x: tensor<2x3xf64>", "%0 = train.mul %x, %x : tensor<2x3xf64>", "n"},
    {"train.add", "%x: " BS ", %y: " BS, "%0 = train.add %x, %y : " BS, "n n"},
    LOGICAL("and"),
    LOGICAL("or"),
    LOGICAL("xor"),
    INTEGER("and", "i:-9:9 i:-9:9"),
    INTEGER("or", "i:-9:9 i:-9:9"),
    INTEGER("xor", "i:-9:9 i:-9:9"),
    {"train.not", "%x: tensor<2x3xi1>", "%0 = train.not %x : tensor<2x3xi1>", "b"},
    {"train.is_nan", "%x: tensor<2x3xf64>",
     "%0 = train.is_nan %x : tensor<2x3xf64> -> tensor<2x3xi1>", "m"},
    {"train.is_inf", "%x: tensor<2x3xf64>",
     "%0 = train.is_inf %x : tensor<2x3xf64> -> tensor<2x3xi1>", "m"},
    COMPARE("eq"),
    COMPARE("ne"),
    COMPARE("lt"),
    COMPARE("le"),
    COMPARE("gt"),
    COMPARE("ge"),
    {"train.select", "%c: tensor<2x3xi1>, %x: tensor<2x3xf64>, %y: tensor<2x3xf64>",
     "%0 = train.select %c, %x, %y : tensor<2x3xi1>, tensor<2x3xf64>", "b n n"},
    {"train.cast", "%x: tensor<2x3xf64>", "%0 = train.cast %x : tensor<2x3xf64> -> tensor<2x3xf32>",
     "n"},
    {"train.cast", "%x: tensor<2x3xf64>", "%0 = train.cast %x : tensor<2x3xf64> -> tensor<2x3xi32>",
     "n"},
    {"train.cast", "%x: tensor<2x3xi64>", "%0 = train.cast %x : tensor<2x3xi64> -> tensor<2x3xi1>",
     "i:-1:2"},
    {"train.cast", "%x: tensor<2x3xi1>", "%0 = train.cast %x : tensor<2x3xi1> -> tensor<2x3xf64>",
     "b"},
    {"train.full", "", "%0 = train.full 0.5 : f64 : tensor<2x3xf64>", ""},
    {"train.full", "", "%0 = train.full -3 : i64 : tensor<2xi64>", ""},
    {"train.dim", "", "%0 = train.dim <batch * seq + 1> : tensor<i64>", ""},
    {"train.dim", "", "%0 = train.dim <seq> : tensor<f64>", ""},
    {"train.rng_key", "%a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>, %d: tensor<i64>",
     "%0 = train.rng_key %a, %b, %c, %d {node = 81985529216486895 : i64} : tensor<i64>",
     "i:0:9007199254740992 i:0:100 i:0:8 i:0:8"},
    {"train.random_bits", "%k: tensor<i64>",
     "%0 = train.random_bits %k : tensor<i64> -> tensor<3x2x5xi32>", "k"},
    {"train.bitcast", "%x: tensor<2x3xf32>",
     "%0 = train.bitcast %x : tensor<2x3xf32> -> tensor<2x3xi32>", "n"},
    {"train.bitcast", "%x: tensor<2x3xi32>",
     "%0 = train.bitcast %x : tensor<2x3xi32> -> tensor<2x3xf32>", "i:1000000000:1100000000"},
    {"train.dropout", "%x: tensor<3x2x5xf64>, %k: tensor<i64>",
     "%0 = train.dropout %x, %k {ratio = 0.3 : f64} : tensor<3x2x5xf64>, tensor<i64>", "n k"},
    {"train.dropout",
     "%x: tensor<3x2x5xf64>, %k: tensor<i64>, %a: tensor<3x2x5xi32>, %b: tensor<3x2x5xi32>",
     "%0 = train.dropout %x, %k at %a, %b axes = [0, 1] {ratio = 0.3 : f64} : tensor<3x2x5xf64>, "
     "tensor<i64>, tensor<3x2x5xi32>, tensor<3x2x5xi32>",
     "n k i:0:9 i:0:9"},
    {"train.dropout", "%x: tensor<2x2x3x2x5xf64>, %k: tensor<i64>",
     "%0 = train.dropout %x, %k {ratio = 0.5 : f64} : tensor<2x2x3x2x5xf64>, tensor<i64>", "n k"},

    // Shapes.
    {"train.constant", "", "%0 = train.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>",
     ""},
    {"train.constant", "", "%0 = train.constant dense<[true, false]> : tensor<2xi1>", ""},
    {"train.iota", "", "%0 = train.iota 1 : tensor<2x3xi64>", ""},
    {"train.iota", "", "%0 = train.iota 0 : tensor<?x4xf64, #train.dims<batch, 4>>", ""},
    {"train.broadcast", "%x: tensor<3xf64>",
     "%0 = train.broadcast %x axes = [1] : tensor<3xf64> -> tensor<2x3x4xf64>", "n"},
    {"train.broadcast", "%x: tensor<f64>",
     "%0 = train.broadcast %x axes = [] : tensor<f64> -> tensor<2x3xf64>", "n"},
    {"train.broadcast", "%x: tensor<?x4xf64, #train.dims<batch, 4>>",
     "%0 = train.broadcast %x axes = [0, 2] : tensor<?x4xf64, #train.dims<batch, 4>> -> " BS, "n"},
    {"train.broadcast", "%x: tensor<2x3xf64>",
     "%0 = train.broadcast %x axes = [0, 1] : tensor<2x3xf64> -> tensor<2x3xf64>", "n"},
    {"train.barrier", "%x: " BS, "%0 = train.barrier %x : " BS, "n"},
    {"train.reshape", "%x: tensor<2x3x4xf64>",
     "%0 = train.reshape %x : tensor<2x3x4xf64> -> tensor<2x12xf64>", "n"},
    {"train.reshape", "%x: " BS,
     "%0 = train.reshape %x : " BS " -> tensor<?x4xf64, #train.dims<batch * seq, 4>>", "n"},
    {"train.reshape", "%x: " BS,
     "%0 = train.reshape %x : " BS " -> tensor<?x?x2x2xf64, #train.dims<batch, seq, 2, 2>>", "n"},
    {"train.reshape", "%x: tensor<2x3xf64>",
     "%0 = train.reshape %x : tensor<2x3xf64> -> tensor<2x1x3xf64>", "n"},
    {"train.reshape", "%x: tensor<2x3xf64>",
     "%0 = train.reshape %x : tensor<2x3xf64> -> tensor<3x2xf64>", "n"},
    {"train.transpose", "%x: tensor<2x3x4xf64>",
     "%0 = train.transpose %x permutation = [2, 0, 1] : tensor<2x3x4xf64> -> tensor<4x2x3xf64>",
     "n"},
    {"train.transpose", "%x: " BS,
     "%0 = train.transpose %x permutation = [1, 0, 2] : " BS
     " -> tensor<?x?x4xf64, #train.dims<seq, batch, 4>>",
     "n"},
    {"train.slice", "%x: tensor<4x5xf64>",
     "%0 = train.slice %x starts = <1, 4> steps = [1, -2] : tensor<4x5xf64> -> tensor<2x3xf64>",
     "n"},
    {"train.slice", "%x: tensor<4x5xf64>",
     "%0 = train.slice %x starts = <0, 2> steps = [1, 1] : tensor<4x5xf64> -> tensor<4x2xf64>",
     "n"},
    {"train.slice", "%x: " BS,
     "%0 = train.slice %x starts = <0, seq - 1, 0> steps = [1, 1, 1] : " BS
     " -> tensor<?x1x4xf64, #train.dims<batch, 1, 4>>",
     "n"},
    {"train.pad", "%x: tensor<2x3xf64>",
     "%0 = train.pad %x value = 0.5 : f64 low = <1, 0> : tensor<2x3xf64> -> tensor<4x3xf64>", "n"},
    {"train.pad", "%x: tensor<2x5xf64>",
     "%0 = train.pad %x value = 0.0 : f64 low = <0, -1> : tensor<2x5xf64> -> tensor<2x3xf64>", "n"},
    {"train.pad", "%x: " BS,
     "%0 = train.pad %x value = 1.0 : f64 low = <0, seq, 0> : " BS
     " -> tensor<?x?x4xf64, #train.dims<batch, 2 * seq, 4>>",
     "n"},
    {"train.window", "%x: tensor<2x7x3xf64>",
     "%0 = train.window %x axis = 1 taps = 2 stride = 2 dilation = 1 : tensor<2x7x3xf64> -> "
     "tensor<2x3x3xf64>",
     "n"},
    {"train.window", "%x: tensor<9x2x4xf64>",
     "%0 = train.window %x axis = 0 taps = 1 stride = 1 dilation = 3 : tensor<9x2x4xf64> -> "
     "tensor<6x2x4xf64>",
     "n"},
    {"train.window", "%x: tensor<2x19x3xf64>",
     "%0 = train.window %x axis = 1 taps = 2 stride = 1 dilation = 1 : tensor<2x19x3xf64> -> "
     "tensor<2x17x3xf64>",
     "n"},
    {"train.window", "%x: tensor<?x?x2xf64, #train.dims<batch, 2 * seq + 1, 2>>",
     "%0 = train.window %x axis = 1 taps = 2 stride = 2 dilation = 1 : "
     "tensor<?x?x2xf64, #train.dims<batch, 2 * seq + 1, 2>> -> "
     "tensor<?x?x2xf64, #train.dims<batch, seq, 2>>",
     "n"},
    {"train.window", "%x: tensor<3x2x19xf64>",
     "%0 = train.window %x axis = 2 taps = 0 stride = 1 dilation = 1 : tensor<3x2x19xf64> -> "
     "tensor<3x2x17xf64>",
     "n"},
    {"train.spread", "%x: tensor<3x2x9xf64>",
     "%0 = train.spread %x axis = 2 taps = 0 stride = 2 dilation = 1 : tensor<3x2x9xf64> -> "
     "tensor<3x2x19xf64>",
     "n"},
    {"train.spread", "%x: tensor<2x3x3xf64>",
     "%0 = train.spread %x axis = 1 taps = 2 stride = 2 dilation = 1 : tensor<2x3x3xf64> -> "
     "tensor<2x8x3xf64>",
     "n"},
    {"train.spread", "%x: tensor<6x2x4xf64>",
     "%0 = train.spread %x axis = 0 taps = 1 stride = 1 dilation = 3 : tensor<6x2x4xf64> -> "
     "tensor<9x2x4xf64>",
     "n"},
    {"train.spread", "%x: tensor<?x?x2xf64, #train.dims<batch, seq, 2>>",
     "%0 = train.spread %x axis = 1 taps = 2 stride = 3 dilation = 2 : "
     "tensor<?x?x2xf64, #train.dims<batch, seq, 2>> -> "
     "tensor<?x?x2xf64, #train.dims<batch, 3 * seq, 2>>",
     "n"},
    {"train.in_training", "%x: tensor<2x3xf64>, %y: tensor<2x3xf64>",
     "%0 = train.in_training %x else %y : tensor<2x3xf64>", "n n"},
    {"train.concat", "%x: tensor<2x3xf64>, %y: tensor<2x1xf64>, %z: tensor<2x2xf64>",
     "%0 = train.concat %x, %y, %z axis = 1 : (tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x2xf64>) "
     "-> tensor<2x6xf64>",
     "n n n"},
    {"train.concat", "%x: " BS ", %y: tensor<2x3x4xf64>",
     "%1 = train.slice %y starts = <0, 0, 0> steps = [1, 1, 1] : tensor<2x3x4xf64> -> "
     "tensor<?x1x4xf64, #train.dims<batch, 1, 4>>\n"
     "%0 = train.concat %x, %1 axis = 1 : (" BS ", tensor<?x1x4xf64, #train.dims<batch, 1, 4>>) -> "
     "tensor<?x?x4xf64, #train.dims<batch, seq + 1, 4>>",
     "n n"},
    {"train.split", "%x: tensor<2x6xf64>",
     "%0:3 = train.split %x axis = 1 : (tensor<2x6xf64>) -> (tensor<2x3xf64>, tensor<2x1xf64>, "
     "tensor<2x2xf64>)",
     "n"},
    {"train.gather", "%d: tensor<5x3xf64>, %i: tensor<2x4xi64>",
     "%0 = train.gather %d, %i axis = 0 : tensor<5x3xf64>, tensor<2x4xi64> -> tensor<2x4x3xf64>",
     "n i:-5:5"},
    {"train.gather", "%d: tensor<2x5x3xf64>, %i: tensor<4xi32>",
     "%0 = train.gather %d, %i axis = 1 : tensor<2x5x3xf64>, tensor<4xi32> -> tensor<2x4x3xf64>",
     "n i:-5:5"},
    {"train.gather", "%d: tensor<2x5x3xf64>, %i: tensor<i64>",
     "%0 = train.gather %d, %i axis = 1 : tensor<2x5x3xf64>, tensor<i64> -> tensor<2x3xf64>",
     "n i:-5:5"},
    {"train.gather", "%d: " BS ", %i: tensor<2xi64>",
     "%0 = train.gather %d, %i axis = 1 : " BS
     ", tensor<2xi64> -> tensor<?x2x4xf64, #train.dims<batch, 2, 4>>",
     "n i:-3:3"},
    {"train.gather_elements", "%d: tensor<2x5xf64>, %i: tensor<2x3xi64>",
     "%0 = train.gather_elements %d, %i axis = 1 : tensor<2x5xf64>, tensor<2x3xi64> -> "
     "tensor<2x3xf64>",
     "n i:-5:5"},
    {"train.gather_elements", "%d: tensor<4x2x3xf64>, %i: tensor<2x2x3xi64>",
     "%0 = train.gather_elements %d, %i axis = 0 : tensor<4x2x3xf64>, tensor<2x2x3xi64> -> "
     "tensor<2x2x3xf64>",
     "n i:-4:4"},
    {"train.within", "%x: tensor<2x4xi32>", "%0 = train.within %x to <3> : tensor<2x4xi32>",
     "i:0:4"},
    {"train.within", "%x: tensor<2x4xi64>",
     "%0 = train.within %x to <3> from_end : tensor<2x4xi64>", "i:-4:4"},
    // Rows 3 and 0 of four, packed and put back.
    {"train.select_rows", "%d: tensor<4x3xf64>",
     "%i = train.constant dense<[3, 0]> : tensor<2xi32>\n"
     "%j = train.constant dense<[1, -1, -1, 0]> : tensor<4xi32>\n"
     "%0 = train.select_rows %d, %i inverse %j axis = 0 : (tensor<4x3xf64>, tensor<2xi32>, "
     "tensor<4xi32>) -> tensor<2x3xf64>",
     "n"},
    {"train.select_rows", "%d: tensor<3x2xf64>",
     "%i = train.constant dense<[3, 0]> : tensor<2xi32>\n"
     "%j = train.constant dense<[1, -1, -1, 0]> : tensor<4xi32>\n"
     "%0 = train.select_rows %d, %j inverse %i axis = 1 : (tensor<3x2xf64>, tensor<4xi32>, "
     "tensor<2xi32>) -> tensor<3x4xf64>",
     "n"},
    // A row whose blocks and bytes begin in the middle of others, and whole ones.
    {"train.dequantize", "%c: tensor<18xi8>, %t: tensor<16xf64>, %s: tensor<3xf64>",
     "%0 = train.dequantize %c, %t, %s block 16 : (tensor<18xi8>, tensor<16xf64>, tensor<3xf64>) "
     "-> "
     "tensor<5x7xf64>",
     "i:-128:128 n p"},
    {"train.dequantize", "%c: tensor<256xi8>, %t: tensor<16xf64>, %s: tensor<8xf64>",
     "%0 = train.dequantize %c, %t, %s block 64 : (tensor<256xi8>, tensor<16xf64>, tensor<8xf64>) "
     "-> "
     "tensor<8x64xf64>",
     "i:-128:128 n p"},
    // One code a byte.
    {"train.dequantize", "%c: tensor<35xi8>, %t: tensor<256xf64>, %s: tensor<3xf64>",
     "%0 = train.dequantize %c, %t, %s block 16 : (tensor<35xi8>, tensor<256xf64>, tensor<3xf64>) "
     "-> "
     "tensor<5x7xf64>",
     "i:-128:128 n p"},
    {"train.with_gradient", "%l: tensor<f64>, %v: tensor<2x3xf64>, %g: tensor<2x3xf64>",
     "%0 = train.with_gradient %l of %v are %g : (tensor<f64>, tensor<2x3xf64>, tensor<2x3xf64>) "
     "-> "
     "tensor<f64>",
     "n n =0"},
    {"train.gather_nd", "%d: tensor<3x4x2xf64>, %i: tensor<5x2xi64>",
     "%0 = train.gather_nd %d, %i batch_dims = 0 : tensor<3x4x2xf64>, tensor<5x2xi64> -> "
     "tensor<5x2xf64>",
     "n i:-3:3"},
    {"train.gather_nd", "%d: tensor<3x4x2xf64>, %i: tensor<3x5x1xi64>",
     "%0 = train.gather_nd %d, %i batch_dims = 1 : tensor<3x4x2xf64>, tensor<3x5x1xi64> -> "
     "tensor<3x5x2xf64>",
     "n i:-4:4"},
    {"train.gather_nd", "%d: tensor<3x4xf64>, %i: tensor<5x2xi64>",
     "%0 = train.gather_nd %d, %i batch_dims = 0 : tensor<3x4xf64>, tensor<5x2xi64> -> "
     "tensor<5xf64>",
     "n i:-3:3"},
    {"train.scatter_add", "%i: tensor<2x4xi64>, %u: tensor<2x4x3xf64>",
     "%0 = train.scatter_add %i, %u axis = 0 : tensor<2x4xi64>, tensor<2x4x3xf64> -> "
     "tensor<5x3xf64>",
     "i:-5:5 n"},
    {"train.scatter_add", "%i: tensor<4xi64>, %u: tensor<2x4x3xf64>",
     "%0 = train.scatter_add %i, %u axis = 1 : tensor<4xi64>, tensor<2x4x3xf64> -> "
     "tensor<2x5x3xf64>",
     "i:-5:5 n"},
    {"train.scatter_add", "%i: tensor<1xi64>, %u: tensor<2x1x3xf64>",
     "%0 = train.scatter_add %i, %u axis = 1 unique : tensor<1xi64>, tensor<2x1x3xf64> -> "
     "tensor<2x2x3xf64>",
     "i:-1:2 n"},
    {"train.scatter_elements_add", "%i: tensor<2x3xi64>, %u: tensor<2x3xf64>",
     "%0 = train.scatter_elements_add %i, %u axis = 1 : tensor<2x3xi64>, tensor<2x3xf64> -> "
     "tensor<2x5xf64>",
     "i:-5:5 n"},
    {"train.cumsum", "%x: tensor<2x5x3xf64>", "%0 = train.cumsum %x axis = 1 : tensor<2x5x3xf64>",
     "n"},
    {"train.cumsum", "%x: tensor<2x5xf64>",
     "%0 = train.cumsum %x axis = 1 exclusive : tensor<2x5xf64>", "n"},
    {"train.cumsum", "%x: tensor<2x5xf64>",
     "%0 = train.cumsum %x axis = 0 reverse : tensor<2x5xf64>", "n"},
    {"train.cumsum", "%x: tensor<2x5xi64>",
     "%0 = train.cumsum %x axis = 1 exclusive reverse : tensor<2x5xi64>", "i:0:9"},

    // Reductions and products.
    {"train.reduce", "%x: tensor<2x3x4xf64>",
     "%0 = train.reduce sum %x axes = [0, 2] : tensor<2x3x4xf64> -> tensor<3xf64>", "n"},
    {"train.reduce", "%x: tensor<2x3x4xf64>",
     "%0 = train.reduce sum %x axes = [0, 1, 2] : tensor<2x3x4xf64> -> tensor<f64>", "n"},
    {"train.reduce", "%x: " BS,
     "%0 = train.reduce sum %x axes = [1] : " BS " -> tensor<?x4xf64, #train.dims<batch, 4>>", "n"},
    {"train.reduce", "%x: tensor<2x3x4xf64>",
     "%0 = train.reduce max %x axes = [2] : tensor<2x3x4xf64> -> tensor<2x3xf64>", "n"},
    {"train.reduce", "%x: tensor<2x3x4xf64>",
     "%0 = train.reduce min %x axes = [1] : tensor<2x3x4xf64> -> tensor<2x4xf64>", "n"},
    {"train.reduce", "%x: tensor<2x3x4xf64>",
     "%0 = train.reduce prod %x axes = [1] : tensor<2x3x4xf64> -> tensor<2x4xf64>", "p"},
    {"train.reduce", "%x: tensor<2x4xi64>",
     "%0 = train.reduce max %x axes = [1] : tensor<2x4xi64> -> tensor<2xi64>", "i:-9:9"},
    {"train.reduce", "%x: tensor<3x4xi1>",
     "%0 = train.reduce max %x axes = [1] : tensor<3x4xi1> -> tensor<3xi1>", "b"},
    {"train.reduce", "%x: tensor<3x4xi1>",
     "%0 = train.reduce min %x axes = [0] : tensor<3x4xi1> -> tensor<4xi1>", "b"},
    {"train.matmul", "%a: tensor<2x3xf64>, %b: tensor<3x4xf64>",
     "%0 = train.matmul %a, %b : tensor<2x3xf64>, tensor<3x4xf64> -> tensor<2x4xf64>", "n n"},
    {"train.matmul", "%a: tensor<5x3x2xf64>, %b: tensor<5x3x4xf64>",
     "%0 = train.matmul %a transposed, %b : tensor<5x3x2xf64>, tensor<5x3x4xf64> -> "
     "tensor<5x2x4xf64>",
     "n n"},
    {"train.matmul", "%a: tensor<2x3xf64>, %b: tensor<4x3xf64>",
     "%0 = train.matmul %a, %b transposed : tensor<2x3xf64>, tensor<4x3xf64> -> tensor<2x4xf64>",
     "n n"},
    {"train.matmul", "%a: tensor<3x2xf64>, %b: tensor<4x3xf64>",
     "%0 = train.matmul %a transposed, %b transposed : tensor<3x2xf64>, tensor<4x3xf64> -> "
     "tensor<2x4xf64>",
     "n n"},
    {"train.matmul", "%a: " BS ", %b: tensor<?x4x5xf64, #train.dims<batch, 4, 5>>",
     "%0 = train.matmul %a, %b : " BS ", tensor<?x4x5xf64, #train.dims<batch, 4, 5>> -> "
     "tensor<?x?x5xf64, #train.dims<batch, seq, 5>>",
     "n n"},

    // Convolutions: overlapping windows with padding, groups, dilation and a rest that no window
    // reaches.
    {"train.conv", "%x: tensor<2x7x5x4xf64>, %y: tensor<6x3x2x2xf64>",
     "%0 = train.conv %x, %y strides = [2, 1] dilations = [1, 1] low = <1, 0> high = <1, 0> groups "
     "= 2 : (tensor<2x7x5x4xf64>, tensor<6x3x2x2xf64>) -> tensor<2x4x4x6xf64>",
     "n n"},
    {"train.conv_data_grad", "%x: tensor<2x4x4x6xf64>, %y: tensor<6x3x2x2xf64>",
     "%0 = train.conv_data_grad %x, %y strides = [2, 1] dilations = [1, 1] low = <1, 0> high = <1, "
     "0> groups = 2 : (tensor<2x4x4x6xf64>, tensor<6x3x2x2xf64>) -> tensor<2x7x5x4xf64>",
     "n n"},
    {"train.conv_filter_grad", "%x: tensor<2x7x5x4xf64>, %y: tensor<2x4x4x6xf64>",
     "%0 = train.conv_filter_grad %x, %y strides = [2, 1] dilations = [1, 1] low = <1, 0> high = "
     "<1, 0> groups = 2 : (tensor<2x7x5x4xf64>, tensor<2x4x4x6xf64>) -> tensor<6x3x2x2xf64>",
     "n n"},
    // One filter a channel.
    {"train.conv", "%x: tensor<2x6x5x3xf64>, %y: tensor<3x2x3x1xf64>",
     "%0 = train.conv %x, %y strides = [1, 2] dilations = [2, 1] low = <1, 0> high = <0, 1> groups "
     "= 3 : (tensor<2x6x5x3xf64>, tensor<3x2x3x1xf64>) -> tensor<2x5x2x3xf64>",
     "n n"},
    {"train.conv_data_grad", "%x: tensor<2x5x2x3xf64>, %y: tensor<3x2x3x1xf64>",
     "%0 = train.conv_data_grad %x, %y strides = [1, 2] dilations = [2, 1] low = <1, 0> high = <0, "
     "1> groups = 3 : (tensor<2x5x2x3xf64>, tensor<3x2x3x1xf64>) -> tensor<2x6x5x3xf64>",
     "n n"},
    {"train.conv_filter_grad", "%x: tensor<2x6x5x3xf64>, %y: tensor<2x5x2x3xf64>",
     "%0 = train.conv_filter_grad %x, %y strides = [1, 2] dilations = [2, 1] low = <1, 0> high = "
     "<0, 1> groups = 3 : (tensor<2x6x5x3xf64>, tensor<2x5x2x3xf64>) -> tensor<3x2x3x1xf64>",
     "n n"},
    // Points, whose positions are parallel; one axis; windows that cut a padded axis into pieces.
    {"train.conv", "%x: tensor<2x3x4x2xf64>, %y: tensor<5x1x1x2xf64>",
     "%0 = train.conv %x, %y strides = [1, 1] dilations = [1, 1] low = <0, 0> high = <0, 0> groups "
     "= 1 : (tensor<2x3x4x2xf64>, tensor<5x1x1x2xf64>) -> tensor<2x3x4x5xf64>",
     "n n"},
    {"train.conv_data_grad", "%x: tensor<2x3x4x5xf64>, %y: tensor<5x1x1x2xf64>",
     "%0 = train.conv_data_grad %x, %y strides = [1, 1] dilations = [1, 1] low = <0, 0> high = <0, "
     "0> groups = 1 : (tensor<2x3x4x5xf64>, tensor<5x1x1x2xf64>) -> tensor<2x3x4x2xf64>",
     "n n"},
    {"train.conv_filter_grad", "%x: tensor<2x3x4x2xf64>, %y: tensor<2x3x4x5xf64>",
     "%0 = train.conv_filter_grad %x, %y strides = [1, 1] dilations = [1, 1] low = <0, 0> high = "
     "<0, 0> groups = 1 : (tensor<2x3x4x2xf64>, tensor<2x3x4x5xf64>) -> tensor<5x1x1x2xf64>",
     "n n"},
    {"train.conv", "%x: tensor<2x5x3xf64>, %y: tensor<4x2x3xf64>",
     "%0 = train.conv %x, %y strides = [2] dilations = [1] low = <1> high = <0> groups = 1 : "
     "(tensor<2x5x3xf64>, tensor<4x2x3xf64>) -> tensor<2x3x4xf64>",
     "n n"},
    {"train.conv_data_grad", "%x: tensor<2x3x4xf64>, %y: tensor<4x2x3xf64>",
     "%0 = train.conv_data_grad %x, %y strides = [2] dilations = [1] low = <1> high = <0> groups = "
     "1 : (tensor<2x3x4xf64>, tensor<4x2x3xf64>) -> tensor<2x5x3xf64>",
     "n n"},
    {"train.conv_filter_grad", "%x: tensor<2x5x3xf64>, %y: tensor<2x3x4xf64>",
     "%0 = train.conv_filter_grad %x, %y strides = [2] dilations = [1] low = <1> high = <0> groups "
     "= 1 : (tensor<2x5x3xf64>, tensor<2x3x4xf64>) -> tensor<4x2x3xf64>",
     "n n"},
    // Three axes; sizes that are symbols, and a window of an axis that is cropped.
    {"train.conv", "%x: tensor<1x3x4x3x2xf64>, %y: tensor<2x2x1x3x2xf64>",
     "%0 = train.conv %x, %y strides = [1, 2, 1] dilations = [1, 1, 1] low = <0, 0, 0> high = <0, "
     "-1, 0> groups = 1 : (tensor<1x3x4x3x2xf64>, tensor<2x2x1x3x2xf64>) -> tensor<1x2x2x1x2xf64>",
     "n n"},
    {"train.conv_data_grad", "%x: tensor<1x2x2x1x2xf64>, %y: tensor<2x2x1x3x2xf64>",
     "%0 = train.conv_data_grad %x, %y strides = [1, 2, 1] dilations = [1, 1, 1] low = <0, 0, 0> "
     "high = <0, -1, 0> groups = 1 : (tensor<1x2x2x1x2xf64>, tensor<2x2x1x3x2xf64>) -> "
     "tensor<1x3x4x3x2xf64>",
     "n n"},
    {"train.conv_filter_grad", "%x: tensor<1x3x4x3x2xf64>, %y: tensor<1x2x2x1x2xf64>",
     "%0 = train.conv_filter_grad %x, %y strides = [1, 2, 1] dilations = [1, 1, 1] low = <0, 0, 0> "
     "high = <0, -1, 0> groups = 1 : (tensor<1x3x4x3x2xf64>, tensor<1x2x2x1x2xf64>) -> "
     "tensor<2x2x1x3x2xf64>",
     "n n"},
    {"train.conv", "%x: tensor<?x?x2xf64, #train.dims<batch, seq, 2>>, %y: tensor<3x3x2xf64>",
     "%0 = train.conv %x, %y strides = [1] dilations = [1] low = <1> high = <1> groups = 1 : "
     "(tensor<?x?x2xf64, #train.dims<batch, seq, 2>>, tensor<3x3x2xf64>) -> tensor<?x?x3xf64, "
     "#train.dims<batch, seq, 3>>",
     "n n"},
    {"train.conv_data_grad",
     "%x: tensor<?x?x3xf64, #train.dims<batch, seq, 3>>, %y: tensor<3x3x2xf64>",
     "%0 = train.conv_data_grad %x, %y strides = [1] dilations = [1] low = <1> high = <1> groups = "
     "1 : (tensor<?x?x3xf64, #train.dims<batch, seq, 3>>, tensor<3x3x2xf64>) -> tensor<?x?x2xf64, "
     "#train.dims<batch, seq, 2>>",
     "n n"},
    {"train.conv_filter_grad",
     "%x: tensor<?x?x2xf64, #train.dims<batch, seq, 2>>, %y: tensor<?x?x3xf64, #train.dims<batch, "
     "seq, 3>>",
     "%0 = train.conv_filter_grad %x, %y strides = [1] dilations = [1] low = <1> high = <1> groups "
     "= 1 : (tensor<?x?x2xf64, #train.dims<batch, seq, 2>>, tensor<?x?x3xf64, #train.dims<batch, "
     "seq, 3>>) -> tensor<3x3x2xf64>",
     "n n"},

    // Composites.
    {"train.softmax", "%x: tensor<2x3x4xf64>", "%0 = train.softmax %x axis = 2 : tensor<2x3x4xf64>",
     "n"},
    {"train.softmax", "%x: tensor<2x3x4xf64>", "%0 = train.softmax %x axis = 1 : tensor<2x3x4xf64>",
     "m"},
    {"train.softmax", "%x: tensor<3x4xf64>",
     "%0 = train.softmax %x axis = 1 guarded : tensor<3x4xf64>", "r"},
    {"train.softmax", "%x: " BS, "%0 = train.softmax %x axis = 1 guarded : " BS, "n"},
    {"train.log_softmax", "%x: tensor<2x3x4xf64>",
     "%0 = train.log_softmax %x axis = 2 : tensor<2x3x4xf64>", "n"},
    {"train.log_softmax", "%x: " BS, "%0 = train.log_softmax %x axis = 1 : " BS, "n"},
    {"train.layer_norm", "%x: tensor<2x3x4xf64>, %s: tensor<4xf64>, %b: tensor<4xf64>",
     "%0:3 = train.layer_norm %x, %s, %b {axis = 2 : i64, epsilon = 1.0e-5 : f64} : "
     "(tensor<2x3x4xf64>, tensor<4xf64>, tensor<4xf64>) -> (tensor<2x3x4xf64>, tensor<2x3xf64>, "
     "tensor<2x3xf64>)",
     "n n n"},
    {"train.layer_norm", "%x: " BS ", %s: tensor<4xf64>",
     "%0:3 = train.layer_norm %x, %s {axis = 2 : i64, epsilon = 1.0e-3 : f64} : (" BS
     ", tensor<4xf64>) -> (" BS
     ", tensor<?x?xf64, #train.dims<batch, seq>>, tensor<?x?xf64, #train.dims<batch, seq>>)",
     "n n"},
    {"train.layer_norm", "%x: tensor<2x3x4xf64>, %s: tensor<3x4xf64>, %b: tensor<3x4xf64>",
     "%0:3 = train.layer_norm %x, %s, %b {axis = 1 : i64, epsilon = 1.0e-5 : f64} : "
     "(tensor<2x3x4xf64>, tensor<3x4xf64>, tensor<3x4xf64>) -> (tensor<2x3x4xf64>, tensor<2xf64>, "
     "tensor<2xf64>)",
     "n n n"},
    {"train.cross_entropy", "%x: tensor<6x5xf64>, %l: tensor<6xi64>",
     "%0:2 = train.cross_entropy %x, %l : (tensor<6x5xf64>, tensor<6xi64>) -> (tensor<6xf64>, "
     "tensor<6xf64>)",
     "n i:0:5"},
    {"train.cross_entropy", "%x: tensor<2x4x3xf64>, %l: tensor<2x4xi64>",
     "%0:2 = train.cross_entropy %x, %l {ignore_index = -1 : i64} : (tensor<2x4x3xf64>, "
     "tensor<2x4xi64>) -> (tensor<2x4xf64>, tensor<2x4xf64>)",
     "n i:-1:3"},
    {"train.cross_entropy", "%x: " BS ", %l: tensor<?x?xi64, #train.dims<batch, seq>>",
     "%0:2 = train.cross_entropy %x, %l {ignore_index = 1 : i64} : (" BS
     ", tensor<?x?xi64, #train.dims<batch, seq>>) -> (tensor<?x?xf64, #train.dims<batch, seq>>, "
     "tensor<?x?xf64, #train.dims<batch, seq>>)",
     "n i:0:4"},

    // Optimizers.
    {"train.sgd",
     "%p: tensor<2x3xf64>, %g: tensor<2x3xf64>, %lr: tensor<f64>, %wd: tensor<f64>, %t: "
     "tensor<i64>",
     "%0 = train.sgd %p, %g, %lr, %wd, %t {momentum = 0.0 : f64, operandSegmentSizes = array<i32: "
     "1, 1, 0, 1, 1, 1>} : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<f64>, tensor<f64>, "
     "tensor<i64>) -> tensor<2x3xf64>",
     "n n =0.1 =0.01 =3"},
    {"train.sgd",
     "%p: tensor<2x3xf64>, %g: tensor<2x3xf64>, %v: tensor<2x3xf64>, %lr: tensor<f64>, %wd: "
     "tensor<f64>, %t: tensor<i64>",
     "%0:2 = train.sgd %p, %g, %v, %lr, %wd, %t {momentum = 0.9 : f64, nesterov} : "
     "(tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) "
     "-> (tensor<2x3xf64>, tensor<2x3xf64>)",
     "n n n =0.1 =0.01 =3"},
    {"train.sgd",
     "%p: tensor<2x3xf64>, %g: tensor<2x3xf64>, %v: tensor<2x3xf64>, %lr: tensor<f64>, %wd: "
     "tensor<f64>, %t: tensor<i64>",
     "%0:2 = train.sgd %p, %g, %v, %lr, %wd, %t {momentum = 0.9 : f64} : (tensor<2x3xf64>, "
     "tensor<2x3xf64>, tensor<2x3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> "
     "(tensor<2x3xf64>, tensor<2x3xf64>)",
     "n n n =0.1 =0.01 =1"},
    {"train.adam",
     "%p: tensor<2x3xf64>, %g: tensor<2x3xf64>, %m: tensor<2x3xf64>, %v: tensor<2x3xf64>, %lr: "
     "tensor<f64>, %wd: tensor<f64>, %t: tensor<i64>",
     "%0:3 = train.adam %p, %g, %m, %v, %lr, %wd, %t {beta1 = 0.9 : f64, beta2 = 0.999 : f64, "
     "epsilon = 1.0e-8 : f64} : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xf64>, "
     "tensor<2x3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<2x3xf64>, "
     "tensor<2x3xf64>, tensor<2x3xf64>)",
     "n n n p =0.01 =0.1 =2"},
    {"train.adam",
     "%p: tensor<2x3xf64>, %g: tensor<2x3xf64>, %m: tensor<2x3xf64>, %v: tensor<2x3xf64>, %lr: "
     "tensor<f64>, %wd: tensor<f64>, %t: tensor<i64>",
     "%0:3 = train.adam %p, %g, %m, %v, %lr, %wd, %t {beta1 = 0.9 : f64, beta2 = 0.999 : f64, "
     "epsilon = 1.0e-8 : f64, decoupled} : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xf64>, "
     "tensor<2x3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<2x3xf64>, "
     "tensor<2x3xf64>, tensor<2x3xf64>)",
     "n n n p =0.01 =0.1 =1"},
    {"train.lamb",
     "%p: tensor<2x3xf64>, %g: tensor<2x3xf64>, %m: tensor<2x3xf64>, %v: tensor<2x3xf64>, %lr: "
     "tensor<f64>, %wd: tensor<f64>, %t: tensor<i64>",
     "%0:3 = train.lamb %p, %g, %m, %v, %lr, %wd, %t {beta1 = 0.9 : f64, beta2 = 0.999 : f64, "
     "epsilon = 1.0e-6 : f64} : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xf64>, "
     "tensor<2x3xf64>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<2x3xf64>, "
     "tensor<2x3xf64>, tensor<2x3xf64>)",
     "n n n p =0.01 =0.1 =2"},
    {"train.lamb",
     "%p: tensor<4xf64>, %g: tensor<4xf64>, %m: tensor<4xf64>, %v: tensor<4xf64>, %lr: "
     "tensor<f64>, %wd: tensor<f64>, %t: tensor<i64>",
     "%0:3 = train.lamb %p, %g, %m, %v, %lr, %wd, %t {beta1 = 0.9 : f64, beta2 = 0.999 : f64, "
     "epsilon = 1.0e-6 : f64} : (tensor<4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<4xf64>, "
     "tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<4xf64>, tensor<4xf64>, tensor<4xf64>)",
     "=0 n n p =0.01 =0.1 =2"},

    // Products and what they do besides.
    {"train.matmul", "%x: tensor<2x3xf64>, %y: tensor<3x4xf64>, %b: tensor<4xf64>",
     "%0 = train.matmul %x, %y epilogue bias with %b : "
     "tensor<2x3xf64>, tensor<3x4xf64>, tensor<4xf64> -> tensor<2x4xf64>",
     "n n n"},
    {"train.matmul", "%x: tensor<3x2xf64>, %y: tensor<4x3xf64>",
     "%0:2 = train.matmul %x transposed, %y transposed epilogue gelu_aux : "
     "tensor<3x2xf64>, tensor<4x3xf64> -> tensor<2x4xf64>, tensor<2x4xf64>",
     "n n"},
    {"train.matmul", "%x: tensor<2x3xf64>, %y: tensor<4x3xf64>, %b: tensor<4xf64>",
     "%0:2 = train.matmul %x, %y transposed epilogue gelu_aux_bias with %b : "
     "tensor<2x3xf64>, tensor<4x3xf64>, tensor<4xf64> -> tensor<2x4xf64>, tensor<2x4xf64>",
     "n n n"},
    {"train.matmul", "%x: tensor<2x3xf64>, %y: tensor<4x3xf64>, %a: tensor<2x4xf64>",
     "%0 = train.matmul %x, %y transposed plus %a : "
     "tensor<2x3xf64>, tensor<4x3xf64>, tensor<2x4xf64> -> tensor<2x4xf64>",
     "n n n"},
    {"train.matmul", "%x: tensor<2x3xf64>, %y: tensor<4x3xf64>, %a: tensor<2x4xf64>",
     "%0 = train.matmul %x, %y transposed plus %a streamed 2 : "
     "tensor<2x3xf64>, tensor<4x3xf64>, tensor<2x4xf64> -> tensor<2x4xf64>",
     "n n n"},
    {"train.matmul", "%x: tensor<2x3xf64>, %y: tensor<3x4xf64>",
     "%0 = train.matmul %x, %y streamed 4 : tensor<2x3xf64>, tensor<3x4xf64> -> tensor<2x4xf64>",
     "n n"},
    {"train.matmul", "%x: tensor<2x3xf64>, %y: tensor<3x4xf64>, %a: tensor<2x4xf64>",
     "%0 = train.matmul %x, %y epilogue dgelu with %a : "
     "tensor<2x3xf64>, tensor<3x4xf64>, tensor<2x4xf64> -> tensor<2x4xf64>",
     "n n n"},
    {"train.matmul", "%x: tensor<2x3xf64>, %y: tensor<3x4xf64>, %a: tensor<2x4xf64>",
     "%0:2 = train.matmul %x, %y epilogue dgelu_bgrad with %a : "
     "tensor<2x3xf64>, tensor<3x4xf64>, tensor<2x4xf64> -> tensor<2x4xf64>, tensor<4xf64>",
     "n n n"},

    // Attention.
    {"train.attention", "%q: tensor<2x2x3x5xf64>, %k: tensor<2x2x4x5xf64>, %v: tensor<2x2x4x6xf64>",
     "%0:2 = train.attention %q, %k, %v {scale = 0.4 : f64, dropout = 0.0 : f64} : "
     "(tensor<2x2x3x5xf64>, tensor<2x2x4x5xf64>, tensor<2x2x4x6xf64>) -> "
     "(tensor<2x2x3x6xf64>, tensor<2x2x3xf64>)",
     "n n n"},
    {"train.attention",
     "%q: tensor<2x4x3x5xf64>, %k: tensor<2x2x3x5xf64>, %v: tensor<2x2x3x6xf64>, "
     "%b: tensor<2x1x1x3xf64>, %s: tensor<2xi64>",
     "%0:2 = train.attention %q, %k, %v bias %b seed %s causal {scale = 0.4 : f64, dropout = 0.3 : "
     "f64} : (tensor<2x4x3x5xf64>, tensor<2x2x3x5xf64>, tensor<2x2x3x6xf64>, "
     "tensor<2x1x1x3xf64>, tensor<2xi64>) -> (tensor<2x4x3x6xf64>, tensor<2x4x3xf64>)",
     "n n n n k"},
    {"train.attention",
     "%q: tensor<2x3x5x4xf64>, %k: tensor<2x3x2x4xf64>, %v: tensor<2x3x2x4xf64>, "
     "%b: tensor<1x3x5x2xf64>",
     "%0:2 = train.attention %q, %k, %v bias %b {scale = 1.0 : f64, dropout = 0.0 : f64} : "
     "(tensor<2x3x5x4xf64>, tensor<2x3x2x4xf64>, tensor<2x3x2x4xf64>, tensor<1x3x5x2xf64>) -> "
     "(tensor<2x3x5x4xf64>, tensor<2x3x5xf64>)",
     "n n n r"},
    // Segments of 2, 0 and 3 rows of 6.
    {"train.attention", "%q: tensor<1x2x6x5xf64>, %k: tensor<1x2x6x5xf64>, %v: tensor<1x2x6x4xf64>",
     "%o = train.constant dense<[0, 2, 2, 5]> : tensor<4xi32>\n"
     "  %0:2 = train.attention %q, %k, %v segments %o longest <3> {scale = 0.4 : f64, dropout = "
     "0.0 "
     ": f64} : (tensor<1x2x6x5xf64>, tensor<1x2x6x5xf64>, tensor<1x2x6x4xf64>, tensor<4xi32>) -> "
     "(tensor<1x2x6x4xf64>, tensor<1x2x6xf64>)",
     "n n n"},
    {"train.attention",
     "%q: tensor<1x4x6x5xf64>, %k: tensor<1x2x6x5xf64>, %v: tensor<1x2x6x4xf64>, %s: "
     "tensor<2xi64>, %p: tensor<2x6xi32>",
     "%o = train.constant dense<[0, 2, 2, 5]> : tensor<4xi32>\n"
     "  %0:2 = train.attention %q, %k, %v seed %s segments %o longest <4> positions %p causal "
     "{scale "
     "= 0.4 : f64, dropout = 0.3 : f64} : (tensor<1x4x6x5xf64>, tensor<1x2x6x5xf64>, "
     "tensor<1x2x6x4xf64>, tensor<2xi64>, tensor<4xi32>, tensor<2x6xi32>) -> (tensor<1x4x6x4xf64>, "
     "tensor<1x4x6xf64>)",
     "n n n k i:0:9"},
    // Windows.
    {"train.attention", "%q: tensor<2x2x5x4xf64>, %b: tensor<2x1x1x5xf64>",
     "%0:2 = train.attention %q, %q, %q bias %b causal {before = 2 : i64, scale = 0.4 : f64, "
     "dropout = 0.0 : f64} : (tensor<2x2x5x4xf64>, tensor<2x2x5x4xf64>, tensor<2x2x5x4xf64>, "
     "tensor<2x1x1x5xf64>) -> (tensor<2x2x5x4xf64>, tensor<2x2x5xf64>)",
     "n n"},
    {"train.attention", "%q: tensor<1x2x6x5xf64>, %k: tensor<1x1x6x5xf64>, %s: tensor<2xi64>",
     "%o = train.constant dense<[0, 1, 1, 5]> : tensor<4xi32>\n"
     "  %0:2 = train.attention %q, %k, %k seed %s segments %o longest <4> {after = 1 : i64, before "
     "= 1 : i64, scale = 0.4 : f64, dropout = 0.3 : f64} : (tensor<1x2x6x5xf64>, "
     "tensor<1x1x6x5xf64>, tensor<1x1x6x5xf64>, tensor<2xi64>, tensor<4xi32>) -> "
     "(tensor<1x2x6x5xf64>, tensor<1x2x6xf64>)",
     "n n k"},
    {"train.attention_grad",
     "%q: tensor<2x2x3x5xf64>, %k: tensor<2x2x3x5xf64>, %v: tensor<2x2x3x6xf64>, "
     "%b: tensor<2x1x3x3xf64>, %g: tensor<2x2x3x6xf64>, %s: tensor<2xi64>",
     "%0:2 = train.attention %q, %k, %v bias %b seed %s {scale = 0.4 : f64, dropout = 0.3 : f64} : "
     "(tensor<2x2x3x5xf64>, tensor<2x2x3x5xf64>, tensor<2x2x3x6xf64>, tensor<2x1x3x3xf64>, "
     "tensor<2xi64>) -> (tensor<2x2x3x6xf64>, tensor<2x2x3xf64>)\n"
     "  %1:3 = train.attention_grad %q, %k, %v, %0#0, %0#1, %g bias %b seed %s {scale = 0.4 : f64, "
     "dropout = 0.3 : f64} : (tensor<2x2x3x5xf64>, tensor<2x2x3x5xf64>, tensor<2x2x3x6xf64>, "
     "tensor<2x2x3x6xf64>, tensor<2x2x3xf64>, tensor<2x2x3x6xf64>, tensor<2x1x3x3xf64>, "
     "tensor<2xi64>) -> (tensor<2x2x3x5xf64>, tensor<2x2x3x5xf64>, tensor<2x2x3x6xf64>)",
     "n n n n n k"},
    {"train.attention_grad",
     "%q: tensor<1x4x6x5xf64>, %k: tensor<1x2x6x5xf64>, %v: tensor<1x2x6x4xf64>, %g: "
     "tensor<1x4x6x4xf64>, %s: tensor<2xi64>",
     "%o = train.constant dense<[0, 2, 2, 5]> : tensor<4xi32>\n"
     "  %0:2 = train.attention %q, %k, %v seed %s segments %o longest <3> causal {scale = 0.4 : "
     "f64, "
     "dropout = 0.3 : f64} : (tensor<1x4x6x5xf64>, tensor<1x2x6x5xf64>, tensor<1x2x6x4xf64>, "
     "tensor<2xi64>, tensor<4xi32>) -> (tensor<1x4x6x4xf64>, tensor<1x4x6xf64>)\n"
     "  %1:3 = train.attention_grad %q, %k, %v, %0#0, %0#1, %g seed %s segments %o longest <3> "
     "causal "
     "{scale = 0.4 : f64, dropout = 0.3 : f64} : (tensor<1x4x6x5xf64>, tensor<1x2x6x5xf64>, "
     "tensor<1x2x6x4xf64>, tensor<1x4x6x4xf64>, tensor<1x4x6xf64>, tensor<1x4x6x4xf64>, "
     "tensor<2xi64>, tensor<4xi32>) -> (tensor<1x4x6x5xf64>, tensor<1x2x6x5xf64>, "
     "tensor<1x2x6x4xf64>)",
     "n n n n k"},

    // Ranks; the samples are of one alone.
    {"train.all_reduce", "%x: tensor<2x3xf64>, %y: tensor<4xf64>",
     "%0:2 = train.all_reduce %x, %y : (tensor<2x3xf64>, tensor<4xf64>) -> (tensor<2x3xf64>, "
     "tensor<4xf64>)",
     "n n"},
    {"train.reduce_scatter", "%x: tensor<5x3xf64>",
     "%0 = train.reduce_scatter %x units = [4] : (tensor<5x3xf64>) -> " SHARDS, "n"},
    {"train.all_gather", "%x: " SHARDS,
     "%0 = train.all_gather %x units = [4] : (" SHARDS ") -> tensor<5x3xf64>", "n"},

    // Loops: products and sums over the steps, what is added up from step to step, and nesting of
    // cheap ops; then backwards, with what is carried on as it was and of a length by name.
    {"train.loop",
     "%h: tensor<2x4xf64>, %x: tensor<3x2x4xf64>, %w: tensor<4x4xf64>, %b: tensor<4xf64>, "
     "%s: tensor<2x4xf64>",
     "%0:2 = train.loop (%h) scanned (%x) invariant (%w, %b, %s) steps <3> : (tensor<2x4xf64>, "
     "tensor<3x2x4xf64>, tensor<4x4xf64>, tensor<4xf64>, tensor<2x4xf64>) -> (tensor<2x4xf64>, "
     "tensor<3x2x4xf64>) {\n"
     "  ^bb0(%c: tensor<2x4xf64>, %i: tensor<2x4xf64>, %v: tensor<4x4xf64>, %d: tensor<4xf64>, "
     "%t: tensor<2x4xf64>):\n"
     "  %1 = train.matmul %c, %v transposed : tensor<2x4xf64>, tensor<4x4xf64> -> "
     "tensor<2x4xf64>\n"
     "  %2 = train.broadcast %d axes = [1] : tensor<4xf64> -> tensor<2x4xf64>\n"
     "  %3 = train.add %1, %2 : tensor<2x4xf64>\n"
     "  %4 = train.mul %i, %t : tensor<2x4xf64>\n"
     "  %5 = train.add %3, %4 : tensor<2x4xf64>\n"
     "  %6 = train.tanh %5 : tensor<2x4xf64>\n"
     "  train.loop_yield %6, %6 : tensor<2x4xf64>, tensor<2x4xf64>\n"
     "}",
     "n n n n n"},
    {"train.loop", "%h: tensor<4xf64>, %k: tensor<4xf64>, %x: tensor<?x4xf64, #train.dims<seq, 4>>",
     "%0:3 = train.loop (%h, %k) scanned (%x) invariant () steps <seq> reverse : (tensor<4xf64>, "
     "tensor<4xf64>, tensor<?x4xf64, #train.dims<seq, 4>>) -> (tensor<4xf64>, tensor<4xf64>, "
     "tensor<?x4xf64, #train.dims<seq, 4>>) {\n"
     "  ^bb0(%a: tensor<4xf64>, %b: tensor<4xf64>, %i: tensor<4xf64>):\n"
     "  %1 = train.mul %a, %i : tensor<4xf64>\n"
     "  %2 = train.add %1, %b : tensor<4xf64>\n"
     "  train.loop_yield %b, %2, %a : tensor<4xf64>, tensor<4xf64>, tensor<4xf64>\n"
     "}",
     "n n n"},

    // By itself it is constant: what its body says of inputs is tested with what computes them.
    {"train.custom_gradient", "%x: tensor<2x3xf64>, %y: tensor<2x3xf64>",
     "%0 = train.custom_gradient %x of %y wrt = [] : (tensor<2x3xf64>, tensor<2x3xf64>) -> "
     "tensor<2x3xf64> {\n"
     "  ^bb0(%a: tensor<2x3xf64>, %b: tensor<2x3xf64>, %g: tensor<2x3xf64>):\n"
     "  train.custom_gradient_yield\n"
     "}",
     "n n"},

    // Ops that the compiler does not know.
    {"testdialect.squareplus", "%x: tensor<2x3xf64>",
     "%0 = testdialect.squareplus %x {b = 4.0 : f64} : tensor<2x3xf64>", "n"},
    {"testdialect.squareplus", "%x: " BS, "%0 = testdialect.squareplus %x {b = 1.0 : f64} : " BS,
     "n"},
    {"testdialect.sum_squares", "%x: tensor<2x3x4xf64>",
     "%0 = testdialect.sum_squares %x : tensor<2x3x4xf64> -> tensor<2x3xf64>", "n"},

    // Structure.
    {"train.fusion", "%x: tensor<2x3xf64>",
     "%0 = train.fusion(%x) : (tensor<2x3xf64>) -> tensor<2xf64> {\n"
     "  ^bb0(%a: tensor<2x3xf64>):\n"
     "  %1 = train.exp %a : tensor<2x3xf64>\n"
     "  %2 = train.reduce sum %1 axes = [1] : tensor<2x3xf64> -> tensor<2xf64>\n"
     "  train.yield %2 : tensor<2xf64>\n"
     "}",
     "n"},
};
} // namespace

llvm::ArrayRef<Sample> getSamples() { return samples; }

} // namespace trainc::properties
