// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening a package: every byte of the file is covered by a check (zip headers canonical, contents
// by checksum or CRC), then manifest and program are compared with each other (package_check.cpp).

#include "plan/package.h"
#include "format/hash.h"
#include "format/signature.h"

namespace trainrt {

namespace {

/// What a file is that somebody takes for a package, and what to do with it; "" if it is unknown.
/// Only for a better message: what a file is counts by its content where the name does not say.
std::string whatElse(const MappedFile &file, const ZipReader &archive) {
  const std::string &path = file.path();
  const std::string_view bytes(reinterpret_cast<const char *>(file.data()), file.size());
  // A .npz is a zip, as a package is.
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

Status Package::open(const std::string &path, std::shared_ptr<const Package> &package,
                     const std::string &key) {
  // Filled, checked, and only then given out: a package that is open is whole.
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
  // Before anything of the content is believed.
  if (!key.empty())
    TRAINRT_TRY(verifyZip(result->archive, key).within(prefix));
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
  // No entry may be missing, and (below) none is unchecked.
  for (const auto &[listed, checksum] : description.checksums)
    if (listed != "manifest" && !archive.find(listed))
      return missing(listed.c_str());
  for (const ZipEntry &other : archive.entries())
    TRAINRT_TRY(checkEntry(other));

  entry = archive.find("program.fb");
  if (!entry)
    return missing("program.fb");
  // Of what is mapped; the archive keeps the file.
  TRAINRT_TRY(readProgram(archive.data(*entry), entry->size, code));
  TRAINRT_TRY(crossCheck());
  if (const ZipEntry *tuned = archive.find(tuningEntry))
    TRAINRT_TRY(
        readTuning({reinterpret_cast<const char *>(archive.data(*tuned)), tuned->size}, choices)
            .as(Code::BadPackage)
            .within(std::string("entry '") + tuningEntry + "' "));
  TRAINRT_TRY(chooseKernels());
  return checkExternals();
}

/// The manifest has its own checksum inside; entries that it does not list (tuning, the signature)
/// have the zip's CRC.
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

/// Code runs as the user: accidents are found by the checksum. Intent is what signatures are for.
Status Package::requireChecksum(const std::string &entry) const {
  if (description.checksums.count(entry))
    return {};
  return fail(Code::BadPackage, "manifest.json: field 'checksums.", entry,
              "' is missing: no code is loaded without its checksum");
}

/// On the CPU the best kernels that this machine runs; on a GPU, which is known later, only that
/// all are covered.
Status Package::chooseKernels() {
  if (traitsOf(code.target).choosesKernels) {
    for (const std::string &listed : description.targets)
      targetName += (targetName.empty() ? "" : ", ") + listed;
    for (const ZipEntry &entry : archive.entries())
      if (entry.name.starts_with("kernels/"))
        TRAINRT_TRY(requireChecksum(entry.name));
    return {};
  }
  if (code.kernels.empty()) {
    targetName = traitsOf(code.target).name;
    return {};
  }
  // For the message: which there are.
  std::string present;
  for (const char *const *level = cpuLevels; *level; ++level) {
    std::string entryName = std::string("kernels/cpu-") + *level + ".so";
    const ZipEntry *entry = archive.find(entryName);
    if (!entry)
      continue;
    present += std::string(present.empty() ? "" : ", ") + *level;
    if (!cpuSupports(*level))
      continue;
    TRAINRT_TRY(requireChecksum(entryName));
    targetName = std::string("cpu:") + *level;
    kernelEntry = entry;
    return {};
  }
  if (present.empty())
    return fail(Code::BadPackage, "it has no CPU kernels; compile with --target cpu");
  return fail(Code::BadPackage, "its kernels are for ", present, "; this CPU ", describeCpu());
}

/// Which of a plug-in's kernels a GPU takes is known when there is one.
Status Package::checkExternals() const {
  for (const ZipEntry &entry : archive.entries())
    if (entry.name.starts_with("plugins/"))
      TRAINRT_TRY(requireChecksum(entry.name));
  const std::vector<bool> launched = launchedExternals(code);
  const ZipEntry *entry = nullptr;
  for (size_t i = 0; i < launched.size(); ++i)
    if (!launched[i])
      TRAINRT_TRY(findExternal(archive, code, i, entry));
  return {};
}

/// Loaded when first needed, once for all sessions; sessions of several threads share a package.
Status Package::kernels(std::shared_ptr<const KernelLibrary> &result) const {
  std::lock_guard lock(loading);
  if (!library && kernelEntry) {
    std::vector<std::string> names;
    for (const KernelDecl &kernel : code.kernels)
      names.push_back(kernel.name);
    std::unique_ptr<KernelLibrary> loaded;
    TRAINRT_TRY(KernelLibrary::load(archive.data(*kernelEntry), kernelEntry->size, names, loaded)
                    .within("package '" + name + "': entry '" + kernelEntry->name + "' "));
    library = std::move(loaded);
  }
  result = library;
  return {};
}

Status Package::externals(std::shared_ptr<const ExternalFunctions> &result) const {
  std::lock_guard lock(loading);
  if (!externalCode && !code.externals.empty()) {
    std::unique_ptr<ExternalFunctions> loaded;
    TRAINRT_TRY(ExternalFunctions::load(archive, code, loaded).within("package '" + name + "': "));
    externalCode = std::move(loaded);
  }
  result = externalCode;
  return {};
}

} // namespace trainrt
