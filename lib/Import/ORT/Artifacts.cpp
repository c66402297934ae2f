// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts training artifacts together. The training model takes parameters and gradient accumulators
// as inputs and changes the latter in place; what is left here is a graph of data to loss and
// gradients.

#include "trainc/Import/Artifacts.h"

#include "dialects/ONNX/ONNXDialect.h"
#include "lib/Import/ORT/Checkpoint.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InterleavedRange.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace trainc;
using trainc::ort_artifacts::Checkpoint;
using trainc::ort_artifacts::CheckpointTensor;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

namespace {
constexpr StringLiteral kMicrosoft = "com.microsoft";
constexpr StringLiteral kBufferSuffix = "_grad.accumulation.buffer";

/// The TensorProto.DataType of an element type; 0 where it has none.
/// Numbers of onnx.proto; only those that parameters of checkpoints can have.
int dataTypeOf(Type element) {
  if (element.isF32())
    return 1;
  if (element.isF64())
    return 11;
  if (element.isF16())
    return 10;
  if (element.isBF16())
    return 16;
  if (element.isInteger(1))
    return 9;
  if (element.isUnsignedInteger(8))
    return 2;
  if (element.isSignlessInteger(8))
    return 3;
  if (element.isSignlessInteger(16))
    return 5;
  if (element.isSignlessInteger(32))
    return 6;
  return element.isSignlessInteger(64) ? 7 : 0;
}

bool isNode(Operation *op, StringRef type) {
  auto node = dyn_cast_or_null<onnx::NodeOp>(op);
  return node && node.getDomain() == kMicrosoft && node.getOpType() == type;
}

/// Where `file` is as seen from `folder`.
/// Through "..", as packages name files from the model's folder. The name itself where a folder
/// cannot be resolved.
std::string relativeTo(StringRef folder, StringRef file) {
  llvm::SmallString<256> from, to, relative;
  if (fs::real_path(folder, from) ||
      fs::real_path(path::parent_path(file).empty() ? StringRef(".") : path::parent_path(file), to))
    return file.str();
  auto a = path::begin(from), aEnd = path::end(from);
  auto b = path::begin(to), bEnd = path::end(to);
  // What both have in common goes.
  while (a != aEnd && b != bEnd && *a == *b)
    ++a, ++b;
  for (; a != aEnd; ++a)
    path::append(relative, "..");
  for (; b != bEnd; ++b)
    path::append(relative, *b);
  path::append(relative, path::filename(file));
  return relative.str().str();
}

/// Turns the training model's graph into one of data, parameters, loss and gradients.
class Assembly {
public:
  Assembly(onnx::GraphOp graph, const Checkpoint &checkpoint, ImportedModel &out)
      : graph(graph), checkpoint(checkpoint), out(out), builder(graph.getContext()) {}

  LogicalResult run() {
    // Arguments are erased all at once: numbers stay right until then.
    erased.resize(graph.getNumArguments());
    if (failed(takeGradients()) || failed(takeParameters()))
      return failure();
    if (failed(graph.eraseArguments(erased)))
      return failure();
    // In the order of the outputs.
    llvm::SmallVector<StringRef> names;
    for (auto &[name, parameter] : gradients)
      names.push_back(name);
    // What is trained is what has a gradient; the rest of the checkpoint is frozen.
    NamedAttrList metadata(graph.getMetadataProps());
    metadata.set("trainable", builder.getStringAttr(llvm::join(names, "\n")));
    graph.setMetadataPropsAttr(metadata.getDictionary(builder.getContext()));
    return success();
  }

private:
  InFlightDiagnostic error(const Twine &message) { return emitError(graph.getLoc(), message); }

  /// The outputs of accumulators become the gradients that these add.
  LogicalResult takeGradients() {
    // An accumulator returns whether it did something: such outputs stand for gradients.
    Operation *ret = graph.getBody().front().getTerminator();
    for (unsigned i = 0; i < ret->getNumOperands(); ++i) {
      Operation *op = ret->getOperand(i).getDefiningOp();
      if (!isNode(op, "InPlaceAccumulatorV2"))
        continue;
      auto node = cast<onnx::NodeOp>(op);
      // Its first input is the buffer, its second the gradient, its third says whether it begins
      // anew.
      auto buffer = node.getInputs().size() >= 2 ? dyn_cast<BlockArgument>(node.getInputs()[0])
                                                 : BlockArgument();
      StringRef name = buffer ? graph.getInputName(buffer.getArgNumber()) : StringRef();
      if (!name.consume_back(kBufferSuffix))
        return error("the output '" + graph.getOutputName(i) +
                     "': its accumulator is not an input that ends in '" + kBufferSuffix + "'");
      // Both ways: each accumulator has a trained parameter, and each trained parameter an
      // accumulator.
      auto known = checkpoint.tensors.find(name);
      if (known == checkpoint.tensors.end() || !known->second.trained)
        return error(
            "the training model accumulates the gradient of '" + name +
            "', which the checkpoint does not name as trained: they do not belong together");
      if (!gradients.insert({name, node}).second)
        return error("the training model has two accumulators of the gradient of '" + name +
                     "', of which only one can be the parameter's: export the artifacts again");
      erased.set(buffer.getArgNumber());
      if (node.getInputs().size() > 2)
        if (auto reset = dyn_cast<BlockArgument>(node.getInputs()[2]))
          erased.set(reset.getArgNumber());
      // The gradient itself takes the output's place.
      ret->setOperand(i, node.getInputs()[1]);
      graph.setResultAttr(i, onnx::kGradientOfAttr, builder.getStringAttr(name));
    }
    // Nothing reads them any more.
    for (auto &[name, node] : gradients)
      node->erase();
    for (auto &entry : checkpoint.tensors)
      if (entry.second.trained && !gradients.contains(entry.first()))
        return error("the training model has no gradient of '" + entry.first() +
                     "', which the checkpoint names as trained: they do not belong together");
    // Results have other types now.
    graph.setFunctionType(
        builder.getFunctionType(graph.getArgumentTypes(), ret->getOperandTypes()));
    return success();
  }

