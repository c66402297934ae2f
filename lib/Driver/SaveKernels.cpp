// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of kernels, and the comments that lead from them back to the model.

#include "lib/Driver/SaveKernels.h"
#include "trainc/Support/Location.h"
#include "trainc/Support/TextFile.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace trainc;

void KernelOrigins::addFusion(const codegen::KernelInfo &kernel, train::FusionOp fusion) {
  if (kernel.stages.empty() || fusions.count(kernel.stages.front().name))
    return;
  std::string text;
  // Large constants would hide the ops.
  llvm::raw_string_ostream out(text);
  fusion.print(out, OpPrintingFlags().elideLargeElementsAttrs(64));
  // All stages and variants of a kernel are of one fusion.
  for (const codegen::KernelStage &stage : kernel.stages) {
    fusions.emplace(stage.name, text);
    for (const codegen::KernelStage &variant : stage.variants)
      fusions.emplace(variant.name, text);
  }
}

void KernelOrigins::addGroup(StringRef kernel, StringRef group) {
  // Of the first kernel in the group: the others have texts of their own.
  if (auto found = fusions.find(kernel); found != fusions.end())
    fusions.emplace(group.str(), found->second);
}

void KernelOrigins::addLaunches(ModuleOp plan) {
  // All launches of all functions.
  plan.walk([&](plan::LaunchOp launch) {
    SmallVector<StringRef> nodes;
    collectNodeNames(launch.getLoc(), nodes);
    auto function = launch->getParentOfType<plan::FunctionOp>();
    std::string line = (function.getSymName() + ": " + llvm::join(nodes, ", ")).str();
    launches[launch.getKernel().str()].push_back(line);
    // Only one of the variants runs, and any may.
    if (launch.getVariants())
      for (StringRef variant : launch.getVariants()->getAsValueRange<StringAttr>())
        launches[variant.str()].push_back(line);
  });
}

std::vector<std::string> KernelOrigins::describe(StringRef kernel, bool withFusion) const {
  std::vector<std::string> lines;
  if (auto found = launches.find(kernel); found != launches.end())
    for (const std::string &line : found->second)
      lines.push_back("  " + line);
  // Groups launch their kernels themselves.
  if (lines.empty())
    lines.push_back("  nowhere: all of its launches are in groups");
  lines.insert(lines.begin(), "launched by function, for ONNX nodes:");
  auto fusion = fusions.find(kernel);
  // Once, with the code that is nearest to the source.
  if (withFusion && fusion != fusions.end()) {
    lines.push_back("made of:");
    SmallVector<StringRef> parts;
    StringRef(fusion->second).split(parts, '\n');
    for (StringRef part : parts)
      lines.push_back(("  " + part).str());
  }
  return lines;
}

std::string trainc::saveKernels(ArrayRef<codegen::KernelListing> listings,
                                const KernelOrigins &origins, StringRef folder, FileRoles &files) {
  auto pathOf = [&](const codegen::KernelListing &listing, StringRef ending) {
    llvm::SmallString<256> path(folder);
    llvm::sys::path::append(path, listing.name + "." + ending);
    return path;
  };
  // All names are claimed before anything is written.
  for (const codegen::KernelListing &listing : listings)
    for (auto &[ending, text] : listing.texts)
      if (std::string problem = files.writes(pathOf(listing, ending), "--save-kernels");
          !problem.empty())
        return problem;
  for (const codegen::KernelListing &listing : listings)
    for (auto &[ending, text] : listing.texts) {
      llvm::SmallString<256> path = pathOf(listing, ending);
      // Comments as each kind of text has them.
      StringRef comment = ending == "ll" ? "; " : StringRef(ending).ends_with(".s") ? "# " : "// ";
      std::string problem = writeTextFile(path, [&](raw_ostream &out) {
        out << comment << listing.name << "\n";
        for (const std::string &line : origins.describe(listing.name, ending == "mlir"))
          out << comment << line << "\n";
        assert(!listing.texts.empty() && "a listing has a text");
        out << text << (StringRef(text).ends_with("\n") ? "" : "\n");
      });
      if (!problem.empty())
        return problem;
    }
  return {};
}
