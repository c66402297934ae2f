// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CRC of the whole is put together from those of the parts: nobody reads the file again.

#include "session/checkpoint_file.h"
#include "format/hash.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace trainrt {

/// The largest first, each to the rank that has least by then: every rank comes to the same.
std::vector<ElementRange> dealTensors(const std::vector<SafetensorsEntry> &tensors, int rank,
                                      std::vector<int64_t> &loads) {
  std::vector<int64_t> elements(tensors.size()), bytes(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    // Sizes that overflow are found where the file is laid out.
    countElements(tensors[i].shape.data(), tensors[i].shape.size(), elements[i]);
    bytes[i] = elements[i] * int64_t(sizeOf(tensors[i].dtype));
  }
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  std::vector<ElementRange> ranges(tensors.size());
  for (size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += bytes[i];
    if (least - loads.begin() == rank)
      ranges[i] = {0, elements[i]};
  }
  return ranges;
}

Status CheckpointFile::layOut(std::vector<SafetensorsEntry> all, std::vector<ElementRange> own) {
  assert(all.size() == own.size() && "a range of each tensor");
  tensors = std::move(all);
  ranges = std::move(own);
  return layOutSafetensors(tensors, {}, layout);
}

Status CheckpointFile::create(const std::string &path) {
  TRAINRT_TRY(file.create(path, layout.bytes));
  TRAINRT_TRY(file.writeAt(0, layout.header.data(), layout.header.size()));
  parts.push_back({0, layout.header.size(), crc32(layout.header.data(), layout.header.size())});
  return {};
}

/// In the order of the file. A view is used up before the next one is asked for.
Status CheckpointFile::write(const std::function<void(size_t tensor, const ArrayView &)> &look) {
  for (size_t i : layout.order) {
    const auto [begin, end] = ranges[i];
    if (begin == end)
      continue;
    ArrayView view;
    TRAINRT_TRY(tensors[i].get(view));
    const auto width = uint64_t(sizeOf(tensors[i].dtype));
    const WrittenBytes part{layout.offsets[i] + uint64_t(begin) * width,
                            uint64_t(end - begin) * width,
                            crc32(view.data, uint64_t(end - begin) * width)};
    assert(uint64_t(view.bytes) == part.size && "the elements of this rank's range");
    look(i, view);
    TRAINRT_TRY(file.writeAt(part.begin, view.data, part.size));
    parts.push_back(part);
  }
  return file.sync();
}

Status CheckpointFile::checksum(std::vector<WrittenBytes> all, uint32_t &crc) const {
  std::sort(all.begin(), all.end(),
            [](const WrittenBytes &a, const WrittenBytes &b) { return a.begin < b.begin; });
  uint64_t end = 0;
  crc = 0;
  auto bad = [&] {
    return fail(Code::Internal, "of ", layout.bytes,
                " bytes of a checkpoint's file no rank, or two, have written those from ", end,
                " on");
  };
  for (const WrittenBytes &part : all) {
    if (part.begin != end)
      return bad();
    end += part.size;
    crc = joinCrc32(crc, part.crc, part.size);
  }
  return end == layout.bytes ? Status() : bad();
}

} // namespace trainrt
