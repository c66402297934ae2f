// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The weights that a user names: a safetensors or npz file, an ONNX model, the index of a
// checkpoint in several files (model.safetensors.index.json), or the folder that holds one.
#ifndef TRAINRT_SESSION_PARAMETERS_WEIGHTS_FILE_H
#define TRAINRT_SESSION_PARAMETERS_WEIGHTS_FILE_H

#include "io/array_file.h"
#include "io/onnx_weights.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace trainrt {

class WeightsFile {
public:
  struct Tensor {
    ArrayView array;
    /// Holds the array; null if it is in memory that lives as long as the WeightsFile.
    std::shared_ptr<const MappedFile> mapping;
    std::string path; ///< of the file that it is in
  };

  /// NotFound names a part of the checkpoint that is missing.
  static Status open(const std::string &path, WeightsFile &file);

  /// Of all tensors, in the order of the files.
  const std::vector<std::string> &names() const { return list; }
  bool has(const std::string &name) const { return places.count(name); }
  /// A tensor that is there; `inPlace`: maybe less aligned than its elements, but not copied.
  Status tensor(const std::string &name, bool inPlace, Tensor &tensor);

private:
  Status openIndex(const std::string &path);

  struct Part {
    std::string path;
    ArrayFile file;
  };
  std::vector<std::unique_ptr<Part>> parts;
  std::unique_ptr<OnnxWeights> model; ///< in place of parts
  std::vector<std::string> list;
  std::unordered_map<std::string, std::pair<size_t, size_t>> places; ///< part, index in it
};

} // namespace trainrt

#endif // TRAINRT_SESSION_PARAMETERS_WEIGHTS_FILE_H
