// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names by their distance, in letters to change.

#include "trainc/Support/Nearest.h"
#include "format/edit_distance.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace trainc;
using llvm::StringRef;

/// And in order.
static void removeDuplicates(std::vector<std::string> &names) {
  llvm::sort(names);
  names.erase(llvm::unique(names), names.end());
}

std::vector<std::string> trainc::nearestNames(StringRef wrong, std::vector<std::string> names) {
  removeDuplicates(names);
  // Equal distances by name, so that a message is always the same.
  auto distance = [&](StringRef name) {
    return std::make_pair(trainrt::editDistance(wrong, name), name);
  };
  llvm::sort(names, [&](StringRef a, StringRef b) { return distance(a) < distance(b); });
  names.resize(std::min<size_t>(names.size(), 3));
  return names;
}

/// Letters that may be wrong in a word of this length.
static size_t tolerance(StringRef word) { return std::max<size_t>(1, word.size() / 3); }

std::string trainc::suggestion(StringRef wrong, std::vector<std::string> names) {
  std::vector<std::string> nearest = nearestNames(wrong, std::move(names));
  // No suggestion is better than a wild one.
  return nearest.empty() || trainrt::editDistance(wrong, nearest.front()) > tolerance(wrong)
             ? ""
             : " (is " + nearest.front() + " meant?)";
}

/// The plain words of an expression: "embed(ing|s)\." has three.
static std::vector<std::string> wordsOf(StringRef expression) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < expression.size(); ++i) {
    // An escaped character stands for itself.
    if (expression[i] == '\\' && i + 1 < expression.size() && llvm::isPunct(expression[i + 1]))
      words.back() += expression[++i];
    else if (llvm::isAlnum(expression[i]) || expression[i] == '_' || expression[i] == '-')
      words.back() += expression[i];
    else if (expression[i] == '.' && !words.back().empty() && i + 1 < expression.size() &&
             llvm::isAlnum(expression[i + 1]))
      words.back() += '.';
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty())
    words.pop_back();
  return words;
}

std::string trainc::nearestMatches(StringRef expression, std::vector<std::string> names) {
  removeDuplicates(names);
  if (names.empty())
    return "; there are none";
  // Of the longest names thousands would be compared for nothing.
  const std::vector<std::string> words = wordsOf(expression.take_front(256));
  std::vector<std::pair<size_t, StringRef>> near;
  assert(!names.empty() && "asked above");
  for (StringRef name : names) {
    size_t best = SIZE_MAX;
    // The nearest word counts; a word that is all wrong does not.
    for (StringRef word : words)
      if (size_t distance = trainrt::editDistance(word, name.take_front(512), /*anywhere=*/true);
          distance <= tolerance(word) && distance < word.size())
        best = std::min(best, distance);
    if (best != SIZE_MAX)
      near.emplace_back(best, name);
  }
  const bool any = !near.empty();
  llvm::sort(near);
  // Nothing is near: then some of all there are.
  if (!any)
    for (StringRef name : names)
      near.emplace_back(0, name);
  std::string text = any ? "; nearest: " : "; there are ";
  for (size_t i = 0; i < std::min<size_t>(near.size(), 3); ++i)
    text += (i ? ", '" : "'") + near[i].second.str() + "'";
  if (near.size() > 3)
    text += " and " + std::to_string(near.size() - 3) + " more";
  return text;
}