  /// Inputs that the checkpoint names become initializers.
  LogicalResult takeParameters() {
    Block &body = graph.getBody().front();
    builder.setInsertionPointToStart(&body);
    // Without data, the model's own file stands for one, as an absent weight has to name some.
    std::string file = checkpoint.dataFile.empty() ? relativeTo(out.folder, out.path)
                                                   : relativeTo(out.folder, checkpoint.dataFile);
    bool any = false, absent = checkpoint.dataFile.empty();
    // Arguments stay in place until all were looked at.
    for (BlockArgument argument : body.getArguments()) {
      if (erased.test(argument.getArgNumber()))
        continue;
      StringRef name = graph.getInputName(argument.getArgNumber());
      auto known = checkpoint.tensors.find(name);
      // What the checkpoint does not name is data.
      if (known == checkpoint.tensors.end())
        continue;
      const CheckpointTensor &tensor = known->second;
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      // Without data there is no shape to compare with.
      if (!type || !type.hasStaticShape() || !dataTypeOf(type.getElementType()) ||
          (!absent && (type.getShape() != ArrayRef<int64_t>(tensor.shape) ||
                       dataTypeOf(type.getElementType()) != tensor.dataType)))
        return error("the parameter '" + name +
                     "' has another type or shape in the checkpoint than in the training model")
               << ": ONNX type " << tensor.dataType << " with sizes ["
               << llvm::interleaved(tensor.shape) << "], not " << argument.getType();
      assert(type.getNumElements() >= 0 && "static");
      uint64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8) * type.getNumElements();
      auto weight = onnx::WeightAttr::get(builder.getContext(), file, tensor.offset, bytes,
                                          /*blob=*/-1, absent);
      Value initializer =
          onnx::InitializerOp::create(builder, NameLoc::get(builder.getStringAttr(name)), type,
                                      builder.getStringAttr(name), weight, ElementsAttr());
      argument.replaceAllUsesWith(initializer);
      assert(!erased.test(argument.getArgNumber()) && "skipped above");
      erased.set(argument.getArgNumber());
      any = true;
    }
    if (!any)
      return error("the checkpoint names no input of the training model: they do not belong "
                   "together");
    out.weightFiles.push_back(file);
    return success();
  }

  onnx::GraphOp graph;
  const Checkpoint &checkpoint;
  ImportedModel &out;
  OpBuilder builder;
  /// Inputs that are no data.
  BitVector erased;
  /// Accumulators by parameter, in the order of the outputs.
  llvm::MapVector<StringRef, onnx::NodeOp> gradients;
};

/// The moments of AdamW, of what is trained, by the names that the package has for them; SGD has
/// none that it reads.
LogicalResult takeMoments(onnx::GraphOp graph, const Checkpoint &checkpoint, ImportedModel &out) {
  static constexpr StringLiteral names[] = {"exp_avg", "exp_avg_sq"};
  // A state without both moments begins at zero.
  for (auto &entry : checkpoint.tensors) {
    auto found = checkpoint.moments.find(entry.first());
    if (!entry.second.trained || found == checkpoint.moments.end() || found->second.size() < 2)
      continue;
    for (auto [name, moment] : llvm::zip(names, found->second)) {
      // As moments are used without a conversion.
      if (moment.shape != entry.second.shape || moment.dataType != entry.second.dataType)
        return emitError(graph.getLoc(), "the checkpoint's optimizer state of '" + entry.first() +
                                             "' has another type or shape than the parameter");
      out.optimizerState.push_back({(entry.first() + "/" + name).str(),
                                    relativeTo(out.folder, moment.file), moment.offset,
                                    moment.length});
    }
  }
  // The map has no order of its own.
  llvm::sort(out.optimizerState,
             [](const StateBytes &a, const StateBytes &b) { return a.name < b.name; });
  out.steps = checkpoint.steps;
  return success();
}

/// Attributes of another type count as absent.
double number(onnx::NodeOp node, StringRef name, double otherwise) {
  auto value = dyn_cast_or_null<FloatAttr>(node.getNodeAttributes().get(name));
  return value ? value.getValueAsDouble() : otherwise;
}
int64_t integer(onnx::NodeOp node, StringRef name, int64_t otherwise) {
  auto value = dyn_cast_or_null<IntegerAttr>(node.getNodeAttributes().get(name));
  return value ? value.getInt() : otherwise;
}

