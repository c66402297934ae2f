// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The manifest and the zip file around everything.

#include "trainc/Package/Package.h"
#include "dialects/Plan/PlanDialect.h"
#include "dialects/Train/Collectives/Shards.h"
#include "format/file.h"
#include "format/hash.h"
#include "format/signature.h"
#include "format/zip.h"
#include "trainc/Package/ProgramWriter.h"
#include "trainc/Support/Temporaries.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
namespace json = llvm::json;

namespace {

/// Bytes of a parameter, or of optimizer state, inside weights.bin.
/// Bytes are not copied until the package is written.
struct EmbeddedWeight {
  int64_t offset = 0, length = 0;
  /// From a blob of the importer, or from a file.
  const char *data = nullptr;
};

class PackageWriter {
public:
  PackageWriter(ModuleOp module, const PackageInterface &interface, const ImportedModel &model,
                const PackageContents &contents, StringRef path)
      : module(module), interface(interface), model(model), contents(contents), path(path) {}

  /// In the order of the file: the manifest goes first, so that readers find it without the rest.
  LogicalResult run() {
    // Paths in the package are from the one folder to the other.
    folder = realFolder(llvm::sys::path::parent_path(path));
    modelFolder = realFolder(model.folder);
    if (failed(gatherWeights()) || failed(gatherPlugins()))
      return failure();
    std::string manifest = writeManifest();
    trainrt::ZipWriter zip;
    trainrt::Status created;
    // Under another name until it is complete; gone if anything fails.
    TemporaryFile temporary([&] {
      created = zip.create(path.str());
      return created.ok() ? zip.temporaryPath() : "";
    });
    if (failed(check(created)) ||
        failed(check(zip.add("manifest.json", manifest.data(), manifest.size()))) ||
        failed(check(zip.add("program.fb", contents.program.data(), contents.program.size()))))
      return failure();
    for (const codegen::KernelObject &object : contents.kernels)
      if (failed(
              check(zip.add("kernels/" + object.name, object.bytes.data(), object.bytes.size()))))
        return failure();
    for (const plugin::Code *code : pluginCode)
      if (failed(check(zip.add("plugins/" + code->name, code->bytes.data(), code->bytes.size()))))
        return failure();
    if (!embedded.empty() && failed(writeWeights(zip)))
      return failure();
    if (!contents.ir.empty() &&
        failed(check(zip.add("ir.mlir", contents.ir.data(), contents.ir.size()))))
      return failure();
    // The signature covers the entries before it.
    if (!contents.signKey.empty() &&
        failed(check(trainrt::signZip(zip, contents.signKey).within("--sign: "))))
      return failure();
    return check(zip.finish());
  }

private:
  /// Messages of the runtime's writer, as diagnostics.
  LogicalResult check(const trainrt::Status &status) {
    if (status.ok())
      return success();
    return module.emitError(status.message());
  }

  /// Without links: ".." leads from a folder to its real parent.
  static std::string realFolder(StringRef folder) {
    llvm::SmallString<256> real;
    // A folder that does not resolve is taken as it is.
    if (!llvm::sys::fs::real_path(folder.empty() ? "." : folder, real))
      return real.str().str();
    real = folder;
    llvm::sys::fs::make_absolute(real);
    return real.str().str();
  }

  /// Path of a file of the model as seen from the package's folder.
  std::string relativePath(StringRef file) {
    llvm::SmallString<256> absolute(modelFolder);
    llvm::sys::path::append(absolute, file);
    return relativeTo(folder, absolute);
  }
  static std::string relativeTo(StringRef folder, StringRef path) {
    llvm::SmallString<256> absolute(path);
    // ".." stays: behind a link it leads elsewhere.
    llvm::sys::path::remove_dots(absolute, /*remove_dot_dot=*/false);
    auto from = llvm::sys::path::begin(folder), fromEnd = llvm::sys::path::end(folder);
    auto to = llvm::sys::path::begin(absolute), toEnd = llvm::sys::path::end(absolute);
    // What both begin with goes.
    while (from != fromEnd && to != toEnd && *from == *to)
      ++from, ++to;
    llvm::SmallString<256> relative;
    for (; from != fromEnd; ++from)
      llvm::sys::path::append(relative, "..");
    for (; to != toEnd; ++to)
      llvm::sys::path::append(relative, *to);
    return relative.str().str();
  }

