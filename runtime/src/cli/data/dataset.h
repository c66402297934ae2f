// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Data seen as batches of a package's inputs: which array or column is which input, which axis the
// batch runs along, whether types and shapes fit; and the rows of one micro-batch.
#ifndef TRAINRT_CLI_DATA_DATASET_H
#define TRAINRT_CLI_DATA_DATASET_H

#include "cli/data/row_source.h"
#include "cli/handles.h"
#include "cli/reporter.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainrt::run {

/// One micro-batch, valid as long as the dataset; reusable.
struct Batch {
  /// Rows that lie next to each other in the data are not copied, unless `copied`: then all of them
  /// are in the session's host memory, from which a GPU takes them by itself. The session outlives
  /// the batch.
  explicit Batch(trainrt_session *session, bool copied = false)
      : session(session), copied(copied) {}
  trainrt_batch view() const { return {tensors.data(), tensors.size()}; }
  std::vector<int64_t> rows;

private:
  friend class Dataset;
  struct Release {
    trainrt_session *session;
    void operator()(char *memory) const { trainrt_host_free(session, memory); }
  };
  struct Buffer {
    std::unique_ptr<char, Release> memory;
    size_t bytes = 0;
  };
  /// At least so many bytes, for input `index`. Throws Failure.
  char *reserve(size_t index, size_t bytes);

  trainrt_session *session;
  bool copied;
  std::vector<trainrt_named_tensor> tensors;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<Buffer> buffers;
};

class Dataset {
public:
  /// What the batches are for. `predict` may lack inputs (labels), which are then taken as zeros.
  enum class Use { train, eval, predict };

  /// Rows of a batch where neither the command line nor the package says how many.
  static constexpr int64_t defaultBatch = 16;

  /// How the command line says that data is to be read.
  struct Reading {
    /// Inputs without the batch's axis, by name. Every row has an equal part of those to cut, along
    /// their first dynamic axis; every batch gets the others as they are.
    std::vector<std::string> cut, whole;
    WindowOptions windows;
    /// An array that is no input of the model and is asked for nevertheless.
    std::string extraArray;
  };

  /// Opens `path` and checks every array against its input. `batchSize`: as given on the command
  /// line; the default is the package's static batch, else `defaultBatch` or the nearest number
  /// that package and data allow. Throws Failure naming everything that is wrong; warns about
  /// arrays that are no inputs.
  Dataset(const Package &package, const std::string &path, Use use,
          std::optional<int64_t> batchSize, const Reading &reading, Reporter &reporter);

  const std::string &path() const { return file; }
  int64_t rows() const { return rowCount; }
  int64_t batchSize() const { return batch; }
  /// Neither the command line nor the package says it.
  bool choosesBatch() const { return isChosen; }
  /// The largest number of rows that package and data allow for a batch, of at most `rows`; at
  /// least the smallest that the package allows.
  int64_t possibleBatch(int64_t rows) const;
  void setBatchSize(int64_t rows);
  /// "x f32 [220, 3], ...", of which every batch has all although a batch has not all rows; "" if
  /// there are none.
  std::string wholeInputs() const;
  /// The package takes batches of one size only: what is left at the end cannot be used.
  bool staticBatch() const { return isStatic; }
  bool lacksInputs() const { return lacking; }

  /// What the package's symbols are for a batch of `rows` rows, the longest of them of `length`
  /// (0: as long as the data), and for as many ranks as there are.
  std::vector<trainrt_symbol_value> symbolValues(int64_t rows, int64_t length = 0) const;

  /// Of the run: 1 without it.
  void setRanks(int64_t count, int64_t perReplica) {
    ranks = count;
    ranksPerReplica = perReplica;
  }

  /// Whether rows are copied one by one, and say how long they are.
  bool hasRows() const { return source != nullptr; }
  /// Whether rows have lengths of their own, so that batches are as long as their longest one.
  bool isRagged() const;
  /// The longest row of a batch is rounded up to a multiple of it, where rows are ragged. Returns
  /// what it comes to with what the package asks for.
  int64_t roundLengths(int64_t multiple);
  /// Batches are as long as the longest row of all.
  void padToLongest() { trims.clear(); }
  /// Places that a batch has at least; 0 where all batches are of one length.
  int64_t leastLength() const;
  /// Of every row, by its ragged columns; nullopt where only the values tell.
  std::optional<std::vector<int64_t>> knownLengths() const;
  /// Whether one of the sizes that change with a batch's rows is in `dim`.
  bool follows(const trainrt_dim &dim) const;
  /// The number by which `load` knows a row in an epoch.
  int64_t inEpoch(int64_t row, int64_t epoch) const {
    return source ? source->inEpoch(row, epoch) : row;
  }
  /// Key of what is random about the rows.
  void seed(uint64_t key) {
    if (source)
      source->seed(key);
  }

