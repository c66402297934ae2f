// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The processes are this program again, with a place in the run in front of what it was called
// with.
#include "cli/ranks/launch.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "cli/setup.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace trainrt::run {

namespace {

constexpr char socketVariable[] = "TRAINRT_COORDINATOR_SOCKET";
/// The others have found out by themselves before that.
constexpr auto graceful = std::chrono::seconds(15);

/// A socket at a free port of this machine.
/// Listens already, so that no rank calls too early and no other program takes the port. Children
/// inherit it.
int openSocket(int &port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr *>(&address), size) != 0 ||
      ::listen(fd, SOMAXCONN) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size) != 0)
    throw Failure(exitResources,
                  std::string("ranks have no place to meet: ") + std::strerror(errno));
  port = ntohs(address.sin_port);
  return fd;
}

/// The command line without what is the parent's own; `resumes`: from another checkpoint.
/// Both forms of an option go: "--name=value", and "--name" with the value behind it.
std::vector<std::string> ownArguments(const Options &options, bool resumes) {
  std::vector<std::string> names{"--ranks", "--gpus", "--max-restarts"}, arguments;
  if (resumes)
    names.push_back("--resume");
  for (size_t i = 0; i < options.arguments.size(); ++i) {
    const std::string &argument = options.arguments[i];
    const std::string name = argument.substr(0, argument.find('='));
    if (std::find(names.begin(), names.end(), name) == names.end())
      arguments.push_back(argument);
    else if (name == argument)
      ++i; // its value
  }
  return arguments;
}

/// One go at the run.
/// Children are started by the constructor and reaped by `wait`. A parent that dies takes them with
/// it.
class Processes {
public:
  Processes(const Options &options, bool resumes) {
    int port = 0;
    const int listening = openSocket(port);
    const std::vector<std::string> own = ownArguments(options, resumes);
    const int64_t world = options.gpus ? options.gpus : options.ranks;
    for (int64_t rank = 0; rank < world; ++rank) {
      std::vector<std::string> arguments{"trainc-run"};
      arguments.insert(arguments.end(), own.begin(), own.end());
      for (const std::string &more :
           {"--rank=" + std::to_string(rank), "--world=" + std::to_string(world),
            "--coordinator=127.0.0.1:" + std::to_string(port),
            "--local-rank=" + std::to_string(rank)})
        arguments.push_back(more);
      if (resumes)
        arguments.push_back("--resume=" + options.save);
      // Each its share of the cores.
      if (!options.threads)
        arguments.push_back("--threads=" +
                            std::to_string(std::max<int64_t>(
                                1, int64_t(std::thread::hardware_concurrency()) / world)));
      start(arguments, listening, rank == 0);
    }
    ::close(listening);
  }

