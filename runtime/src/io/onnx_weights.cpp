// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ModelProto: graph 7. GraphProto: initializer 5.

#include "io/onnx_weights.h"
#include "io/protobuf.h"

#include <optional>

namespace trainrt {

namespace {

/// The low bytes of numbers, one after the other.
/// Little-endian: the low bytes of a 64-bit number are those of the narrower one, also of a
/// negative one.
void appendNumber(uint64_t value, size_t size, std::string &to) {
  to.append(reinterpret_cast<const char *>(&value), size);
}

} // namespace

/// `weights` changes only where it succeeds. External files are opened when they are asked for.
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

/// Types that no parameter has are skipped.
void OnnxWeights::read(std::string_view message) {
  Entry entry;
  entry.tensor = TensorProto::read(message);
  const TensorProto &tensor = entry.tensor;
  const std::optional<DType> dtype = dtypeOfOnnx(tensor.type);
  if (!dtype)
    return;
  entry.name = tensor.name;
  entry.dtype = *dtype;
  // All that can be wrong with it is found here, but for external data.
  const std::string what = "initializer '" + entry.name + "'";
  if (!countBytes(entry.dtype, tensor.dims.data(), tensor.dims.size(), entry.bytes))
    throw MalformedMessage(what + " has an impossible shape");
  // Its bytes are looked at when they are asked for: the file may be missing until then.
  if (tensor.external) {
    if (tensor.length.value_or(uint64_t(entry.bytes)) != uint64_t(entry.bytes))
      throw MalformedMessage(what + " has another number of bytes than its shape");
    entry.tensor.length = uint64_t(entry.bytes);
    list.push_back(std::move(entry));
    return;
  }
  std::string typed;
  for (const Field &field : tensor.values) {
    if (field.is(TensorProto::numRaw, Field::bytes)) {
      entry.values = field.content;
    } else if (field.number == TensorProto::numFloats ||
               field.number == TensorProto::numDoubles) { // of a fixed size, packed or not
      typed.append(field.content);
    } else if (field.number == TensorProto::numInt32s || field.number == TensorProto::numInt64s ||
               field.number == TensorProto::numUint64s) {
      // int32_data also has the bits of 16-bit floats, and of 8-bit integers.
      const size_t size = sizeOf(entry.dtype);
      if (field.type == Field::varint)
        appendNumber(field.value, size, typed);
      else if (field.type == Field::bytes)
        for (uint64_t value : packedVarints(field.content))
          appendNumber(value, size, typed);
    }
  }
  // Their bytes have been taken: views of the model's text, or `typed`.
  entry.tensor.values = {};
  // Kept apart from the file: views of it stay valid, since a deque's strings do not move.
  if (!typed.empty())
    entry.values = owned.emplace_back(std::move(typed));
  if (entry.values.size() != size_t(entry.bytes))
    throw MalformedMessage(what + " has " + std::to_string(entry.values.size()) +
                           " bytes of values, its shape needs " + std::to_string(entry.bytes));
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
  if (entry.tensor.external) {
    from = directoryOf(path) + entry.tensor.location;
    std::shared_ptr<const MappedFile> &data = external[from];
    if (!data)
      TRAINRT_TRY(MappedFile::open(from, data));
    TRAINRT_TRY(entry.tensor.externalBytes(*data, values));
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
  array = {values.data(), entry.dtype, entry.tensor.dims, entry.bytes};
  return {};
}

} // namespace trainrt
