// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The initialization is legalized as any graph and run by the reference evaluator, in double; its
// results become blobs of the model, which the package stores.

#include "trainc/Conversion/ONNXToTrain/Roles/Initialization.h"

#include "dialects/ONNX/ONNXDialect.h"
#include "dialects/Train/TrainDialect.h"
#include "trainc/Conversion/Legalize.h"
#include "trainc/Reference/Reference.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace trainc;
using reference::HostTensor;

namespace {

/// The elements of row-major `bytes` of this type.
HostTensor tensorOf(RankedTensorType type, ArrayRef<char> bytes) {
  assert(type.hasStaticShape() && "constants have sizes");
  HostTensor tensor{SmallVector<int64_t>(type.getShape()), {}};
  // Splat or not, by the number of bytes.
  auto dense = DenseElementsAttr::getFromRawBuffer(type, bytes);
  if (isa<FloatType>(type.getElementType())) {
    for (APFloat value : dense.getValues<APFloat>()) {
      bool lossy = false;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
      tensor.data.push_back(value.convertToDouble());
    }
    return tensor;
  }
  // f64 holds integers up to 2 ^ 53; results beyond are refused when they are stored.
  for (const APInt &value : dense.getValues<APInt>())
    tensor.data.push_back(double(value.getSExtValue()));
  return tensor;
}

/// Row-major bytes.
std::vector<char> bytesOf(DenseElementsAttr dense) {
  ArrayRef<char> raw = dense.getRawData();
  // A splat has one element's bytes.
  if (!dense.isSplat())
    return raw.vec();
  std::vector<char> bytes;
  for (int64_t i = 0; i < dense.getNumElements(); ++i)
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  return bytes;
}

class Initialization {
public:
  Initialization(ModuleOp module, ImportedModel &model)
      : graph(*module.getOps<onnx::GraphOp>().begin()), model(model) {}

  LogicalResult run() {
    LegalizeOptions options;
    // Legalized like any graph, without a loss.
    options.inference = options.initialization = true;
    LegalizeResult ignored;
    if (failed(legalizeONNX(*model.initialization, options, ignored)))
      return failure();
    auto function = model.initialization->lookupSymbol<func::FuncOp>("forward");
    SmallVector<HostTensor> arguments;
    // In the order of the arguments.
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(read(function, i, arguments)))
        return failure();
    FailureOr<reference::HostTensors> results = reference::evaluate(function, arguments);
    if (failed(results))
      return failure();
    for (auto &[initializer, output] : model.initialValues)
      if (failed(store(initializer, output, function, *results)))
        return failure();
    // It has done its work: nothing of it goes into the package.
    model.initialization = {};
    return success();
  }

private:
  LogicalResult error(const Twine &message) {
    return emitError(graph.getLoc(), "the initialization of training_info: " + message);
  }

  /// A constant of the initialization's graph that is too large to be in the IR.
  LogicalResult read(func::FuncOp function, unsigned i, SmallVectorImpl<HostTensor> &arguments) {
    auto weight = function.getArgAttrOfType<train::WeightAttr>(i, train::kWeightAttr);
    auto name = function.getArgAttrOfType<StringAttr>(i, train::kNameAttr);
    auto type = cast<RankedTensorType>(function.getArgument(i).getType());
    // Without the dialect's encoding of sizes.
    type = RankedTensorType::get(type.getShape(), type.getElementType());
    if (!weight || weight.getAbsent() || type.getElementType().isInteger(1))
      return error("there are no values of '" + (name ? name.getValue() : StringRef()) +
                   "' to compute with");
    if (weight.getFile().getValue().empty()) {
      // The offset is the blob's number where there is no file.
      arguments.push_back(tensorOf(type, model.blobs[weight.getOffset()]));
      return success();
    }
    llvm::SmallString<256> path(model.folder);
    llvm::sys::path::append(path, weight.getFile().getValue());
    auto bytes = llvm::MemoryBuffer::getFileSlice(path, weight.getLength(), weight.getOffset());
    if (!bytes)
      return error("cannot read '" + path + "': " + bytes.getError().message());
    StringRef buffer = (*bytes)->getBuffer();
    arguments.push_back(tensorOf(type, ArrayRef<char>(buffer.data(), buffer.size())));
    return success();
  }

  LogicalResult store(StringRef name, StringRef output, func::FuncOp function,
                      ArrayRef<HostTensor> results) {
    onnx::InitializerOp initializer;
    for (auto op : graph.getOps<onnx::InitializerOp>())
      if (op.getName() == name)
        initializer = op;
    assert(initializer && "the importer knows the name");
    auto type = cast<RankedTensorType>(initializer.getType());
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      // Results are found by name.
      if (function.getResultAttrOfType<StringAttr>(i, train::kNameAttr) != output)
        continue;
      auto given = cast<RankedTensorType>(function.getResultTypes()[i]);
      DenseElementsAttr dense;
      // Values are never converted: the training would begin with others than the file says.
      if (given.getShape() == type.getShape() && given.getElementType() == type.getElementType() &&
          !type.getElementType().isInteger(1))
        dense = reference::toAttribute(type, results[i]);
      if (!dense)
        return error("its output '" + output +
                     "' is not of the type and shape of the initializer '" + name +
                     "', or holds integers beyond 2^53");
      model.blobs.push_back(bytesOf(dense));
      initializer.setWeightAttr(onnx::WeightAttr::get(graph.getContext(), "", 0,
                                                      model.blobs.back().size(),
                                                      model.blobs.size() - 1, /*absent=*/false));
      // Small ones are in the IR, too: both places agree.
      if (initializer.getValueAttr())
        initializer.setValueAttr(dense);
      return success();
    }
    return error("its output '" + output + "' is not computed");
  }

  onnx::GraphOp graph;
  ImportedModel &model;
};
} // namespace

LogicalResult trainc::runInitialization(ModuleOp module, ImportedModel &model) {
  return Initialization(module, model).run();
}
