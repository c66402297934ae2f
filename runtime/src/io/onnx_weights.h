// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The initializers of an ONNX model as arrays: weights where a package has been moved away from the
// model that it was compiled from. Nothing else of the model is looked at.
#ifndef TRAINRT_IO_ONNX_WEIGHTS_H
#define TRAINRT_IO_ONNX_WEIGHTS_H

#include "format/dtype.h"
#include "format/file.h"
#include "format/status.h"
#include "io/tensor_proto.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainrt {

class OnnxWeights {
public:
  struct Entry {
    TensorProto tensor;
    std::string name;
    DType dtype = DType::F32;
    int64_t bytes = 0;
    std::string_view values; ///< as they lie in memory; empty if they are not in the model
  };

  /// Errors are BadData and name the file and the initializer. Those of types that no parameter has
  /// are left out.
  static Status open(const std::string &path, OnnxWeights &weights);

  const std::vector<Entry> &entries() const { return list; }
  /// Its array, and what holds it: null if that is this object. External data: NotFound or BadData
  /// names the file. `inPlace`: maybe less aligned than its elements, but not copied.
  Status array(size_t index, bool inPlace, ArrayView &array,
               std::shared_ptr<const MappedFile> &mapping, std::string &path);

private:
  void read(std::string_view message);

  std::string path;
  std::shared_ptr<const MappedFile> file;
  std::vector<Entry> list;
  /// Values that are stored in another way, and copies that are aligned.
  std::deque<std::string> owned;
  std::map<std::string, std::shared_ptr<const MappedFile>> external;
};

} // namespace trainrt

#endif // TRAINRT_IO_ONNX_WEIGHTS_H
