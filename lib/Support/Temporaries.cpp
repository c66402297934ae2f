// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A thread waits for the signals, which all others block: so what is done then is ordinary code. It
// takes the lock of the list and never gives it back, so that no thread can begin anything new, nor
// take a program that was killed for one that failed.

#include "trainc/Support/Temporaries.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>
#include <mutex>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace trainc;
using llvm::StringRef;
namespace fs = llvm::sys::fs;

namespace {

struct Temporaries {
  std::mutex mutex;
  std::set<std::string> paths;
  std::set<pid_t> programs;

  /// A process that ends by itself has none left, but after a crash.
  ~Temporaries() { removeAll(); }

  /// With the lock held, or at the end.
  void removeAll() {
    for (pid_t program : programs)
      kill(program, SIGKILL);
    // Waited for, not taken: who started it does that.
    for (pid_t program : programs) {
      siginfo_t ended;
      waitid(P_PID, program, &ended, WEXITED | WNOWAIT);
    }
    for (const std::string &path : paths)
      if (fs::is_directory(path))
        fs::remove_directories(path);
      else
        fs::remove(path);
  }
};

/// Made when it is first needed, destroyed last.
Temporaries &all() {
  static Temporaries list;
  return list;
}

/// Adds the path that `create` returns, if any; no signal comes in between.
std::string addPath(llvm::function_ref<std::string()> create) {
  std::lock_guard<std::mutex> lock(all().mutex);
  std::string path = create();
  if (!path.empty())
    all().paths.insert(path);
  return path;
}

void removePath(StringRef path) {
  std::lock_guard<std::mutex> lock(all().mutex);
  all().paths.erase(path.str());
}

} // namespace

void trainc::endOnSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  // What the caller ignores (nohup) stays ignored.
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action{};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset(&signals, signal);
  }
  // A file that is too large is an error of the call that writes it.
  std::signal(SIGXFSZ, SIG_IGN);
  all(); // is destroyed after everything that uses it
  // Threads that come later inherit the mask.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    while (sigwait(&signals, &signal) != 0)
      ;
    // Never given back: nothing may begin any more.
    all().mutex.lock();
    all().removeAll();
    // The process ends by the signal, as its parent expects it.
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    raise(signal);
  }).detach();
}

TemporaryFolder::TemporaryFolder(std::string &error) {
  path = addPath([&]() -> std::string {
    llvm::SmallString<128> made;
    std::error_code code = fs::createUniqueDirectory("trainc", made);
    // Nobody else may read what is compiled.
    if (!code)
      code = fs::setPermissions(made, fs::owner_all);
    if (code) {
      llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, made);
      error = ("cannot make a folder for temporary files in '" + made + "': " + code.message() +
               "; TMPDIR names another place")
                  .str();
      return {};
    }
    return made.str().str();
  });
}

/// Removed from the disk before it is from the list: a signal in between finds it gone.
TemporaryFolder::~TemporaryFolder() {
  if (path.empty())
    return;
  fs::remove_directories(path);
  removePath(path);
}

std::string TemporaryFolder::write(StringRef name, StringRef bytes) const {
  std::string file = *this / name;
  std::error_code code;
  llvm::raw_fd_ostream stream(file, code);
  stream << bytes;
  // Errors come with the close, too.
  stream.close();
  if (!code)
    code = stream.error();
  stream.clear_error();
  return code ? "cannot write the temporary file '" + file + "': " + code.message() +
                    "; TMPDIR names another folder"
              : "";
}

TemporaryFile::TemporaryFile(llvm::function_ref<std::string()> create) : path(addPath(create)) {}

/// The file itself has been moved or removed by whoever wrote it.
TemporaryFile::~TemporaryFile() {
  if (!path.empty())
    removePath(path);
}

std::string trainc::runTool(StringRef program, llvm::ArrayRef<std::string> arguments,
                            const TemporaryFolder &folder) {
  llvm::SmallVector<StringRef> command = {program};
  command.append(arguments.begin(), arguments.end());
  const std::string setting = "TMPDIR=" + folder.getPath().str();
  // Tools put their own files there, which go with the folder.
  llvm::SmallVector<StringRef> environment = {setting};
  for (char **entry = environ; *entry; ++entry)
    if (!StringRef(*entry).starts_with("TMPDIR="))
      environment.push_back(*entry);
  const std::string messages = folder / "messages.txt";
  // No input; messages into one file.
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(messages), StringRef(messages)};
  std::string failure;
  bool failed = false;
  llvm::sys::ProcessInfo process;
  {
    // Started and listed without a signal between.
    std::lock_guard<std::mutex> lock(all().mutex);
    process = llvm::sys::ExecuteNoWait(program, command, llvm::ArrayRef<StringRef>(environment),
                                       redirects, 0, &failure, &failed);
    if (!failed)
      all().programs.insert(process.Pid);
  }
  if (!failed) {
    siginfo_t ended;
    // Waited for without being taken: its number stays its own until it is off the list.
    while (waitid(P_PID, process.Pid, &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR)
      ;
    // No longer listed before its number can be another program's.
    std::lock_guard<std::mutex> lock(all().mutex);
    all().programs.erase(process.Pid);
    failed = llvm::sys::Wait(process, std::nullopt, &failure).ReturnCode != 0;
  }
  if (!failed)
    return {};
  // What it has said is the reason.
  if (auto text = llvm::MemoryBuffer::getFile(messages))
    failure += (*text)->getBuffer();
  return failure.empty() ? "it failed without a message" : failure;
}

std::vector<char> trainc::makeWithTool(StringRef name, StringRef program,
                                       llvm::ArrayRef<std::string> arguments,
                                       const TemporaryFolder &folder, const std::string &output,
                                       std::string &error) {
  assert(!output.empty() && "a tool makes a file");
  if (std::string failure = runTool(program, arguments, folder); !failure.empty()) {
    error = (name + " failed: " + failure).str();
    return {};
  }
  auto bytes =
      llvm::MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!bytes) {
    error = (name + " has made no '" + output + "': " + bytes.getError().message()).str();
    return {};
  }
  return std::vector<char>((*bytes)->getBufferStart(), (*bytes)->getBufferEnd());
}
