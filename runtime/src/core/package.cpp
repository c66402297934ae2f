// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening a package: every byte of the file is covered by a check (zip headers canonical, contents
// by checksum or CRC), then manifest and program are compared with each other.

#include "core/package.h"
#include "io/hash.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace trainrt {

namespace {

/// What a file is that somebody takes for a package, and what to do with it; "" if it is unknown.
std::string whatElse(const MappedFile &file, const ZipReader &archive) {
  const std::string &path = file.path();
  const std::string_view bytes(reinterpret_cast<const char *>(file.data()), file.size());
  for (const ZipEntry &entry : archive.entries())
    if (entry.name.ends_with(".npy"))
      return "a file of arrays (.npz): the package comes first, and arrays behind --data, --eval "
             "or "
             "--weights";
  // 8 bytes that say how long the header is, which is JSON.
  if (path.ends_with(".safetensors") || (bytes.size() > 9 && bytes.substr(8, 2) == "{\""))
    return "a safetensors file: the package comes first, and tensors behind --weights or --data";
  // The first field, ir_version, is a number.
  if (path.ends_with(".onnx") ||
      (bytes.size() > 2 && bytes[0] == 8 && bytes[1] > 0 && bytes[1] < 32))
    return "an ONNX model: compile it first, trainc '" + path + "' -o model.tpk";
  if (path.ends_with(".mlir") || bytes.starts_with("// reproducer:") || bytes.starts_with("module"))
    return "MLIR of the compiler: trainc --replay '" + path +
           "' -o model.tpk makes a package of a reproducer";
  return {};
}

} // namespace

Status Package::open(const std::string &path, std::shared_ptr<const Package> &package) {
  auto result = std::make_shared<Package>();
  result->name = path;
  std::shared_ptr<const MappedFile> file;
  TRAINRT_TRY(MappedFile::open(path, file));
  std::string prefix = "package '" + path + "': ";
  Status status = ZipReader::open(file, result->archive).as(Code::BadPackage);
  if (!status.ok() || !result->archive.find("manifest.json"))
    if (std::string other = whatElse(*file, result->archive); !other.empty())
      return fail(Code::BadPackage, "'", path, "' is no package: it is ", other);
  TRAINRT_TRY(status);
  status = result->openEntries();
  if (!status.ok())
    return status.within(prefix);
  package = std::move(result);
  return {};
}

Status Package::openEntries() {
  auto missing = [](const char *entry) {
    return fail(Code::BadPackage, "entry '", entry, "' is missing");
  };
  // The manifest is read before the other checks, since a newer version may change all of them.
  const ZipEntry *entry = archive.find("manifest.json");
  if (!entry)
    return missing("manifest.json");
  if (entry->method != 0)
    return fail(Code::BadPackage, "entry 'manifest.json' is compressed; packages are stored");
  text.assign(reinterpret_cast<const char *>(archive.data(*entry)), entry->size);
  TRAINRT_TRY(readManifest(text, description));
  TRAINRT_TRY(archive.checkCanonical().as(Code::BadPackage));
  for (const auto &[listed, checksum] : description.checksums)
    if (listed != "manifest" && !archive.find(listed))
      return missing(listed.c_str());
  for (const ZipEntry &other : archive.entries())
    TRAINRT_TRY(checkEntry(other));

  entry = archive.find("program.fb");
  if (!entry)
    return missing("program.fb");
  TRAINRT_TRY(readProgram(archive.data(*entry), entry->size, code));
  TRAINRT_TRY(crossCheck());
  if (const ZipEntry *tuned = archive.find(tuningEntry))
    TRAINRT_TRY(
        readTuning({reinterpret_cast<const char *>(archive.data(*tuned)), tuned->size}, choices)
            .as(Code::BadPackage)
            .within(std::string("entry '") + tuningEntry + "' "));
  return loadKernels();
}

Status Package::checkEntry(const ZipEntry &entry) const {
  if (entry.name == "manifest.json")
    return archive.checkCrc(entry).as(Code::BadPackage);
  auto found = description.checksums.find(entry.name);
  if (found == description.checksums.end())
    return archive.checkCrc(entry).as(Code::BadPackage);
  if (fnv1a64(archive.data(entry), entry.size) != found->second)
    return fail(Code::BadPackage, "entry '", entry.name,
                "' is damaged: its checksum is not the one in manifest.json");
  return {};
}

