// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two forms of a remark. docs/inspection.md describes the fields of the second.

#include "lib/Driver/Remarks.h"
#include "format/status.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/Location.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace trainc;

namespace {

/// What MLIR calls the parts of a remark's text; all other parts are metrics.
constexpr StringLiteral kTexts[][2] = {
    {"Remark", "message"}, {"Reason", "reason"}, {"Suggestion", "suggestion"}};

class RemarkWriter : public remark::detail::MLIRRemarkStreamerBase {
public:
  RemarkWriter(bool all, raw_ostream *json, RemarkSummary *summary, Log &log)
      : all(all), json(json), summary(summary), log(log) {}

  /// Called for every decision; cheap where nobody listens.
  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    if (!log.showsRemarks())
      return;
    if (all)
      writeText(remark);
    // Without metrics: decisions with other numbers are the same.
    if (summary)
      summary->add(remark.getCategoryName(), StringRef(remark.getRemarkTypeString()).lower(),
                   getNodeName(remark.getLocation()), textOf(remark, /*metrics=*/false));
    if (json)
      writeJSON(remark);
  }

private:
  void writeText(const remark::detail::Remark &remark) {
    std::string text = (remark.getCategoryName() + ": ").str();
    StringRef node = getNodeName(remark.getLocation());
    if (!node.empty())
      text += "node '" + trainrt::shown(node) + "': ";
    assert(!text.empty() && "it names its pass");
    text += textOf(remark, /*metrics=*/true);
    llvm::errs() << trainrt::shownLines(text) << "\n";
  }

  static std::string textOf(const remark::detail::Remark &remark, bool metrics) {
    std::string text;
    for (const auto &arg : remark.getArgs()) {
      // Known parts are text, others are metrics with their name.
      bool isText = llvm::any_of(kTexts, [&](auto &names) { return names[0] == arg.key; });
      if (isText || metrics)
        text += (text.empty() ? "" : "; ") + (isText ? "" : arg.key + " = ") + arg.val;
    }
    return text;
  }

  void writeJSON(const remark::detail::Remark &remark) {
    llvm::json::Object object{{"pass", remark.getCategoryName()},
                              {"kind", remark.getRemarkTypeString().lower()},
                              {"name", remark.getRemarkName()}};
    // MLIR's placeholder for none.
    if (StringRef function = remark.getFunction(); !function.starts_with("<"))
      object["function"] = function;
    SmallVector<StringRef> names;
    // A fused op has several nodes.
    collectNodeNames(remark.getLocation(), names);
    llvm::json::Array nodes;
    for (StringRef name : names)
      nodes.push_back(llvm::json::fixUTF8(name));
    object["nodes"] = std::move(nodes);
    llvm::json::Object metrics;
    for (const auto &arg : remark.getArgs()) {
      const auto *text = llvm::find_if(kTexts, [&](auto &names) { return names[0] == arg.key; });
      // Metrics stay texts: what they count differs by pass.
      (text == std::end(kTexts) ? metrics[arg.key] : object[(*text)[1]]) =
          llvm::json::fixUTF8(arg.val);
    }
    if (!metrics.empty())
      object["metrics"] = std::move(metrics);
    *json << llvm::json::Value(std::move(object)) << "\n";
  }

  const bool all;
  raw_ostream *const json;
  RemarkSummary *const summary;
  Log &log;
};

} // namespace

void trainc::enableRemarks(MLIRContext &context, bool all, raw_ostream *json,
                           RemarkSummary *summary, Log &log) {
  // Each kind by itself: `all` only joins the filters of kinds that have one.
  remark::RemarkCategories categories;
  categories.passed = categories.missed = categories.analysis = categories.failed = ".*";
  (void)remark::enableOptimizationRemarks(
      context, std::make_unique<RemarkWriter>(all, json, summary, log),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories);
}
