// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small reader of the protobuf wire format. It finds where in the file the bytes of each
// initializer are and makes a copy of the model without them, so that gigabytes of weights are
// never parsed.

#ifndef TRAINC_LIB_IMPORT_ONNX_WIREFORMAT_H
#define TRAINC_LIB_IMPORT_ONNX_WIREFORMAT_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>
#include <vector>

namespace trainc::detail {

/// `raw_data` of one initializer, in bytes of the file. `present` is false if it has none.
struct RawRange {
  bool present = false;
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// A model without the `raw_data` of its graph's initializers.
struct StrippedModel {
  std::string bytes;
  /// One entry for each initializer of the main graph, in file order.
  std::vector<RawRange> initializers;
  bool hasGraph = false;
};

/// Walks ModelProto.graph.initializer of `file`; raw_data is left out of the copy. Returns an empty
/// string, or what is wrong with the file.
std::string stripModel(llvm::StringRef file, StrippedModel &out);

} // namespace trainc::detail

#endif // TRAINC_LIB_IMPORT_ONNX_WIREFORMAT_H
