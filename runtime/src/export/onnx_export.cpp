// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ModelProto: graph 7, functions 25 (node 7). GraphProto: node 1, initializer 5, input 11, output
// 12, value_info 13.
#include "export/onnx_export.h"

#include "export/failure.h"
#include "format/file.h"
#include "session/adapter/lora_merge.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace trainrt {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t smallestExternal = 1024;
constexpr uint64_t dataAlignment = 64;

std::string_view bytesOf(const MappedFile &file) {
  return {reinterpret_cast<const char *>(file.data()), file.size()};
}

/// The name of a ValueInfoProto.
/// Empty where it has none, which no value of a valid model has.
std::string_view valueName(std::string_view content) {
  std::string_view name;
  eachField(content, [&](const Field &field) {
    if (field.is(1, Field::bytes))
      name = field.content;
  });
  return name;
}

/// "f32 [8, 3]".
std::string describe(const Manifest::Tensor &parameter) {
  return std::string(nameOf(parameter.dtype)) + " " + shapeText(parameter.shape);
}

} // namespace

/// Packages name the model's file without its folder. Weights outside of the package tell the
/// folder relative to the package's; without such it lies beside the package.
std::string findModel(const Package &package) {
  const std::string folder = directoryOf(package.path());
  const Manifest &manifest = package.manifest();
  for (const Manifest::Tensor &parameter : manifest.parameters) {
    if (!parameter.hasWeights || parameter.embedded)
      continue;
    const std::string candidate = folder + directoryOf(parameter.file) + manifest.model;
    std::error_code ignored;
    if (fs::exists(candidate, ignored))
      return candidate;
  }
  return folder + manifest.model;
}

/// External data, behind each other in one file.
class OnnxExport::DataWriter {
public:
  explicit DataWriter(const std::string &path) { check(file.create(path)); }
  /// Returns the offset.
  /// Offsets are multiples of the alignment, so that readers can map the file and use the values in
  /// place.
  uint64_t append(std::string_view bytes) {
    static constexpr char zeros[dataAlignment] = {};
    check(file.write(zeros, (dataAlignment - file.position() % dataAlignment) % dataAlignment));
    const uint64_t offset = file.position();
    check(file.write(bytes.data(), bytes.size()));
    return offset;
  }
  void sync() { check(file.sync()); }
  void commit() { check(file.commit()); }

private:
  AtomicFile file;
};

OnnxExport::OnnxExport(const Package &package, const Settings &settings, const std::string &path)
    : package(package), settings(settings), path(path), dataPath(path + ".data"),
      modelPath(settings.model.empty() ? findModel(package) : settings.model) {}

/// Reads only; what is wrong with the model is found before a training run that would end with this
/// export.
Status OnnxExport::open(const Package &package, const Settings &settings, const std::string &path,
                        std::unique_ptr<OnnxExport> &result) {
  std::unique_ptr<OnnxExport> made(new OnnxExport(package, settings, path));
  TRAINRT_TRY(MappedFile::open(made->modelPath, made->file));
  TRAINRT_TRY(returned([&] {
    try {
      made->read();
      made->findDropped();
      if (!settings.outputs.empty())
        made->chooseOutputs();
      // Everything is walked once, so that nothing malformed is met after training.
      Scraps scraps;
      made->requireSize(made->build(nullptr, nullptr, scraps));
    } catch (const MalformedMessage &error) {
      made->refuse(error.what());
    }
    made->checkTargets();
  }));
  result = std::move(made);
  return {};
}

/// Always throws.
void OnnxExport::refuse(const std::string &what) const {
  throw Failure(fail(Code::BadData, "model '", modelPath, "': ", what));
}

void OnnxExport::requireSize(const Message &model) const {
  if (model.size() > uint64_t(INT32_MAX))
    refuse("it would be larger than 2 GiB, which ONNX files cannot be; export to .safetensors");
}

