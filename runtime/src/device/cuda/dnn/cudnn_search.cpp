// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search for the newest cuDNN.

#include "device/cuda/dnn/cudnn_search.h"

#include "format/file.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <filesystem>

namespace trainrt::cuda {

namespace fs = std::filesystem;

namespace {

const char *const cudnnName = "libcudnn.so.9";

/// "9_19_0" or "9.19.0" as 91900; 0 if that is not what stands there.
int64_t readVersion(const char *text, const char *end, char separator) {
  assert(text <= end && "a range");
  int64_t parts[3] = {};
  for (int i = 0; i < 3; ++i) {
    const char *begin = text;
    // At most four digits a part, as versions have.
    for (; text != end && *text >= '0' && *text <= '9' && text - begin < 4; ++text)
      parts[i] = parts[i] * 10 + (*text - '0');
    if (text == begin || (i < 2 && (text == end || *text++ != separator)))
      return 0;
  }
  return parts[0] * 10000 + parts[1] * 100 + parts[2];
}

std::string versionText(int64_t version) {
  if (!version)
    return "unknown version";
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

} // namespace

/// Without loading it: a process keeps a library that it has once loaded. 0 where it cannot be
/// told.
int64_t cudnnVersionAt(const std::string &path) {
  // Packages of distributions: libcudnn.so.9 is a link to libcudnn.so.9.19.0.
  // A link that leads nowhere has no version.
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  if (error)
    return 0;
  std::string name = real.filename().string(), prefix = "libcudnn.so.";
  if (name.compare(0, prefix.size(), prefix) == 0)
    if (int64_t version = readVersion(name.data() + prefix.size(), name.data() + name.size(), '.'))
      return version;
  // Elsewhere: the part of it that knows has a symbol "cudnn_version_9_19_0_56_".
  std::shared_ptr<const MappedFile> file;
  // Mapped, not read: it has hundreds of megabytes.
  if (!MappedFile::open((real.parent_path() / "libcudnn_graph.so.9").string(), file).ok())
    return 0;
  const char *begin = reinterpret_cast<const char *>(file->data()), *end = begin + file->size();
  const std::string_view symbol = "cudnn_version_";
  for (const char *at = begin; (at = std::search(at, end, symbol.begin(), symbol.end())) != end;) {
    at += symbol.size();
    if (int64_t version = readVersion(at, end, '_'))
      return version;
  }
  return 0;
}

std::vector<FoundCudnn> findCudnn() {
  std::vector<FoundCudnn> found;
  // Equal versions stay in the order of the search path.
  for (const std::string &path : findLibraries(cudnnName))
    found.push_back({path, cudnnVersionAt(path)});
  std::stable_sort(found.begin(), found.end(), [](const FoundCudnn &left, const FoundCudnn &right) {
    return left.version > right.version;
  });
  return found;
}

/// `others` names all that were found, whether one could be loaded or not.
Status loadCudnn(SharedLibrary &library, std::string &others) {
  std::vector<FoundCudnn> found = findCudnn();
  others.clear();
  // All that were found, for the message of whoever cannot use them.
  for (const FoundCudnn &one : found)
    others += (others.empty() ? "" : ", ") + one.path + " (" + versionText(one.version) + ")";
  Status status;
  // The newest that can be loaded.
  for (const FoundCudnn &one : found) {
    status = loadLibraryAt(one.path, library);
    if (status.ok())
      return status;
  }
  // Nothing in a folder that can be listed; the loader has a cache of its own.
  Status loader =
      loadLibrary({cudnnName}, "it is part of cuDNN and of the wheel nvidia-cudnn-cu13", library);
  return loader.ok() || found.empty() ? loader : status;
}

} // namespace trainrt::cuda
