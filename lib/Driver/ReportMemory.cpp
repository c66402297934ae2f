// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report itself is lib/Report's; here is for which device, and where it goes.

#include "lib/Driver/ReportMemory.h"
#include "format/status.h"
#include "trainc/Report/MemoryReport.h"
#include "trainc/Support/TextFile.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace trainc;

int trainc::reportMemory(ModuleOp planned, ModuleOp plain, const PackageInterface &interface,
                         const CompileOptions &options, const Outputs &outputs, Log &log) {
  // The same for both, so that they compare.
  auto make = [&](ModuleOp module) {
    MemoryReport report(module, interface, *options.target, options.accumulate, options.world,
                        options.embedWeights, options.shards);
    report.distributed = options.graph.distribution != Distribution::None;
    report.link = {options.linkLatency.value_or(report.link.latency),
                   options.linkBandwidth.value_or(report.link.bandwidth)};
    report.sizes = report.sizes.counted(options.density);
    report.density = options.density;
    return report;
  };
  MemoryReport report = make(planned);
  std::optional<MemoryReport> baseline;
  assert(!report.baseline && "compared once");
  if (plain)
    report.baseline = &baseline.emplace(make(plain));
  report.model = llvm::sys::path::filename(options.model).str();
  report.device = options.target->getMemoryHere();
  report.deviceName = options.target->traits.device.str();
  // By the ending of the file's name.
  if (options.report != "text") {
    StringRef file = options.report;
    const bool isPage = file.ends_with(".html") || file.ends_with(".htm");
    // A curve has numbers only.
    if (std::string missing = missingSizes(report.sizes); isPage && !missing.empty())
      return outputs.checkWritten("--report=" + options.report + ": the curve " + missing);
    auto print = isPage                    ? printMemoryHtml
                 : file.ends_with(".json") ? printMemoryJson
                                           : printMemoryText;
    if (std::string problem = writeTextFile(file, [&](raw_ostream &out) { print(report, out); });
        !problem.empty())
      return outputs.checkWritten(problem);
    log.info() << "wrote " << trainrt::shown(options.report) << "\n";
  }
  // The text is printed in any case.
  std::string text;
  llvm::raw_string_ostream stream(text);
  printMemoryText(report, stream);
  llvm::outs() << trainrt::shownLines(text);
  llvm::outs().flush();
  return ExitSuccess;
}