/// Views into the mapped file are kept: `file` outlives them.
void OnnxExport::read() {
  eachField(bytesOf(*file), [&](const Field &field) {
    if (!field.is(7, Field::bytes))
      return;
    if (graph.data())
      throw MalformedMessage("it has more than one graph");
    graph = field.content;
  });
  if (!graph.data())
    throw MalformedMessage("it is no ONNX model: it has no graph");
  std::set<std::string_view> names;
  uint64_t inlineBytes = 0;
  eachField(graph, [&](const Field &field) {
    if (!field.is(5, Field::bytes))
      return;
    Initializer initializer;
    initializer.content = field.content;
    initializer.tensor = TensorProto::read(field.content);
    const TensorProto &tensor = initializer.tensor;
    if (!names.insert(tensor.name).second)
      throw MalformedMessage("initializer '" + std::string(tensor.name) +
                             "' is in it more than once");
    match(initializer);
    initializer.external = tensor.external;
    if (!tensor.external)
      for (const Field &value : tensor.values)
        initializer.inlineBytes +=
            value.type == Field::bytes ? value.content.size() : value.whole.size();
    initializer.tensor.values = {};
    inlineBytes += initializer.inlineBytes;
    usesData |= tensor.external;
    initializers.push_back(std::move(initializer));
  });
  // Adapters that --lora has added are not in the model: their product is then added to the
  // weights. A model that was exported with adapters has them as initializers of its own.
  const std::set<std::string> added = findAdded(names);
  const auto &lora = package.manifest().lora;
  hasAdapters = lora && !lora->modules.empty() && !added.count(lora->modules[0].a);
  for (const TensorDecl &parameter : package.program().parameters)
    if (!names.count(parameter.name) && !added.count(parameter.name))
      refuse("it has no initializer '" + parameter.name +
             "', which is a parameter of the package; the model must be the file that was "
             "compiled");
  // Too much for one file of 2 GiB: large parameters go into a file of their own, as they do in
  // what exporters write.
  if (inlineBytes > settings.mostInline)
    for (Initializer &initializer : initializers)
      if (initializer.inlineBytes >= smallestExternal && initializer.parameter >= 0)
        usesData = initializer.external = true;
}

/// Parameters of the package that the model has not: adapters of --lora, and statistics of
/// quantized weights. `names` are the model's initializers.
std::set<std::string> OnnxExport::findAdded(const std::set<std::string_view> &names) const {
  std::set<std::string> added;
  const Manifest &manifest = package.manifest();
  if (manifest.lora)
    for (const Lora::Module &module : manifest.lora->modules)
      if (!names.count(module.a))
        added.insert({module.a, module.b, module.magnitude});
  for (const Manifest::Tensor &parameter : manifest.parameters)
    if (!parameter.partOf.empty())
      added.insert(parameter.name);
  return added;
}

/// Quantized parameters are compared as the model has them, before they were quantized.
void OnnxExport::match(Initializer &initializer) const {
  for (size_t i = 0; i < package.program().parameters.size(); ++i) {
    const Manifest::Tensor &parameter = package.parameter(i);
    if (initializer.tensor.name != parameter.name)
      continue;
    const DType dtype = parameter.quantized ? parameter.quantized->dtype : parameter.dtype;
    const auto &shape = parameter.quantized ? parameter.quantized->shape : parameter.shape;
    if (initializer.tensor.type != onnxTypeOf(dtype) || initializer.tensor.dims != shape)
      refuse("initializer '" + parameter.name + "' is not " + describe(parameter) +
             " as in the package; the model must be the file that was compiled");
    initializer.parameter = int64_t(i);
  }
}

/// Names of Dropout's `training_mode` inputs: their initializers and nodes go where nothing else
/// uses them. Needs all nodes, since a later one may use the value.
void OnnxExport::findDropped() {
  std::set<std::string_view> used;
  std::vector<std::string_view> lost;
  eachField(graph, [&](const Field &field) {
    if (field.is(12, Field::bytes))
      used.insert(valueName(field.content));
    if (!field.is(1, Field::bytes))
      return;
    const OnnxNode node = readOnnxNode(field.content);
    used.insert(node.uses.begin(), node.uses.end());
    dropped.insert(node.dropped);
    lost.insert(lost.end(), node.lost.begin(), node.lost.end());
  });
  // With chosen outputs only what these need is asked for (chooseOutputs), and other uses go with
  // their nodes.
  for (std::string_view name : lost)
    if (settings.outputs.empty() && !name.empty() && used.count(name))
      refuse(
          "'" + std::string(name) +
          "' is an output of a BatchNormalization in training mode that something uses; say which "
          "outputs of the model are wanted instead (--outputs)");
  std::erase_if(dropped, [&](std::string_view name) { return used.count(name) != 0; });
}

