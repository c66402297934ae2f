// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Distances of texts, in letters to change, whatever their case.

#include "lib/Support/Nearest.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace trainc;
using llvm::StringRef;

static void removeDuplicates(std::vector<std::string> &names) {
  llvm::sort(names);
  names.erase(llvm::unique(names), names.end());
}

std::vector<std::string> trainc::nearestNames(StringRef wrong, std::vector<std::string> names) {
  removeDuplicates(names);
  auto distance = [&](StringRef name) {
    return std::make_pair(wrong.edit_distance_insensitive(name), name);
  };
  llvm::sort(names, [&](StringRef a, StringRef b) { return distance(a) < distance(b); });
  names.resize(std::min<size_t>(names.size(), 3));
  return names;
}

/// Letters that may be wrong in a word of this length.
static size_t tolerance(StringRef word) { return std::max<size_t>(1, word.size() / 3); }

std::string trainc::suggestion(StringRef wrong, std::vector<std::string> names) {
  std::vector<std::string> nearest = nearestNames(wrong, std::move(names));
  return nearest.empty() || wrong.edit_distance(nearest.front()) > tolerance(wrong)
             ? ""
             : " (is " + nearest.front() + " meant?)";
}

/// Of `word` to the part of `text` that is most like it.
static size_t distanceWithin(StringRef word, StringRef text) {
  std::vector<size_t> row(text.size() + 1, 0); // begins anywhere
  for (size_t i = 1; i <= word.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= text.size(); ++j) {
      bool same = llvm::toLower(word[i - 1]) == llvm::toLower(text[j - 1]);
      size_t changed = diagonal + !same;
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return *llvm::min_element(row); // ends anywhere
}

/// The plain words of an expression: "embed(ing|s)\." has three.
static std::vector<std::string> wordsOf(StringRef expression) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < expression.size(); ++i) {
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
  for (StringRef name : names) {
    size_t best = SIZE_MAX;
    for (StringRef word : words)
      if (size_t distance = distanceWithin(word, name.take_front(512));
          distance <= tolerance(word) && distance < word.size())
        best = std::min(best, distance);
    if (best != SIZE_MAX)
      near.emplace_back(best, name);
  }
  const bool any = !near.empty();
  llvm::sort(near);
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
