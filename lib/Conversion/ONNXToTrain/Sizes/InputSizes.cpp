// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names first, then numbers: which names are sizes of their own decides what the others are made
// of.

#include "lib/Conversion/ONNXToTrain/Sizes/InputSizes.h"

#include "lib/Conversion/ONNXToTrain/Sizes/LinearSize.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeNames.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::legalize;

namespace {

class Declaration {
public:
  Declaration(onnx::GraphOp graph, ArrayRef<DimBound> given, const LearnedSizes &learned,
              Bounds &bounds)
      : graph(graph), context(graph.getContext()), given(given), learned(learned), bounds(bounds) {}

  std::string run(SmallVectorImpl<SmallVector<DimAttr>> &sizes) {
    findAxes(sizes);
    findTold();
    if (std::string problem = fixSizes(); !problem.empty())
      return problem;
    for (const Axis &axis : axes)
      sizes[axis.input].push_back(sizeOf(axis));
    std::string problem = narrow();
    return problem.empty() ? checkNames() : problem;
  }

private:
  struct Axis {
    unsigned input;
    int64_t axis;
    /// As the file has it, else after the input and the axis's number.
    std::string name;
    /// Null: a size of its own.
    DimAttr said;
  };

  /// The last `--dim` of a name counts.
  const DimBound *boundOf(StringRef name) const {
    const DimBound *found = nullptr;
    for (const DimBound &bound : given)
      if (bound.name == name)
        found = &bound;
    return found;
  }
  std::optional<int64_t> fixedSize(StringRef name) const {
    if (auto known = solved.find(name); known != solved.end())
      return known->second;
    const DimBound *bound = boundOf(name);
    return bound && bound->min == bound->max ? bound->max : std::nullopt;
  }

  /// What an earlier run has learned of axes with that name; null: nothing, or --dim fixes them.
  DimAttr formOf(StringRef name) const {
    auto form = learned.forms.find(name.str());
    if (form == learned.forms.end())
      return {};
    return DimAttr::constant(context, form->second.factor) *
               DimAttr::symbol(context, learned.symbolOf(name)) +
           DimAttr::constant(context, form->second.offset);
  }

  /// Constant sizes are set at once.
  void findAxes(SmallVectorImpl<SmallVector<DimAttr>> &sizes) {
    sizes.resize(graph.getBody().getNumArguments());
    for (BlockArgument argument : graph.getBody().getArguments()) {
      const unsigned input = argument.getArgNumber();
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type)
        continue;
      SmallVector<StringRef> names = graph.getInputDims(input);
      for (auto [axis, size] : llvm::enumerate(type.getShape())) {
        if (!ShapedType::isDynamic(size)) {
          axes.push_back({input, int64_t(axis), "", DimAttr::constant(context, size)});
          continue;
        }
        std::string name = names[axis].empty()
                               ? (graph.getInputName(input) + "_dim" + Twine(axis)).str()
                               : names[axis].str();
        // A plain name is no expression, and an axis without a name has none.
        DimAttr said = parseSizeName(context, names[axis]);
        if (said && said.getSymbol() == StringRef(name))
          said = {};
        said = said ? said.substitute([&](StringRef part) { return formOf(part); }) : formOf(name);
        axes.push_back({input, int64_t(axis), std::move(name), said});
      }
    }
  }

  /// Afterwards what an axis is said to be is made of names that are told.
  void findTold() {
    // Names that axes have by themselves count wherever these axes stand: also behind the ones that
    // are made of them.
    for (const Axis &axis : axes)
      if (!axis.said)
        told.insert(axis.name);
    auto isTold = [&](StringRef name) { return told.contains(name) || fixedSize(name); };
    for (const Axis &axis : axes) {
      // The first one in the order of the inputs tells it; the others have to agree at run time.
      std::optional<LinearSize> linear = axis.said ? asLinear(axis.said) : std::nullopt;
      if (linear && linear->factor > 0 && axis.axis > 0 && !isTold(linear->symbol)) {
        told.insert(linear->symbol);
        tellers[linear->symbol] = &axis;
      }
    }
    // One unknown name makes a symbol of all of it, as it was before: no part of it is declared.
    for (Axis &axis : axes) {
      bool isKnown = true;
      if (axis.said)
        axis.said.forEachSymbol([&](StringRef name) { isKnown &= isTold(name); });
      if (!isKnown)
        axis.said = {};
    }
  }

