// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// manifest.json: what a package is, as far as the runtime acts on it (docs/design/package.md).
#ifndef TRAINRT_FORMAT_MANIFEST_H
#define TRAINRT_FORMAT_MANIFEST_H

#include "format/dtype.h"
#include "format/lora_manifest.h"
#include "format/quant_format.h"
#include "format/status.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainrt {

inline constexpr int64_t formatMajor = 1;
/// More than any run makes.
inline constexpr int64_t maxSteps = int64_t(1) << 53;

/// Whether a learning rate, a weight decay or a bound of a norm may have this value: finite as f32,
/// and not negative.
inline bool isHyper(double value) { return value >= 0 && std::isfinite(float(value)); }

struct Manifest {
  /// What an input holds where it is no plain number, and how to tell what is real in it.
  struct Tokens {
    bool isLabel = false; ///< else ids of tokens
    /// Elements that are not this are real; nullopt: those where `mask` is not 0.
    std::optional<int64_t> pad;
    std::string mask; ///< another input, of the same sizes
  };
  /// How a parameter begins that no file has.
  struct Init {
    enum class Kind {
      Constant, ///< `value`
      Uniform,  ///< within (-value, value)
      Normal,   ///< with the deviation `value`
      Norms     ///< of the vectors of the matrix `matrix` that `axis` counts
    } kind = Kind::Constant;
    double value = 0;
    std::string matrix; ///< a parameter
    int64_t axis = 0;
  };
  /// How a parameter is stored, if it is otherwise than the model has it. The tensor's own type and
  /// shape are those of the codes, these are those of the values.
  struct Quantized {
    QuantFormat format = QuantFormat::NF4;
    int64_t block = 0; ///< elements that share a statistic, of 4 bits
    DType dtype = DType::F32;
    std::vector<int64_t> shape;
    /// Names of the parameters that hold its statistics; "" for those that the format lacks.
    std::string absmax, nestedAbsmax, nestedOffset, rowAbsmax;
  };
  struct Tensor {
    std::string name;
    DType dtype = DType::F32;
    /// Static extents; -1 where the extent is an expression, whose text `extents` has.
    std::vector<int64_t> shape;
    std::vector<std::string> extents;
    bool optional = false;
    std::vector<Tokens> tokens; ///< inputs: as which they are read, if any
    bool isLoss = false;        ///< outputs
    bool isWeight = false;      ///< outputs: the loss's denominator
    bool isGradNorm = false;    ///< outputs: the norm of a step's gradients
    // Parameters.
    bool trainable = false;
    bool updated = false; ///< steps change it without a gradient (running statistics)
    std::optional<Init> init;
    std::optional<Quantized> quantized;
    std::string partOf; ///< the quantized parameter whose statistics it holds
    // Parameters, and optimizer state that does not begin at zero.
    bool hasWeights = false, embedded = false;
    std::string file; ///< relative to the package's folder; "weights.bin" if embedded
    int64_t offset = 0, length = 0;
  };
  /// What the program says of a symbol and of a function, for people and tools.
  struct Symbol {
    std::string name, input;
    int64_t min = 0, max = INT64_MAX, divisor = 1, axis = -1, differs = 0;
    bool counts = false;
    std::string what = "elements"; ///< of counts
    std::string run;               ///< "world" or "rank"; empty: of a batch
  };
  struct Condition {
    std::string kind, mask, input;
    int64_t padding = 0, shift = 0, value = 0, index = 0;
  };
  struct Function {
    std::string name, variantOf;
    std::vector<Condition> conditions;
  };
  /// A file of weights beside the package.
  struct File {
    std::string path;
    bool absent = false;
    int64_t size = 0;
    uint64_t head = 0, tail = 0; ///< FNV-1a 64 of the first and of the last MiB
  };

  std::string producer, model, loss, batchSymbol, optimizer;
  /// Of the model's graph, whatever it was compiled for: "VERSION-HASH"; "" if it is not known.
  std::string identity;
  bool training = false;
  /// The loss of all rows is the mean of batches' losses, weighted by the output `isWeight`, or by
  /// rows where there is none.
  bool lossIsMean = false;
  /// The model has adapters: checkpoints are of them, and what is frozen is not in them.
  std::optional<Lora> lora;
  std::vector<std::string> targets;
  /// nullopt: of a compiler that did not write them.
  std::optional<std::vector<Symbol>> symbols;
  std::optional<std::vector<Function>> functions;
  std::vector<Tensor> inputs, outputs, parameters, state;
  std::vector<File> files;
  double lr = NAN, weightDecay = NAN, clipNorm = NAN;
  /// What ranks share ("data"); "": the package is for one.
  std::string distribute;
  /// Micro-batches of a step unless the caller says otherwise.
  int64_t accumulate = 1;
  /// Steps that led to the first values of the state.
  int64_t steps = 0;
  std::map<std::string, uint64_t> checksums;
};

/// Parses and checks the text, its own checksum and version first. Errors are BadPackage and name
/// the field.
Status readManifest(std::string_view text, Manifest &manifest);

/// The FNV-1a 64 of `text` with the 16 hex digits of `checksums.manifest` replaced by zeros, and
/// where in `text` these are; false if the text does not hold that field exactly once.
bool manifestChecksum(std::string_view text, uint64_t &checksum, size_t &position);

} // namespace trainrt

#endif // TRAINRT_FORMAT_MANIFEST_H