  /// Batches shall have, where axes are `symbol`, as many places as the longest of their rows
  /// needs, rounded up to a multiple of `multiple`. `lengths`: of every row. Throws Failure where
  /// an input cannot be cut.
  void trim(int32_t symbol, std::vector<int64_t> lengths, int64_t multiple);

  /// Whole arrays of the inputs whose rows run along axis 0.
  std::vector<trainrt_named_tensor> arrays() const;
  /// An array of the file that is no input of the model; nullopt where there is none of that name.
  std::optional<trainrt_tensor> extra(const std::string &name) const;

  void load(std::vector<int64_t> rows, Batch &into) const;
  /// Tokens of a batch that are no padding; -1 where nothing tells.
  int64_t tokensOf(const Batch &batch) const;

  /// Of names, types, shapes and values (of large arrays, of pieces all over them): whether a file
  /// is the one that a run began with.
  std::string hash() const;

  /// Says which rows of the file a batch holds, and which one `message` of the runtime is about,
  /// for the end of that message.
  std::string where(const Batch &batch, const std::string &message) const;

private:
  struct Entry {
    const trainrt_tensor_info *input;
    trainrt_tensor array;              ///< of all rows; without data where there is a `column`
    int32_t axis;                      ///< that the batch runs along; -1: the same in every batch
    int64_t each = 1;                  ///< places of the axis that belong to one row
    bool told = false;                 ///< the command line says that it is the same in every batch
    const RowColumn *column = nullptr; ///< that rows are copied from, and
    std::vector<int64_t> *sizes = nullptr; ///< what the array's shape is then
  };
  struct Trim {
    int32_t symbol;
    int64_t multiple, least, full;
    std::vector<int64_t> lengths; ///< of every row
    int64_t cut(int64_t length) const;
  };
  /// The sizes of a batch of these rows of `entry`, into `shape`; whether an axis but the batch's
  /// is shorter than in the data.
  bool cutShape(const Entry &entry, const std::vector<int64_t> &rows,
                std::vector<int64_t> &shape) const;
  /// The entries, of arrays of a file or columns of `source`.
  void findEntries(Use use, const Reading &reading, std::vector<std::string> &warnings);
  bool openArray(const char *name, Entry &entry);
  bool openColumn(const char *name, Entry &entry);
  void chooseBatch(Use use, std::optional<int64_t> batchSize);
  /// Gives ragged columns the sizes of their longest row, and finds what rows cannot be.
  void shapeRows(std::vector<std::string> &problems);
  void gather(const Entry &entry, const std::vector<int64_t> &rows, size_t index,
              Batch &into) const;
  std::optional<trainrt_tensor> extraColumn(const std::string &name) const;
  /// Whether an expression has the size in it.
  static bool mentions(const std::string &text, const std::string &symbol);
  /// "row 7", for a person.
  std::string nameOf(int64_t row) const;
  void findBatchAxes(const Package &package, std::vector<std::string> &problems);
  /// The input's first axis has a symbol of its own, used nowhere else, and as many rows as the
  /// data. Exports with automatic dims name the same batch differently where only broadcasting or
  /// indexing ties two inputs.
  bool hasRowsOfOtherName(const Entry &entry) const;
  void checkShapes(const Package &package, std::vector<std::string> &problems) const;
  static void checkPart(const Package &package, const Entry &entry, int32_t axis,
                        std::vector<std::string> &problems);
  /// The first axis of the input whose size is not fixed; -1: none.
  static int32_t dynamicAxis(const Entry &entry);
  /// Whether the axis is one that inputs of the batch have, too: no axis of rows.
  bool isShared(const Entry &entry, int32_t axis) const;
  void cutAsTold(const Reading &given, std::vector<std::string> &problems);
  /// Throws Failure where an input that every batch gets whole looks like one that is to be cut.
  void checkWhole() const;

  std::string file;
  FileHandle handle; ///< of a file of arrays, or
  std::unique_ptr<RowSource> source;
  /// Shapes of the entries that have columns, and values of an extra one.
  std::deque<std::vector<int64_t>> shapes;
  mutable std::deque<std::vector<int64_t>> extraShapes;
  mutable std::deque<std::vector<char>> extraValues;
  std::vector<Entry> entries;
  std::vector<std::string> renamed; ///< quoted inputs that are cut although they are named apart
  const Package &package;
  std::vector<Trim> trims;
  int64_t rowCount = 1, batch = 1, ranks = 1, ranksPerReplica = 0;
  bool isStatic = false, isChosen = false, lacking = false;
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_DATA_DATASET_H