  /// Mapped once; null where it cannot be read, which may be remembered.
  std::shared_ptr<const trainrt::MappedFile> open(StringRef file) {
    auto &entry = files[file.str()];
    if (!entry) {
      llvm::SmallString<256> full(model.folder);
      llvm::sys::path::append(full, file);
      if (!trainrt::MappedFile::open(full.str().str(), entry).ok())
        entry = nullptr;
    }
    return entry;
  }

  /// What may have a first value: parameters, and optimizer state, whose names differ from theirs.
  auto initialized() const {
    return llvm::concat<const InterfaceTensor>(interface.parameters, interface.state);
  }

  /// Chooses the parameters that go into weights.bin and hashes the files of the others.
  LogicalResult gatherWeights() {
    int64_t offset = 0;
    for (const InterfaceTensor &parameter : initialized()) {
      WeightAttr weight = parameter.weight;
      // Random values, or none: nothing to store.
      if (!weight)
        continue;
      StringRef file = weight.getFile().getValue();
      EmbeddedWeight entry;
      entry.length = weight.getLength();
      // Blobs are always inside: there is no file that has them.
      if (file.empty()) {
        if (uint64_t(weight.getOffset()) >= model.blobs.size())
          return module.emitError("parameter '") << parameter.name << "' has no data";
        entry.data = model.blobs[weight.getOffset()].data();
      } else {
        // Missing files stay outside: someone may bring them later.
        auto mapping = weight.getAbsent() ? nullptr : open(file);
        if (!mapping || !travelsInside(parameter, contents.embedWeights)) {
          if (std::string path = relativePath(file); !json::isUTF8(path))
            return module.emitError("a package cannot tell where '")
                   << path << "' is: the path is not UTF-8; rename it"
                   << (mapping ? ", or take the weights into the package (--embed-weights)" : "");
          usedFiles.try_emplace(file.str(), weight.getAbsent());
          continue;
        }
        // The file may have changed since the import.
        if (weight.getOffset() + weight.getLength() > int64_t(mapping->size()))
          return module.emitError("parameter '")
                 << parameter.name << "' lies outside of '" << file << "'";
        entry.data = reinterpret_cast<const char *>(mapping->data()) + weight.getOffset();
      }
      entry.offset = offset;
      // Aligned, so that the runtime can map them.
      offset = (offset + entry.length + 63) / 64 * 64;
      embedded[parameter.name] = entry;
    }
    embeddedSize = offset;
    return success();
  }

  /// The code of the plug-ins that the program calls, which has to be there for each processor.
  LogicalResult gatherPlugins() {
    std::map<std::string, plan::ExternalOp> called, launched;
    module.walk([&](plan::ExternalOp op) {
      called.try_emplace(op.getPlugin().str(), op);
      if (op.getLaunch())
        launched.try_emplace(op.getPlugin().str(), op);
    });
    for (auto &[name, op] : called) {
      const plugin::Plugin *found = nullptr;
      if (contents.plugins)
        for (const plugin::Plugin &plugin : *contents.plugins)
          if (plugin.name == name)
            found = &plugin;
      if (!found)
        return op.emitError("the program calls the plug-in '")
               << name << "', which no --plugin describes";
      for (const plugin::Code &code : found->code)
        pluginCode.push_back(&code);
      for (StringRef target : contents.targets)
        if (StringRef processor = processorOf(target); !processor.empty() && !op.getLaunch())
          if (const std::string entry = (name + "." + processor + ".so").str();
              llvm::none_of(found->code, [&](auto &code) { return code.name == entry; }))
            return op.emitError("the plug-in '")
                   << name << "' has no library for " << processor << ", and the package is for "
                   << target << ": add one, or name another --target";
      // Newer GPUs than those of the list take PTX, where there is some; the runtime tells that
      // there is none.
      auto launch = launched.find(name);
      for (StringRef target : contents.targets)
        if (StringRef architecture = target.split(':').second;
            launch != launched.end() && !plugin::hasKernelsFor(*found, architecture))
          return launch->second.emitError("the plug-in '")
                 << name << "' has no kernels that " << architecture
                 << " runs, and the package is for " << target
                 << ": add PTX or a cubin for it, or name another --target";
    }
    return success();
  }

  /// As files of plug-ins name it; "" where the host's is not known.
  static StringRef processorOf(StringRef target) {
    StringRef processor = target.split(':').second;
    return processor.starts_with("x86-64") ? "x86-64"
           : processor.starts_with("arm")  ? "aarch64"
                                           : "";
  }

