// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statistics are decoded once, codes whenever their elements are asked for.

#include "session/adapter/model_weight.h"
#include "io/convert.h"
#include "session/quantize/elements.h"
#include "session/quantize/four_bit.h"
#include "session/quantize/rows.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace trainrt {

size_t findParameter(const Session &session, const std::string &name) {
  const std::vector<TensorDecl> &parameters = session.package().program().parameters;
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const TensorDecl &decl) { return decl.name == name; });
  assert(found != parameters.end() && "the manifest's names are checked when a package is opened");
  return size_t(found - parameters.begin());
}

Status ModelWeight::open(const Session &session, size_t index) {
  // Also checks that it has a value.
  TRAINRT_TRY(session.parameter(index, stored));
  const Manifest::Tensor &entry = session.package().parameter(index);
  quantized = entry.quantized ? &*entry.quantized : nullptr;
  type = quantized ? quantized->dtype : stored.dtype;
  extents = quantized ? quantized->shape : stored.shape;
  // Quantized parameters are known by the shape and type that they had.
  if (!quantized)
    return {};
  // Statistics as f32, whatever they are stored in.
  auto part = [&](const std::string &name, std::vector<float> &values) -> Status {
    ArrayView view;
    TRAINRT_TRY(session.parameter(findParameter(session, name), view));
    values.resize(size_t(view.bytes) / sizeOf(view.dtype));
    convertElements(view.data, view.dtype, values.data(), DType::F32, int64_t(values.size()));
    return {};
  };
  // Double quantization: the statistics are codes themselves.
  if (!quantized->nestedAbsmax.empty()) {
    std::vector<float> nested, offset;
    TRAINRT_TRY(part(quantized->nestedAbsmax, nested));
    TRAINRT_TRY(part(quantized->nestedOffset, offset));
    ArrayView codes;
    TRAINRT_TRY(session.parameter(findParameter(session, quantized->absmax), codes));
    absmax.resize(size_t(codes.bytes));
    decodeStatistics(static_cast<const unsigned char *>(codes.data), nested.data(), offset[0], 0,
                     codes.bytes, absmax.data());
  } else if (quantized->format != QuantFormat::Cast) {
    TRAINRT_TRY(part(
        quantized->format == QuantFormat::Int8 ? quantized->rowAbsmax : quantized->absmax, absmax));
  }
  return session.parameter(index, stored);
}

/// Elements of the quantized form, as f32.
void ModelWeight::decode(int64_t begin, int64_t end, float *to) const {
  if (quantized->format == QuantFormat::Int8)
    decodeRows(static_cast<const int8_t *>(stored.data), extents[1], absmax.data(), begin, end, to);
  else
    decodeFourBit(quantized->format, static_cast<const unsigned char *>(stored.data),
                  quantized->block, absmax.data(), begin, end, to);
}

void ModelWeight::read(int64_t begin, int64_t end, double *to) const {
  if (!quantized || quantized->format == QuantFormat::Cast) {
    convertElements(static_cast<const unsigned char *>(stored.data) +
                        begin * int64_t(sizeOf(stored.dtype)),
                    stored.dtype, to, DType::F64, end - begin);
    return;
  }
  // In pieces, through the model's own type: what a kernel would compute with.
  float decoded[piece], rounded[piece];
  for (int64_t first = begin; first < end; first += piece) {
    const int64_t last = std::min(end, first + piece);
    decode(first, last, decoded);
    roundElements(decoded, last - first, type, rounded);
    convertElements(rounded, type, to + (first - begin), DType::F64, last - first);
  }
}

namespace {

/// The f32 that rounds to every narrower type as `value` does: inexact ones get an odd last bit.
float roundedToOdd(double value) {
  const float nearest = float(value);
  if (double(nearest) == value || std::isnan(value))
    return nearest;
  // One unit in the last place towards 0, then odd: the value lies between.
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(double(nearest)) > std::fabs(value))
    --bits;
  return std::bit_cast<float>(bits | 1);
}

} // namespace

void storeRounded(const std::vector<double> &row, DType dtype, unsigned char *to) {
  if (dtype == DType::F64) {
    std::memcpy(to, row.data(), row.size() * 8);
    return;
  }
  // f32 itself is rounded once; narrower types from a value that is rounded to odd.
  std::vector<float> single(row.size());
  for (size_t j = 0; j < row.size(); ++j)
    single[j] = dtype == DType::F32 ? float(row[j]) : roundedToOdd(row[j]);
  roundElements(single.data(), int64_t(single.size()), dtype, to);
}

} // namespace trainrt
