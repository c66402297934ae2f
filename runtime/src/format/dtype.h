// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types (the numbering of the schema and of the C API), shapes with overflow checks, and a
// borrowed dense array.
#ifndef TRAINRT_FORMAT_DTYPE_H
#define TRAINRT_FORMAT_DTYPE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainrt {

/// Same values as `fb::DType` of the schema and `trainrt_dtype` of the C API.
enum class DType : uint8_t { F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, Bool };
inline constexpr int numDTypes = 13;

/// Bytes of an element; 0 for a value outside of the enumeration.
inline size_t sizeOf(DType dtype) {
  constexpr uint8_t sizes[numDTypes] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  return static_cast<size_t>(dtype) < numDTypes ? sizes[static_cast<size_t>(dtype)] : 0;
}

/// The manifest's name ("f32", "bool8").
inline const char *nameOf(DType dtype) {
  constexpr const char *names[numDTypes] = {"f32", "f64", "f16", "bf16", "i8",  "i16",  "i32",
                                            "i64", "u8",  "u16", "u32",  "u64", "bool8"};
  return static_cast<size_t>(dtype) < numDTypes ? names[static_cast<size_t>(dtype)] : "?";
}

/// numpy's name of the type, for messages ("float32"); bf16 has none there and is "bfloat16".
inline const char *numpyName(DType dtype) {
  constexpr const char *names[numDTypes] = {"float32", "float64", "float16", "bfloat16", "int8",
                                            "int16",   "int32",   "int64",   "uint8",    "uint16",
                                            "uint32",  "uint64",  "bool"};
  return static_cast<size_t>(dtype) < numDTypes ? names[static_cast<size_t>(dtype)] : "?";
}

/// Inverse of `nameOf`; false if unknown.
inline bool parseDType(std::string_view name, DType &dtype) {
  for (int i = 0; i < numDTypes; ++i)
    if (name == nameOf(static_cast<DType>(i))) {
      dtype = static_cast<DType>(i);
      return true;
    }
  return false;
}

inline bool isFloat(DType dtype) { return dtype <= DType::BF16; }
inline bool isSigned(DType dtype) { return dtype >= DType::I8 && dtype <= DType::I64; }
inline bool isUnsigned(DType dtype) { return dtype >= DType::U8 && dtype <= DType::U64; }

/// Calls `visit` with a zero of the type in which C++ has elements of an integer type, or of a
/// bool; false for other types.
template <typename Visit> bool visitInteger(DType dtype, const Visit &visit) {
  switch (dtype) {
  case DType::I8:
    return visit(int8_t()), true;
  case DType::I16:
    return visit(int16_t()), true;
  case DType::I32:
    return visit(int32_t()), true;
  case DType::I64:
    return visit(int64_t()), true;
  case DType::U8:
  case DType::Bool:
    return visit(uint8_t()), true;
  case DType::U16:
    return visit(uint16_t()), true;
  case DType::U32:
    return visit(uint32_t()), true;
  case DType::U64:
    return visit(uint64_t()), true;
  default:
    return false;
  }
}

/// Elements of `shape`; false if an extent is negative or the product overflows.
inline bool countElements(const int64_t *shape, size_t rank, int64_t &count) {
  count = 1;
  for (size_t i = 0; i < rank; ++i)
    if (shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count))
      return false;
  return true;
}

/// Bytes of an array; false as `countElements`.
inline bool countBytes(DType dtype, const int64_t *shape, size_t rank, int64_t &bytes) {
  int64_t count;
  return countElements(shape, rank, count) &&
         !__builtin_mul_overflow(count, static_cast<int64_t>(sizeOf(dtype)), &bytes);
}

/// "[2, 3]".
inline std::string shapeText(const int64_t *shape, size_t rank) {
  std::string text = "[";
  for (size_t i = 0; i < rank; ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}
inline std::string shapeText(const std::vector<int64_t> &shape) {
  return shapeText(shape.data(), shape.size());
}

/// A dense row-major array somewhere else in memory.
struct ArrayView {
  const void *data = nullptr;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  bool onDevice = false; ///< in the memory of the session's GPU, not the host's
  bool pinned = false;   ///< in Device::allocateHost's, from which a GPU copies by itself
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_DTYPE_H
