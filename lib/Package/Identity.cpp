// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A hash over the part of the imported graph that its outputs depend on.

#include "trainc/Package/Identity.h"
#include "format/hash.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace trainc;

namespace {

/// To be raised when the text below changes for a model that has not changed: identities of
/// another version are not compared.
constexpr int kVersion = 3;
/// From this opset of ONNX on a node means the same in all that have its form: before, softmax ran
/// along several axes as one, and Resize placed its samples otherwise.
constexpr int64_t kStableOpset = 13;
/// Integers of an initializer that configure operators (axes, shapes); longer ones are data.
constexpr int64_t kMostElements = 16;

/// Feeds what is printed into the hash.
class HashStream : public raw_ostream {
  /// Nothing is kept: text goes through.
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
    // What exporters say is trained.
    auto list = graph.getMetadataProps().getAs<StringAttr>("trainable");
    hasList = list != nullptr;
    SmallVector<StringRef> lines;
    if (list)
      list.getValue().split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (StringRef line : lines)
      trainable.insert(line.trim());
  }

  std::string run() {
    // Inputs by name, then every op by what it reads.
    Block &body = graph.getBody().front();
    for (auto [i, argument] : llvm::enumerate(body.getArguments()))
      hashes[argument] =
          hashOf([&, i = i](HashStream &out) { text(out << 'i', graph.getInputName(i)); });
    addOps(body);
    uint64_t all = hashOf([&](HashStream &out) {
      // New values of parameters belong to the training, not to the model.
      for (auto [i, output] : llvm::enumerate(body.getTerminator()->getOperands()))
        if (!graph.getResultAttr(i, onnx::kUpdatesAttr)) {
          text(out, graph.getOutputName(i));
          out << hashes.lookup(output) << ' ';
        }
    });
    // Versions are told apart before hashes are.
    return std::to_string(kVersion) + "-" + trainrt::hex64(all);
  }

private:
  static uint64_t hashOf(llvm::function_ref<void(HashStream &)> print) {
    HashStream out;
    print(out);
    return out.hash;
  }

  /// With its length, so that no two lists of texts are the same bytes.
  static void text(raw_ostream &out, StringRef value) { out << value.size() << ':' << value; }

  /// Every value gets the hash of what it is computed by, so that neither the order of nodes
  /// matters, nor what no output needs.
  void addOps(Block &block) {
    // Operands come before their users.
    for (Operation &op : block.without_terminator()) {
      if (auto initializer = dyn_cast<onnx::InitializerOp>(op))
        hashes[initializer] = hashOf([&](HashStream &out) { print(initializer, out); });
      else if (auto node = dyn_cast<onnx::NodeOp>(op))
        addNode(node);
    }
  }

  /// Zero, where the exporter has written the number into the graph.
  static bool isZero(Value value) {
    Attribute known;
    if (auto initializer = value.getDefiningOp<onnx::InitializerOp>())
      known = initializer.getValueAttr();
    else if (auto node = value.getDefiningOp<onnx::NodeOp>();
             node && node.getOpType() == "Constant")
      known = node.getNodeAttributes().get("value");
    auto dense = dyn_cast_or_null<DenseFPElementsAttr>(known);
    return dense && dense.isSplat() && dense.getSplatValue<APFloat>().isZero();
  }
  /// Whether a node's first result is its first input: exporters write some of these, or none.
  static bool passesOn(onnx::NodeOp node) {
    if (!node.getDomain().empty() || node.getInputs().empty())
      return false;
    return node.getOpType() == "Identity" ||
           (node.getOpType() == "Dropout" && node.getInputs().size() > 1 &&
            isZero(node.getInputs()[1]));
  }

  void addNode(onnx::NodeOp node) {
    uint64_t hash = hashOf([&](HashStream &out) { print(node, out); });
    for (auto [i, output] : llvm::enumerate(node.getOutputs()))
      hashes[output] = hashOf([&, i = i](HashStream &out) { out << hash << '.' << i; });
    if (passesOn(node))
      hashes[node.getOutputs().front()] = hashes.lookup(node.getInputs().front());
  }

  void print(onnx::NodeOp node, HashStream &out) {
    text(out, node.getDomain());
    text(out, node.getOpType());
    // The same model, exported anew at a later opset.
    // Stable ones are equal under any opset.
    if (node.getDomain().empty())
      out << (node.getVersion() < kStableOpset ? 'o' : 'n');
    else
      out << node.getVersion();
    // What is left out has the hash 0.
    for (Value input : node.getInputs())
      out << ' ' << hashes.lookup(input);
    for (NamedAttribute entry : node.getNodeAttributes()) {
      text(out, entry.getName());
      print(entry.getValue(), out);
    }
    if (ArrayAttr subgraphs = node.getSubgraphNamesAttr())
      out << subgraphs;
    // Arguments of a body have no names that matter: their depth and place stand for them.
    ++depth;
    for (Region &region : node.getSubgraphs()) {
      for (auto [i, argument] : llvm::enumerate(region.getArguments()))
        hashes[argument] = hashOf([&, i = i](HashStream &out) { out << depth << 'a' << i; });
      addOps(region.front());
      out << '{';
      for (Value result : region.front().getTerminator()->getOperands())
        out << ' ' << hashes.lookup(result);
      out << '}';
    }
    --depth;
  }

  /// Shapes may differ between exports of one model, by padding of vocabularies for example.
  void print(onnx::InitializerOp initializer, HashStream &out) {
    auto type = cast<RankedTensorType>(initializer.getType());
    ElementsAttr value = initializer.getValueAttr();
    // Exporters number constants; what names stand for is parameters.
    if (value && configures(initializer, type)) {
      out << 'c';
      print(value, out);
      return;
    }
    text(out << 'w', initializer.getName());
    out << type.getElementType();
  }

  /// Tensors as their bytes: printing large ones takes long.
  static void print(Attribute value, HashStream &out) {
    auto dense = dyn_cast<DenseElementsAttr>(value);
    if (!dense || isa<DenseStringElementsAttr>(dense)) {
      out << value << ';';
      return;
    }
    // A splat's bytes are those of one element.
    out << dense.getType() << (dense.isSplat() ? 's' : 'd');
    ArrayRef<char> raw = dense.getRawData();
    text(out, StringRef(raw.data(), raw.size()));
  }

  /// Whether the value belongs to the graph, and is no weight that another export of the same
  /// model may begin with otherwise.
  bool configures(onnx::InitializerOp initializer, RankedTensorType type) {
    if (initializer->getParentOp() != graph)
      return true; // of a subgraph: never a parameter
    StringRef name = initializer.getName();
    // Scalars may be learned temperatures, or constants; the exporter's list tells.
    if (isa<FloatType>(type.getElementType()))
      return type.getRank() == 0 && hasList && !trainable.contains(name);
    return type.getNumElements() <= kMostElements && !name.ends_with("num_batches_tracked");
  }

  onnx::GraphOp graph;
  bool hasList = false;
  llvm::StringSet<> trainable;
  llvm::DenseMap<Value, uint64_t> hashes;
  unsigned depth = 0; // of subgraphs
};
} // namespace

std::string trainc::identityOf(onnx::GraphOp graph) { return Identity(graph).run(); }
