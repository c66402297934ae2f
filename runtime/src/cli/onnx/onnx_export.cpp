// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ModelProto: graph 7, functions 25 (node 7). GraphProto: node 1, initializer 5, input 11, output
// 12, value_info 13. TensorProto: dims 1, data_type 2, name 8, external_data 13, data_location 14,
// and the values in 4 to 7 and 9 to 11, of which 9 is raw_data.
#include "cli/onnx/onnx_export.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "format/file.h"
#include "format/status.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace trainrt::run {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t smallestExternal = 1024;
constexpr uint64_t dataAlignment = 64;

/// TensorProto.DataType of a dtype.
uint64_t onnxType(trainrt_dtype dtype) {
  switch (dtype) {
  case TRAINRT_F32:
    return 1;
  case TRAINRT_U8:
    return 2;
  case TRAINRT_I8:
    return 3;
  case TRAINRT_U16:
    return 4;
  case TRAINRT_I16:
    return 5;
  case TRAINRT_I32:
    return 6;
  case TRAINRT_I64:
    return 7;
  case TRAINRT_BOOL:
    return 9;
  case TRAINRT_F16:
    return 10;
  case TRAINRT_F64:
    return 11;
  case TRAINRT_U32:
    return 12;
  case TRAINRT_U64:
    return 13;
  case TRAINRT_BF16:
    return 16;
  default:
    return 0;
  }
}

bool isValueField(uint64_t number) {
  return (number >= 4 && number <= 7) || (number >= 9 && number <= 11);
}

std::string_view bytesOf(const MappedFile &file) {
  return {reinterpret_cast<const char *>(file.data()), file.size()};
}

void check(const Status &status) {
  if (!status.ok())
    throw Failure(exitInput, status.message());
}

/// The name of a ValueInfoProto.
std::string_view valueName(std::string_view content) {
  std::string_view name;
  eachField(content, [&](const Field &field) {
    if (field.is(1, Field::bytes))
      name = field.content;
  });
  return name;
}

} // namespace

std::string findModel(const Package &package) {
  const std::string folder = directoryOf(package.path);
  for (const trainrt_tensor_info &parameter : package.parameters) {
    if (!parameter.weights_file || (parameter.flags & TRAINRT_FLAG_EMBEDDED))
      continue;
    const std::string candidate = folder + directoryOf(parameter.weights_file) + package.info.model;
    std::error_code ignored;
    if (fs::exists(candidate, ignored))
      return candidate;
  }
  return folder + package.info.model;
}

/// External data, behind each other in one file.
class OnnxExport::DataWriter {
public:
  explicit DataWriter(const std::string &path) { check(file.create(path)); }
  /// Returns the offset.
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
      modelPath(settings.model.empty() ? findModel(package) : settings.model) {
  if (Status status = MappedFile::open(modelPath, file); !status.ok())
    throw Failure(exitInput,
                  status.message() +
                      "\n--export to .onnx writes the parameters into the model that the package "
                      "was compiled from; say where that is with --model FILE.onnx, or export to "
                      ".safetensors");
  try {
    read();
    findDropped();
    if (!settings.outputs.empty())
      chooseOutputs();
    // Everything is walked once, so that nothing malformed is met after training.
    Scraps scraps;
    build(nullptr, nullptr, scraps);
  } catch (const MalformedMessage &error) {
    fail(error.what());
  }
  checkTargets();
}

OnnxExport::~OnnxExport() = default;

void OnnxExport::fail(const std::string &what) const {
  throw Failure(exitInput, "model '" + modelPath + "': " + shown(what));
}

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
    Initializer initializer = readInitializer(field.content);
    if (!names.insert(initializer.name).second)
      throw MalformedMessage("initializer '" + std::string(initializer.name) +
                             "' is in it more than once");
    match(initializer);
    if (!initializer.external)
      inlineBytes += initializer.bytes;
    usesData |= initializer.external;
    initializers.push_back(std::move(initializer));
  });
  for (const trainrt_tensor_info &parameter : package.parameters)
    if (!names.count(parameter.name))
      fail("it has no initializer '" + std::string(parameter.name) +
           "', which is a parameter of the package; --model must be the file that was compiled");
  if (inlineBytes > settings.mostInline)
    for (Initializer &initializer : initializers)
      if (initializer.bytes >= smallestExternal && initializer.parameter >= 0)
        usesData = initializer.external = true;
}