  /// Waits for all; the first code that is not 0.
  int wait() {
    using Clock = std::chrono::steady_clock;
    int code = 0;
    bool killed = false;
    std::optional<int> passed;
    Clock::time_point failed;
    for (size_t left = pids.size(); left;) {
      int status = 0;
      // Does not block: signals and time have to be looked at, too.
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid > 0) {
        auto at = std::find(pids.begin(), pids.end(), pid);
        if (at == pids.end())
          continue;
        --left;
        // One that had not come far enough to end in order.
        const bool isPassed = passed && WIFSIGNALED(status) && WTERMSIG(status) == *passed;
        const int one = WIFEXITED(status) ? WEXITSTATUS(status) : isPassed ? exitInput : exitRanks;
        if (WIFSIGNALED(status) && !killed && !isPassed)
          tellSignal(at - pids.begin(), pid, WTERMSIG(status));
        if (one && !code) {
          code = one;
          failed = Clock::now();
        }
        *at = 0;
        // What the others found is less than why it happened.
        if (one && code == exitRanks)
          code = one;
        continue;
      }
      // They agree on where to end. A second signal, a second later, ends this process, and so all.
      if (const char *signal = interruption(); signal && !passed) {
        passed = signal == std::string("SIGINT") ? SIGINT : SIGTERM;
        send(*passed);
      }
      // Those that hang, in a step or in a lost connection: nobody waits for them for ever.
      if (code && !killed && Clock::now() - failed > graceful) {
        killed = true;
        for (size_t rank = 0; rank < pids.size(); ++rank)
          if (pids[rank] > 0)
            std::fprintf(stderr,
                         "trainc-run: rank %zu (process %d) has not ended within %d s of the "
                         "first, and is killed\n",
                         rank, int(pids[rank]), int(graceful.count()));
        send(SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return code;
  }

private:
  /// Texts are made before the fork, so that the child does little until it becomes the new
  /// program.
  void start(const std::vector<std::string> &arguments, int socket, bool isFirst) {
    std::vector<char *> words;
    for (const std::string &argument : arguments)
      words.push_back(const_cast<char *>(argument.c_str()));
    words.push_back(nullptr);
    const std::string variable = std::string(socketVariable) + "=" + std::to_string(socket);
    // One that is passed on waits until the child takes it as itself, and not as this process
    // would.
    sigset_t passedOn, before;
    ::sigemptyset(&passedOn);
    for (int signal : {SIGINT, SIGTERM, SIGHUP})
      ::sigaddset(&passedOn, signal);
    ::sigprocmask(SIG_BLOCK, &passedOn, &before);
    const pid_t parent = ::getpid(), pid = ::fork();
    if (pid != 0)
      ::sigprocmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0)
      throw Failure(exitResources,
                    std::string("a rank cannot be started: ") + std::strerror(errno));
    if (pid == 0) {
      // Signals come by way of the parent, once, and it does not outlive that.
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent)
        ::_exit(exitInternal);
      for (int signal : {SIGINT, SIGTERM, SIGHUP})
        if (std::signal(signal, SIG_DFL) == SIG_IGN)
          std::signal(signal, SIG_IGN);
      ::sigprocmask(SIG_SETMASK, &before, nullptr);
      if (!isFirst)
        ::close(socket);
      else
        ::putenv(const_cast<char *>(variable.c_str()));
      ::execv("/proc/self/exe", words.data());
      ::_exit(exitInternal);
    }
    pids.push_back(pid);
  }

  /// Of a process that had no time to say it.
  static void tellSignal(std::ptrdiff_t rank, pid_t pid, int signal) {
    std::fprintf(stderr, "trainc-run: rank %td (process %d) was ended by signal %d, %s%s\n", rank,
                 int(pid), signal, ::strsignal(signal),
                 signal == SIGKILL ? ": by hand, or since the machine had no memory left" : "");
  }

  /// Ranks that were reaped are 0 in the list: their numbers may be other processes' by now.
  void send(int signal) {
    for (pid_t pid : pids)
      if (pid > 0)
        ::kill(pid, signal);
  }

  std::vector<pid_t> pids;
};

} // namespace

/// Whether it is whole is found when it is read.
bool hasCheckpoint(const std::string &folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    if (it->path().filename().string().starts_with("step-"))
      return true;
  return false;
}

/// A rank that was lost is worth another go, an error in data or options is not: it would come
/// again. Nor does a run that a person has ended begin again.
int launchRanks(const Options &options) {
  catchSignals();
  for (int64_t restarts = 0;; ++restarts) {
    const bool resumes = restarts > 0 && hasCheckpoint(options.save);
    const int code = Processes(options, resumes).wait();
    if (code != exitRanks || restarts >= options.maxRestarts || interruption())
      return code;
    std::fprintf(
        stderr, "trainc-run: a rank was lost; the run begins again %s (restart %lld of %lld)\n",
        hasCheckpoint(options.save) ? ("from the last checkpoint in " + options.save).c_str()
                                    : "from its beginning",
        static_cast<long long>(restarts + 1), static_cast<long long>(options.maxRestarts));
  }
}

/// Asked once. The variable goes, so that programs that this one starts do not find it. 0 to 2 are
/// the standard streams.
int inheritedSocket() {
  const char *text = std::getenv(socketVariable);
  const std::optional<int64_t> fd = parseInteger(text ? text : "");
  ::unsetenv(socketVariable);
  return fd && *fd > 2 ? int(*fd) : -1;
}

} // namespace trainrt::run
