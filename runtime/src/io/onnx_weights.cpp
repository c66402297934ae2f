// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ModelProto: graph 7. GraphProto: initializer 5. TensorProto: dims 1, data_type 2, name 8,
// raw_data 9, external_data 13, data_location 14; values by type: float 4, int32 5, int64 7, double
// 10, uint64 11.

#include "io/onnx_weights.h"
#include "io/protobuf.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

namespace trainrt {

namespace {

/// The numbers are ONNX's; strings, complex numbers and types of fewer than 8 bits are no
/// parameters.
std::optional<DType> dtypeOf(uint64_t onnxType) {
  switch (onnxType) {
  case 1:
    return DType::F32;
  case 2:
    return DType::U8;
  case 3:
    return DType::I8;
  case 4:
    return DType::U16;
  case 5:
    return DType::I16;
  case 6:
    return DType::I32;
  case 7:
    return DType::I64;
  case 9:
    return DType::Bool;
  case 10:
    return DType::F16;
  case 11:
    return DType::F64;
  case 12:
    return DType::U32;
  case 13:
    return DType::U64;
  case 16:
    return DType::BF16;
  default:
    return std::nullopt;
  }
}

/// The whole text must be digits: signs, blanks and what does not fit into 63 bits are refused.
uint64_t parseCount(std::string_view text, const std::string &name) {
  uint64_t value = 0;
  const char *const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value > uint64_t(INT64_MAX))
    throw MalformedMessage("initializer '" + name + "': a number of its external data is none");
  return value;
}

/// The low bytes of numbers, one after the other.
/// Little-endian: the low bytes of a 64-bit number are those of the narrower one, also of a
/// negative one.
void appendNumber(uint64_t value, size_t size, std::string &to) {
  to.append(reinterpret_cast<const char *>(&value), size);
}

} // namespace

Status OnnxWeights::open(const std::string &path, OnnxWeights &weights) {
  OnnxWeights opened;
  opened.path = path;
  TRAINRT_TRY(MappedFile::open(path, opened.file));
  const std::string_view text(reinterpret_cast<const char *>(opened.file->data()),
                              opened.file->size());
  try {
    eachField(text, [&](const Field &field) {
      if (field.is(7, Field::bytes))
        eachField(field.content, [&](const Field &part) {
          if (part.is(5, Field::bytes))
            opened.read(part.content);
        });
    });
  } catch (const MalformedMessage &error) {
    return fail(Code::BadData, "'", path, "' is no ONNX model with weights: ", error.what());
  }
  weights = std::move(opened);
  return {};
}

/// One TensorProto. Fields may come in any order, so those of the values are kept until type and
/// shape are known. Types that no parameter has are skipped.
void OnnxWeights::read(std::string_view tensor) {
  Entry entry;
  uint64_t type = 0;
  bool isExternal = false;
  std::vector<Field> fields;
  eachField(tensor, [&](const Field &field) {
    if (field.is(1, Field::varint))
      entry.shape.push_back(int64_t(field.value));
    else if (field.is(1, Field::bytes))
      for (uint64_t extent : packedVarints(field.content))
        entry.shape.push_back(int64_t(extent));
    else if (field.is(2, Field::varint))
      // As in protobuf, the last one counts.
      type = field.value;
    else if (field.is(8, Field::bytes))
      entry.name = field.content;
    else if (field.is(14, Field::varint))
      isExternal = field.value == 1;
    else
      fields.push_back(field);
  });
  const std::optional<DType> dtype = dtypeOf(type);
  if (!dtype)
    return;
  entry.dtype = *dtype;
  const std::string what = "initializer '" + entry.name + "'";
  if (!countBytes(entry.dtype, entry.shape.data(), entry.shape.size(), entry.bytes))
    throw MalformedMessage(what + " has an impossible shape");
  const size_t size = sizeOf(entry.dtype);
  std::string typed;
  for (const Field &field : fields) {
    if (field.is(9, Field::bytes)) {
      entry.values = field.content;
    } else if (field.number == 4 || field.number == 10) { // of a fixed size, packed or not
      typed.append(field.content);
    } else if (field.number == 5 || field.number == 7 || field.number == 11) {
      // int32_data also has the bits of 16-bit floats, and of 8-bit integers.
      if (field.type == Field::varint)
        appendNumber(field.value, size, typed);
      else if (field.type == Field::bytes)
        for (uint64_t value : packedVarints(field.content))
          appendNumber(value, size, typed);
    } else if (field.is(13, Field::bytes)) {
      std::string_view key, value;
      eachField(field.content, [&](const Field &part) {
        if (part.is(1, Field::bytes))
          key = part.content;
        if (part.is(2, Field::bytes))
          value = part.content;
      });
      // The length may be missing, and is that of the shape otherwise.
      if (key == "location")
        entry.location = value;
      else if (key == "offset")
        entry.offset = parseCount(value, entry.name);
      else if (key == "length" && parseCount(value, entry.name) != uint64_t(entry.bytes))
        throw MalformedMessage(what + " has another number of bytes than its shape");
    }
  }
  if (isExternal) {
    // Compared below the model's folder: a path out of it could read anything that the user may.
    if (!isRelativePath(entry.location) ||
        std::filesystem::path(entry.location).lexically_normal().string().starts_with(".."))
      throw MalformedMessage(what + ": its external data leaves the model's folder");
  } else {
    entry.location.clear();
    // Kept apart from the file: views of it stay valid, since a deque's strings do not move.
    if (!typed.empty())
      entry.values = owned.emplace_back(std::move(typed));
    if (entry.values.size() != size_t(entry.bytes))
      throw MalformedMessage(what + " has " + std::to_string(entry.values.size()) +
                             " bytes of values, its shape needs " + std::to_string(entry.bytes));
  }
  list.push_back(std::move(entry));
}

/// `mapping` is set where the values are the file's, whose pages can be given back; null where they
/// are a copy.
Status OnnxWeights::array(size_t index, bool inPlace, ArrayView &array,
                          std::shared_ptr<const MappedFile> &mapping, std::string &from) {
  const Entry &entry = list[index];
  std::string_view values = entry.values;
  mapping = nullptr;
  from = path;
  if (!entry.location.empty()) {
    from = directoryOf(path) + entry.location;
    std::shared_ptr<const MappedFile> &data = external[from];
    if (!data)
      TRAINRT_TRY(MappedFile::open(from, data));
    // In subtractions that cannot wrap: both numbers are the file's.
    if (entry.offset > data->size() || uint64_t(entry.bytes) > data->size() - entry.offset)
      return fail(Code::BadData, "'", from, "' is truncated: '", entry.name, "' ends at byte ",
                  entry.offset + uint64_t(entry.bytes), ", the file has ", data->size());
    values = {reinterpret_cast<const char *>(data->data()) + entry.offset, size_t(entry.bytes)};
    mapping = data;
  } else if (values.data() >= reinterpret_cast<const char *>(file->data()) &&
             values.data() < reinterpret_cast<const char *>(file->data()) + file->size()) {
    mapping = file;
  }
  // protobuf does not align anything; who reads elements at once asks for a copy.
  if (!inPlace && reinterpret_cast<uintptr_t>(values.data()) % sizeOf(entry.dtype) != 0) {
    values = owned.emplace_back(values);
    mapping = nullptr;
  }
  array = {values.data(), entry.dtype, entry.shape, entry.bytes};
  return {};
}

} // namespace trainrt
