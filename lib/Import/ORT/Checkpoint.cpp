// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the FlatBuffers of a checkpoint. Nothing in the file is trusted: the buffer is verified,
// and every tensor has to have the bytes that its shape needs.

#include "lib/Import/ORT/Checkpoint.h"
#include "trainc/Support/RegularFile.h"

#include "checkpoint_generated.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using llvm::StringRef;
using llvm::Twine;

namespace trainc::ort_artifacts {
namespace {

constexpr int32_t formatVersion = 2;

/// Bytes of one element of a TensorProto.DataType; 0 where parameters cannot have it.
unsigned elementBytes(int dataType) {
  switch (dataType) {
  case 2: // uint8
  case 3: // int8
  case 9: // bool
    return 1;
  case 5:  // int16
  case 10: // float16
  case 16: // bfloat16
    return 2;
  case 1: // float
  case 6: // int32
    return 4;
  case 7:  // int64
  case 11: // double
    return 8;
  default:
    return 0;
  }
}

class Reader {
public:
  Reader(StringRef path, Checkpoint &out) : path(path), out(out) {}

  std::string run() {
    std::string problem;
    std::unique_ptr<llvm::MemoryBuffer> buffer = readRegularFile(path, problem);
    if (!buffer)
      return "the checkpoint: " + problem;
    bytes = buffer->getBuffer();
    // Verified before anything is read through it.
    auto data = reinterpret_cast<const uint8_t *>(bytes.data());
    flatbuffers::Verifier verifier(data, bytes.size());
    if (bytes.size() < 8 || !ort::CheckpointBufferHasIdentifier(data))
      return "'" + path.str() + "' is not a checkpoint of ONNX Runtime's training";
    if (!ort::VerifyCheckpointBuffer(verifier))
      return "the checkpoint '" + path.str() + "' is damaged";
    const ort::Checkpoint *checkpoint = ort::GetCheckpoint(data);
    if (checkpoint->version() != formatVersion)
      return "the checkpoint '" + path.str() + "' has version " +
             std::to_string(checkpoint->version()) +
             ", not 2; save it with onnxruntime-training "
             "1.18 or newer";
    // Each part is optional in the format.
    const ort::ModuleState *state = checkpoint->module_state();
    if (!state)
      return "the checkpoint '" + path.str() + "' holds no parameters";
    // Nominal: names, without values.
    if (!state->is_nominal_state())
      out.dataFile = state->has_external_data() ? path.str() + ".data" : path.str();
    // What offsets are checked against.
    size = bytes.size();
    if (state->has_external_data())
      if (std::error_code code = llvm::sys::fs::file_size(out.dataFile, size))
        return "the checkpoint's data file '" + out.dataFile +
               "' cannot be read: " + code.message();
    external = state->has_external_data();
    // Trained ones, then frozen ones: a name is in one of both.
    if (std::string problem = add(state->requires_grad_params(), true); !problem.empty())
      return problem;
    if (std::string problem = add(state->frozen_params(), false); !problem.empty())
      return problem;
    // Usually one group.
    if (checkpoint->optimizer_groups())
      for (const ort::OptimizerGroup *group : *checkpoint->optimizer_groups()) {
        out.steps = std::max<int64_t>(out.steps, group->step());
        out.learningRate = group->initial_learning_rate();
        if (std::string problem = addMoments(*group); !problem.empty())
          return problem;
      }
    return {};
  }

private:
  /// Type, shape and place of a tensor, whose elements are in `file`; returns what is wrong with
  /// it.
  std::string read(const ort::Tensor &tensor, StringRef file, CheckpointTensor &entry) {
    entry.file = file.str();
    assert(entry.shape.empty() && "read once");
    if (file.empty()) // a name only
      return {};
    entry.dataType = tensor.data_type();
    uint64_t need = elementBytes(entry.dataType);
    // Types that only activations have.
    if (!need)
      return "has an element type that is not supported";
    if (tensor.dims())
      for (int64_t extent : *tensor.dims()) {
        if (extent < 0)
          return "has a negative size";
        entry.shape.push_back(extent);
        // Saturated: no file has so many bytes.
        need = llvm::SaturatingMultiply(need, uint64_t(extent));
      }
    entry.length = need;
    // In the data file at an offset, or in the checkpoint itself.
    if (file != path) {
      entry.offset = uint64_t(std::max<int64_t>(tensor.external_data_offset(), 0));
      if (tensor.external_data_offset() < 0 || need > size || entry.offset > size - need)
        return "lies outside of '" + entry.file + "'";
      return {};
    }
    // Without an offset the bytes are in the buffer.
    if (!tensor.raw_data() || tensor.raw_data()->size() != need)
      return "does not have the " + std::to_string(need) + " bytes that its shape needs";
    // Its place in the file is what the package refers to.
    entry.offset = reinterpret_cast<const char *>(tensor.raw_data()->Data()) - bytes.data();
    return {};
  }

  std::string add(const flatbuffers::Vector<flatbuffers::Offset<ort::Tensor>> *tensors,
                  bool trained) {
    if (!tensors)
      return {};
    for (const ort::Tensor *tensor : *tensors) {
      std::string name = tensor->name() ? tensor->name()->str() : "";
      CheckpointTensor entry;
      entry.trained = trained;
      std::string problem = read(*tensor, out.dataFile, entry);
      if (problem.empty() && name.empty())
        problem = "has no name";
      else if (problem.empty() && !out.tensors.try_emplace(name, std::move(entry)).second)
        problem = "is there twice";
      // The first problem ends it.
      if (!problem.empty())
        return "the checkpoint's parameter '" + name + "' " + problem;
    }
    return {};
  }

  std::string addMoments(const ort::OptimizerGroup &group) {
    if (!group.optimizer_states())
      return {};
    for (const ort::ParameterOptimizerState *state : *group.optimizer_states()) {
      std::string name = state->param_name() ? state->param_name()->str() : "";
      // An entry even without moments, so that a second one is found.
      auto &moments = out.moments[name];
      auto fail = [&](const Twine &why) {
        return ("the checkpoint's optimizer state of '" + name + "' " + why).str();
      };
      if (!moments.empty())
        return fail("is there twice");
      if (!state->momentums())
        continue;
      for (const ort::Tensor *tensor : *state->momentums()) {
        // Those of a large checkpoint may be beside it, as its parameters are.
        bool inside = tensor->raw_data() && tensor->raw_data()->size();
        if (std::string problem =
                read(*tensor, inside || !external ? path : StringRef(out.dataFile),
                     moments.emplace_back());
            !problem.empty())
          return fail(problem);
        // By their names: momentum0 is the mean of gradients, momentum1 that of their squares.
        std::string expected = "momentum" + std::to_string(moments.size() - 1);
        if (!tensor->name() || tensor->name()->str() != expected)
          return fail("has no '" + expected + "' at its place");
      }
    }
    return {};
  }

  StringRef path, bytes;
  Checkpoint &out;
  uint64_t size = 0;
  bool external = false;
};
} // namespace

std::string readCheckpoint(StringRef path, Checkpoint &out) { return Reader(path, out).run(); }

} // namespace trainc::ort_artifacts