OnnxExport::Initializer OnnxExport::readInitializer(std::string_view content) const {
  Initializer result;
  result.content = content;
  uint64_t values = 0;
  std::string_view offset, length;
  eachField(content, [&](const Field &field) {
    if (isValueField(field.number))
      values += field.type == Field::bytes ? field.content.size() : field.whole.size();
    if (field.is(1, Field::varint))
      result.dims.push_back(int64_t(field.value));
    else if (field.is(1, Field::bytes))
      for (uint64_t dim : packedVarints(field.content))
        result.dims.push_back(int64_t(dim));
    else if (field.is(2, Field::varint))
      result.dataType = field.value;
    else if (field.is(8, Field::bytes))
      result.name = field.content;
    else if (field.is(14, Field::varint))
      result.external = field.value == 1;
    else if (field.is(13, Field::bytes)) {
      std::string_view key, value;
      eachField(field.content, [&](const Field &part) {
        if (part.is(1, Field::bytes))
          key = part.content;
        if (part.is(2, Field::bytes))
          value = part.content;
      });
      if (key == "location")
        result.location = value;
      else if (key == "offset")
        offset = value;
      else if (key == "length")
        length = value;
    }
  });
  result.bytes = values;
  if (!result.external)
    return result;
  auto number = [&](std::string_view text, const char *what) {
    std::optional<int64_t> value = parseInteger(text);
    if (!value || *value < 0)
      throw MalformedMessage("initializer '" + std::string(result.name) + "': the " + what +
                             " of its external data is no number");
    return uint64_t(*value);
  };
  result.offset = offset.empty() ? 0 : number(offset, "offset");
  // Without a length it reaches to the end of the file.
  result.bytes = length.empty() ? UINT64_MAX : number(length, "length");
  if (!isRelativePath(result.location) ||
      fs::path(result.location).lexically_normal().string().starts_with(".."))
    throw MalformedMessage("initializer '" + std::string(result.name) +
                           "': its external data leaves the model's folder");
  return result;
}

void OnnxExport::match(Initializer &initializer) const {
  for (size_t i = 0; i < package.parameters.size(); ++i) {
    const trainrt_tensor_info &parameter = package.parameters[i];
    if (initializer.name != parameter.name)
      continue;
    bool same = initializer.dataType == onnxType(parameter.dtype) &&
                initializer.dims.size() == size_t(parameter.rank);
    for (int32_t axis = 0; same && axis < parameter.rank; ++axis)
      same = initializer.dims[size_t(axis)] == parameter.dims[axis].value;
    if (!same)
      fail("initializer '" + std::string(parameter.name) + "' is not " + describe(parameter) +
           " as in the package; --model must be the file that was compiled");
    initializer.parameter = int64_t(i);
  }
}

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
  for (std::string_view name : lost)
    if (settings.outputs.empty() && !name.empty() && used.count(name))
      fail("'" + std::string(name) +
           "' is an output of a BatchNormalization in training mode that something uses; say with "
           "--outputs which outputs of the model are wanted instead");
  std::erase_if(dropped, [&](std::string_view name) { return used.count(name) != 0; });
}

/// From the chosen outputs back to all that they need. Nodes may be listed in any order.
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
      fail("it has no output '" + name + "'; it has " + known);
    }
    open.push_back(*found);
  }
  while (!open.empty()) {
    std::string_view name = open.back();
    open.pop_back();
    if (!needed.insert(name).second)
      continue;
    auto found = producers.find(name);
    if (found == producers.end())
      continue;
    const auto &lost = found->second->lost;
    if (std::find(lost.begin(), lost.end(), name) != lost.end())
      fail("'" + std::string(name) +
           "' is an output of a BatchNormalization in training mode, which an exported model does "
           "not compute");
    open.insert(open.end(), found->second->uses.begin(), found->second->uses.end());
  }
}

/// The original and its data are still read while the new files are written, and belong to the
/// package.
void OnnxExport::checkTargets() const {
  std::error_code ignored;
  auto refuse = [&](const std::string &source, const std::string &target) {
    if (fs::equivalent(source, target, ignored))
      throw Failure(exitInput, "cannot export to '" + path + "': it would replace '" + source +
                                   "', which the package needs");
  };
  refuse(modelPath, path);
  if (!usesData)
    return;
  refuse(modelPath, dataPath);
  for (const Initializer &initializer : initializers)
    if (!initializer.location.empty())
      for (const std::string &target : {path, dataPath})
        refuse(directoryOf(modelPath) + initializer.location, target);
}