Status Package::loadKernels() {
  if (code.target == Target::Cuda) {
    // The device chooses among its kernels when a session begins.
    for (const std::string &listed : description.targets)
      targetName += (targetName.empty() ? "" : ", ") + listed;
    for (const ZipEntry &entry : archive.entries())
      if (entry.name.starts_with("kernels/") && !description.checksums.count(entry.name))
        return fail(Code::BadPackage, "manifest.json: field 'checksums.", entry.name,
                    "' is missing");
    return {};
  }
  if (code.kernels.empty()) {
    targetName = "cpu";
    return {};
  }
  std::string present;
  for (const char *const *level = cpuLevels; *level; ++level) {
    std::string entryName = std::string("kernels/cpu-") + *level + ".so";
    const ZipEntry *entry = archive.find(entryName);
    if (!entry)
      continue;
    present += std::string(present.empty() ? "" : ", ") + *level;
    if (!cpuSupports(*level))
      continue;
    if (!description.checksums.count(entryName))
      return fail(Code::BadPackage, "manifest.json: field 'checksums.", entryName, "' is missing");
    std::vector<std::string> names;
    for (const KernelDecl &kernel : code.kernels)
      names.push_back(kernel.name);
    targetName = std::string("cpu:") + *level;
    return KernelLibrary::load(archive.data(*entry), entry->size, names, library)
        .within("entry '" + entryName + "' ");
  }
  if (present.empty())
    return fail(Code::BadPackage, "it has no CPU kernels; compile with --target cpu");
  return fail(Code::BadPackage, "its kernels are for ", present,
              ", which this CPU does not run; compile with --target cpu:x86-64-v3 or "
              "cpu:x86-64");
}

