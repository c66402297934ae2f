// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file for each entry: a checksum, then the code.

#include "trainc/Codegen/KernelCache.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"
#include <dlfcn.h>
#include <tuple>

namespace trainc::codegen {

/// What removes entries knows them by it, should the folder have other files.
static constexpr llvm::StringLiteral kPrefix = "kernel-";
static constexpr size_t kChecksumBytes = sizeof(uint64_t);

/// Size and time of last change: cheap, and different after every build. A file that is not there
/// is its name.
std::string identifyFile(llvm::StringRef path) {
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(path, status))
    return path.str();
  return path.str() + " " + std::to_string(status.getSize()) + " " +
         std::to_string(status.getLastModificationTime().time_since_epoch().count());
}

/// This program and the LLVM that it runs with: a change of either may change the code.
static const std::string &identifyCompiler() {
  static const std::string identity = [] {
    auto address = reinterpret_cast<void *>(&identifyFile);
    std::string text =
        LLVM_VERSION_STRING " " + identifyFile(llvm::sys::fs::getMainExecutable("trainc", address));
    Dl_info library;
    if (dladdr(reinterpret_cast<void *>(&llvm::sys::fs::getMainExecutable), &library) &&
        library.dli_fname)
      text += " " + identifyFile(library.dli_fname);
    return text;
  }();
  return identity;
}

static std::string hash(llvm::ArrayRef<llvm::StringRef> parts) {
  // Sizes go in front, so that parts cannot run into each other.
  llvm::SHA256 sha;
  auto add = [&](llvm::StringRef part) {
    uint8_t size[sizeof(uint64_t)];
    llvm::support::endian::write64le(size, part.size());
    sha.update(size);
    sha.update(part);
  };
  add(identifyCompiler());
  for (llvm::StringRef part : parts)
    add(part);
  return llvm::toHex(sha.final(), /*LowerCase=*/true);
}

static uint64_t checksum(llvm::StringRef bytes) {
  return llvm::xxh3_64bits(llvm::arrayRefFromStringRef(bytes));
}

/// The code for these parts: everything that it depends on must be among them. Called by several
/// threads; two that ask for the same at once both make it.
std::vector<char> KernelCache::get(llvm::ArrayRef<llvm::StringRef> parts,
                                   llvm::function_ref<std::vector<char>()> make) {
  if (folder.empty())
    return make();
  ++asked;
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, kPrefix + hash(parts));
  if (auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                                /*RequiresNullTerminator=*/false)) {
    llvm::StringRef bytes = (*buffer)->getBuffer();
    // An entry that was cut off, by a full disk say, is made again.
    if (bytes.size() > kChecksumBytes && llvm::support::endian::read64le(bytes.data()) ==
                                             checksum(bytes.drop_front(kChecksumBytes))) {
      ++found;
      return std::vector<char>(bytes.begin() + kChecksumBytes, bytes.end());
    }
  }
  std::vector<char> result = make();
  // Empty stands for a failure, which is not kept.
  if (!result.empty())
    keep(std::string(path), result);
  return result;
}

/// Errors are remembered, not told here: a cache that cannot be written to costs time, nothing
/// else.
void KernelCache::keep(const std::string &path, const std::vector<char> &bytes) {
  auto fail = [&](const std::string &why) {
    std::lock_guard<std::mutex> lock(mutex);
    problem = "the cache '" + folder + "' keeps nothing: " + why;
  };
  if (std::error_code code = llvm::sys::fs::create_directories(folder))
    return fail(code.message());
  // Under another name until it is whole: other processes read the folder meanwhile.
  auto file = llvm::sys::fs::TempFile::create(folder + "/" + kPrefix + "new-%%%%%%%%");
  if (!file)
    return fail(llvm::toString(file.takeError()));
  llvm::raw_fd_ostream os(file->FD, /*shouldClose=*/false);
  llvm::StringRef text(bytes.data(), bytes.size());
  char sum[kChecksumBytes];
  llvm::support::endian::write64le(sum, checksum(text));
  os << llvm::StringRef(sum, kChecksumBytes) << text;
  os.flush();
  std::error_code code = os.error();
  os.clear_error();
  if (code) {
    llvm::consumeError(file->discard());
    return fail(code.message());
  }
  if (llvm::Error error = file->keep(path))
    return fail(llvm::toString(std::move(error)));
  grown = true;
}

std::string KernelCache::getProblem() {
  std::lock_guard<std::mutex> lock(mutex);
  return problem;
}

/// Removes what was used least recently once the limit is passed, down to three quarters of it, so
/// that not every run has to.
KernelCache::~KernelCache() {
  if (!grown)
    return;
  // Other processes remove entries, too: what is not there any more is no fault.
  std::vector<std::tuple<llvm::sys::TimePoint<>, uint64_t, std::string>> entries;
  uint64_t total = 0;
  std::error_code code;
  for (llvm::sys::fs::directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code)) {
    llvm::ErrorOr<llvm::sys::fs::basic_file_status> status = it->status();
    if (!status || !llvm::sys::path::filename(it->path()).starts_with(kPrefix))
      continue;
    total += status->getSize();
    entries.emplace_back(status->getLastAccessedTime(), status->getSize(), it->path());
  }
  if (total <= limit)
    return;
  // By time, then size and name: a total order.
  llvm::sort(entries);
  for (auto &[time, size, path] : entries) {
    if (total <= limit / 4 * 3)
      break;
    llvm::sys::fs::remove(path);
    total -= size;
  }
}

} // namespace trainc::codegen