  /// In the order of gatherWeights, padded as it has planned.
  LogicalResult writeWeights(trainrt::ZipWriter &zip) {
    if (failed(check(zip.begin("weights.bin", embeddedSize))))
      return failure();
    static const char zeros[64] = {};
    int64_t written = 0;
    for (const InterfaceTensor &parameter : initialized()) {
      auto it = embedded.find(parameter.name);
      if (it == embedded.end())
        continue;
      const EmbeddedWeight &entry = it->second;
      if (failed(check(zip.append(entry.data, entry.length))))
        return failure();
      assert(written <= embeddedSize && "entries lie in the file");
      written = entry.offset + entry.length;
      int64_t padded = (written + 63) / 64 * 64;
      if (failed(check(zip.append(zeros, padded - written))))
        return failure();
    }
    return check(zip.end());
  }
  /// Of the file's bytes, with the padding, before it is written.
  uint64_t weightsHash() {
    static const char zeros[64] = {};
    uint64_t hash = trainrt::fnvBasis;
    for (const InterfaceTensor &parameter : initialized()) {
      auto it = embedded.find(parameter.name);
      if (it == embedded.end())
        continue;
      const EmbeddedWeight &entry = it->second;
      hash = trainrt::fnv1a64(entry.data, entry.length, hash);
      int64_t end = entry.offset + entry.length;
      hash = trainrt::fnv1a64(zeros, (end + 63) / 64 * 64 - end, hash);
    }
    return hash;
  }

  /// Numbers, and expressions as texts.
  static json::Array shape(RankedTensorType type) {
    json::Array result;
    for (DimAttr dim : getDims(type))
      result.push_back(dim.getConstant() ? json::Value(*dim.getConstant())
                                         : json::Value(dim.str()));
    return result;
  }
  /// What all tables of the manifest have.
  static json::Object tensor(const InterfaceTensor &tensor) {
    return json::Object{
        {"name", tensor.name},
        {"dtype", tensor.isUnsigned ? "u8" : getDTypeName(tensor.type.getElementType())},
        {"shape", shape(tensor.type)}};
  }

  json::Array symbols() {
    json::Array result;
    for (auto symbol : module.getOps<SymbolOp>()) {
      json::Object object{
          {"name", symbol.getSymName()},
          {"min", int64_t(symbol.getMin())},
          {"max", symbol.getMax() ? json::Value(int64_t(*symbol.getMax())) : json::Value(nullptr)},
          {"divisor", int64_t(symbol.getDivisor())},
          {"input", symbol.getInput().value_or("")}};
      if (symbol.getDiffers())
        object["differs"] = int64_t(*symbol.getDiffers());
      if (symbol.getDiffers() && symbol.getCounts() != CountKind::elements)
        object["counts"] = stringifyCountKind(symbol.getCounts());
      if (isOfRun(symbol))
        object["run"] = symbol.getSymName();
      else if (!symbol.getDiffers())
        object["axis"] = int64_t(symbol.getAxis().value_or(0));
      result.push_back(std::move(object));
    }
    return result;
  }

  /// Dictionaries, lists, names, numbers and element types.
  static json::Value toJSON(Attribute attribute) {
    if (auto dictionary = dyn_cast<DictionaryAttr>(attribute)) {
      json::Object object;
      for (NamedAttribute entry : dictionary)
        object[entry.getName().getValue()] = toJSON(entry.getValue());
      return object;
    }
    if (auto list = dyn_cast<ArrayAttr>(attribute)) {
      json::Array array;
      for (Attribute entry : list)
        array.push_back(toJSON(entry));
      return array;
    }
    if (auto text = dyn_cast<StringAttr>(attribute))
      return text.getValue();
    // Booleans are integers, too: they go first.
    if (auto flag = dyn_cast<BoolAttr>(attribute))
      return flag.getValue();
    if (auto integer = dyn_cast<IntegerAttr>(attribute))
      return integer.getInt();
    if (auto number = dyn_cast<FloatAttr>(attribute))
      return number.getValueAsDouble();
    // Only such attributes are put into these dictionaries.
    return getDTypeName(cast<TypeAttr>(attribute).getValue());
  }

