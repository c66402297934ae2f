// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For "did you mean": how many letters have to be changed to get from one name to another.
#ifndef TRAINRT_FORMAT_EDIT_DISTANCE_H
#define TRAINRT_FORMAT_EDIT_DISTANCE_H

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <vector>

namespace trainrt {

/// Insertions, deletions and replacements, whatever the letters' case. `anywhere`: to the part of
/// `text` that is most like `word`.
inline size_t editDistance(std::string_view word, std::string_view text, bool anywhere = false) {
  auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<size_t> row(text.size() + 1);
  for (size_t j = 0; j <= text.size(); ++j)
    row[j] = anywhere ? 0 : j;
  for (size_t i = 1; i <= word.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= text.size(); ++j) {
      size_t above = row[j];
      const bool differ = lower(word[i - 1]) != lower(text[j - 1]);
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + differ});
      diagonal = above;
    }
  }
  return anywhere ? *std::min_element(row.begin(), row.end()) : row[text.size()];
}

} // namespace trainrt

#endif // TRAINRT_FORMAT_EDIT_DISTANCE_H
