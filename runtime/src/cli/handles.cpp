// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Opening a package and reading all of its descriptions.
#include "cli/handles.h"

#include "cli/failure.h"

namespace trainrt::run {

/// Reads all descriptions at once. With a key, the package is refused unless it is signed with
/// that.
Package::Package(const std::string &path, const std::string &key) : path(path) {
  ErrorSlot error;
  trainrt_package *opened = nullptr;
  error.check(key.empty() ? trainrt_package_open(path.c_str(), &opened, error)
                          : trainrt_package_open_signed(path.c_str(), key.c_str(), &opened, error));
  // Owned before anything below can throw.
  handle.reset(opened);
  info = trainrt_package_info_default();
  error.check(trainrt_package_get_info(opened, &info, error));
  for (size_t i = 0, end = trainrt_package_symbol_count(opened); i < end; ++i) {
    symbols.emplace_back();
    error.check(trainrt_package_symbol(opened, i, &symbols.back(), error));
  }
  // Indices are those of the package: `trainrt_package_find` gives the same.
  auto read = [&](trainrt_kind kind, std::vector<trainrt_tensor_info> &into) {
    for (size_t i = 0, end = trainrt_package_tensor_count(opened, kind); i < end; ++i) {
      into.push_back(trainrt_tensor_info_default());
      error.check(trainrt_package_tensor(opened, kind, i, &into.back(), error));
    }
  };
  read(TRAINRT_INPUT, inputs);
  read(TRAINRT_OUTPUT, outputs);
  read(TRAINRT_PARAMETER, parameters);
  read(TRAINRT_STATE, state);
}

bool hasShards(const Package &package) {
  return package.info.distribute && package.info.distribute != std::string_view("data");
}

bool sharesParameters(const Package &package) {
  return package.info.distribute && package.info.distribute == std::string_view("zero3");
}

std::string describe(const trainrt_tensor_info &tensor) {
  std::string text = std::string(trainrt_dtype_name(tensor.dtype)) + " [";
  for (int32_t i = 0; i < tensor.rank; ++i)
    text += (i ? ", " : "") + std::string(tensor.dims[i].text);
  return text + "]";
}

std::string describe(const trainrt_tensor &tensor) {
  std::string text = std::string(trainrt_dtype_name(tensor.dtype)) + " [";
  for (int32_t i = 0; i < tensor.rank; ++i)
    text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + "]";
}

const char *numpyName(trainrt_dtype dtype) {
  switch (dtype) {
  case TRAINRT_F32:
    return "float32";
  case TRAINRT_F64:
    return "float64";
  case TRAINRT_F16:
    return "float16";
  case TRAINRT_BF16:
    return "ml_dtypes.bfloat16";
  case TRAINRT_I8:
    return "int8";
  case TRAINRT_I16:
    return "int16";
  case TRAINRT_I32:
    return "int32";
  case TRAINRT_I64:
    return "int64";
  case TRAINRT_U8:
    return "uint8";
  case TRAINRT_U16:
    return "uint16";
  case TRAINRT_U32:
    return "uint32";
  case TRAINRT_U64:
    return "uint64";
  case TRAINRT_BOOL:
    return "bool";
  default:
    return "?";
  }
}

/// By types alone, for all of their values. Integers are never taken for reals, nor the other way:
/// what was meant as an index stays one.
bool isLossless(trainrt_dtype from, trainrt_dtype to) {
  if (from == to)
    return true;
  auto isSigned = [](trainrt_dtype d) { return d >= TRAINRT_I8 && d <= TRAINRT_I64; };
  auto isUnsigned = [](trainrt_dtype d) { return d >= TRAINRT_U8 && d <= TRAINRT_U64; };
  const bool wider = trainrt_dtype_size(to) > trainrt_dtype_size(from);
  if (from == TRAINRT_BOOL)
    return isSigned(to) || isUnsigned(to);
  if (isSigned(from))
    return isSigned(to) && wider;
  if (isUnsigned(from))
    return (isSigned(to) || isUnsigned(to)) && wider;
  if (from == TRAINRT_F16 || from == TRAINRT_BF16)
    return to == TRAINRT_F32 || to == TRAINRT_F64;
  return from == TRAINRT_F32 && to == TRAINRT_F64;
}

} // namespace trainrt::run
