// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decisions are told apart by their texts without names and numbers.

#include "lib/Driver/RemarkSummary.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <vector>

using namespace trainc;
using llvm::StringRef;

/// Decisions told of one pass.
static constexpr size_t kTold = 5;

/// The text with N for each number and '' for each quoted name.
/// Equal for decisions that differ in names and numbers only.
static std::string shapeOf(StringRef text) {
  std::string shape;
  for (size_t i = 0; i < text.size(); ++i) {
    // An unpaired quote is a letter like others.
    if (text[i] == '\'')
      if (size_t end = text.find('\'', i + 1); end != StringRef::npos) {
        shape += "''";
        i = end;
        continue;
      }
    // A row of digits is one number.
    if (!llvm::isDigit(text[i]))
      shape += text[i];
    else if (shape.empty() || shape.back() != 'N')
      shape += 'N';
  }
  return shape;
}

void RemarkSummary::add(StringRef pass, StringRef kind, StringRef node, StringRef text) {
  ++remarks;
  // Sorted by pass, as maps are.
  Pass &entry = passes[pass.str()];
  ++entry.kinds[kind.str()];
  Decision &decision = entry.decisions[(kind + "\x01" + shapeOf(text)).str()];
  // The first stands for all.
  if (!decision.count++) {
    decision.kind = kind.str();
    decision.node = node.str();
    decision.text = text.str();
  }
}

void RemarkSummary::print(llvm::raw_ostream &out) const {
  out << "explain: " << remarks << " decisions of " << passes.size() << " passes"
      << (remarks ? "; --explain=all tells each with its node" : "") << "\n";
  for (auto &[name, pass] : passes) {
    out << name << ":";
    llvm::interleave(
        pass.kinds, out, [&](const auto &kind) { out << " " << kind.second << " " << kind.first; },
        ",");
    out << "\n";
    // Frequent ones first; equal ones by their text.
    std::vector<const Decision *> decisions;
    for (auto &[shape, decision] : pass.decisions)
      decisions.push_back(&decision);
    llvm::stable_sort(decisions,
                      [](const Decision *a, const Decision *b) { return a->count > b->count; });
    for (const Decision *decision : llvm::ArrayRef(decisions).take_front(kTold)) {
      out << "  " << decision->count << " x " << decision->kind << ": " << decision->text;
      if (!decision->node.empty())
        out << " (" << (decision->count > 1 ? "first: " : "") << "node '" << decision->node << "')";
      out << "\n";
    }
    if (decisions.size() > kTold)
      out << "  and " << decisions.size() - kTold << " other kinds of decision\n";
  }
}
