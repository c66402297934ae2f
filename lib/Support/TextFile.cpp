// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stream with an error that nobody has looked at ends the process, so each is looked at here.

#include "trainc/Support/TextFile.h"
#include "trainc/Support/Temporaries.h"
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
  std::error_code code;
  // A device or a pipe is written to: the rename at the end would put a file in its place.
  llvm::sys::fs::file_status status;
  if (!llvm::sys::fs::status(path, status) && llvm::sys::fs::is_other(status)) {
    llvm::raw_fd_ostream stream(path, code);
    if (code)
      return describe("cannot write", path, code);
    print(stream);
    std::string problem = closeStream(stream);
    return problem.empty() ? "" : ("cannot write '" + path + "': " + problem).str();
  }
  int file = -1;
  TemporaryFile temporary([&] {
    llvm::SmallString<256> made;
    code = llvm::sys::fs::createUniqueFile(path + ".%%%%%%.part", file, made);
    return code ? "" : made.str().str();
  });
  if (code)
    return describe("cannot write", path, code);
  std::string problem;
  {
    llvm::raw_fd_ostream stream(file, /*shouldClose=*/true);
    print(stream);
    problem = closeStream(stream);
  }
  if (!problem.empty()) {
    llvm::sys::fs::remove(temporary.getPath());
    return ("cannot write '" + path + "': " + problem).str();
  }
  if (std::error_code code = llvm::sys::fs::rename(temporary.getPath(), path)) {
    llvm::sys::fs::remove(temporary.getPath());
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
