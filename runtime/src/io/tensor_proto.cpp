// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whoever reads a model, to take its weights or to write it anew, reads tensors here.
#include "io/tensor_proto.h"

#include <charconv>
#include <filesystem>

namespace trainrt {

namespace {

/// The numbers are fixed by ONNX; strings, complex numbers and types of fewer than 8 bits are no
/// parameters.
constexpr struct {
  uint64_t onnx;
  DType dtype;
} types[] = {{1, DType::F32},  {2, DType::U8},   {3, DType::I8},   {4, DType::U16},
             {5, DType::I16},  {6, DType::I32},  {7, DType::I64},  {9, DType::Bool},
             {10, DType::F16}, {11, DType::F64}, {12, DType::U32}, {13, DType::U64},
             {16, DType::BF16}};
static_assert(std::size(types) == numDTypes);

[[noreturn]] void refuse(const TensorProto &tensor, const std::string &what) {
  throw MalformedMessage("initializer '" + std::string(tensor.name) + "': " + what);
}

/// The whole text must be digits: signs, blanks and what does not fit into 63 bits are refused.
uint64_t parseCount(const TensorProto &tensor, std::string_view text, const char *what) {
  uint64_t value = 0;
  const char *const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value > uint64_t(INT64_MAX))
    refuse(tensor, "the " + std::string(what) + " of its external data is no number");
  return value;
}

} // namespace

uint64_t onnxTypeOf(DType dtype) {
  for (const auto &type : types)
    if (type.dtype == dtype)
      return type.onnx;
  return 0;
}

std::optional<DType> dtypeOfOnnx(uint64_t onnxType) {
  for (const auto &type : types)
    if (type.onnx == onnxType)
      return type.dtype;
  return std::nullopt;
}

bool TensorProto::isValue(uint64_t number) {
  return (number >= numFloats && number <= numInt64s) || (number >= numRaw && number <= numUint64s);
}

TensorProto TensorProto::read(std::string_view message) {
  TensorProto result;
  // Fields may come in any order and more than once: as in protobuf, the last one counts, and lists
  // grow.
  std::string_view offset, length;
  eachField(message, [&](const Field &field) {
    if (isValue(field.number))
      result.values.push_back(field);
    else if (field.is(numDims, Field::varint))
      result.dims.push_back(int64_t(field.value));
    else if (field.is(numDims, Field::bytes))
      for (uint64_t extent : packedVarints(field.content))
        result.dims.push_back(int64_t(extent));
    else if (field.is(numType, Field::varint))
      result.type = field.value;
    else if (field.is(numName, Field::bytes))
      result.name = field.content;
    else if (field.is(numLocation, Field::varint))
      result.external = field.value == 1;
    else if (field.is(numExternal, Field::bytes)) {
      std::string_view key, value;
      eachField(field.content, [&](const Field &part) {
        if (part.is(1, Field::bytes))
          key = part.content;
        if (part.is(2, Field::bytes))
          value = part.content;
      });
      if (key == "location")
        result.location = value;
      else if (key == "offset")
        offset = value;
      else if (key == "length")
        length = value;
    }
  });
  if (!result.external) {
    result.location.clear();
    return result;
  }
  if (!offset.empty())
    result.offset = parseCount(result, offset, "offset");
  if (!length.empty())
    result.length = parseCount(result, length, "length");
  // The file is opened below the model's folder: a path out of it could read anything the user may.
  if (!isRelativePath(result.location) ||
      std::filesystem::path(result.location).lexically_normal().string().starts_with(".."))
    refuse(result, "its external data leaves the model's folder");
  return result;
}

Status TensorProto::externalBytes(const MappedFile &file, std::string_view &bytes) const {
  // In a subtraction that cannot wrap: both numbers are the file's.
  // An offset behind the end leaves nothing, and is an error below.
  const uint64_t available = offset > file.size() ? 0 : file.size() - offset;
  const uint64_t wanted = length.value_or(available);
  if (offset > file.size() || wanted > available)
    return fail(Code::BadData, "initializer '", name, "': bytes ", offset, " to ", offset + wanted,
                " are outside of '", file.path(), "', which has ", file.size());
  bytes = {reinterpret_cast<const char *>(file.data()) + offset, wanted};
  return {};
}

} // namespace trainrt
