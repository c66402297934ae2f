// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every difference between an adapter's files and the package is an error that names the tensor:
// an adapter that is loaded in part would train, and be another one.
#include "cli/adapter/adapter.h"

#include "cli/adapter/adapter_config.h"
#include "cli/export.h"
#include "cli/failure.h"
#include "cli/format.h"
#include "format/file.h"
#include "format/json.h"
#include "io/convert.h"
#include "io/safetensors.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>

namespace trainrt::run {

namespace {

const std::string prefix = "base_model.model.";
const auto [configName, weightsName] = Adapter::fileNames;

void check(const Status &status) {
  if (!status.ok())
    throw Failure(exitCodeOf(static_cast<trainrt_status>(status.code())), status.message());
}

std::string within(const std::string &folder, const char *name) {
  return (std::filesystem::path(folder) / name).string();
}

void removeAll(std::string &text, const std::string &part) {
  for (size_t at; (at = text.find(part)) != text.npos;)
    text.erase(at, part.size());
}

const trainrt_tensor_info &infoOf(const Package &package, const std::string &parameter) {
  for (const trainrt_tensor_info &info : package.parameters)
    if (parameter == info.name)
      return info;
  throw Failure(exitInternal, "there is no parameter '" + parameter + "'");
}

std::vector<int64_t> shapeOf(const trainrt_tensor_info &info) {
  std::vector<int64_t> shape;
  for (int32_t i = 0; i < info.rank; ++i)
    shape.push_back(info.dims[i].value);
  return shape;
}

std::string typeText(DType dtype, const std::vector<int64_t> &shape) {
  return std::string(nameOf(dtype)) + " " + shapeText(shape);
}

/// What `get` gives for a parameter, under `name` in a file.
template <typename Get>
SafetensorsEntry entryOf(const std::string &name, DType dtype, const std::vector<int64_t> &shape,
                         trainrt_session *session, const char *parameter, Get get) {
  auto view = [=](ArrayView &array) {
    trainrt_tensor tensor;
    ErrorSlot error;
    const trainrt_status status = get(session, parameter, &tensor, error);
    if (status != TRAINRT_OK)
      return Status(static_cast<Code>(status), error.message(status));
    array = {tensor.data, static_cast<DType>(tensor.dtype),
             std::vector<int64_t>(tensor.shape, tensor.shape + tensor.rank), 0};
    (void)countBytes(array.dtype, array.shape.data(), array.shape.size(), array.bytes);
    return Status();
  };
  return {name, dtype, shape, view};
}

std::string older(const std::string &path) { return path + ".old"; }

/// Puts both files in the places of older ones. There is no moment in which weights are found with
/// the configuration of others, which would load and compute something else: either both are there,
/// or there is no configuration and the older files have other names.
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
    TRAINRT_TRY(syncDirectory(folder));
    TRAINRT_TRY(weights.commit());
    return config.commit();
  };
  Status status = replace();
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

/// What is wrong with an adapter's tensors, told together.
class Problems {
public:
  void add(const std::string &text) {
    if (++count <= 20)
      lines += "\n  " + shown(text);
  }
  void check(const std::string &file) const {
    if (count)
      throw Failure(exitInput,
                    "'" + file + "' is an adapter of another model, or of other modules:" + lines +
                        (count > 20 ? "\n  and " + std::to_string(count - 20) + " more" : ""));
  }

private:
  std::string lines;
  size_t count = 0;
};

} // namespace

Adapter::Adapter(const Package &package, const std::string &option, BaseModel base)
    : base(std::move(base)) {
  const auto manifest = parseJson<nlohmann::json>(trainrt_package_manifest(package.handle.get()));
  std::optional<Lora> lora;
  check(readLora(manifest, lora));
  if (!lora)
    throw Failure(exitInput, package.path + ": " + option +
                                 " needs a package with adapters, which trainc --lora makes");
  section = std::move(*lora);
  // The package has checked all of this.
  for (const nlohmann::json &parameter : manifest["parameters"]) {
    const std::string name = parameter["name"];
    if (parameter.contains("part_of"))
      parts.insert(name);
    if (!parameter.contains("quantized"))
      continue;
    const nlohmann::json &stored = parameter["quantized"];
    Decoded &decoded = quantized[name];
    decoded.format = stored["format"];
    decoded.shape = stored["shape"].get<std::vector<int64_t>>();
    parseDType(stored["dtype"].get<std::string>(), decoded.dtype);
  }
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
    const std::string name = baseName(parameter), module = name.substr(0, name.rfind('.'));
    names[prefix + (paths.count(module) ? module + ".base_layer.bias" : name)] = parameter;
  }
}

bool Adapter::owns(const std::string &parameter) const {
  for (const Lora::Module &module : section.modules)
    if (parameter == module.a || parameter == module.b || parameter == module.magnitude)
      return true;
  return parts.count(parameter) != 0;
}

