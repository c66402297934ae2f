// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Diagnostics name ONNX nodes, never positions in an IR that the user has not seen.

#include "lib/Driver/Diagnostics.h"
#include "format/status.h"
#include "trainc/Support/Location.h"
#include "trainc/Support/Names.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace trainc;

DiagnosticPrinter::DiagnosticPrinter(MLIRContext &context, StringRef model, Log &log)
    : context(context), model(model.str()), log(log) {
  // Everything goes through one handler, so that it can be muted.
  id = context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    if (!this->log.isMuted())
      print(diagnostic);
    return success();
  });
}

DiagnosticPrinter::~DiagnosticPrinter() { context.getDiagEngine().eraseHandler(id); }

/// Counted even where the level hides it.
void Log::warning(StringRef subject, const llvm::Twine &text) {
  if (StringRef kind = countWarning(); !kind.empty())
    llvm::errs() << subject << ": " << kind << ": " << showNames(text.str()) << "\n";
}

/// Errors are told at any level.
void Log::error(StringRef subject, const llvm::Twine &text) {
  llvm::errs() << subject << ": error: " << showNames(text.str()) << "\n";
}

void DiagnosticPrinter::print(Diagnostic &diagnostic) {
  StringRef kind;
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    kind = "error";
    ++errorCount;
    break;
  case DiagnosticSeverity::Warning:
    kind = log.countWarning();
    break;
  // Notes and remarks go with the level of information.
  case DiagnosticSeverity::Note:
    kind = log.shows(LogLevel::info) ? "note" : "";
    break;
  case DiagnosticSeverity::Remark:
    kind = log.shows(LogLevel::info) ? "remark" : "";
    break;
  }
  if (kind.empty())
    return;
  raw_ostream &out = llvm::errs();
  auto node = [&](Location loc, StringRef text) {
    StringRef name = getNodeName(loc);
    // Messages of legalization name their node already.
    if (!name.empty() && !text.contains("node '"))
      out << showNames(("node '" + name + "': ").str());
  };
  std::string text = showNames(diagnostic.str());
  auto place = dyn_cast<FileLineColLoc>(diagnostic.getLocation());
  // The importer writes whole messages, with model and node.
  if (!StringRef(text).starts_with(model)) {
    out << model;
    // In IR that is read.
    const bool isText = place && place.getFilename() == model && place.getColumn();
    if (isText)
      out << ":" << place.getLine() << ":" << place.getColumn();
    out << ": ";
    // Of several models the one that is meant.
    if (place && !isText)
      if (StringRef file = place.getFilename(); file != llvm::sys::path::filename(model))
        out << "'" << trainrt::shown(file) << "': ";
    node(diagnostic.getLocation(), text);
    out << kind << ": ";
  }
  out << text << "\n";
  // Notes follow their message, indented.
  for (Diagnostic &note : diagnostic.getNotes()) {
    out << "  note: ";
    node(note.getLocation(), note.str());
    out << showNames(note.str()) << "\n";
  }
}
