// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A parameter as the model has it, however a session stores it: quantized ones are decoded, part by
// part, and rounded to the type of the values they were made of.
#ifndef TRAINRT_SESSION_ADAPTER_MODEL_WEIGHT_H
#define TRAINRT_SESSION_ADAPTER_MODEL_WEIGHT_H

#include "session/session.h"

#include <vector>

namespace trainrt {

class ModelWeight {
public:
  /// Of the parameter `index`; valid until the session changes.
  Status open(const Session &session, size_t index);

  DType dtype() const { return type; }
  const std::vector<int64_t> &shape() const { return extents; }
  /// The elements [begin, end) in row-major order. Called by several threads at once.
  void read(int64_t begin, int64_t end, double *to) const;

private:
  /// Elements that are decoded at once.
  static constexpr int64_t piece = 1024;
  void decode(int64_t begin, int64_t end, float *to) const;

  DType type = DType::F32;
  std::vector<int64_t> extents;
  ArrayView stored;
  const Manifest::Quantized *quantized = nullptr;
  std::vector<float> absmax; ///< of blocks or rows
};

/// The number of the parameter `name`, which the package's manifest names.
size_t findParameter(const Session &session, const std::string &name);

/// Elements of `row` as `dtype`, each rounded once.
void storeRounded(const std::vector<double> &row, DType dtype, unsigned char *to);

} // namespace trainrt

#endif // TRAINRT_SESSION_ADAPTER_MODEL_WEIGHT_H