/// From the chosen outputs back to all that they need. Nodes may be listed in any order.
/// Each value is visited once, so this is linear in the model's size.
void OnnxExport::chooseOutputs() {
  std::map<std::string_view, const OnnxNode *> producers;
  std::deque<OnnxNode> nodes;
  std::set<std::string_view> outputs;
  eachField(graph, [&](const Field &field) {
    if (field.is(12, Field::bytes))
      outputs.insert(valueName(field.content));
    if (!field.is(1, Field::bytes))
      return;
    const OnnxNode &node = nodes.emplace_back(readOnnxNode(field.content));
    for (std::string_view output : node.outputs)
      if (!output.empty())
        producers.emplace(output, &node);
  });
  std::vector<std::string_view> open;
  for (const std::string &name : settings.outputs) {
    auto found = outputs.find(name);
    if (found == outputs.end()) {
      std::string known;
      for (std::string_view output : outputs)
        known += (known.empty() ? "" : ", ") + std::string(output);
      refuse("it has no output '" + name + "'; it has " + known);
    }
    open.push_back(*found);
  }
  while (!open.empty()) {
    std::string_view name = open.back();
    open.pop_back();
    if (!needed.insert(name).second)
      continue;
    auto found = producers.find(name);
    // An input or an initializer: it ends here.
    if (found == producers.end())
      continue;
    const auto &lost = found->second->lost;
    if (std::find(lost.begin(), lost.end(), name) != lost.end())
      refuse(
          "'" + std::string(name) +
          "' is an output of a BatchNormalization in training mode, which an exported model does "
          "not compute");
    open.insert(open.end(), found->second->uses.begin(), found->second->uses.end());
  }
}

/// The original and its data are still read while the new files are written, and belong to the
/// package.
void OnnxExport::checkTargets() const {
  std::error_code ignored;
  auto spare = [&](const std::string &source, const std::string &target) {
    // By the file, not by its name: links and other spellings of one path are the same file.
    if (fs::equivalent(source, target, ignored))
      throw Failure(fail(Code::BadData, "cannot export to '", path, "': it would replace '", source,
                         "', which the package needs"));
  };
  spare(modelPath, path);
  if (!usesData)
    return;
  spare(modelPath, dataPath);
  for (const Initializer &initializer : initializers)
    if (initializer.tensor.external)
      for (const std::string &target : {path, dataPath})
        spare(directoryOf(modelPath) + initializer.tensor.location, target);
}

/// Without chosen outputs all but what Dropout alone has used; with them what `needed` has.
bool OnnxExport::keeps(std::string_view value) const {
  return settings.outputs.empty() ? dropped.count(value) == 0 : needed.count(value) != 0;
}

/// Of a field of the graph that is no initializer.
bool OnnxExport::keeps(const Field &field) const {
  if (field.type != Field::bytes)
    return true;
  if (field.number == 1) {
    const OnnxNode node = readOnnxNode(field.content);
    // A node stays for any of its outputs that is wanted; optional ones that it lacks are empty.
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](std::string_view output) { return !output.empty() && keeps(output); });
  }
  if (settings.outputs.empty())
    return true;
  switch (field.number) {
  case 12:
    return std::find(settings.outputs.begin(), settings.outputs.end(), valueName(field.content)) !=
           settings.outputs.end();
  case 11:
  case 13:
    return keeps(valueName(field.content));
  default:
    return true;
  }
}

/// With no session and no data this is a trial that finds what is wrong and the size: values are
/// then empty. Needs `read` to have been called: initializers come in the order of the fields.
/// Fields keep their order, and those that nothing is known of stay as they are.
Message OnnxExport::graphWith(Session *session, DataWriter *data, Scraps &scraps) const {
  Message result(scraps);
  auto initializer = initializers.begin();
  eachField(graph, [&](const Field &field) {
    if (field.is(5, Field::bytes)) {
      const Initializer &current = *initializer++;
      if (keeps(current.tensor.name))
        addInitializer(result, current, session, data, scraps);
    } else if (keeps(field)) {
      if (field.is(1, Field::bytes))
        addForEvaluation(result, 1, field.content, scraps);
      else
        result.add(field);
    }
  });
  return result;
}

