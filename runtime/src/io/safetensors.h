// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// safetensors files: weights, checkpoints, dumped gradients. 8 bytes of header length, a JSON
// header, then the arrays without gaps.
#ifndef TRAINRT_IO_SAFETENSORS_H
#define TRAINRT_IO_SAFETENSORS_H

#include "format/dtype.h"
#include "format/file.h"
#include "format/status.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainrt {

class SafetensorsReader {
public:
  struct Entry {
    std::string name;
    ArrayView array; ///< Points into the mapping; may be less aligned than its elements.
  };

  /// Checks the whole header; errors are BadData and name the file and the tensor.
  static Status open(std::shared_ptr<const MappedFile> file, SafetensorsReader &reader);
  static Status open(const std::string &path, SafetensorsReader &reader);

  /// In the order of their data.
  const std::vector<Entry> &entries() const { return list; }
  /// Null if there is none.
  const Entry *find(std::string_view name) const;
  /// "__metadata__" of the header.
  const std::map<std::string, std::string> &metadata() const { return notes; }
  const std::shared_ptr<const MappedFile> &mapping() const { return file; }

private:
  std::shared_ptr<const MappedFile> file;
  std::vector<Entry> list;
  std::map<std::string, size_t, std::less<>> index;
  std::map<std::string, std::string> notes;
};

/// A tensor of a file to be written, and how to get its bytes when it is its turn: a view that is
/// valid until the next one's.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::function<Status(ArrayView &)> get;
};

/// Where what lies in a file, which follows from names, types and shapes alone.
struct SafetensorsLayout {
  std::string header;            ///< the file's first bytes
  std::vector<uint64_t> offsets; ///< from the file's beginning, of each tensor
  std::vector<size_t> order;     ///< of the tensors in the file
  uint64_t bytes = 0;            ///< of the file
};
/// InvalidArgument where a tensor is too large. `get` of the entries is not needed.
Status layOutSafetensors(const std::vector<SafetensorsEntry> &tensors,
                         const std::map<std::string, std::string> &metadata,
                         SafetensorsLayout &layout);

/// Writes tensors (distinct names) in their order, larger elements first so that all are aligned.
/// The file appears under its name when it is complete.
Status writeSafetensors(const std::string &path, const std::vector<SafetensorsEntry> &tensors,
                        const std::map<std::string, std::string> &metadata = {});
/// The same into a file that was created, which is left to be committed.
Status writeSafetensors(AtomicFile &file, const std::vector<SafetensorsEntry> &tensors,
                        const std::map<std::string, std::string> &metadata = {});
/// The same of tensors that are in memory.
Status writeSafetensors(const std::string &path,
                        const std::vector<std::pair<std::string, ArrayView>> &tensors,
                        const std::map<std::string, std::string> &metadata = {});

} // namespace trainrt

#endif // TRAINRT_IO_SAFETENSORS_H
