// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The import of a file: map it, strip and parse it, check its versions, describe its weights, then
// let GraphBuilder add the nodes. Weight bytes are looked at only where their values are small or
// of a square, which may be a mask.

#include "trainc/Import/Import.h"

#include "Bands.h"
#include "GraphBuilder.h"
#include "LostArguments.h"
#include "PaddingIds.h"
#include "PluginFunctions.h"
#include "ProtoConvert.h"
#include "WeightFiles.h"
#include "WireFormat.h"
#include "dialects/ONNX/ONNXDialect.h"
#include "trainc/Import/LayerHints.h"
#include "trainc/Support/RegularFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <climits>

using namespace mlir;
using llvm::StringMap;
using llvm::Twine;
using ::onnx::GraphProto;
using ::onnx::TensorProto;

namespace trainc {
namespace {
using namespace trainc::detail;

/// Values of at most this many bytes are kept in the IR: of any type, and of integers, which
/// shapes, positions and masks are computed from.
constexpr uint64_t maxInlineBytes = 64;
constexpr uint64_t maxInlineIntegerBytes = 64 * 1024;

class Importer {
public:
  Importer(StringRef path, MLIRContext &context, ImportedModel &out, bool algorithm,
           const plugin::Plugins &plugins)
      : path(path), name(llvm::sys::path::filename(path)), context(context), out(out),
        algorithm(algorithm), plugins(plugins), files(folderOf(path)) {
    out.path = path.str();
    out.folder = folderOf(path);
  }

  OwningOpRef<ModuleOp> run();

private:
  /// Relative names in the file are seen from here.
  static std::string folderOf(StringRef path) {
    StringRef folder = llvm::sys::path::parent_path(path);
    return folder.empty() ? "." : folder.str();
  }
  InFlightDiagnostic error(const Twine &message) { return emitError(modelLoc(), message); }
  Location modelLoc() { return FileLineColLoc::get(StringAttr::get(&context, name), 0, 0); }
  LogicalResult load();
  LogicalResult buildGraph(ModuleOp module);
  /// Inputs and results of the graph that is being built.
  /// Collected, since the operation exists before they are known.
  struct Interface {
    SmallVector<Attribute> argAttrs, resAttrs;
    SmallVector<Value> outputs;
    llvm::StringSet<> outputNames;
  };
  Attribute describe(StringRef valueName, ArrayAttr dims);
  LogicalResult addInputs(const GraphProto &proto, Block &body, Scope &scope, GraphBuilder &graph,
                          Interface &interface);
  LogicalResult addOutput(const ::onnx::ValueInfoProto &output, const Scope &scope,
                          Interface &interface);
  LogicalResult addAlgorithm(OpBuilder &builder, Scope &scope, GraphBuilder &graph,
                             Interface &interface);
  LogicalResult addInitialization(const ::onnx::TrainingInfoProto &info, const Scope &modelScope);
  LogicalResult addInitializer(const TensorProto &tensor, const RawRange &raw, Scope &scope,
                               OpBuilder &builder, GraphBuilder &graph);
  LogicalResult locate(const TensorProto &tensor, const RawRange &raw, const TensorLayout &layout,
                       bool wantBytes, GraphBuilder &graph, onnx::WeightAttr &weight,
                       ArrayRef<char> &bytes);
  LogicalResult checkNames();
  DictionaryAttr dictionaryOf(const StringMap<int64_t> &opsets);
  /// In the order of first use, each once.
  void useFile(StringRef file) {
    if (seenFiles.insert(file).second)
      out.weightFiles.push_back(file.str());
  }