bool OnnxExport::keeps(std::string_view value) const {
  return settings.outputs.empty() ? dropped.count(value) == 0 : needed.count(value) != 0;
}

/// Of a field of the graph that is no initializer.
bool OnnxExport::keeps(const Field &field) const {
  if (field.type != Field::bytes)
    return true;
  if (field.number == 1) {
    const OnnxNode node = readOnnxNode(field.content);
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

Message OnnxExport::graphWith(trainrt_session *session, DataWriter *data, Scraps &scraps) const {
  Message result(scraps);
  auto initializer = initializers.begin();
  eachField(graph, [&](const Field &field) {
    if (field.is(5, Field::bytes)) {
      const Initializer &current = *initializer++;
      if (keeps(current.name))
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

void OnnxExport::addInitializer(Message &to, const Initializer &initializer,
                                trainrt_session *session, DataWriter *data, Scraps &scraps) const {
  std::string_view values;
  std::shared_ptr<const MappedFile> source;
  if (initializer.parameter >= 0) {
    if (session) {
      trainrt_tensor tensor;
      ErrorSlot error;
      error.check(trainrt_session_parameter(
          session, package.parameters[size_t(initializer.parameter)].name, &tensor, error));
      values = {static_cast<const char *>(tensor.data),
                size_t(trainrt_tensor_elements(&tensor)) * trainrt_dtype_size(tensor.dtype)};
    }
  } else if (initializer.external) {
    const std::string name = directoryOf(modelPath) + initializer.location;
    check(MappedFile::open(name, source));
    const uint64_t available =
        initializer.offset > source->size() ? 0 : source->size() - initializer.offset;
    const uint64_t bytes = initializer.bytes == UINT64_MAX ? available : initializer.bytes;
    if (initializer.offset > source->size() || bytes > available)
      fail("initializer '" + std::string(initializer.name) + "': bytes " +
           std::to_string(initializer.offset) + " to " +
           std::to_string(initializer.offset + bytes) + " are outside of '" + name +
           "', which has " + std::to_string(source->size()));
    values = bytesOf(*source).substr(initializer.offset, bytes);
  } else {
    return to.addBytes(5, initializer.content);
  }
  Message tensor(scraps);
  eachField(initializer.content, [&](const Field &field) {
    if (!isValueField(field.number) && field.number != 13 && field.number != 14)
      tensor.add(field);
  });
  if (!initializer.external) {
    tensor.addBytes(9, values);
    return to.addMessage(5, tensor);
  }
  const uint64_t offset = data ? data->append(values) : 0;
  auto entry = [&](const char *key, const std::string &value) {
    Message pair(scraps);
    pair.addText(1, key);
    pair.addText(2, value);
    tensor.addMessage(13, pair);
  };
  entry("location", fs::path(dataPath).filename().string());
  entry("offset", std::to_string(offset));
  entry("length", std::to_string(values.size()));
  tensor.addVarint(14, 1);
  to.addMessage(5, tensor);
}

Message OnnxExport::build(trainrt_session *session, DataWriter *data, Scraps &scraps) const {
  Message model(scraps);
  eachField(bytesOf(*file), [&](const Field &field) {
    if (field.is(7, Field::bytes))
      return model.addMessage(7, graphWith(session, data, scraps));
    if (!field.is(25, Field::bytes))
      return model.add(field);
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

void OnnxExport::write(trainrt_session *session, Reporter &reporter) const {
  std::unique_ptr<DataWriter> data;
  if (usesData)
    data = std::make_unique<DataWriter>(dataPath);
  Scraps scraps;
  const Message model = build(session, data.get(), scraps);
  if (model.size() > uint64_t(INT32_MAX))
    fail("it would be larger than 2 GiB, which ONNX files cannot be; export to .safetensors");
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
      fail("cannot replace '" + path + "': " + error.message());
    data->commit();
  }
  check(out.commit());
  reporter.note("wrote the model with " + grouped(int64_t(package.parameters.size())) +
                " parameters to " + path + (data ? " and " + dataPath : ""));
}

} // namespace trainrt::run
