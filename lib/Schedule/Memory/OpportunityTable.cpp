// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In the form that ONNX Runtime prints its own, with what each opportunity saves and costs.

#include "trainc/Schedule/Memory/OpportunityTable.h"

#include "lib/Schedule/Memory/RecomputeCost.h"
#include "trainc/Report/MemoryReport.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// What the table of --recompute list tells of one function.
/// Numbers are told only where every symbol has one.
class OpportunityTable {
public:
  OpportunityTable(MemoryTrials &trials, func::FuncOp function, ProcessorSpeed speed,
                   const Sizes &sizes, llvm::raw_ostream &out)
      : trials(trials), graph(function), opportunities(findOpportunities(graph)), speed(speed),
        sizes(sizes), numbers(sizes.isComplete()), out(out) {}

  void print() {
    // Patterns in the order of their first opportunities.
    // Two rows for a pattern with opportunities of both kinds.
    std::vector<std::vector<const Opportunity *>> rows;
    std::map<std::pair<std::string, bool>, size_t> known;
    for (const Opportunity &opportunity : opportunities) {
      auto [it, isNew] =
          known.try_emplace({opportunity.pattern, opportunity.isCompromise()}, rows.size());
      if (isNew)
        rows.emplace_back();
      rows[it->second].push_back(&opportunity);
    }
    const std::string plain = numbers ? activations("") : "";
    for (const auto &row : rows)
      print(row, plain);
  }

private:
  /// Of the function, with a configuration.
  /// "-" where no schedule can be made, so that the table is told as a whole.
  std::string activations(const std::string &config) {
    FailureOr<const StepMemory *> memory = trials.make(config);
    if (failed(memory))
      return "-";
    const FunctionMemory *planned = findFunction(**memory, graph.function.getName());
    FailureOr<ArenaPeak> arena = planned->evaluateArena(sizes);
    return failed(arena) ? "-" : formatBytes(arena->planned);
  }

  /// Saved bytes and FLOPs add up over the row; the arena does not, and is that of a schedule with
  /// all of the row computed again.
  void print(ArrayRef<const Opportunity *> row, StringRef plain) {
    const bool compromise = row.front()->isCompromise();
    const std::string config = row.front()->pattern + (compromise ? ":2:-1" : ":1:-1");
    std::map<std::string, size_t> shapes;
    DimAttr saved = DimAttr::constant(graph.function.getContext(), 0), flops = saved;
    double seconds = 0;
    for (const Opportunity *opportunity : row) {
      ++shapes[opportunity->shape()];
      saved = saved + opportunity->savedBytes();
      flops = flops + opportunity->flops();
      seconds += numbers ? secondsOf(*opportunity, sizes, speed) : 0;
    }
    out << "\tSubgraph: " << row.front()->pattern
        << "\n\t\tAlleviationType: Disabled\n\t\tPatterns: \n";
    for (auto &[shape, count] : shapes)
      out << "\t\t\tPatternShape:" << shape << "\tFrequency:" << count << "\n";
    out << "\t\tConfig: " << config << "\n\t\tSaved bytes: " << saved.str();
    if (numbers)
      out << " = " << formatBytes(numberOf(saved, sizes));
    out << "\n\t\tFLOPs: " << flops.str();
    if (numbers)
      out << " = " << llvm::format("%.3g", double(numberOf(flops, sizes))) << ", about "
          << llvm::format("%.3g", seconds * 1e3)
          << " ms\n\t\tActivations and temporaries: " << plain << " -> " << activations(config);
    out << "\n\t" << std::string(32, '-') << "\n";
  }

  MemoryTrials &trials;
  StepGraph graph;
  std::vector<Opportunity> opportunities;
  ProcessorSpeed speed;
  const Sizes &sizes;
  bool numbers;
  llvm::raw_ostream &out;
};
} // namespace

/// For people, and for tools that read ONNX Runtime's table: lines are never changed without need.
LogicalResult trainc::listOpportunities(ModuleOp module, const TrialOptions &options,
                                        codegen::KernelCodegen &kernels, llvm::raw_ostream &out) {
  FailureOr<PackageInterface> interface = collectInterface(module);
  if (failed(interface))
    return failure();
  MemoryTrials trials(module, *interface, options, kernels);
  if (trials.functions().empty() || !StepGraph::isStep(trials.step()))
    return success();
  const Sizes sizes = trials.sizes();
  const ProcessorSpeed speed = options.target->traits.speeds.of(options.precision);
  out << "MemoryAlleviation Summary:\n\tUser config:\n\tlist\n";
  for (func::FuncOp function : trials.functions()) {
    if (!StepGraph::isStep(function))
      continue;
    if (auto base = function->getAttrOfType<StringAttr>(kVariantOfAttr))
      out << "\t" << function.getName() << ", in place of " << base.getValue()
          << " where a batch allows it\n";
    out << "\t" << std::string(33, '=') << "\n";
    OpportunityTable(trials, function, speed, sizes, out).print();
  }
  out << "\t" << std::string(33, '=') << "\n";
  if (!sizes.isComplete())
    out << "\tNumbers need sizes:" << dimOptions(sizes) << "\n";
  return success();
}
