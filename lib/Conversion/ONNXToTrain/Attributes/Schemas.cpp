// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names and types of attributes and numbers of inputs, by the operators' schemas. ONNX's own
// checker refuses the same.

#include "Attributes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;

namespace trainc::legalize {

namespace {
/// A line of the table: inputs and attributes from opset `since` on, until the next line of the
/// operator.
struct Schema {
  StringLiteral op;
  int64_t since;
  /// At most; -1: any number.
  int64_t inputs;
  StringLiteral attributes;
};

/// "axis:i!"
struct Attributed {
  StringRef name;
  char kind = 0;
  bool isRequired = false;
};
} // namespace

#define SCHEMA(op, since, inputs, attributes)                                                      \
  {StringLiteral(op), since, inputs, StringLiteral(attributes)},
static constexpr Schema kSchemas[] = {
#include "Schemas.inc"
};
#undef SCHEMA

/// All of an operator, in the order of their opsets.
/// The table is sorted by their names, as it is made so.
static ArrayRef<Schema> schemasOf(StringRef op) {
  auto begin = llvm::partition_point(kSchemas, [&](const Schema &s) { return s.op < op; });
  const Schema *end = begin;
  while (end != std::end(kSchemas) && end->op == op)
    ++end;
  return {begin, end};
}

static SmallVector<Attributed> attributesOf(const Schema &schema) {
  SmallVector<Attributed> result;
  for (StringRef text : llvm::split(schema.attributes, ' ')) {
    auto [name, kind] = text.split(':');
    if (!name.empty())
      result.push_back({name, kind[0], kind.ends_with("!")});
  }
  return result;
}

/// What the importer says of a node by an attribute that no schema has (LostArguments).
static bool isOfImporter(StringRef op, StringRef name) {
  return (op == "SoftmaxCrossEntropyLoss" && name == "label_smoothing") ||
         (op == "Gather" && name == "padding_idx") || (op == "Identity" && name == "detach");
}

static StringRef called(char kind) {
  switch (kind) {
  case 'i':
    return "an integer";
  case 'f':
    return "a float";
  case 's':
    return "a string";
  case 'I':
    return "a list of integers";
  case 'F':
    return "a list of floats";
  case 'S':
    return "a list of strings";
  case 'g':
    return "a graph";
  case 'p':
    return "a type";
  default:
    return "a tensor";
  }
}

/// As the importer makes them of the file's (GraphBuilder::convert).
static bool isOfKind(Attribute value, char kind) {
  switch (kind) {
  case 'i':
    return isa<IntegerAttr>(value);
  case 'f':
    return isa<FloatAttr>(value);
  case 's':
    return isa<StringAttr>(value);
  case 'I':
    return isa<DenseI64ArrayAttr>(value);
  case 'F':
    return isa<DenseF32ArrayAttr>(value);
  case 'S':
    return isa<ArrayAttr>(value) && llvm::all_of(cast<ArrayAttr>(value), llvm::IsaPred<StringAttr>);
  case 'p':
    return isa<TypeAttr>(value);
  default:
    // Sparse ones are refused by the importer.
    return isa<ElementsAttr>(value);
  }
}

/// "; " and what to do about an attribute that this opset's operator does not have.
static std::string wayOut(ArrayRef<Schema> schemas, const Schema &now, StringRef name) {
  // Of a form that the operator once had, or has by now.
  for (const Schema &other : schemas)
    for (const Attributed &attribute : attributesOf(other))
      if (attribute.name == name)
        return ("; " +
                Twine(other.since > now.since ? "opset " + std::to_string(other.since) + " has it"
                                              : "earlier opsets had it") +
                ": write the node as its own opset has it, or use onnx.version_converter")
            .str();
  SmallVector<StringRef> names;
  for (const Attributed &attribute : attributesOf(now)) {
    // A typo, or a plural.
    if (name.size() > 3 && name.edit_distance(attribute.name, true, 2) <= 2)
      return ("; is it meant to be '" + attribute.name + "'?").str();
    names.push_back(attribute.name);
  }
  return names.empty() ? "; it has none: remove it"
                       : "; it has " + llvm::join(names, ", ") + ": rename it, or remove it";
}

/// Those that are not newer than the node's opset; the last one is the node's.
static ArrayRef<Schema> pastOf(ArrayRef<Schema> schemas, onnx::NodeOp node) {
  return schemas.take_while([&](const Schema &s) { return s.since <= int64_t(node.getVersion()); });
}

std::string inputCountProblem(onnx::NodeOp node, StringRef name) {
  ArrayRef<Schema> past = pastOf(schemasOf(name), node);
  int64_t most = past.empty() ? -1 : past.back().inputs;
  int64_t given = node.getInputs().size();
  // Absent ones at the end say nothing.
  while (given > 0 && isa<NoneType>(node.getInputs()[given - 1].getType()))
    --given;
  if (most < 0 || given <= most)
    return {};
  return ("it has " + Twine(given) + " inputs, and its operator at most " + Twine(most) +
          ": remove the others")
      .str();
}

std::string attributeProblem(onnx::NodeOp node, StringRef name) {
  ArrayRef<Schema> schemas = schemasOf(name), past = pastOf(schemas, node);
  SmallVector<Attributed> known;
  if (!past.empty())
    known = attributesOf(past.back());
  for (NamedAttribute given : node.getNodeAttributes()) {
    StringRef attribute = given.getName();
    const auto *found =
        llvm::find_if(known, [&](const Attributed &a) { return a.name == attribute; });
    if (found != known.end() && !isOfKind(given.getValue(), found->kind))
      return ("its attribute '" + attribute + "' is not " + called(found->kind)).str();
    // ONNX leaves names with two underscores to whoever needs one.
    if (found == known.end() && !past.empty() && !isOfImporter(name, attribute) &&
        !attribute.starts_with("__"))
      return ("it has an attribute '" + attribute + "', which its operator does not have" +
              wayOut(schemas, past.back(), attribute))
          .str();
    if (std::string problem = valueProblem(node.getOpType(), attribute, given.getValue());
        !problem.empty())
      return problem;
  }
  // Graphs are the node's regions.
  if (ArrayAttr graphs = past.empty() ? ArrayAttr() : node.getSubgraphNamesAttr())
    for (auto graph : graphs.getAsRange<StringAttr>())
      if (llvm::none_of(known,
                        [&](const Attributed &a) { return a.kind == 'g' && a.name == graph; }))
        return ("it has a graph '" + graph.getValue() + "', which its operator does not have")
            .str();
  // A default of the handler's would not be the file's meaning.
  for (const Attributed &attribute : known)
    if (attribute.isRequired && attribute.kind != 'g' &&
        !node.getNodeAttributes().get(attribute.name))
      return ("it has no attribute '" + attribute.name + "', which its operator needs").str();
  return {};
}

} // namespace trainc::legalize