std::string Adapter::baseName(std::string parameter) {
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

void Adapter::write(const Package &package, trainrt_session *session, const std::string &folder,
                    Reporter &reporter) const {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw Failure(exitInput, "cannot create '" + folder + "': " + failed.message());
  std::vector<SafetensorsEntry> tensors;
  for (const auto &[name, parameter] : names) {
    const trainrt_tensor_info &info = infoOf(package, parameter);
    tensors.push_back(entryOf(name, static_cast<DType>(info.dtype), shapeOf(info), session,
                              info.name, trainrt_session_parameter));
  }
  AtomicFile values, file;
  check(values.create(within(folder, weightsName)));
  check(writeSafetensors(values, tensors, {{"format", "pt"}}));
  std::vector<std::string> weights;
  for (const trainrt_tensor_info &parameter : package.parameters)
    if (!owns(parameter.name))
      weights.push_back(baseName(parameter.name));
  Lora told = section;
  for (std::string &parameter : told.modulesToSave)
    parameter = baseName(parameter);
  const std::string config = writeAdapterConfig(told, base, weights);
  check(file.create(within(folder, configName)));
  check(file.write(config.data(), config.size()));
  std::shared_ptr<const MappedFile> present;
  if (MappedFile::open(within(folder, configName), present).ok() &&
      std::string_view(reinterpret_cast<const char *>(present->data()), present->size()) == config)
    check(values.commit());
  else
    check(replaceBoth(values, file, folder));
  // The older ones, and what an earlier run that was ended has left.
  for (const char *name : fileNames)
    std::filesystem::remove(older(within(folder, name)), failed);
  reporter.note("wrote the adapter of " + grouped(int64_t(section.modules.size())) +
                " modules to " + folder);
}

void Adapter::load(const Package &package, trainrt_session *session, const std::string &folder,
                   Reporter &reporter) {
  const std::string configPath = within(folder, configName), path = within(folder, weightsName);
  std::shared_ptr<const MappedFile> config;
  if (Status status = MappedFile::open(configPath, config); !status.ok()) {
    std::error_code ignored;
    throw Failure(exitInput,
                  status.message() + (std::filesystem::exists(older(configPath), ignored)
                                          ? "; while an adapter there was replaced, the run was "
                                            "ended: the older one's files end with '.old'"
                                          : ""));
  }
  const std::string text(reinterpret_cast<const char *>(config->data()), config->size());
  if (std::string difference = compareAdapterConfig(section, text); !difference.empty())
    throw Failure(exitInput, "'" + configPath + "' does not fit the package: " + difference);
  readBaseModel(text, base);
  SafetensorsReader reader;
  check(SafetensorsReader::open(path, reader));

  Problems problems;
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
    for (const trainrt_tensor_info &parameter : package.parameters)
      isBase |= baseName(parameter.name) == baseName(entry.name);
    if (isBase)
      reporter.warning("'" + path + "': '" + shown(entry.name) +
                       "' is frozen in the package and is ignored");
    else
      problems.add("'" + entry.name + "' has no place in the package");
  }
  for (const auto &[name, parameter] : names) {
    const trainrt_tensor_info &info = infoOf(package, parameter);
    const DType dtype = static_cast<DType>(info.dtype);
    const std::vector<int64_t> shape = shapeOf(info);
    auto entry = found.find(parameter);
    if (entry == found.end())
      problems.add("'" + name + "' is missing");
    else if (const ArrayView &array = entry->second->array;
             array.shape != shape || !convertsExactly(array.dtype, dtype))
      problems.add("'" + name + "' is " + typeText(array.dtype, array.shape) + ", expected " +
                   typeText(dtype, shape));
  }
  problems.check(path);

  for (const auto &[parameter, entry] : found) {
    const trainrt_tensor_info &info = infoOf(package, parameter);
    const DType dtype = static_cast<DType>(info.dtype);
    const std::vector<int64_t> shape = shapeOf(info);
    int64_t count = 0;
    (void)countElements(shape.data(), shape.size(), count);
    std::vector<unsigned char> value(size_t(count) * sizeOf(dtype));
    convertElements(entry->array.data, entry->array.dtype, value.data(), dtype, count);
    if (int64_t bad = firstNotFinite(entry->array, count); bad >= 0)
      throw Failure(exitInput, "'" + path + "': element " + std::to_string(bad) + " of '" +
                                   entry->name + "' is not finite");
    const trainrt_tensor tensor{value.data(), info.dtype, info.rank, shape.data()};
    ErrorSlot error;
    error.check(trainrt_session_set_parameter(session, parameter.c_str(), &tensor, error));
  }
  reporter.fact("adapter", folder);
}

void Adapter::writeMerged(const Package &package, trainrt_session *session, const std::string &path,
                          Reporter &reporter) const {
  std::vector<SafetensorsEntry> tensors;
  for (const trainrt_tensor_info &info : package.parameters) {
    if (owns(info.name))
      continue;
    auto decoded = quantized.find(info.name);
    const bool isPlain = decoded == quantized.end();
    tensors.push_back(entryOf(baseName(info.name),
                              isPlain ? static_cast<DType>(info.dtype) : decoded->second.dtype,
                              isPlain ? shapeOf(info) : decoded->second.shape, session, info.name,
                              trainrt_session_merged_parameter));
  }
  check(writeSafetensors(path, tensors, {{"format", "pt"}}));
  reporter.note("wrote " + grouped(int64_t(tensors.size())) + " parameters, " +
                grouped(int64_t(section.modules.size())) + " of them with their adapters, to " +
                path);
}

} // namespace trainrt::run
