// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stream with an error that nobody has looked at ends the process, so each is looked at here.

#include "lib/Driver/TextFile.h"
#include "llvm/Support/FileSystem.h"

using namespace trainc;

static std::string describe(const char *what, llvm::StringRef path, std::error_code code) {
  return (llvm::Twine(what) + " '" + path + "': " + code.message()).str();
}

std::string trainc::closeStream(llvm::raw_fd_ostream &stream) {
  stream.close();
  std::error_code code = stream.error();
  stream.clear_error();
  return code ? code.message() : "";
}

std::string trainc::writeTextFile(llvm::StringRef path,
                                  llvm::function_ref<void(llvm::raw_ostream &)> print) {
  llvm::SmallString<256> temporary;
  int file = -1;
  if (std::error_code code =
          llvm::sys::fs::createUniqueFile(path + ".%%%%%%.part", file, temporary))
    return describe("cannot write", path, code);
  std::string problem;
  {
    llvm::raw_fd_ostream stream(file, /*shouldClose=*/true);
    print(stream);
    problem = closeStream(stream);
  }
  if (!problem.empty()) {
    llvm::sys::fs::remove(temporary);
    return ("cannot write '" + path + "': " + problem).str();
  }
  if (std::error_code code = llvm::sys::fs::rename(temporary, path)) {
    llvm::sys::fs::remove(temporary);
    return describe("cannot write", path, code);
  }
  return {};
}

std::string trainc::prepareFolder(llvm::StringRef path) {
  if (std::error_code code = llvm::sys::fs::create_directories(path))
    return describe("cannot make the folder", path, code);
  if (std::error_code code = llvm::sys::fs::access(path, llvm::sys::fs::AccessMode::Write))
    return describe("cannot write into the folder", path, code);
  return {};
}
