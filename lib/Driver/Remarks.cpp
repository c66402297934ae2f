// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two forms of a remark. docs/inspection.md describes the fields of the second.

#include "lib/Driver/Remarks.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Location.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace trainc;

namespace {

/// What MLIR calls the parts of a remark's text; all other parts are metrics.
constexpr StringLiteral kTexts[][2] = {
    {"Remark", "message"}, {"Reason", "reason"}, {"Suggestion", "suggestion"}};

class RemarkWriter : public remark::detail::MLIRRemarkStreamerBase {
public:
  RemarkWriter(bool explain, raw_ostream *json, Log &log)
      : explain(explain), json(json), log(log) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    if (!log.showsRemarks())
      return;
    if (explain)
      writeText(remark);
    if (json)
      writeJSON(remark);
  }

private:
  void writeText(const remark::detail::Remark &remark) {
    raw_ostream &out = llvm::errs();
    out << remark.getCategoryName() << ": ";
    StringRef node = getNodeName(remark.getLocation());
    if (!node.empty())
      out << "node '" << node << "': ";
    llvm::interleave(
        remark.getArgs(), out,
        [&](const auto &arg) {
          bool text = llvm::any_of(kTexts, [&](auto &names) { return names[0] == arg.key; });
          if (!text)
            out << arg.key << " = ";
          out << arg.val;
        },
        "; ");
    out << "\n";
  }

  void writeJSON(const remark::detail::Remark &remark) {
    llvm::json::Object object{{"pass", remark.getCategoryName()},
                              {"kind", remark.getRemarkTypeString().lower()},
                              {"name", remark.getRemarkName()}};
    if (StringRef function = remark.getFunction(); !function.starts_with("<"))
      object["function"] = function;
    SmallVector<StringRef> names;
    collectNodeNames(remark.getLocation(), names);
    llvm::json::Array nodes;
    for (StringRef name : names)
      nodes.push_back(llvm::json::fixUTF8(name));
    object["nodes"] = std::move(nodes);
    llvm::json::Object metrics;
    for (const auto &arg : remark.getArgs()) {
      const auto *text = llvm::find_if(kTexts, [&](auto &names) { return names[0] == arg.key; });
      (text == std::end(kTexts) ? metrics[arg.key] : object[(*text)[1]]) =
          llvm::json::fixUTF8(arg.val);
    }
    if (!metrics.empty())
      object["metrics"] = std::move(metrics);
    *json << llvm::json::Value(std::move(object)) << "\n";
  }

  const bool explain;
  raw_ostream *const json;
  Log &log;
};

} // namespace

void trainc::enableRemarks(MLIRContext &context, bool explain, raw_ostream *json, Log &log) {
  // Each kind by itself: `all` only joins the filters of kinds that have one.
  remark::RemarkCategories categories;
  categories.passed = categories.missed = categories.analysis = categories.failed = ".*";
  (void)remark::enableOptimizationRemarks(
      context, std::make_unique<RemarkWriter>(explain, json, log),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories);
}
