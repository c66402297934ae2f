// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A safetensors file of a checkpoint, which the ranks of a run write together: offsets follow from
// names, types and shapes, so that each can write what it has without asking the others.
#ifndef TRAINRT_SESSION_CHECKPOINT_FILE_H
#define TRAINRT_SESSION_CHECKPOINT_FILE_H

#include "io/safetensors.h"

#include <functional>
#include <span>

namespace trainrt {

/// Elements [begin, end) of a tensor, flattened, that one rank writes.
struct ElementRange {
  int64_t begin = 0, end = 0;
};

/// What a rank writes of tensors that every rank has whole: whole tensors; of the others nothing.
/// `loads`: bytes that each rank has to write, which this adds to.
std::vector<ElementRange> dealTensors(const std::vector<SafetensorsEntry> &tensors, int rank,
                                      std::vector<int64_t> &loads);

/// Bytes of a file that a rank has written, and their CRC-32.
struct WrittenBytes {
  uint64_t begin = 0, size = 0;
  uint32_t crc = 0;
};

class CheckpointFile {
public:
  /// `get` of a tensor gives the elements of this rank's range, and is called for those that have
  /// some. InvalidArgument: a tensor is too large.
  Status layOut(std::vector<SafetensorsEntry> tensors, std::vector<ElementRange> ranges);
  const std::string &header() const { return layout.header; }

  /// Rank 0: makes the file, with its header, before the others open it.
  Status create(const std::string &path);
  /// All others.
  Status open(const std::string &path) { return file.open(path, layout.bytes); }
  /// Writes this rank's ranges to the disk. `look` sees each of them, with its tensor.
  Status write(const std::function<void(size_t tensor, const ArrayView &)> &look);
  const std::vector<WrittenBytes> &written() const { return parts; }

  /// The CRC-32 of the file of which all ranks together have written `parts`. Internal where bytes
  /// were written by nobody, or twice.
  Status checksum(std::vector<WrittenBytes> parts, uint32_t &crc) const;

private:
  std::vector<SafetensorsEntry> tensors;
  std::vector<ElementRange> ranges;
  SafetensorsLayout layout;
  SharedFile file;
  std::vector<WrittenBytes> parts;
};

} // namespace trainrt

#endif // TRAINRT_SESSION_CHECKPOINT_FILE_H