  std::string path, name;
  MLIRContext &context;
  ImportedModel &out;
  bool algorithm;
  const plugin::Plugins &plugins;
  WeightFiles files;
  llvm::StringSet<> seenFiles;
  std::unique_ptr<llvm::MemoryBuffer> file;
  StrippedModel stripped;
  ::onnx::ModelProto model;
};

/// Checks from the outside in: each may take for granted what those before it have found.
LogicalResult Importer::load() {
  // Packages refer to the weights in the file, so a pipe is of no use (and might never end).
  std::string problem;
  file = readRegularFile(path, problem);
  if (!file)
    return error(problem);
  StringRef bytes = file->getBuffer();
  if (bytes.empty())
    return error("the file is empty");
  if (bytes.starts_with("version https://git-lfs"))
    return error("this is a Git LFS pointer, not the model; fetch it with `git lfs pull`");
  if (bytes.starts_with("PK\x03\x04"))
    return error("this is a zip archive, not an ONNX model; a package is trained by trainc-run");
  // Without the bytes of weights, which stay in the mapped file.
  if (std::string problem = stripModel(bytes, stripped); !problem.empty())
    return error("this is not an ONNX model: " + problem);
  if (!stripped.hasGraph)
    return error("this is not an ONNX model: it has no graph");
  // Protobuf counts in int.
  if (stripped.bytes.size() > size_t(INT_MAX))
    return error("the model without its weights is larger than 2 GiB");
  if (!model.ParseFromArray(stripped.bytes.data(), int(stripped.bytes.size())))
    return error("this is not an ONNX model: a message in it is damaged or nested too deeply");
  // Large: given back before the graph is built.
  stripped.bytes = std::string();
  assert(size_t(model.graph().initializer_size()) == stripped.initializers.size() &&
         "each was written again when it was stripped");
  if (model.ir_version() > 13)
    return error("IR version " + Twine(model.ir_version()) +
                 " is newer than 13, the newest known; "
                 "export with an older `onnx`");
  if (model.graph().sparse_initializer_size())
    return error("sparse initializers are not supported; store '" +
                 model.graph().sparse_initializer(0).values().name() + "' densely");
  if (model.graph().quantization_annotation_size())
    return error("quantization annotations are not supported; export the model unquantized");
  if (!model.graph().node_size())
    return error("the graph is empty: it has no nodes");
  if (!model.graph().output_size())
    return error("the graph has no outputs");
  return checkNames();
}

/// Names that a package tells, in JSON, have to be UTF-8, as those of ONNX are.
LogicalResult Importer::checkNames() {
  auto check = [&](StringRef name, const Twine &what) -> LogicalResult {
    return llvm::json::isUTF8(name)
               ? success()
               : error("the name '" + name + "' of " + what + " is not UTF-8; rename it");
  };
  auto checkValues = [&](const auto &values, StringRef what) -> LogicalResult {
    for (const auto &value : values) {
      if (failed(check(value.name(), what)))
        return failure();
      // Names of sizes are told, too.
      for (const auto &dim : value.type().tensor_type().shape().dim())
        if (failed(check(dim.dim_param(), "a size of '" + value.name() + "'")))
          return failure();
    }
    return success();
  };
  // Names of nodes stay in the compiler.
  for (const TensorProto &tensor : model.graph().initializer())
    if (failed(check(tensor.name(), "an initializer")))
      return failure();
  if (failed(checkValues(model.graph().input(), "an input")))
    return failure();
  return checkValues(model.graph().output(), "an output");
}

/// Finds where the bytes of an initializer are, checks their number, and if `wantBytes` reads them.
LogicalResult Importer::locate(const TensorProto &tensor, const RawRange &raw,
                               const TensorLayout &layout, bool wantBytes, GraphBuilder &graph,
                               onnx::WeightAttr &weight, ArrayRef<char> &bytes) {
  auto fail = [&](const Twine &why) {
    return error("initializer '" + tensor.name() + "': " + why);
  };
  // In a file beside the model.
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    StringRef location;
    uint64_t offset = 0, length = layout.bytes;
    // Unknown keys, such as checksums, are passed over.
    for (const auto &entry : tensor.external_data()) {
      StringRef value = entry.value();
      if (entry.key() == "location")
        location = value;
      else if (entry.key() == "offset" && value.getAsInteger(10, offset))
        return fail("the offset '" + value + "' of its external data is not a number");
      else if (entry.key() == "length" && value.getAsInteger(10, length))
        return fail("the length '" + value + "' of its external data is not a number");
    }
    // A length that is left out is what the shape needs.
    if (length != layout.bytes)
      return fail("its external data has " + Twine(length) + " bytes, its shape needs " +
                  Twine(layout.bytes));
    // Each file is looked at once.
    WeightFile &external = files.find(location);
    if (!external.error.empty())
      return fail(external.error);
    useFile(location);
    if (external.absent) {
      // Once a file, not once a weight.
      if (!external.warned) {
        graph.warning("the weights file '" + location +
                      "' does not exist; training will need "
                      "--weights or --init");
        out.missingFiles.push_back(location.str());
        external.warned = true;
      }
    } else if (offset > external.size || length > external.size - offset) {
      return fail("bytes " + Twine(offset) + " to " + Twine(offset + length) + " of '" + location +
                  "' are outside of the file, which has " + Twine(external.size));
    } else if (wantBytes) {
      StringRef read = WeightFiles::read(external, offset, length);
      if (!external.error.empty())
        return fail(external.error);
      bytes = ArrayRef<char>(read.data(), read.size());
    }
    weight = onnx::WeightAttr::get(&context, location, offset, length, -1, external.absent);
    return success();
  }
  // In the model's own file, at an offset: never copied.
  if (raw.present && !hasTypedData(tensor)) {
    if (raw.length != layout.bytes)
      return fail("raw_data holds " + Twine(raw.length) + " bytes, its shape needs " +
                  Twine(layout.bytes));
    useFile(name);
    weight = onnx::WeightAttr::get(&context, name, raw.offset, raw.length, -1, false);
    bytes = ArrayRef<char>(file->getBufferStart() + raw.offset, raw.length);
    return success();
  }
  // In fields of numbers: only such bytes are kept in memory.
  std::vector<char> converted;
  if (tensor.has_raw_data() && !hasTypedData(tensor)) { // of a graph that was parsed whole
    if (tensor.raw_data().size() != layout.bytes)
      return fail("raw_data holds " + Twine(tensor.raw_data().size()) + " bytes, its shape needs " +
                  Twine(layout.bytes));
    converted.assign(tensor.raw_data().begin(), tensor.raw_data().end());
  } else if (std::string problem = typedBytes(tensor, layout, converted); !problem.empty())
    return fail(problem);
  assert(converted.size() == layout.bytes && "checked by both ways");
  out.blobs.push_back(std::move(converted));
  weight = onnx::WeightAttr::get(&context, "", 0, layout.bytes, out.blobs.size() - 1, false);
  bytes = out.blobs.back();
  return success();
}

LogicalResult Importer::addInitializer(const TensorProto &tensor, const RawRange &raw, Scope &scope,
                                       OpBuilder &builder, GraphBuilder &graph) {
  if (tensor.name().empty())
    return error("an initializer has no name");
  TensorLayout layout;
  if (std::string problem = tensorLayout(tensor, &context, layout); !problem.empty())
    return error("initializer '" + tensor.name() + "': " + problem);
  bool integer = isa<IntegerType>(layout.type.getElementType());
  // What shapes and constants are computed from.
  bool wantValue = layout.bytes <= (integer ? maxInlineIntegerBytes : maxInlineBytes);
  // What is larger may be a formula.
  bool wantBand = !wantValue && mayBeBand(layout);
  onnx::WeightAttr weight;
  ArrayRef<char> bytes;
  if (failed(locate(tensor, raw, layout, wantValue || wantBand, graph, weight, bytes)))
    return failure();
  ElementsAttr value;
  // Values may be there or not: the weight is in any case.
  if (wantValue && !weight.getAbsent())
    value = denseFromBytes(layout, bytes);
  Location loc = NameLoc::get(builder.getStringAttr(tensor.name()));
  auto op = onnx::InitializerOp::create(builder, loc, layout.type,
                                        builder.getStringAttr(tensor.name()), weight, value);
  if (wantBand && !weight.getAbsent())
    if (DictionaryAttr band = findBand(layout, bytes))
      op->setAttr("onnx.band", band);
  return graph.define(scope, tensor.name(), op, "an initializer");
}

/// Protobuf's order, which is the map's, does not matter in a dictionary.
DictionaryAttr Importer::dictionaryOf(const StringMap<int64_t> &opsets) {
  NamedAttrList list;
  Builder b(&context);
  for (const auto &entry : opsets)
    list.set(entry.first().empty() ? "ai.onnx" : entry.first(), b.getI64IntegerAttr(entry.second));
  return list.getDictionary(&context);
}

/// What PyTorch's exporter calls the parameters, in its notes on nodes, that have no initializer.
/// "p_fc_weight: PARAMETER target='fc.weight'", a line each.
static llvm::StringSet<> lostParameters(const GraphProto &graph) {
  llvm::StringSet<> initializers, lost;
  for (const auto &tensor : graph.initializer())
    initializers.insert(tensor.name());
  for (const auto &entry : graph.metadata_props()) {
    if (entry.key() != "pkg.torch.export.ExportedProgram.graph_signature")
      continue;
    SmallVector<StringRef> lines;
    StringRef(entry.value()).split(lines, '\n');
    for (StringRef line : lines) {
      auto [placeholder, rest] = line.trim().split(": PARAMETER target='");
      // Exported initializers keep the target's name.
      if (!rest.empty() && !initializers.contains(rest.split('\'').first))
        lost.insert(placeholder);
    }
  }
  return lost;
}

/// The first node that an optimizer of PyTorch's exporter says it rewrote, or that was made for a
/// call on a parameter which has no initializer any more; "" without any. Tied parameters have one
/// name in all calls.
static std::string rewrittenNode(const GraphProto &graph) {
  llvm::StringSet<> lost = lostParameters(graph);
  // Evidence of any of both kinds.
  for (const auto &node : graph.node())
    for (const auto &entry : node.metadata_props())
      if (StringRef(entry.key()).starts_with("pkg.onnxscript.rewriter.") ||
          (entry.key() == "pkg.torch.onnx.fx_node" && namesAny(entry.value(), lost)))
        return node.name().empty() ? node.op_type() : node.name();
  return {};
}

/// Inputs, initializers, nodes, outputs, and then the training algorithm on top.
LogicalResult Importer::buildGraph(ModuleOp module) {
  const GraphProto &proto = model.graph();
  GraphBuilder graph(name, &context);
  StringMap<int64_t> opsets;
  if (failed(graph.readOpsets(model.opset_import(), opsets)) || failed(graph.readFunctions(model)))
    return failure();
  // Only if the caller wants it and the file has it.
  algorithm &= model.training_info_size() > 0;
  if (model.training_info_size() && !algorithm)
    graph.warning("the model's own training algorithm (training_info) is left out");

  OpBuilder builder(&context);
  builder.setInsertionPointToEnd(module.getBody());
  NamedAttrList metadata;
  // The model's own metadata win over the graph's.
  for (const auto &entry : model.metadata_props())
    if (!entry.key().empty())
      metadata.set(entry.key(), builder.getStringAttr(entry.value()));
  // PyTorch's exporter keeps the signature of its model there.
  for (const auto &entry : proto.metadata_props())
    if (!entry.key().empty() && !metadata.get(entry.key()))
      metadata.set(entry.key(), builder.getStringAttr(entry.value()));
  // The type is set in the end, when inputs and outputs are known.
  auto op = onnx::GraphOp::create(
      builder, graph.modelLoc(), proto.name().empty() ? "main" : proto.name(),
      builder.getFunctionType({}, {}), ArrayAttr(), ArrayAttr(), name, dictionaryOf(opsets),
      metadata.getDictionary(&context), model.ir_version());
  Block *body = new Block();
  op.getBody().push_back(body);
  builder.setInsertionPointToEnd(body);

  Scope scope;
  scope.opsets = &opsets;
  graph.readTypes(proto, scope);
  // Before the nodes, which they are about.
  graph.readNotes(proto.node());
  Interface interface;
  if (failed(addInputs(proto, *body, scope, graph, interface)))
    return failure();
  for (auto [tensor, raw] : llvm::zip(proto.initializer(), stripped.initializers))
    if (failed(addInitializer(tensor, raw, scope, builder, graph)))
      return failure();
  if (failed(graph.addNodes(proto.node(), scope, builder)))
    return failure();
  // For a warning about what it may have merged.
  if (std::string node = rewrittenNode(proto); !node.empty())
    op->setAttr("onnx.rewritten", builder.getStringAttr(node));
  if (!graph.layers.empty())
    module->setAttr(kLayerHintsAttr, builder.getDictionaryAttr(graph.layers));
  out.paddingIds = findPaddingIds(proto);
  for (const auto &output : proto.output())
    if (failed(addOutput(output, scope, interface)))
      return failure();
  if (algorithm && failed(addAlgorithm(builder, scope, graph, interface)))
    return failure();
  onnx::ReturnOp::create(builder, graph.modelLoc(), interface.outputs);
  assert(interface.argAttrs.size() == body->getNumArguments() && "each input is described");
  op.setFunctionType(
      builder.getFunctionType(body->getArgumentTypes(), ValueRange(interface.outputs).getTypes()));
  op.setArgAttrsAttr(builder.getArrayAttr(interface.argAttrs));
  op.setResAttrsAttr(builder.getArrayAttr(interface.resAttrs));
  return success();
}

/// Names as attributes of the function, since types have no room for them.
Attribute Importer::describe(StringRef valueName, ArrayAttr dims) {
  Builder builder(&context);
  NamedAttrList list;
  list.set("onnx.name", builder.getStringAttr(valueName));
  if (dims)
    list.set("onnx.dims", dims);
  return list.getDictionary(&context);
}

/// Whether an input that repeats an initializer says nothing else of it.
static bool agrees(const ::onnx::TypeProto &declared, const TensorProto &tensor) {
  // It may say nothing at all.
  if (!declared.has_tensor_type())
    return declared.value_case() == ::onnx::TypeProto::VALUE_NOT_SET;
  const auto &type = declared.tensor_type();
  if (type.elem_type() != 0 && type.elem_type() != tensor.data_type())
    return false;
  if (!type.has_shape())
    return true;
  if (type.shape().dim_size() != tensor.dims_size())
    return false;
  // Symbolic sizes fit any number.
  for (int i = 0; i < tensor.dims_size(); ++i)
    if (type.shape().dim(i).has_dim_value() && type.shape().dim(i).dim_value() != tensor.dims(i))
      return false;
  return true;
}

LogicalResult Importer::addInputs(const GraphProto &proto, Block &body, Scope &scope,
                                  GraphBuilder &graph, Interface &interface) {
  // Old files list initializers among the inputs, as defaults: the initializer wins.
  llvm::StringMap<const TensorProto *> initialized;
  for (const TensorProto &tensor : proto.initializer())
    initialized[tensor.name()] = &tensor;
  for (const auto &input : proto.input()) {
    // Silently left out if they agree: it is an initializer.
    if (const TensorProto *tensor = initialized.lookup(input.name())) {
      if (!agrees(input.type(), *tensor))
        return error("the input '" + input.name() +
                     "' is an initializer too, of another type or shape; remove one of the two, or "
                     "export the model again");
      continue;
    }
    if (input.name().empty())
      return error("an input has no name");
    ArrayAttr dims;
    Type type = convertType(input.type(), &context, dims);
    Value argument = body.addArgument(type, NameLoc::get(StringAttr::get(&context, input.name())));
    interface.argAttrs.push_back(describe(input.name(), dims));
    if (failed(graph.define(scope, input.name(), argument, "an input")))
      return failure();
  }
  return success();
}

LogicalResult Importer::addOutput(const ::onnx::ValueInfoProto &output, const Scope &scope,
                                  Interface &interface) {
  // Also values from outside of nodes: an output may be an input.
  Value value = scope.find(output.name());
  if (!value)
    return error("the output '" + output.name() + "' is defined nowhere");
  if (!interface.outputNames.insert(output.name()).second)
    return error("the graph has the output '" + output.name() + "' twice");
  // Names of sizes only; the type is that of the value.
  ArrayAttr dims;
  convertType(output.type(), &context, dims);
  interface.outputs.push_back(value);
  interface.resAttrs.push_back(describe(output.name(), dims));
  return success();
}

/// The algorithm's graph continues the model's. An output that is bound to an initializer becomes
/// a result with `onnx.updates`; what a Gradient node differentiates becomes an output.
LogicalResult Importer::addAlgorithm(OpBuilder &builder, Scope &scope, GraphBuilder &graph,
                                     Interface &interface) {
  assert(model.training_info_size() > 0 && "asked by the caller");
  if (model.training_info_size() > 1)
    return error("the model has " + Twine(model.training_info_size()) +
                 " training algorithms (training_info), only one is supported; --optimizer NAME "
                 "trains it without them");
  const ::onnx::TrainingInfoProto &info = model.training_info(0);
  if (!info.update_binding_size())
    return error("the model's training_info updates no initializer (update_binding is empty); "
                 "--optimizer NAME leaves it out");
  const GraphProto &proto = info.algorithm();
  // Names of the model's graph are known here.
  graph.readTypes(proto, scope);
  if (failed(addInputs(proto, *builder.getInsertionBlock(), scope, graph, interface)))
    return failure();
  for (const TensorProto &tensor : proto.initializer())
    if (failed(addInitializer(tensor, RawRange(), scope, builder, graph)))
      return failure();
  if (failed(graph.addNodes(proto.node(), scope, builder)))
    return failure();
  // Bound values become new values of initializers, others are results.
  llvm::StringSet<> bound, updated, results;
  for (const auto &output : model.graph().output())
    results.insert(output.name());
  for (const auto &output : proto.output())
    results.insert(output.name());
  for (const auto &binding : info.update_binding())
    bound.insert(binding.value());
  for (const auto &output : proto.output())
    if (!bound.contains(output.name()) && failed(addOutput(output, scope, interface)))
      return failure();
  // So that what is differentiated is computed, even if the algorithm shows it nowhere.
  for (const ::onnx::NodeProto &node : proto.node())
    for (const auto &attribute : node.attribute())
      if (isGradient(node) && attribute.name() == "y" &&
          interface.outputNames.insert(attribute.s()).second) {
        interface.outputs.push_back(scope.find(attribute.s()));
        interface.resAttrs.push_back(describe(attribute.s(), nullptr));
      }
  // Every binding, by names of both graphs.
  for (const auto &binding : info.update_binding()) {
    Value initializer = scope.find(binding.key()), value = scope.find(binding.value());
    if (!initializer || !initializer.getDefiningOp<onnx::InitializerOp>())
      return error("training_info updates '" + binding.key() + "', which is no initializer");
    if (!updated.insert(binding.key()).second)
      return error("training_info updates '" + binding.key() + "' twice");
    if (!value || !results.contains(binding.value()))
      return error("training_info updates '" + binding.key() + "' with '" + binding.value() +
                   "', which is no output");
    NamedAttrList list(cast<DictionaryAttr>(describe(binding.value(), nullptr)));
    list.set(onnx::kUpdatesAttr, builder.getStringAttr(binding.key()));
    interface.outputs.push_back(value);
    interface.resAttrs.push_back(list.getDictionary(&context));
  }
  return addInitialization(info, scope);
}

/// The graph that computes initial values stands alone: it reads no input and nothing of the
/// model's graph, whose initializers are in `model`.
LogicalResult Importer::addInitialization(const ::onnx::TrainingInfoProto &info,
                                          const Scope &modelScope) {
  if (!info.initialization_binding_size())
    return success();
  const GraphProto &proto = info.initialization();
  if (proto.input_size())
    return error("the initialization of the model's training_info has an input '" +
                 proto.input(0).name() + "'; it runs once, before there is any data");
  // A builder of its own: names of this graph are no names of the model's.
  GraphBuilder graph(name, &context);
  if (failed(graph.readFunctions(model)))
    return failure();
  out.initialization = ModuleOp::create(modelLoc());
  OpBuilder builder(&context);
  builder.setInsertionPointToEnd(out.initialization->getBody());
  auto op = onnx::GraphOp::create(builder, graph.modelLoc(), "initialization",
                                  builder.getFunctionType({}, {}), ArrayAttr(), ArrayAttr(), name,
                                  dictionaryOf(*modelScope.opsets), builder.getDictionaryAttr({}),
                                  model.ir_version());
  Block *body = new Block();
  op.getBody().push_back(body);
  builder.setInsertionPointToEnd(body);
  // No parent: nothing of the model is seen.
  Scope scope;
  scope.opsets = modelScope.opsets;
  graph.readTypes(proto, scope);
  for (const TensorProto &tensor : proto.initializer())
    if (failed(addInitializer(tensor, RawRange(), scope, builder, graph)))
      return failure();
  if (failed(graph.addNodes(proto.node(), scope, builder)))
    return failure();
  Interface interface;
  llvm::StringSet<> initialized;
  for (const auto &binding : info.initialization_binding()) {
    Value initializer = modelScope.find(binding.key());
    if (!initializer || !initializer.getDefiningOp<onnx::InitializerOp>())
      return error("training_info initializes '" + binding.key() + "', which is no initializer");
    if (!initialized.insert(binding.key()).second)
      return error("training_info initializes '" + binding.key() + "' twice");
    // Several initializers may have one output.
    auto output = llvm::find_if(
        proto.output(), [&](const auto &candidate) { return candidate.name() == binding.value(); });
    if (output == proto.output().end())
      return error("training_info initializes '" + binding.key() + "' with '" + binding.value() +
                   "', which is no output of its initialization");
    if (!interface.outputNames.contains(binding.value()) &&
        failed(addOutput(*output, scope, interface)))
      return failure();
    out.initialValues.emplace_back(binding.key(), binding.value());
  }
  onnx::ReturnOp::create(builder, graph.modelLoc(), interface.outputs);
  op.setFunctionType(builder.getFunctionType({}, ValueRange(interface.outputs).getTypes()));
  op.setArgAttrsAttr(builder.getArrayAttr({}));
  op.setResAttrsAttr(builder.getArrayAttr(interface.resAttrs));
  return success();
}

OwningOpRef<ModuleOp> Importer::run() {
  context.loadDialect<onnx::ONNXDialect>();
  if (failed(load()))
    return {};
  if (std::string problem = addPluginFunctions(plugins, model); !problem.empty())
    return error(problem), nullptr;
  // Each step has reported what went wrong.
  OwningOpRef<ModuleOp> module = ModuleOp::create(modelLoc());
  if (failed(buildGraph(*module)))
    return {};
  return module;
}

} // namespace

OwningOpRef<ModuleOp> importONNX(StringRef path, MLIRContext &context, ImportedModel &out,
                                 bool algorithm, const plugin::Plugins &plugins) {
  out = ImportedModel();
  return Importer(path, context, out, algorithm, plugins).run();
}

} // namespace trainc