  /// Keys that say nothing are left out.
  json::Array parameters() {
    json::Array result;
    for (const InterfaceTensor &parameter : interface.parameters) {
      json::Object object = tensor(parameter);
      object["trainable"] = parameter.trainable;
      if (parameter.updated)
        object["updated"] = true;
      if (parameter.init)
        object["init"] = toJSON(parameter.init);
      if (parameter.quantized)
        object["quantized"] = toJSON(parameter.quantized);
      for (auto [key, value] : parameter.group)
        object[key] = value;
      if (!parameter.partOf.empty())
        object["part_of"] = parameter.partOf;
      addWeights(object, parameter);
      result.push_back(std::move(object));
    }
    return result;
  }

  /// Where the first value of a parameter, or of optimizer state, is.
  void addWeights(json::Object &object, const InterfaceTensor &tensor) {
    // Inside of the package by its own file, else by a file beside it.
    if (auto it = embedded.find(tensor.name); it != embedded.end())
      object["weights"] = json::Object{{"file", "weights.bin"},
                                       {"embedded", true},
                                       {"offset", it->second.offset},
                                       {"length", it->second.length}};
    else if (WeightAttr weight = tensor.weight)
      object["weights"] = json::Object{{"file", relativePath(weight.getFile().getValue())},
                                       {"offset", weight.getOffset()},
                                       {"length", weight.getLength()}};
  }

  /// What can be run, and what may take the place of what.
  json::Array functions() {
    json::Array result;
    for (auto function : module.getOps<plan::FunctionOp>()) {
      // The program has the same in another form; this is for readers of the manifest.
      json::Object object{{"name", function.getSymName()}};
      if (auto base = function->getAttrOfType<StringAttr>(train::kVariantOfAttr)) {
        object["variant_of"] = base.getValue();
        json::Array conditions;
        if (auto list = function->getAttrOfType<ArrayAttr>(train::kConditionsAttr))
          for (auto entry : list.getAsRange<DictionaryAttr>()) {
            json::Object condition;
            for (NamedAttribute field : entry)
              if (auto text = dyn_cast<StringAttr>(field.getValue()))
                condition[field.getName().getValue()] = text.getValue();
              else
                condition[field.getName().getValue()] =
                    cast<IntegerAttr>(field.getValue()).getInt();
            conditions.push_back(std::move(condition));
          }
        object["conditions"] = std::move(conditions);
      }
      result.push_back(std::move(object));
    }
    return result;
  }

  /// Enough of each file to notice that it was changed or replaced.
  json::Array fileTable() {
    constexpr size_t mebibyte = 1 << 20;
    json::Array result;
    for (auto &[file, absent] : usedFiles) {
      auto mapping = absent ? nullptr : open(file);
      if (!mapping) {
        // Absent files are named, so that a message can ask for them.
        result.push_back(json::Object{{"path", relativePath(file)}, {"absent", true}});
        continue;
      }
      // Beginning and end, which overlap in small files.
      size_t part = std::min<size_t>(mapping->size(), mebibyte);
      result.push_back(json::Object{
          {"path", relativePath(file)},
          {"size", int64_t(mapping->size())},
          {"head_fnv1a64", trainrt::hex64(trainrt::fnv1a64(mapping->data(), part))},
          {"tail_fnv1a64",
           trainrt::hex64(trainrt::fnv1a64(mapping->data() + mapping->size() - part, part))}});
    }
    return result;
  }

  /// The command line, with no path that says where the model was.
  json::Object options() {
    // The library has no command line.
    if (contents.arguments.empty())
      return {};
    std::string command = "trainc";
    for (StringRef argument : contents.arguments) {
      // "--option=/path" has the path behind the sign.
      const bool joined = argument.starts_with("-") && argument.contains("=/");
      auto [option, path] = joined ? argument.split('=') : std::pair(StringRef(), argument);
      command += " ";
      if (joined)
        command += option.str() + "=";
      command += path.starts_with("/") ? relativeTo(folder, path) : path.str();
    }
    // Arguments may be any bytes; JSON may not.
    return json::Object{{"command", json::fixUTF8(command)}};
  }

