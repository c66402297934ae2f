// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A checkpoint of ONNX Runtime's training: which parameters and which state of the optimizer there
// are, and where in the file their elements are, which stay there.
#ifndef TRAINC_LIB_IMPORT_ORT_CHECKPOINT_H
#define TRAINC_LIB_IMPORT_ORT_CHECKPOINT_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace trainc::ort_artifacts {

struct CheckpointTensor {
  /// Unknown where there are no elements.
  llvm::SmallVector<int64_t> shape;
  /// TensorProto.DataType
  int dataType = 0;
  bool trained = false;
  /// The file that holds its elements, "" where there are none, and their bytes in it.
  std::string file;
  uint64_t offset = 0, length = 0;
};

struct Checkpoint {
  llvm::StringMap<CheckpointTensor> tensors;
  /// State of the optimizer by parameter, in its order: momentum0, momentum1.
  llvm::StringMap<llvm::SmallVector<CheckpointTensor, 2>> moments;
  /// The file with the parameters' elements; "" if the checkpoint has none (a nominal one).
  std::string dataFile;
  /// Steps that the optimizer has made, and its learning rate; 0 if there is no optimizer yet.
  int64_t steps = 0;
  double learningRate = 0;
};

/// Reads the checkpoint at `path`; returns what is wrong with it, or "".
std::string readCheckpoint(llvm::StringRef path, Checkpoint &out);

} // namespace trainc::ort_artifacts

#endif // TRAINC_LIB_IMPORT_ORT_CHECKPOINT_H