Status Package::crossCheck() {
  // Manifest and program describe the same tensors.
  auto match = [&](const char *table, const std::vector<TensorDecl> &decls,
                   const std::vector<Manifest::Tensor> &entries,
                   std::vector<size_t> *places) -> Status {
    std::unordered_map<std::string, size_t> byName;
    for (size_t i = 0; i < entries.size(); ++i)
      byName[entries[i].name] = i;
    for (const TensorDecl &decl : decls) {
      auto found = byName.find(decl.name);
      auto bad = [&](const auto &...what) {
        return fail(Code::BadPackage, "manifest.json: field '", table, "': ", what...);
      };
      if (found == byName.end())
        return bad("no entry for '", decl.name, "' of program.fb");
      const Manifest::Tensor &entry = entries[found->second];
      if (entry.dtype != decl.dtype)
        return bad("'", decl.name, "' is ", nameOf(entry.dtype), ", but ", nameOf(decl.dtype),
                   " in program.fb");
      bool same = entry.shape.size() == decl.shape.size();
      for (size_t axis = 0; same && axis < decl.shape.size(); ++axis) {
        const Expr &expr = code.exprs[decl.shape[axis]];
        if (entry.shape[axis] >= 0 && expr.kind == Expr::Kind::Constant)
          same = entry.shape[axis] == expr.value;
      }
      if (!same)
        return bad("'", decl.name, "' has another shape than in program.fb");
      if (places)
        places->push_back(found->second);
    }
    return {};
  };
  TRAINRT_TRY(match("inputs", code.inputs, description.inputs, &inputEntry));
  TRAINRT_TRY(match("outputs", code.outputs, description.outputs, nullptr));
  TRAINRT_TRY(match("parameters", code.parameters, description.parameters, &parameterEntry));
  TRAINRT_TRY(match("state", code.state, description.state, &stateEntry));
  auto checkWeights = [&](const char *field, const Manifest::Tensor &entry,
                          const TensorDecl &decl) -> Status {
    if (!entry.hasWeights)
      return {};
    int64_t bytes = decl.staticBytes;
    if (const auto &source = entry.quantized)
      (void)countBytes(source->dtype, source->shape.data(), source->shape.size(), bytes);
    if (entry.length != bytes)
      return fail(Code::BadPackage, "manifest.json: field '", field, "': the weights of '",
                  entry.name, "' have ", entry.length, " bytes, its shape ", bytes);
    if (entry.embedded) {
      const ZipEntry *blob = archive.find(entry.file);
      if (!blob)
        return fail(Code::BadPackage, "entry '", entry.file, "' is missing");
      if (entry.offset > int64_t(blob->size) || entry.length > int64_t(blob->size) - entry.offset)
        return fail(Code::BadPackage, "manifest.json: field '", field, "': the weights of '",
                    entry.name, "' lie outside of entry '", entry.file, "'");
    } else if (std::none_of(description.files.begin(), description.files.end(),
                            [&](const auto &file) { return file.path == entry.file; })) {
      return fail(Code::BadPackage, "manifest.json: field 'files': no entry for '", entry.file,
                  "', which holds the weights of '", entry.name, "'");
    }
    return {};
  };
  for (size_t i = 0; i < code.parameters.size(); ++i)
    TRAINRT_TRY(checkWeights("parameters", parameter(i), code.parameters[i]));
  for (size_t i = 0; i < code.state.size(); ++i)
    TRAINRT_TRY(checkWeights("state", state(i), code.state[i]));
  // Loading a quantized parameter fills its parts: the program has all of them or none.
  std::set<std::string> held;
  for (const TensorDecl &decl : code.parameters)
    held.insert(decl.name);
  for (size_t i = 0; i < code.parameters.size(); ++i) {
    std::vector<std::string> needed = {parameter(i).partOf};
    if (const auto &quantized = parameter(i).quantized)
      needed.insert(needed.end(), {quantized->absmax, quantized->nestedAbsmax,
                                   quantized->nestedOffset, quantized->rowAbsmax});
    for (const std::string &name : needed)
      if (!name.empty() && !held.count(name))
        return fail(Code::BadPackage, "manifest.json: field 'parameters': '", parameter(i).name,
                    "' goes with '", name, "', which is no parameter of program.fb");
  }

  auto indexOf = [](const auto &list, const std::string &wanted) {
    for (size_t i = 0; i < list.size(); ++i)
      if (!wanted.empty() && list[i].name == wanted)
        return int32_t(i);
    return -1;
  };
  loss = indexOf(code.outputs, description.loss);
  nonfinite = indexOf(code.state, "nonfinite");
  batch = indexOf(code.symbols, description.batchSymbol);
  if (nonfinite >= 0 && (code.state[size_t(nonfinite)].dtype != DType::I32 ||
                         code.state[size_t(nonfinite)].staticBytes != 4))
    return fail(Code::BadPackage, "program.fb: state 'nonfinite' is not one i32");
  if (!description.batchSymbol.empty() && batch < 0)
    return fail(Code::BadPackage, "manifest.json: field 'batch_symbol': '", description.batchSymbol,
                "' is no symbol of program.fb");
  for (const TensorDecl &hyper : code.hypers) {
    static constexpr const char *floats[] = {"lr", "weight_decay", "clip_norm", "grad_scale"};
    static constexpr const char *integers[] = {"step", "seed", "micro_batch", "rank"};
    auto among = [&](const auto &names) {
      return std::any_of(std::begin(names), std::end(names),
                         [&](const char *known) { return hyper.name == known; });
    };
    bool known = (hyper.dtype == DType::F32 && among(floats) && hyper.staticBytes == 4) ||
                 (hyper.dtype == DType::I64 && among(integers) && hyper.staticBytes == 8);
    if (!known)
      return fail(Code::BadPackage, "program.fb: hypers: '", hyper.name, "' (", nameOf(hyper.dtype),
                  ") is unknown to this runtime; use a newer one");
  }
  for (const Function *function : {update(), init()})
    if (function && !function->batchInputs.empty())
      return fail(Code::BadPackage, "program.fb: function '", function->name, "' reads inputs");
  bool canTrain = step() || (micro() && update());
  if (description.training) {
    if (!canTrain)
      return fail(Code::BadPackage, "program.fb: functions: a training package needs 'step', or "
                                    "'micro' and 'update'");
    for (const Function *function : {step(), micro()})
      if (function && (loss < 0 || std::find(function->outputs.begin(), function->outputs.end(),
                                             uint32_t(loss)) == function->outputs.end()))
        return fail(Code::BadPackage, "program.fb: function '", function->name,
                    "' does not compute the loss '", description.loss, "'");
  } else if (!eval()) {
    return fail(Code::BadPackage, "program.fb: functions: there is no 'eval'");
  }
  return {};
}

} // namespace trainrt
