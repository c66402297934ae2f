// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A TensorProto of ONNX on the wire: what it declares, and where its values are.
#ifndef TRAINRT_IO_TENSOR_PROTO_H
#define TRAINRT_IO_TENSOR_PROTO_H

#include "format/dtype.h"
#include "format/file.h"
#include "format/status.h"
#include "io/protobuf.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainrt {

/// TensorProto.DataType of a dtype.
uint64_t onnxTypeOf(DType dtype);
/// None for a type that no array of the runtime has.
std::optional<DType> dtypeOfOnnx(uint64_t onnxType);

/// Views are of the message.
struct TensorProto {
  /// Field numbers.
  enum Number : uint64_t {
    numDims = 1,
    numType = 2,
    numFloats = 4,
    numInt32s = 5,
    numInt64s = 7,
    numName = 8,
    numRaw = 9,
    numDoubles = 10,
    numUint64s = 11,
    numExternal = 13,
    numLocation = 14,
  };

  std::string_view name;
  uint64_t type = 0;
  std::vector<int64_t> dims;
  /// Those that hold values, in order; strings too.
  std::vector<Field> values;
  bool external = false;
  /// Of external data: a file that lies in the model's folder, and where in it. Without a length
  /// they reach to its end.
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;

  /// Whether a field holds values; strings do, too.
  static bool isValue(uint64_t number);
  /// Throws MalformedMessage.
  static TensorProto read(std::string_view message);
  /// Its external data, `length` bytes where that is known, in `file`: BadData names it otherwise.
  Status externalBytes(const MappedFile &file, std::string_view &bytes) const;
};

} // namespace trainrt

#endif // TRAINRT_IO_TENSOR_PROTO_H
