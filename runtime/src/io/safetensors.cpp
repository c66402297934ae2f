// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The header is parsed without exceptions and nothing in it is trusted: types, extents, offsets,
// overlaps and gaps are all checked before a tensor is handed out.

#include "io/safetensors.h"
#include "format/json.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <tuple>

namespace trainrt {

using Json = nlohmann::ordered_json;

namespace {
/// In the order of DType.
constexpr const char *typeNames[numDTypes] = {"F32", "F64", "F16", "BF16", "I8",  "I16", "I32",
                                              "I64", "U8",  "U16", "U32",  "U64", "BOOL"};

/// Negative numbers and those beyond 63 bits are no counts.
bool asCount(const Json &value, int64_t &result) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t(INT64_MAX))
    return false;
  result = static_cast<int64_t>(value.get<uint64_t>());
  return true;
}
} // namespace

Status SafetensorsReader::open(const std::string &path, SafetensorsReader &reader) {
  std::shared_ptr<const MappedFile> file;
  TRAINRT_TRY(MappedFile::open(path, file));
  return open(std::move(file), reader);
}

/// `reader` changes where all of the header has been checked, and only then. Its views lead into
/// the mapping, which it keeps.
Status SafetensorsReader::open(std::shared_ptr<const MappedFile> file, SafetensorsReader &reader) {
  auto bad = [&](const auto &...what) {
    return fail(Code::BadData, "'", file->path(), "': not a readable safetensors file: ", what...);
  };
  uint64_t headerSize = 0;
  if (file->size() < 10)
    return bad("it has ", file->size(), " bytes only");
  // Little-endian, as the format says.
  std::memcpy(&headerSize, file->data(), 8);
  // The format's own limit of a header.
  if (headerSize > file->size() - 8 || headerSize > 100'000'000)
    return bad("its header of ", headerSize, " bytes does not fit into the file of ", file->size(),
               " bytes (truncated?)");
  // Text and data are read where the file is mapped; nothing is copied.
  auto *text = reinterpret_cast<const char *>(file->data()) + 8;
  // Duplicate names would silently win over each other: count the keys of the top level.
  size_t keys = 0;
  auto count = [&](int depth, Json::parse_event_t event, Json &) {
    keys += event == Json::parse_event_t::key && depth == 1;
    return true;
  };
  const std::string_view written(text, headerSize);
  Json header = parseJson<Json>(written, count);
  if (!header.is_object())
    return bad("its header ", notJsonObject(written));
  if (keys != header.size())
    return bad("a name occurs twice in its header");

  // Within the file: the header's size was compared with it.
  const unsigned char *data = file->data() + 8 + headerSize;
  uint64_t dataSize = file->size() - 8 - headerSize;
  SafetensorsReader result;
  for (auto &[name, value] : header.items()) {
    if (name == "__metadata__") {
      for (auto &[key, note] : value.items())
        if (note.is_string())
          result.notes[key] = note.get<std::string>();
      continue;
    }
    auto badTensor = [&](const auto &...what) { return bad("tensor '", name, "': ", what...); };
    Entry entry;
    entry.name = name;
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets"))
      return badTensor("needs dtype, shape and data_offsets");
    const Json &dtype = value["dtype"], &shape = value["shape"], &span = value["data_offsets"];
    auto *found = std::find_if(typeNames, typeNames + numDTypes, [&](const char *candidate) {
      return dtype.is_string() && dtype.get_ref<const std::string &>() == candidate;
    });
    if (found == typeNames + numDTypes)
      return badTensor("dtype ", dtype.dump(),
                       " is not supported; store it as F32, F16, BF16 or integers");
    entry.array.dtype = static_cast<DType>(found - typeNames);
    // 64 axes: as for every array of the runtime.
    if (!shape.is_array() || shape.size() > 64)
      return badTensor("shape is not a list");
    for (const Json &extent : shape)
      if (!asCount(extent, entry.array.shape.emplace_back()))
        return badTensor("shape ", shape.dump(), " is not a list of sizes");
    int64_t begin, end, bytes;
    if (!span.is_array() || span.size() != 2 || !asCount(span[0], begin) ||
        !asCount(span[1], end) || begin > end || static_cast<uint64_t>(end) > dataSize)
      return badTensor("data_offsets ", span.dump(), " are outside of the ", dataSize,
                       " bytes of data (truncated?)");
    // Overflow is seen by countBytes; the span is within the data already.
    if (!countBytes(entry.array.dtype, entry.array.shape.data(), entry.array.shape.size(), bytes) ||
        bytes != end - begin)
      return badTensor("shape ", shape.dump(), " of ", *found, " does not have the ", end - begin,
                       " bytes of data_offsets");
    entry.array.data = data + begin;
    entry.array.bytes = bytes;
    result.list.push_back(std::move(entry));
  }
  // Tensors without bytes come before the one that begins at the same place.
  std::sort(result.list.begin(), result.list.end(), [](const Entry &a, const Entry &b) {
    return std::tie(a.array.data, a.array.bytes, a.name) <
           std::tie(b.array.data, b.array.bytes, b.name);
  });
  const unsigned char *expected = data;
  // Without gaps or overlaps each byte is one tensor's: the format asks for both.
  for (const Entry &entry : result.list) {
    if (entry.array.data != expected)
      return bad("tensor '", entry.name, "' overlaps another one or leaves a gap");
    expected += entry.array.bytes;
  }
  if (expected != data + dataSize)
    return bad("there are bytes after the last tensor");
  // Unique: the keys have been counted.
  for (size_t i = 0; i < result.list.size(); ++i)
    result.index.emplace(result.list[i].name, i);
  result.file = std::move(file);
  reader = std::move(result);
  return {};
}

