// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A hash over the part of the imported graph that its outputs depend on.

#include "lib/Package/Identity.h"
#include "io/hash.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace trainc;

namespace {

/// To be raised when the text below changes for a model that has not changed: identities of
/// another version are not compared.
constexpr int kVersion = 1;
/// Integers of an initializer that configure operators (axes, shapes); longer ones are data.
constexpr int64_t kMostElements = 16;

/// Feeds what is printed into the hash.
class HashStream : public raw_ostream {
public:
  HashStream() { SetUnbuffered(); }
  uint64_t hash = trainrt::fnvBasis;

private:
  void write_impl(const char *data, size_t size) override {
    hash = trainrt::fnv1a64(data, size, hash);
    position += size;
  }
  uint64_t current_pos() const override { return position; }
  uint64_t position = 0;
};

class Identity {
public:
  explicit Identity(onnx::GraphOp graph) : graph(graph) {
    auto list = graph.getMetadataProps().getAs<StringAttr>("trainable");
    hasList = list != nullptr;
    SmallVector<StringRef> lines;
    if (list)
      list.getValue().split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (StringRef line : lines)
      trainable.insert(line.trim());
  }

  std::string run() {
    Block &body = graph.getBody().front();
    Operation *end = body.getTerminator();
    SmallVector<unsigned> outputs;
    for (unsigned i = 0; i < end->getNumOperands(); ++i)
      if (!graph.getResultAttr(i, onnx::kUpdatesAttr))
        outputs.push_back(i);
    for (unsigned i : outputs)
      need(end->getOperand(i));
    for (auto [i, argument] : llvm::enumerate(body.getArguments()))
      names[argument] = graph.getInputName(i);
    for (Operation &op : body.without_terminator())
      if (needed.contains(&op))
        add(op);
    for (unsigned i : outputs) {
      text(graph.getOutputName(i));
      use(end->getOperand(i));
    }
    return std::to_string(kVersion) + "-" + trainrt::hex64(out.hash);
  }

private:
  /// Marks the ops of the graph's own block that `value` depends on.
  void need(Value value) {
    SmallVector<Value> waiting{value};
    Block *body = &graph.getBody().front();
    while (!waiting.empty()) {
      Operation *op = waiting.pop_back_val().getDefiningOp();
      op = op ? body->findAncestorOpInBlock(*op) : nullptr;
      if (op && needed.insert(op).second)
        op->walk([&](Operation *inner) { llvm::append_range(waiting, inner->getOperands()); });
    }
  }

  /// With its length, so that no two lists of texts are the same bytes.
  void text(StringRef value) { out << value.size() << ':' << value; }

  /// Nodes that follow each other in another order are the same: uses say what is used.
  void use(Value value) {
    if (auto initializer = value.getDefiningOp<onnx::InitializerOp>())
      return addInitializer(initializer);
    if (value.getDefiningOp<onnx::NoneOp>())
      return text("none");
    if (auto name = names.find(value); name != names.end()) {
      out << 'i';
      return text(name->second);
    }
    out << 'v' << numbers.lookup(value) << ' ';
  }

  void addInitializer(onnx::InitializerOp initializer) {
    auto type = cast<RankedTensorType>(initializer.getType());
    out << 'w';
    text(initializer.getName());
    out << type.getElementType();
    if (ElementsAttr value = initializer.getValueAttr(); value && configures(initializer, type))
      attribute(value);
  }

  /// Whether the value belongs to the graph, and is no weight that another export of the same
  /// model may begin with otherwise.
  bool configures(onnx::InitializerOp initializer, RankedTensorType type) {
    if (initializer->getParentOp() != graph)
      return true; // of a subgraph: never a parameter
    StringRef name = initializer.getName();
    if (isa<FloatType>(type.getElementType()))
      return type.getRank() == 0 && hasList && !trainable.contains(name);
    return type.getNumElements() <= kMostElements && !name.ends_with("num_batches_tracked");
  }

  void attribute(Attribute value) {
    // Printing would elide nothing, but write a float of a large tensor at a time.
    if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
      out << dense.getType() << (dense.isSplat() ? 's' : 'd');
      if (ArrayRef<char> raw = dense.getRawData();
          !isa<DenseStringElementsAttr>(dense) && !raw.empty())
        text(StringRef(raw.data(), raw.size()));
      else
        out << value;
      return;
    }
    out << value << ';';
  }

  void add(Operation &op) {
    auto node = dyn_cast<onnx::NodeOp>(op);
    if (!node)
      return; // named or left out where it is used
    text(node.getDomain());
    text(node.getOpType());
    out << node.getVersion() << '(';
    for (Value input : node.getInputs())
      use(input);
    out << ')';
    for (NamedAttribute entry : node.getNodeAttributes()) {
      text(entry.getName());
      attribute(entry.getValue());
    }
    if (ArrayAttr subgraphs = node.getSubgraphNamesAttr())
      out << subgraphs;
    for (Region &region : node.getSubgraphs()) {
      out << '{';
      for (BlockArgument argument : region.getArguments())
        numbers[argument] = ++count;
      for (Operation &inner : region.front().without_terminator())
        add(inner);
      for (Value result : region.front().getTerminator()->getOperands())
        use(result);
      out << '}';
    }
    for (Value output : node.getOutputs())
      numbers[output] = ++count;
    out << node.getNumResults() << '\n';
  }

  onnx::GraphOp graph;
  bool hasList = false;
  llvm::StringSet<> trainable;
  HashStream out;
  llvm::DenseSet<Operation *> needed;
  llvm::DenseMap<Value, StringRef> names;
  llvm::DenseMap<Value, uint64_t> numbers;
  uint64_t count = 0;
};
} // namespace

std::string trainc::identityOf(onnx::GraphOp graph) { return Identity(graph).run(); }
