// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Diagnostics name ONNX nodes, never positions in an IR that the user has not seen.

#include "lib/Driver/Diagnostics.h"
#include "core/status.h"
#include "trainc/Location.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace trainc;

DiagnosticPrinter::DiagnosticPrinter(MLIRContext &context, StringRef model, Log &log)
    : context(context), model(model.str()), log(log) {
  id = context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    if (!this->log.isMuted())
      print(diagnostic);
    return success();
  });
}

DiagnosticPrinter::~DiagnosticPrinter() { context.getDiagEngine().eraseHandler(id); }

/// A name of a node inside of nested functions begins with the calls that led there. Where these
/// are many, those in the middle go: the first says where to look, the last what is there.
static std::string shortenNames(StringRef text) {
  constexpr size_t longest = 160;
  constexpr unsigned kept = 2; // calls at each end
  constexpr StringLiteral mark = "node '";
  std::string result;
  while (true) {
    size_t begin = text.find(mark);
    size_t end = begin == StringRef::npos ? begin : text.find('\'', begin + mark.size());
    if (end == StringRef::npos)
      return result + text.str();
    StringRef name = text.slice(begin + mark.size(), end);
    SmallVector<StringRef> parts;
    name.split(parts, '/');
    result += text.substr(0, begin + mark.size());
    if (name.size() <= longest || parts.size() <= 2 * kept + 1)
      result += name;
    else
      result += llvm::join(ArrayRef(parts).take_front(kept), "/") + "/... " +
                std::to_string(parts.size() - 2 * kept) + " calls .../" +
                llvm::join(ArrayRef(parts).take_back(kept), "/");
    text = text.substr(end);
  }
}

std::string trainc::showNames(StringRef text) {
  std::string shortened = shortenNames(text), result;
  SmallVector<StringRef> parts;
  StringRef(shortened).split(parts, '\'');
  for (auto [number, part] : llvm::enumerate(parts)) {
    result += number ? "'" : "";
    const bool isQuoted = number % 2 && number + 1 < parts.size();
    result += isQuoted || part.size() > 4096 ? trainrt::shown(part) : trainrt::shownLines(part);
  }
  return result;
}

void Log::warning(StringRef subject, const llvm::Twine &text) {
  if (StringRef kind = countWarning(); !kind.empty())
    llvm::errs() << subject << ": " << kind << ": " << showNames(text.str()) << "\n";
}

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
    if (!name.empty() && !text.contains("node '"))
      out << showNames(("node '" + name + "': ").str());
  };
  std::string text = showNames(diagnostic.str());
  // The importer writes whole messages, with model and node.
  if (!StringRef(text).starts_with(model)) {
    out << model << ": ";
    // Of several models the one that is meant.
    if (auto place = dyn_cast<FileLineColLoc>(diagnostic.getLocation()))
      if (StringRef file = place.getFilename(); file != llvm::sys::path::filename(model))
        out << "'" << trainrt::shown(file) << "': ";
    node(diagnostic.getLocation(), text);
    out << kind << ": ";
  }
  out << text << "\n";
  for (Diagnostic &note : diagnostic.getNotes()) {
    out << "  note: ";
    node(note.getLocation(), note.str());
    out << showNames(note.str()) << "\n";
  }
}