  /// `--dim 2*w=32` says how large w is.
  std::string fixSizes() {
    for (const Axis &axis : axes) {
      const DimBound *bound = axis.said ? boundOf(axis.name) : nullptr;
      if (!bound)
        continue;
      std::optional<LinearSize> linear = asLinear(axis.said);
      if (!linear || linear->factor < 1)
        return "--dim: '" + axis.name + "' is made of other sizes; give these";
      // A range is narrowed later, when all symbols are known.
      if (bound->min != bound->max)
        continue;
      // Where the division leaves a rest the two differ.
      std::optional<int64_t> value = linear->highest(*bound->max);
      if (!value || *value < 0 || value != linear->lowest(bound->min))
        return "--dim: '" + axis.name + "' is not " + std::to_string(bound->min) +
               " for any whole '" + linear->symbol.str() + "'";
      solved[linear->symbol] = *value;
    }
    return {};
  }

  /// Declares its symbols.
  DimAttr sizeOf(const Axis &axis) {
    if (!axis.said)
      return symbol(axis.name, axis);
    return axis.said.substitute([&](StringRef name) -> DimAttr {
      auto teller = tellers.find(name);
      if (teller != tellers.end())
        return symbol(name, *teller->second);
      // An axis of that name declares it, in its place.
      std::optional<int64_t> fixed = fixedSize(name);
      return fixed ? DimAttr::constant(context, *fixed) : DimAttr();
    });
  }

  DimAttr symbol(StringRef name, const Axis &from) {
    if (std::optional<int64_t> fixed = fixedSize(name))
      return DimAttr::constant(context, *fixed);
    // The first axis of that name decides where the runtime reads it.
    auto [it, added] = bounds.symbols.insert({StringAttr::get(context, name), SymbolInfo()});
    if (!added)
      return DimAttr::symbol(context, name);
    SymbolInfo &info = it->second;
    info.input = graph.getInputName(from.input);
    info.axis = from.axis;
    // Sizes of inputs are at least 1; what only makes one may be less.
    info.min = from.said ? 0 : 1;
    if (const DimBound *bound = boundOf(name)) {
      info.min = std::max(info.min, bound->min);
      info.max = bound->max;
    }
    // What an earlier run has learned from tables and windows.
    if (auto known = learned.bounds.find(name); known != learned.bounds.end()) {
      info.min = std::max(info.min, known->second.min);
      if (known->second.max)
        limit(info, *known->second.max);
    }
    return DimAttr::symbol(context, name);
  }
  static void limit(SymbolInfo &info, int64_t most) {
    info.max = std::min(info.max.value_or(most), most);
  }

  /// A multiple of a size bounds it: the axis is not empty, and `--dim` may say more.
  std::string narrow() {
    for (const Axis &axis : axes) {
      if (axis.name.empty()) // a constant of the file
        continue;
      DimBound range = boundOf(axis.name) ? *boundOf(axis.name) : DimBound();
      // All symbols are declared by now.
      DimAttr size = sizeOf(axis);
      const std::optional<int64_t> known = size.getConstant();
      std::optional<LinearSize> linear = asLinear(size);
      bool isPossible = !known || (*known >= range.min && *known <= range.max.value_or(*known));
      // Of what is not linear only the runtime can tell.
      if (axis.said && linear && linear->factor > 0) {
        SymbolInfo &info = bounds.symbols.find(linear->symbol)->second;
        info.min = std::max(info.min, linear->lowest(range.min).value_or(info.min));
        if (std::optional<int64_t> most = range.max ? linear->highest(*range.max) : std::nullopt)
          limit(info, *most);
        isPossible = !info.max || info.min <= *info.max;
      }
      if (!isPossible)
        return "no size is left for axis " + std::to_string(axis.axis) + " of input '" +
               graph.getInputName(axis.input).str() + "', '" + axis.name + "'; see --dim";
    }
    return {};
  }

  /// A --dim that fits nothing is a mistake.
  std::string checkNames() {
    llvm::SetVector<StringRef> names;
    for (const Axis &axis : axes) {
      // A constant has none.
      if (!axis.name.empty())
        names.insert(axis.name);
      if (axis.said)
        axis.said.forEachSymbol([&](StringRef name) { names.insert(name); });
    }
    for (const DimBound &bound : given) {
      if (names.contains(bound.name))
        continue;
      std::string problem = "--dim: no input has a dimension '" + bound.name + "'; there are";
      for (StringRef name : names)
        problem += " '" + name.str() + "'";
      return problem;
    }
    return {};
  }

  onnx::GraphOp graph;
  MLIRContext *context;
  ArrayRef<DimBound> given;
  const LearnedSizes &learned;
  Bounds &bounds;
  SmallVector<Axis> axes;
  /// Names whose values are told, and those that an axis tells of which they are only a part.
  llvm::StringSet<> told;
  llvm::StringMap<const Axis *> tellers;
  llvm::StringMap<int64_t> solved;
};

} // namespace

std::string trainc::legalize::declareInputSizes(onnx::GraphOp graph, ArrayRef<DimBound> given,
                                                const LearnedSizes &learned, Bounds &bounds,
                                                SmallVectorImpl<SmallVector<DimAttr>> &sizes) {
  return Declaration(graph, given, learned, bounds).run(sizes);
}
