// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Temporary files and programs that the compiler starts: whatever ends the process, but for a kill,
// leaves neither.
#ifndef TRAINC_SUPPORT_TEMPORARIES_H
#define TRAINC_SUPPORT_TEMPORARIES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace trainc {

/// From now on SIGINT, SIGTERM and SIGHUP end the process as they do without it, after programs
/// that `runTool` started and after temporaries. Signals that are ignored stay so. To be called
/// before there are threads.
void endOnSignals();

/// A folder of its own in that for temporary files; goes with the object.
class TemporaryFolder {
public:
  /// Where there can be none, `error` says why.
  explicit TemporaryFolder(std::string &error);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  llvm::StringRef getPath() const { return path; }
  /// The path of a file in it.
  std::string operator/(llvm::StringRef name) const { return path + "/" + name.str(); }
  /// Writes a file in it. Returns what went wrong; "" if nothing did.
  std::string write(llvm::StringRef name, llvm::StringRef bytes) const;

private:
  std::string path;
};

/// A file that is renamed, or removed, by who made it before the object goes.
class TemporaryFile {
public:
  /// `create` makes the file and returns its path; "" if it did not.
  explicit TemporaryFile(llvm::function_ref<std::string()> create);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  llvm::StringRef getPath() const { return path; }

private:
  std::string path;
};

/// Runs a program to its end, `arguments` after its name. What it keeps for a while is in `folder`,
/// too. Returns why it failed, with what it said; "" if it did not. Safe on any thread.
std::string runTool(llvm::StringRef program, llvm::ArrayRef<std::string> arguments,
                    const TemporaryFolder &folder);

/// As runTool, of a program that writes the file `output`: its bytes, or none and why in `error`,
/// where the program is called `name`.
std::vector<char> makeWithTool(llvm::StringRef name, llvm::StringRef program,
                               llvm::ArrayRef<std::string> arguments, const TemporaryFolder &folder,
                               const std::string &output, std::string &error);

} // namespace trainc

#endif // TRAINC_SUPPORT_TEMPORARIES_H
