// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --export and --dump-gradients; whether a file can be written at all.
#include "run/export.h"

#include "run/failure.h"
#include "run/format.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>
#include <vector>

namespace trainrt::run {

namespace {

using Getter = trainrt_status (*)(const trainrt_session *, const char *, trainrt_tensor *,
                                  trainrt_error **);

void write(const Package &package, trainrt_session *session, const std::string &path, Getter get,
           uint32_t flags, const char *what, Reporter &reporter) {
  std::vector<trainrt_named_tensor> tensors;
  for (const trainrt_tensor_info &parameter : package.parameters) {
    if ((parameter.flags & flags) != flags)
      continue;
    trainrt_tensor tensor;
    ErrorSlot error;
    error.check(get(session, parameter.name, &tensor, error));
    tensors.push_back({parameter.name, tensor});
  }
  ErrorSlot error;
  error.check(trainrt_file_write(path.c_str(), tensors.data(), tensors.size(), error));
  reporter.note("wrote " + grouped(int64_t(tensors.size())) + " " + what + " to " + path);
}

} // namespace

namespace {
void requireWritable(const std::filesystem::path &folder, const std::string &path) {
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw Failure(exitInput, "cannot create '" + path + "': '" + folder.string() +
                                 "': " + std::strerror(errno));
}
} // namespace

void checkOutputFile(const std::string &path) {
  std::error_code ignored;
  std::filesystem::path target(path);
  if (auto kind = std::filesystem::status(target, ignored).type();
      kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular)
    throw Failure(exitInput, "cannot create '" + path + "': it is there and no regular file");
  requireWritable(target.has_parent_path() ? target.parent_path() : ".", path);
}

void checkOutputFolder(const std::string &path) {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::absolute(path, ignored);
  while (!std::filesystem::exists(folder, ignored) && folder.has_relative_path())
    folder = folder.parent_path();
  if (!std::filesystem::is_directory(folder, ignored))
    throw Failure(exitInput,
                  "cannot create '" + path + "': '" + folder.string() + "' is no folder");
  requireWritable(folder, path);
}

void exportParameters(const Package &package, trainrt_session *session, const std::string &path,
                      Reporter &reporter) {
  write(package, session, path, trainrt_session_parameter, 0, "parameters", reporter);
}

void exportGradients(const Package &package, trainrt_session *session, const std::string &path,
                     Reporter &reporter) {
  write(package, session, path, trainrt_session_gradient, TRAINRT_FLAG_TRAINABLE, "gradients",
        reporter);
}

} // namespace trainrt::run
