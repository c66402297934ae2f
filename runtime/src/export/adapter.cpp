// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every difference between an adapter's files and the package is an error that names the tensor:
// an adapter that is loaded in part would train, and be another one.
#include "export/adapter.h"

#include "export/failure.h"
#include "format/file.h"
#include "io/convert.h"
#include "session/adapter/lora_merge.h"
#include "session/adapter/model_weight.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>

namespace trainrt {

namespace {

const std::string prefix = "base_model.model.";
/// The names under which PEFT and its tools look for the two files.
const char *const configName = "adapter_config.json", *const weightsName =
                                                          "adapter_model.safetensors";

std::string within(const std::string &folder, const char *name) {
  return (std::filesystem::path(folder) / name).string();
}

/// All occurrences, also such as come together by an earlier removal.
void removeAll(std::string &text, const std::string &part) {
  for (size_t at; (at = text.find(part)) != text.npos;)
    text.erase(at, part.size());
}

std::string typeText(DType dtype, const std::vector<int64_t> &shape) {
  return std::string(nameOf(dtype)) + " " + shapeText(shape);
}

/// What the model without adapters calls a parameter.
std::string baseName(std::string parameter) {
  // An export of a model of PEFT has the prefix already, behind that of a module around it.
  if (size_t at = parameter.find(prefix);
      at == 0 || (at != parameter.npos && parameter[at - 1] == '.'))
    parameter.erase(0, at + prefix.size());
  removeAll(parameter, ".base_layer");
  // With the adapter's name behind it.
  const std::string copy = ".modules_to_save.";
  if (size_t at = parameter.find(copy); at != parameter.npos) {
    const size_t end = parameter.find('.', at + copy.size());
    parameter.erase(at, (end == parameter.npos ? at + copy.size() - 1 : end) - at);
  }
  return parameter;
}

std::string older(const std::string &path) { return path + ".old"; }

/// Puts both files in the places of older ones. There is no moment in which weights are found with
/// the configuration of others, which would load and compute something else: either both are there,
/// or there is no configuration and the older files have other names.
/// `weights` and `config` are complete under temporary names before the first old name goes.
Status replaceBoth(AtomicFile &weights, AtomicFile &config, const std::string &folder) {
  namespace fs = std::filesystem;
  const std::string configPath = within(folder, configName), path = within(folder, weightsName);
  TRAINRT_TRY(weights.sync());
  TRAINRT_TRY(config.sync());
  std::error_code failed;
  const bool isPair = fs::exists(configPath, failed) && fs::exists(path, failed);
  if (isPair)
    fs::rename(configPath, older(configPath), failed);
  else
    // Without a pair there is nothing to keep: a configuration alone is of no use.
    fs::remove(configPath, failed);
  if (failed)
    return fail(Code::IoError, "cannot replace '", configPath, "': ", failed.message());
  bool moved = false;
  auto replace = [&]() -> Status {
    if (isPair)
      fs::rename(path, older(path), failed);
    if (failed)
      return fail(Code::IoError, "cannot replace '", path, "': ", failed.message());
    moved = isPair;
    // The old names are gone on disk before the new ones come: after a crash no mix is found.
    TRAINRT_TRY(syncDirectory(folder));
    TRAINRT_TRY(weights.commit());
    return config.commit();
  };
  Status status = replace();
  // Back to the older pair, in the reverse order: the configuration last, since it is what a loader
  // looks for.
  if (isPair && !status.ok()) {
    fs::remove(configPath, failed); // the last step, of which something failed
    if (moved)
      fs::rename(older(path), path, failed);
    if (!failed)
      fs::rename(older(configPath), configPath, failed);
  }
  return status;
}

/// -1 if there is none.
/// Converts in pieces: arrays may be larger than what a copy should take.
/// The index of the first of `count` elements that is a NaN or an infinity.
int64_t firstNotFinite(const ArrayView &array, int64_t count) {
  double held[1024];
  for (int64_t first = 0; first < count; first += std::size(held)) {
    const int64_t size = std::min<int64_t>(count - first, std::size(held));
    const auto *from =
        static_cast<const unsigned char *>(array.data) + first * int64_t(sizeOf(array.dtype));
    convertElements(from, array.dtype, held, DType::F64, size);
    for (int64_t i = 0; i < size; ++i)
      if (!std::isfinite(held[i]))
        return first + i;
  }
  return -1;
}

} // namespace

/// What is wrong with an adapter's tensors, told together.
class Adapter::Problems {
public:
  void add(const std::string &text) {
    // Files of another model have hundreds of wrong names: twenty show what is the matter.
    if (++count <= 20)
      lines.text += "\n  " + shown(text);
  }
  void check(const std::string &file) const {
    if (!count)
      return;
    const std::string more = count > 20 ? "\n  and " + std::to_string(count - 20) + " more" : "";
    throw Failure(fail(Code::BadData, "'", file,
                       "' is an adapter of another model, or of other modules:", lines,
                       more.c_str()));
  }

private:
  Lines lines;
  size_t count = 0;
};

/// The adapter refers to the session, which outlives it.
Status Adapter::open(Session &session, std::unique_ptr<Adapter> &adapter) {
  if (!session.package().manifest().lora)
    return fail(Code::Unsupported, session.package().path(),
                ": an adapter needs a package with adapters, which trainc --lora makes");
  adapter.reset(new Adapter(session));
  return {};
}

Adapter::Adapter(Session &session) : session(session), section(*session.package().manifest().lora) {
  // PEFT's names of all tensors that an adapter of this package has: exactly these are written, and
  // exactly these must be in a file that is read.
  std::set<std::string> paths;
  for (const Lora::Module &module : section.modules) {
    paths.insert(module.path);
    const std::string path = prefix + module.path;
    names[path + (module.embedding ? ".lora_embedding_A" : ".lora_A.weight")] = module.a;
    names[path + (module.embedding ? ".lora_embedding_B" : ".lora_B.weight")] = module.b;
    if (!module.magnitude.empty())
      names[path + ".lora_magnitude_vector"] = module.magnitude;
  }
  for (const std::string &parameter : section.modulesToSave)
    names[prefix + baseName(parameter)] = parameter;
  for (const std::string &parameter : section.trainedBiases) {
    // A bias of a wrapped module is one level deeper in PEFT's tree than in the plain model's.
    const std::string name = baseName(parameter), module = name.substr(0, name.rfind('.'));
    names[prefix + (paths.count(module) ? module + ".base_layer.bias" : name)] = parameter;
  }
}

const std::vector<Manifest::Tensor> &Adapter::parameters() const {
  return session.package().manifest().parameters;
}

const Manifest::Tensor &Adapter::parameter(const std::string &name) const {
  return session.package().parameter(findParameter(session, name));
}

/// What a merged model does not have: the low-rank matrices, and the statistics of a quantized
/// weight.
bool Adapter::owns(const Manifest::Tensor &parameter) const {
  for (const Lora::Module &module : section.modules)
    if (parameter.name == module.a || parameter.name == module.b ||
        parameter.name == module.magnitude)
      return true;
  return !parameter.partOf.empty();
}

Status Adapter::write(const BaseModel &base, const std::string &folder) const {
  return returned([&] { writeFiles(base, folder); });
}

void Adapter::writeFiles(const BaseModel &base, const std::string &folder) const {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw Failure(fail(Code::IoError, "cannot create '", folder, "': ", failed.message()));
  // Values are asked for when their turn comes to be written: one tensor is in memory at a time.
  std::vector<SafetensorsEntry> tensors;
  for (const auto &[name, parameterName] : names) {
    const Manifest::Tensor &info = parameter(parameterName);
    const size_t index = findParameter(session, parameterName);
    tensors.push_back({name, info.dtype, info.shape, [this, index](ArrayView &array) {
                         return session.parameter(index, array);
                       }});
  }
  // What is frozen, by the names that PEFT sees: whether the ends of paths tell modules apart is
  // asked of these.
  std::vector<std::string> weights;
  for (const Manifest::Tensor &parameter : parameters())
    if (!owns(parameter))
      weights.push_back(baseName(parameter.name));
  Lora told = section;
  for (std::string &parameter : told.modulesToSave)
    parameter = baseName(parameter);
  std::string config;
  check(writeAdapterConfig(told, base, weights, config));
  AtomicFile values, file;
  check(values.create(within(folder, weightsName)));
  check(writeSafetensors(values, tensors, {{"format", "pt"}}));
  check(file.create(within(folder, configName)));
  check(file.write(config.data(), config.size()));
  std::shared_ptr<const MappedFile> present;
  // Same configuration, other weights (the next checkpoint of a run): one rename is atomic by
  // itself, and the folder is never without an adapter.
  if (MappedFile::open(within(folder, configName), present).ok() &&
      std::string_view(reinterpret_cast<const char *>(present->data()), present->size()) == config)
    check(values.commit());
  else
    check(replaceBoth(values, file, folder));
  // The older ones, and what an earlier run that was ended has left.
  // Errors are no matter: the new pair is in place, and a name with .old is not read.
  for (const char *name : {configName, weightsName})
    std::filesystem::remove(older(within(folder, name)), failed);
}

Status Adapter::load(const std::string &folder, BaseModel &base) {
  return returned([&] { loadFiles(folder, base); });
}

/// `base` is set only after all values are.
void Adapter::loadFiles(const std::string &folder, BaseModel &base) {
  const std::string configPath = within(folder, configName), path = within(folder, weightsName);
  std::shared_ptr<const MappedFile> config;
  if (Status status = MappedFile::open(configPath, config); !status.ok()) {
    std::error_code ignored;
    const bool interrupted = std::filesystem::exists(older(configPath), ignored);
    throw Failure({status.code(),
                   status.message() + (interrupted ? "; while an adapter there was replaced, the "
                                                     "run was ended: the older one's files end "
                                                     "with '.old'"
                                                   : "")});
  }
  // Nothing is set before all is checked: an adapter that does not fit leaves the session as it
  // was.
  const std::string text(reinterpret_cast<const char *>(config->data()), config->size());
  if (std::string difference = compareAdapterConfig(section, text); !difference.empty())
    throw Failure(
        fail(Code::BadData, "'", configPath, "' does not fit the package: ", difference.c_str()));
  SafetensorsReader reader;
  check(SafetensorsReader::open(path, reader));

  Problems problems;
  const auto found = findParts(reader, path, problems);
  for (const auto &[name, parameterName] : names) {
    const Manifest::Tensor &info = parameter(parameterName);
    auto entry = found.find(parameterName);
    if (entry == found.end())
      problems.add("'" + name + "' is missing");
    else if (const ArrayView &array = entry->second->array;
             array.shape != info.shape || !convertsExactly(array.dtype, info.dtype))
      problems.add("'" + name + "' is " + typeText(array.dtype, array.shape) + ", expected " +
                   typeText(info.dtype, info.shape));
  }
  problems.check(path);
  // `found` is complete: problems.check has thrown otherwise.
  for (const auto &[parameterName, entry] : found)
    set(parameterName, *entry, path);
  base = {};
  readBaseModel(text, base);
}

/// The entries by the parameter that each is of. What the package cannot place is a problem, what
/// it holds frozen a warning.
std::map<std::string, const SafetensorsReader::Entry *>
Adapter::findParts(const SafetensorsReader &reader, const std::string &path, Problems &problems) {
  std::map<std::string, const SafetensorsReader::Entry *> found;
  for (const SafetensorsReader::Entry &entry : reader.entries()) {
    // With bias=all PEFT saves a bias of what it trains in full under its own name, and again as
    // those of the copy that is trained and of the one that is not.
    std::string own = entry.name;
    removeAll(own, ".modules_to_save");
    if (entry.name.find(".original_module.") != entry.name.npos ||
        (own != entry.name && reader.find(own)))
      continue;
    // Biases beside an adapter were once saved without the layer between.
    const std::string wrapped =
        entry.name.ends_with(".bias")
            ? entry.name.substr(0, entry.name.size() - 5) + ".base_layer.bias"
            : entry.name;
    auto known = names.find(names.count(entry.name) ? entry.name : wrapped);
    if (known != names.end()) {
      found[known->second] = &entry;
      continue;
    }
    // PEFT saves embeddings with an adapter on them, and all that it was told to.
    bool isBase = false;
    for (const Manifest::Tensor &parameter : parameters())
      isBase |= baseName(parameter.name) == baseName(entry.name);
    if (isBase)
      session.warnings() += "'" + shown(path) + "': '" + shown(entry.name) +
                            "' is frozen in the package and is ignored\n";
    else
      problems.add("'" + entry.name + "' has no place in the package");
  }
  return found;
}

/// The shape has been compared. A value that is not finite ends the loading, with earlier tensors
/// set already.
void Adapter::set(const std::string &parameterName, const SafetensorsReader::Entry &entry,
                  const std::string &path) {
  const Manifest::Tensor &info = parameter(parameterName);
  int64_t count = 0, bytes = 0;
  // Cannot overflow: the shape is that of a parameter that the package holds.
  (void)countElements(info.shape.data(), info.shape.size(), count);
  (void)countBytes(info.dtype, info.shape.data(), info.shape.size(), bytes);
  std::vector<unsigned char> value(static_cast<size_t>(bytes));
  convertElements(entry.array.data, entry.array.dtype, value.data(), info.dtype, count);
  // None changes on the way: `convertsExactly` has been asked for this pair of types.
  if (int64_t bad = firstNotFinite(entry.array, count); bad >= 0)
    throw Failure(
        fail(Code::BadData, "'", path, "': element ", bad, " of '", entry.name, "' is not finite"));
  check(session.setParameter(findParameter(session, parameterName),
                             {value.data(), info.dtype, info.shape, bytes}));
}

/// The session keeps its adapters: weights are added up on the way into the file.
Status Adapter::writeMerged(const std::string &path) const {
  // One buffer for all merged weights: a tensor is written before the next one is asked for.
  OwnedArray merged;
  std::vector<SafetensorsEntry> tensors;
  for (const Manifest::Tensor &parameter : parameters()) {
    if (owns(parameter))
      continue;
    const size_t index = findParameter(session, parameter.name);
    const auto &stored = parameter.quantized;
    tensors.push_back({baseName(parameter.name), stored ? stored->dtype : parameter.dtype,
                       stored ? stored->shape : parameter.shape,
                       [this, index, &merged](ArrayView &array) {
                         return mergedParameter(session, index, merged, array);
                       }});
  }
  return writeSafetensors(path, tensors, {{"format", "pt"}});
}

} // namespace trainrt