  std::string writeManifest() {
    json::Array inputs, outputs, state, targets;
    for (const InterfaceTensor &input : interface.inputs) {
      json::Object object = tensor(input);
      // Both, or one of them.
      json::Array used;
      if (input.usedInTrain)
        used.push_back("train");
      if (input.usedInEval)
        used.push_back("eval");
      object["optional"] = false;
      object["used_in"] = std::move(used);
      json::Array tokens;
      for (const InterfaceTokens &entry : input.tokens) {
        json::Object role{{"role", entry.isLabel ? "label" : "embed"}};
        // One of both says what padding is.
        if (entry.pad)
          role["pad"] = *entry.pad;
        else
          role["mask"] = entry.mask;
        tokens.push_back(std::move(role));
      }
      if (!tokens.empty())
        object["tokens"] = std::move(tokens);
      inputs.push_back(std::move(object));
    }
    for (const InterfaceTensor &output : interface.outputs) {
      json::Object object = tensor(output);
      // One role each; the loss goes first.
      object["role"] = output.isLoss       ? "loss"
                       : output.isWeight   ? "weight"
                       : output.isGradNorm ? "grad_norm"
                                           : "output";
      outputs.push_back(std::move(object));
    }
    for (const InterfaceTensor &entry : interface.state) {
      json::Object object = tensor(entry);
      addWeights(object, entry);
      state.push_back(std::move(object));
    }
    // Sixteen digits hold the place of the manifest's own.
    json::Object checksums{{"manifest", std::string(16, '0')},
                           {"program.fb", hash(contents.program)}};
    for (const std::string &target : contents.targets)
      targets.push_back(target);
    for (const codegen::KernelObject &object : contents.kernels)
      checksums["kernels/" + object.name] = hash(object.bytes);
    json::Array plugins;
    for (const plugin::Code *code : pluginCode) {
      checksums["plugins/" + code->name] = hash(code->bytes);
      plugins.push_back(code->name);
    }
    // Of the bytes as they are in the zip file.
    if (!embedded.empty())
      checksums["weights.bin"] = trainrt::hex64(weightsHash());
    if (!contents.ir.empty())
      checksums["ir.mlir"] =
          trainrt::hex64(trainrt::fnv1a64(contents.ir.data(), contents.ir.size()));
    json::Object manifest{{"format", json::Object{{"major", 1}, {"minor", 0}}},
                          {"producer", "trainc " TRAINC_VERSION},
                          {"model", json::fixUTF8(llvm::sys::path::filename(model.path))},
                          {"kind", contents.kind},
                          {"targets", std::move(targets)},
                          {"loss", contents.loss},
                          {"batch_symbol", interface.batchSymbol},
                          {"symbols", symbols()},
                          {"inputs", std::move(inputs)},
                          {"outputs", std::move(outputs)},
                          {"parameters", parameters()},
                          {"functions", functions()},
                          {"state", std::move(state)},
                          {"files", fileTable()},
                          {"optimizer", json::Object(contents.optimizer)},
                          {"options", options()},
                          {"checksums", std::move(checksums)}};
    // Keys that are false are left out.
    if (interface.lossIsMean)
      manifest["loss_is_mean"] = true;
    if (!plugins.empty())
      manifest["plugins"] = std::move(plugins);
    if (!contents.identity.empty())
      manifest["identity"] = contents.identity;
    if (Attribute lora = module->getAttr(kLoraAttr))
      manifest["lora"] = toJSON(lora);
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << llvm::formatv("{0:2}", json::Value(std::move(manifest))) << "\n";
    // The manifest's own checksum is that of the text with zeros in its place.
    std::string key = "\"manifest\": \"";
    size_t position = text.find(key + std::string(16, '0')) + key.size();
    assert(text.find(key) != std::string::npos && "checksums have the key");
    std::string own = trainrt::hex64(trainrt::fnv1a64(text.data(), text.size()));
    return text.replace(position, 16, own);
  }
  static std::string hash(const std::vector<char> &bytes) {
    return trainrt::hex64(trainrt::fnv1a64(bytes.data(), bytes.size()));
  }

  ModuleOp module;
  const PackageInterface &interface;
  const ImportedModel &model;
  const PackageContents &contents;
  StringRef path;
  /// Real paths of the package's folder and of the model's.
  std::string folder, modelFolder;
  std::map<std::string, std::shared_ptr<const trainrt::MappedFile>> files;
  /// Files that stay outside; true: absent.
  std::map<std::string, bool> usedFiles;
  std::map<std::string, EmbeddedWeight> embedded;
  int64_t embeddedSize = 0;
  std::vector<const plugin::Code *> pluginCode;
};
} // namespace

LogicalResult trainc::writePackage(ModuleOp module, const PackageInterface &interface,
                                   const ImportedModel &model, const PackageContents &contents,
                                   StringRef path) {
  return PackageWriter(module, interface, model, contents, path).run();
}
