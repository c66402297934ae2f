// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which kind of data a path is.
// A folder, or a name that ends in .bin: decided without opening anything, so that whoever opens it
// says what is wrong with it. The result is null for any other path: no source by rows.
#include "cli/data/row_source.h"

#include "cli/failure.h"
#include "format/status.h"

#include <filesystem>

namespace trainrt::run {

/// Null where there is none. Owned by the source.
const RowColumn *RowSource::find(const std::string &name) const {
  for (const std::unique_ptr<RowColumn> &column : list)
    if (column->name == name)
      return column.get();
  return nullptr;
}

std::unique_ptr<RowSource> openRows(const Package &package, const std::string &path,
                                    const WindowOptions &windows) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return openDataFolder(path);
  return path.ends_with(".bin") ? openTokenStream(package, path, windows) : nullptr;
}

} // namespace trainrt::run
