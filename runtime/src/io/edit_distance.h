// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For "did you mean": how many characters have to be changed to get from one name to another.
#ifndef TRAINRT_IO_EDIT_DISTANCE_H
#define TRAINRT_IO_EDIT_DISTANCE_H

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace trainrt {

/// Insertions, deletions and replacements.
inline size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

} // namespace trainrt

#endif // TRAINRT_IO_EDIT_DISTANCE_H