/// The parameter as the model has it: its adapter is added unless the model has that itself.
Status OnnxExport::valueOf(Session &session, size_t index, OwnedArray &held,
                           ArrayView &array) const {
  if (!hasAdapters)
    return mergedParameter(session, index, held, array);
  if (!package.parameter(index).quantized)
    return session.parameter(index, array);
  TRAINRT_TRY(decodeParameter(session, index, held));
  array = {held.bytes.data(), held.dtype, held.shape, int64_t(held.bytes.size())};
  return {};
}

void OnnxExport::addInitializer(Message &to, const Initializer &initializer, Session *session,
                                DataWriter *data, Scraps &scraps) const {
  std::string_view values;
  std::shared_ptr<const MappedFile> source;
  OwnedArray merged;
  if (initializer.parameter >= 0) {
    if (session) {
      ArrayView array;
      check(valueOf(*session, size_t(initializer.parameter), merged, array));
      values = {static_cast<const char *>(array.data), size_t(array.bytes)};
      if (array.data == merged.bytes.data() && !initializer.external)
        values = scraps.emplace_back(values); // the next one is merged in the same memory
    }
  } else if (initializer.external) {
    check(MappedFile::open(directoryOf(modelPath) + initializer.tensor.location, source));
    check(initializer.tensor.externalBytes(*source, values));
  } else {
    // Neither trained nor external: byte for byte as it was.
    return to.addBytes(5, initializer.content);
  }
  Message tensor(scraps);
  // Everything else of the tensor (name, type, dims, text) stays; only where the values are is told
  // anew.
  eachField(initializer.content, [&](const Field &field) {
    if (!TensorProto::isValue(field.number) && field.number != TensorProto::numExternal &&
        field.number != TensorProto::numLocation)
      tensor.add(field);
  });
  if (!initializer.external) {
    tensor.addBytes(TensorProto::numRaw, values);
    return to.addMessage(5, tensor);
  }
  // Offsets are varints as text: in a trial they are shorter than in the file, by a few bytes an
  // initializer.
  const uint64_t offset = data ? data->append(values) : 0;
  auto entry = [&](const char *key, const std::string &value) {
    Message pair(scraps);
    pair.addText(1, key);
    pair.addText(2, value);
    tensor.addMessage(TensorProto::numExternal, pair);
  };
  entry("location", fs::path(dataPath).filename().string());
  entry("offset", std::to_string(offset));
  entry("length", std::to_string(values.size()));
  tensor.addVarint(TensorProto::numLocation, 1);
  to.addMessage(5, tensor);
}

/// Messages point into the original and into `scraps`; nothing is copied but what is new.
Message OnnxExport::build(Session *session, DataWriter *data, Scraps &scraps) const {
  Message model(scraps);
  // The order of the fields stays, unknown ones included: what reads the original reads this.
  eachField(bytesOf(*file), [&](const Field &field) {
    if (field.is(7, Field::bytes))
      return model.addMessage(7, graphWith(session, data, scraps));
    if (!field.is(25, Field::bytes))
      return model.add(field);
    // Functions of the model hold nodes as the graph does; they have no initializers.
    Message function(scraps);
    eachField(field.content, [&](const Field &part) {
      if (part.is(7, Field::bytes))
        addForEvaluation(function, 7, part.content, scraps);
      else
        function.add(part);
    });
    model.addMessage(25, function);
  });
  return model;
}

/// With the values that the session has now. Until the end there are temporary files only.
Status OnnxExport::write(Session &session) const {
  return returned([&] { writeFiles(session); });
}

/// After a crash between both commits there is data without a model, never a model with other data.
void OnnxExport::writeFiles(Session &session) const {
  std::unique_ptr<DataWriter> data;
  if (usesData)
    data = std::make_unique<DataWriter>(dataPath);
  // Pieces of the message point into the scraps and into the mapped original: both must live until
  // the last one is written.
  Scraps scraps;
  const Message model = build(&session, data.get(), scraps);
  requireSize(model);
  AtomicFile out;
  check(out.create(path));
  for (std::string_view piece : model.pieces())
    check(out.write(piece.data(), piece.size()));
  // An older model is never found with the new data: it goes when nothing but names is missing.
  if (data) {
    check(out.sync());
    data->sync();
    std::error_code error;
    fs::remove(path, error);
    if (error)
      refuse("cannot replace '" + path + "': " + error.message());
    data->commit();
  }
  check(out.commit());
}

} // namespace trainrt
