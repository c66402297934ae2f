// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Data that is no array a column: rows are found one by one and copied into batches, so that what
// lies in files may be larger than memory and rows may have lengths of their own.
#ifndef TRAINRT_CLI_DATA_ROW_SOURCE_H
#define TRAINRT_CLI_DATA_ROW_SOURCE_H

#include "cli/handles.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainrt::run {

/// The values of one name, for every row.
class RowColumn {
public:
  virtual ~RowColumn() = default;

  std::string name;
  trainrt_dtype dtype = TRAINRT_F32; ///< of what is stored
  /// Of one row; ragged: one axis, as long as the longest row.
  std::vector<int64_t> shape;
  /// Rows have lengths of their own, and padding behind them.
  bool ragged = false;

  /// Places of a row of a ragged column.
  virtual int64_t length(int64_t row) const = 0;
  /// Why batches cannot have its values as `type`; "" where they can.
  virtual std::string misfit(trainrt_dtype type) const = 0;
  /// Writes the row as `type`, padded to `places` elements. Throws Failure where a value has no
  /// such form.
  virtual void copy(int64_t row, int64_t places, trainrt_dtype type, char *to) const = 0;
};

class RowSource {
public:
  virtual ~RowSource() = default;

  int64_t rows() const { return rowCount; }
  const std::vector<std::unique_ptr<RowColumn>> &columns() const { return list; }
  const RowColumn *find(const std::string &name) const;

  /// "row 3 of shard-00001.safetensors", for messages.
  virtual std::string whereIs(int64_t row) const = 0;
  /// Of all that decides on values, as far as it can be known without reading them.
  virtual uint64_t identity() const = 0;
  /// The number that row `row` of epoch `epoch` is asked for by.
  virtual int64_t inEpoch(int64_t row, int64_t epoch) const { return row; }
  /// Key of what is random about the rows.
  virtual void seed(uint64_t key) {}
  /// What a person should know; "" for nothing.
  virtual std::string note() const { return {}; }

protected:
  int64_t rowCount = 0;
  std::vector<std::unique_ptr<RowColumn>> list;
};

/// What the command line says about streams of tokens.
struct WindowOptions {
  std::optional<int64_t> length;   ///< tokens of a row
  std::vector<std::string> inputs; ///< that get them; empty: input_ids, and labels if there are
  bool shift = false;              ///< all inputs but the first get the token behind each
  bool random = false;             ///< windows begin elsewhere in every epoch
  bool isGiven() const { return length || !inputs.empty() || shift; }
};

/// Null where `path` is a file of arrays. Throws Failure where it is neither that nor what rows
/// can be had from. `package`: whose inputs want them.
std::unique_ptr<RowSource> openRows(const Package &package, const std::string &path,
                                    const WindowOptions &windows);

/// A folder of `trainc data`. Throws Failure naming file and row of what is wrong.
std::unique_ptr<RowSource> openDataFolder(const std::string &path);

/// A .bin of nanoGPT or llm.c.
std::unique_ptr<RowSource> openTokenStream(const Package &package, const std::string &path,
                                           const WindowOptions &windows);

} // namespace trainrt::run

#endif // TRAINRT_CLI_DATA_ROW_SOURCE_H
