// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the ops of a graph: names become SSA values, nodes are ordered, local functions are
// inlined, subgraphs become regions.

#ifndef TRAINC_LIB_IMPORT_ONNX_GRAPHBUILDER_H
#define TRAINC_LIB_IMPORT_ONNX_GRAPHBUILDER_H

#include "Expansion.h"
#include "LostArguments.h"
#include "dialects/ONNX/ONNXDialect.h"
#include "mlir/IR/Builders.h"
#include "onnx.pb.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <string>
#include <vector>

namespace trainc::detail {

using Nodes = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;
using OpsetImports = google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>;

/// Names visible at one place: those of a graph or of a function body, then its parents'.
struct Scope {
  const Scope *parent = nullptr;
  llvm::StringMap<mlir::Value> values;
  /// Who defined each name, for messages about duplicates.
  llvm::StringMap<std::string> definers;
  /// Types from value_info and outputs.
  llvm::StringMap<mlir::Type> types;
  /// Versions of the imported domains; "" is the default domain.
  const llvm::StringMap<int64_t> *opsets = nullptr;
  /// Inside a function: its attribute parameters that have a value, and the prefix of node names.
  const llvm::StringMap<const ::onnx::AttributeProto *> *attributes = nullptr;
  std::string prefix;
  /// The checkpointed region around it; "": none.
  std::string region;

  mlir::Value find(llvm::StringRef name) const;
};

class GraphBuilder {
public:
  /// `modelName` is the file's name without folders; it names locations.
  GraphBuilder(std::string modelName, mlir::MLIRContext *context);
  /// Reads the model's local functions; fails where two have the same name, or where they are too
  /// much when they are inlined.
  llvm::LogicalResult readFunctions(const ::onnx::ModelProto &model);

  /// Reads the opset imports into `out`; fails on versions outside of the accepted range.
  llvm::LogicalResult readOpsets(const OpsetImports &imports, llvm::StringMap<int64_t> &out);
  /// Reads what PyTorch's exporter notes on nodes.
  void readNotes(const Nodes &nodes) { lost = LostArguments(nodes); }
  /// Reads the types of values and outputs of `graph` into `scope`.
  void readTypes(const ::onnx::GraphProto &graph, Scope &scope);
  /// Defines `name` in `scope`; fails if it exists. `definer`: "input", "initializer", "node 'x'".
  llvm::LogicalResult define(Scope &scope, llvm::StringRef name, mlir::Value value,
                             const llvm::Twine &definer);
  /// Adds `nodes` at the builder's place. `index`: the place in the file, -1 to count.
  llvm::LogicalResult addNodes(const Nodes &nodes, Scope &scope, mlir::OpBuilder &builder,
                               int64_t index = -1);
  /// Emits an error about the model as a whole.
  mlir::InFlightDiagnostic error(const llvm::Twine &message);
  mlir::InFlightDiagnostic warning(const llvm::Twine &message);
  mlir::Location modelLoc() const;

  /// Names of nodes and of the layers that they are in, where the file says so.
  llvm::SmallVector<mlir::NamedAttribute, 0> layers;

private:
  /// A node of the file with the name and opset that messages and locations use.
  /// A node is spoken of by its name, its place in the file, and the opset of its domain where it
  /// stands.
  struct NodeRef {
    const ::onnx::NodeProto &proto;
    std::string name;
    int64_t index;
    int64_t version;
  };
  /// A call of a function: where it stands, and what its parameters are.
  struct Call {
    const Scope &scope;
    llvm::StringMap<const ::onnx::AttributeProto *> attributes;
    llvm::SmallVector<mlir::Value> inputs;
    /// One for each output of the function; null where it is not defined.
    llvm::SmallVector<mlir::Value> outputs;
  };
  mlir::InFlightDiagnostic error(const NodeRef &node, const llvm::Twine &message);
  std::string describe(const NodeRef &node) const;
  bool order(const Nodes &nodes, const Scope &scope, int64_t index, std::vector<int> &out);
  /// `name` itself, or with a number behind it where another node has that name.
  std::string uniqueName(const std::string &name);
  llvm::LogicalResult addNode(const NodeRef &node, Scope &scope, mlir::OpBuilder &builder);
  llvm::LogicalResult inlineCall(const NodeRef &node, const ::onnx::FunctionProto &function,
                                 Scope &scope, mlir::OpBuilder &builder);
  /// Adds the nodes of `function`, whose parameters are `inputs`.
  llvm::LogicalResult inlineBody(const NodeRef &node, const ::onnx::FunctionProto &function,
                                 const Call &call, std::string prefix,
                                 llvm::ArrayRef<mlir::Value> inputs,
                                 llvm::SmallVectorImpl<mlir::Value> &outputs,
                                 mlir::OpBuilder &builder);
  /// Gives the outputs of a call the gradient that another function of the model computes.
  llvm::LogicalResult addGradient(const NodeRef &node, const ::onnx::FunctionProto &function,
                                  llvm::StringRef gradientKey, Call &call,
                                  mlir::OpBuilder &builder);
  /// The local function that a node calls, or null.
  const ::onnx::FunctionProto *functionOf(const NodeRef &node) const;
  llvm::LogicalResult addSubgraph(const NodeRef &node, const ::onnx::GraphProto &graph,
                                  const Scope &parent, mlir::Region &region);
  llvm::LogicalResult convert(const NodeRef &node, const ::onnx::AttributeProto &attribute,
                              mlir::Attribute &out,
                              std::vector<const ::onnx::GraphProto *> &graphs);
  mlir::Value none(mlir::OpBuilder &builder);

  std::string modelName;
  mlir::MLIRContext *context;
  mlir::StringAttr nodesFile;
  Functions functions;
  Expansion expansion;
  llvm::StringSet<> activeCalls;
  LostArguments lost;
  llvm::StringMap<unsigned> usedNames;
  unsigned depth = 0; // of nested calls and subgraphs
  bool inGradient = false;
  /// Of the names and attributes of nodes in functions.
  uint64_t functionBytes = 0;
};

/// Whether a node is the operator that differentiates the graph that it is in. It names tensors of
/// that graph in its attributes: `xs`, `zs` and `y`.
bool isGradient(const ::onnx::NodeProto &node);

/// "ai.onnx" and "" are the same domain.
inline llvm::StringRef normalDomain(llvm::StringRef domain) {
  return domain == "ai.onnx" ? llvm::StringRef() : domain;
}

} // namespace trainc::detail

#endif // TRAINC_LIB_IMPORT_ONNX_GRAPHBUILDER_H