/// An optimizer model is one optimizer node, with a clipping one before it or not.
/// Defaults are those of ONNX Runtime's operators.
LogicalResult readOptimizer(onnx::GraphOp graph, ArtifactOptimizer &out) {
  for (auto node : graph.getOps<onnx::NodeOp>()) {
    auto fail = [&](const Twine &why) {
      return emitError(node.getLoc(), "node '" + node.getOpType() + "' of the optimizer model " +
                                          why + "; name an optimizer with --optimizer instead");
    };
    if (isNode(node, "InplaceClipGradNorm")) {
      auto kind = dyn_cast_or_null<StringAttr>(node.getNodeAttributes().get("norm_type"));
      if (kind && kind.getValue() != "fro")
        return fail("clips the norm '" + kind.getValue() + "', only 'fro' is supported");
      out.clipNorm = number(node, "max_norm", 1);
    } else if (isNode(node, "AdamWOptimizer") && out.name.empty()) {
      // Two forms of AdamW: with the decay before or behind the update.
      bool later = integer(node, "adam_mode", 0) == 1;
      out.name = later ? "adamw-hf" : "adamw";
      out.beta1 = number(node, "alpha", 0.9f);
      out.beta2 = number(node, "beta", 0.999f);
      out.epsilon = number(node, "epsilon", 1e-8f);
      out.weightDecay = number(node, "weight_decay", 0);
      out.biasCorrection = integer(node, "correct_bias", 1) != 0;
    } else if (isNode(node, "SGDOptimizerV2") && out.name.empty()) {
      out.name = "sgd";
      // Also a second optimizer.
    } else {
      return fail("is not one of AdamWOptimizer, SGDOptimizerV2 and InplaceClipGradNorm");
    }
  }
  if (out.name.empty())
    return emitError(graph.getLoc(),
                     "the optimizer model has no optimizer node; name an optimizer with "
                     "--optimizer instead");
  return success();
}
} // namespace

std::string trainc::findArtifacts(StringRef folder, ArtifactFiles &out) {
  /// Any prefix before the usual names; several models in a folder need to be told apart.
  std::error_code code;
  SmallVector<std::string> found;
  for (fs::directory_iterator entry(folder, code), end; entry != end && !code;
       entry.increment(code))
    if (path::filename(entry->path()).ends_with("training_model.onnx"))
      found.push_back(entry->path());
  if (code)
    return "cannot read the folder '" + folder.str() + "': " + code.message();
  if (found.size() != 1)
    return "the folder '" + folder.str() + "' has " +
           (found.empty() ? "no training_model.onnx"
                          : "several training models; name one with its --checkpoint");
  out.trainingModel = found[0];
  StringRef prefix = out.trainingModel;
  prefix.consume_back("training_model.onnx");
  // Files of one prefix belong together.
  auto beside = [&](StringRef name) {
    std::string file = (prefix + name).str();
    return fs::exists(file) ? file : std::string();
  };
  // What the user named is taken as it is.
  if (out.optimizerModel.empty())
    out.optimizerModel = beside("optimizer_model.onnx");
  if (out.checkpoint.empty())
    out.checkpoint = beside("checkpoint");
  if (out.checkpoint.empty())
    return "the folder '" + folder.str() + "' has no file 'checkpoint'; name it with --checkpoint";
  return {};
}

OwningOpRef<ModuleOp> trainc::importArtifacts(const ArtifactFiles &files, MLIRContext &context,
                                              ImportedModel &out, ArtifactOptimizer &optimizer) {
  OwningOpRef<ModuleOp> module = importONNX(files.trainingModel, context, out);
  if (!module)
    return {};
  assert(!module->getOps<onnx::GraphOp>().empty() && "an import makes a graph");
  onnx::GraphOp graph = *module->getOps<onnx::GraphOp>().begin();
  Checkpoint checkpoint;
  if (std::string problem = ort_artifacts::readCheckpoint(files.checkpoint, checkpoint);
      !problem.empty()) {
    emitError(graph.getLoc(), problem);
    return {};
  }
  // Gradients first: moments are of what is trained.
  if (failed(Assembly(graph, checkpoint, out).run()))
    return {};
  if (failed(takeMoments(graph, checkpoint, out)))
    return {};
  if (checkpoint.dataFile.empty())
    emitWarning(graph.getLoc(),
                "the checkpoint has names only; training will need --weights or --init");
  // An option of the user overrides it later.
  if (checkpoint.learningRate > 0)
    optimizer.learningRate = checkpoint.learningRate;
  if (files.optimizerModel.empty())
    return module;
  // Only its attributes are of interest.
  ImportedModel unused;
  OwningOpRef<ModuleOp> optimizerModule = importONNX(files.optimizerModel, context, unused);
  if (!optimizerModule ||
      failed(readOptimizer(*optimizerModule->getOps<onnx::GraphOp>().begin(), optimizer)))
    return {};
  return module;
}