const SafetensorsReader::Entry *SafetensorsReader::find(std::string_view name) const {
  auto found = index.find(name);
  return found == index.end() ? nullptr : &list[found->second];
}

/// The wider types first: every array is then aligned to its elements if the data are, in a file
/// without gaps. `layout` is complete where there is no error, and only then.
Status layOutSafetensors(const std::vector<SafetensorsEntry> &tensors,
                         const std::map<std::string, std::string> &metadata,
                         SafetensorsLayout &layout) {
  layout = {};
  for (size_t size : {8, 4, 2, 1})
    for (size_t i = 0; i < tensors.size(); ++i)
      if (sizeOf(tensors[i].dtype) == size)
        layout.order.push_back(i);
  Json header = Json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  layout.offsets.resize(tensors.size());
  int64_t offset = 0;
  for (size_t i : layout.order) {
    const SafetensorsEntry &tensor = tensors[i];
    int64_t bytes;
    if (!countBytes(tensor.dtype, tensor.shape.data(), tensor.shape.size(), bytes))
      return fail(Code::InvalidArgument, "tensor '", tensor.name, "' is too large");
    header[tensor.name] = {{"dtype", typeNames[static_cast<size_t>(tensor.dtype)]},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    layout.offsets[i] = uint64_t(offset);
    offset += bytes;
  }
  // Names that are not UTF-8 would make `dump` throw: they are replaced, as nothing can read them.
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  // The header is filled up with blanks, so that the data begin at a multiple of 64.
  text.append((64 - (8 + text.size()) % 64) % 64, ' ');
  const uint64_t length = text.size();
  layout.header.assign(reinterpret_cast<const char *>(&length), 8);
  layout.header += text;
  for (uint64_t &begin : layout.offsets)
    begin += layout.header.size();
  layout.bytes = layout.header.size() + uint64_t(offset);
  return {};
}

Status writeSafetensors(const std::string &path,
                        const std::vector<std::pair<std::string, ArrayView>> &tensors,
                        const std::map<std::string, std::string> &metadata) {
  std::vector<SafetensorsEntry> entries;
  for (const auto &[name, array] : tensors)
    entries.push_back({name, array.dtype, array.shape, [&array = array](ArrayView &view) {
                         view = array;
                         return Status();
                       }});
  return writeSafetensors(path, entries, metadata);
}

/// Under its name there is the whole file or the one of before.
Status writeSafetensors(const std::string &path, const std::vector<SafetensorsEntry> &tensors,
                        const std::map<std::string, std::string> &metadata) {
  AtomicFile file;
  TRAINRT_TRY(file.create(path));
  TRAINRT_TRY(writeSafetensors(file, tensors, metadata));
  return file.commit();
}

/// From the beginning to the end, without going back; the caller commits.
Status writeSafetensors(AtomicFile &file, const std::vector<SafetensorsEntry> &tensors,
                        const std::map<std::string, std::string> &metadata) {
  SafetensorsLayout layout;
  TRAINRT_TRY(layOutSafetensors(tensors, metadata, layout));
  TRAINRT_TRY(file.write(layout.header.data(), layout.header.size()));
  for (size_t i : layout.order) {
    const SafetensorsEntry &tensor = tensors[i];
    ArrayView array;
    // One tensor at a time: what `get` gives must stay valid until the next call only.
    TRAINRT_TRY(tensor.get(array));
    assert(array.dtype == tensor.dtype && array.shape == tensor.shape &&
           file.position() == layout.offsets[i] && "the header, which is written, has said so");
    TRAINRT_TRY(file.write(array.data, static_cast<uint64_t>(array.bytes)));
  }
  return {};
}

} // namespace trainrt
