// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Diagnostics and remarks name ONNX nodes, never positions in an IR that the user has not seen.

#include "lib/Driver/Diagnostics.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Location.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace trainc;

DiagnosticPrinter::DiagnosticPrinter(MLIRContext &context, StringRef model)
    : context(context), model(model.str()) {
  id = context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    StringRef kind = "error";
    if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
      kind = "warning";
    else if (diagnostic.getSeverity() == DiagnosticSeverity::Note)
      kind = "note";
    else if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
      kind = "remark";
    raw_ostream &out = llvm::errs();
    // The importer writes whole messages, with model and node.
    bool complete = StringRef(text).starts_with(this->model);
    if (complete) {
      out << text << "\n";
    } else {
      out << this->model << ": ";
      StringRef node = getNodeName(diagnostic.getLocation());
      if (!node.empty() && text.find("node '") == std::string::npos)
        out << "node '" << node << "': ";
      out << kind << ": " << text << "\n";
    }
    for (Diagnostic &note : diagnostic.getNotes()) {
      StringRef node = getNodeName(note.getLocation());
      out << "  note: ";
      if (!node.empty() && note.str().find("node '") == std::string::npos)
        out << "node '" << node << "': ";
      out << note.str() << "\n";
    }
    return success();
  });
}

DiagnosticPrinter::~DiagnosticPrinter() { context.getDiagEngine().eraseHandler(id); }

namespace {
struct RemarkPrinter : remark::detail::MLIRRemarkStreamerBase {
  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    raw_ostream &out = llvm::errs();
    out << remark.getCategoryName() << ": ";
    StringRef node = getNodeName(remark.getLocation());
    if (!node.empty())
      out << "node '" << node << "': ";
    llvm::interleave(remark.getArgs(), out, [&](const auto &arg) { out << arg.val; }, "; ");
    out << "\n";
  }
};
} // namespace

void trainc::explainDecisions(MLIRContext &context) {
  // Each kind by itself: `all` only joins the filters of kinds that have one.
  remark::RemarkCategories categories;
  categories.passed = categories.missed = categories.analysis = categories.failed = ".*";
  (void)remark::enableOptimizationRemarks(context, std::make_unique<RemarkPrinter>(),
                                          std::make_unique<remark::RemarkEmittingPolicyAll>(),
                                          categories);
}
