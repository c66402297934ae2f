// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All parts are opened at once, so that a missing one is known before anything is loaded; they are
// mapped, which takes no memory.

#include "session/parameters/weights_file.h"
#include "format/json.h"

#include <filesystem>
#include <map>

namespace trainrt {

namespace fs = std::filesystem;

namespace {
constexpr const char *indexName = "model.safetensors.index.json";
constexpr const char *singleName = "model.safetensors";
} // namespace

/// A file, or a folder as Hugging Face has it.
Status WeightsFile::open(const std::string &path, WeightsFile &result) {
  WeightsFile opened;
  std::error_code error;
  std::string file = path;
  if (fs::is_directory(path, error)) {
    const fs::path folder = path;
    // The index goes first: a folder may have an old single file, too.
    if (fs::exists(folder / indexName, error))
      file = folder / indexName;
    else if (fs::exists(folder / singleName, error))
      file = folder / singleName;
    else
      return fail(Code::NotFound, "the folder '", path, "' holds neither ", indexName, " nor ",
                  singleName);
  }
  // By the ending of the name; content is checked by each format.
  if (file.ends_with(".json")) {
    TRAINRT_TRY(opened.openIndex(file));
  } else if (file.ends_with(".onnx")) {
    opened.model = std::make_unique<OnnxWeights>();
    TRAINRT_TRY(OnnxWeights::open(file, *opened.model));
    for (const OnnxWeights::Entry &entry : opened.model->entries()) {
      opened.places.emplace(entry.name, std::pair(0, opened.list.size()));
      opened.list.push_back(entry.name);
    }
  } else {
    auto part = std::make_unique<Part>();
    part->path = file;
    TRAINRT_TRY(ArrayFile::open(file, part->file));
    for (size_t i = 0; i < part->file.size(); ++i) {
      opened.list.push_back(part->file.name(i));
      opened.places.emplace(part->file.name(i), std::pair(0, i));
    }
    opened.parts.push_back(std::move(part));
  }
  // Only now: an error leaves the result as it was.
  result = std::move(opened);
  return {};
}

Status WeightsFile::openIndex(const std::string &path) {
  using Json = nlohmann::json;
  std::shared_ptr<const MappedFile> mapping;
  TRAINRT_TRY(MappedFile::open(path, mapping));
  // Checked before it is parsed into anything.
  const std::string_view text(reinterpret_cast<const char *>(mapping->data()), mapping->size());
  const Json index = parseJson<Json>(text);
  if (nestsTooDeep(text))
    return fail(Code::BadData, "'", path, "' ", notJsonObject(text));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    return fail(Code::BadData, "'", path, "' is no index of a checkpoint: it has no 'weight_map'");
  // Each part is opened once, in the order of their names.
  std::map<std::string, std::vector<std::string>> byPart;
  for (auto &[name, part] : index["weight_map"].items()) {
    if (!part.is_string() || !isRelativePath(part.get<std::string>()))
      return fail(Code::BadData, "'", path, "': weight_map: the file of '", name,
                  "' is no path relative to the index");
    byPart[part.get<std::string>()].push_back(name);
  }
  for (const auto &[file, names] : byPart) {
    auto part = std::make_unique<Part>();
    part->path = directoryOf(path) + file;
    // A part is a file like any other.
    Status status = ArrayFile::open(part->path, part->file);
    if (status.code() == Code::NotFound)
      return fail(Code::NotFound, "'", part->path, "' is missing, which holds ", names.size(),
                  " tensors of '", path, "' (first: '", names[0], "')");
    TRAINRT_TRY(status);
    // Linear in the names, not quadratic.
    std::unordered_map<std::string, size_t> inPart;
    for (size_t i = 0; i < part->file.size(); ++i)
      inPart.emplace(part->file.name(i), i);
    for (const std::string &name : names) {
      auto found = inPart.find(name);
      if (found == inPart.end())
        return fail(Code::BadData, "'", part->path, "' lacks '", name, "', which '", path,
                    "' says is in it");
      list.push_back(name);
      // The first entry of a name counts; JSON has each once.
      places.emplace(name, std::pair(parts.size(), found->second));
    }
    parts.push_back(std::move(part));
  }
  return {};
}

Status WeightsFile::tensor(const std::string &name, bool inPlace, Tensor &tensor) {
  const auto [part, index] = places.at(name);
  // A mapped array may be used in place as long as its mapping is held.
  if (model)
    return model->array(index, inPlace, tensor.array, tensor.mapping, tensor.path);
  ArrayFile &file = parts[part]->file;
  bool mapped = false;
  TRAINRT_TRY(inPlace ? file.arrayInPlace(index, tensor.array, &mapped)
                      : file.array(index, tensor.array, &mapped));
  tensor.mapping = mapped ? file.mapping() : nullptr;
  tensor.path = parts[part]->path;
  return {};
}

} // namespace trainrt
