// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// flock on a file of its own: that works over NFS as well, where a folder cannot be locked. The
// file is removed by who holds it, so whoever gets the lock looks whether it is still that file.

#include "io/folder_lock.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace trainrt {

namespace {

/// What the file's text begins with tells a run's lock, which may be held for days, from one that
/// is held for a write.
constexpr std::string_view runMark = "run ", writeMark = "write ";
/// Others' writes are waited for, but a stopped process holds its lock for ever.
constexpr std::chrono::minutes longestWait{10};

bool isSame(const struct stat &a, const struct stat &b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Whether flock says that there are no locks here.
bool isUnsupported(int code) {
  return code == ENOLCK || code == ENOSYS || code == ENOTSUP || code == EINVAL;
}

std::string ownName() {
  // The name is for messages; without a host's name the process id still helps.
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0)
    host[0] = 0;
  return std::to_string(getpid()) + " on " + (host[0] ? host : "this host");
}

/// The first 512 bytes are more than any holder writes.
std::string readText(int descriptor) {
  char text[512];
  const ssize_t size = TEMP_FAILURE_RETRY(pread(descriptor, text, sizeof text, 0));
  return size > 0 ? std::string(text, size_t(size)) : std::string();
}

bool writeText(int descriptor, const std::string &text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t size =
        TEMP_FAILURE_RETRY(pwrite(descriptor, text.data() + at, text.size() - at, off_t(at)));
    if (size <= 0)
      return false;
    at += size_t(size);
  }
  return true;
}

Status systemError(const std::string &what, const std::string &path) {
  return fail(Code::IoError, "cannot ", what, " '", path, "': ", std::strerror(errno));
}

} // namespace

/// Ends with the lock of a file that is still the one at that path, or with an error, or with
/// `unlocked` saying why there is no lock. Each turn of the loop either waits, at most longestWait,
/// or has seen another's file go.
Status FolderLock::take(const std::string &of, Purpose purpose, std::string &unlocked) {
  release();
  const auto began = std::chrono::steady_clock::now();
  const std::string file = of + "/.lock";
  while (true) {
    std::error_code error;
    // |=: if an earlier turn made it, it is ours to remove.
    isNew |= std::filesystem::create_directories(of, error);
    folder = of;
    if (error) {
      release();
      return fail(Code::IoError, "cannot create '", of, "': ", error.message());
    }
    const int opened =
        TEMP_FAILURE_RETRY(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
    if (opened < 0 && errno == ENOENT)
      continue; // who had made the folder has just taken it away
    if (opened < 0) {
      Status status = systemError("create", file);
      release();
      return status;
    }
    if (TEMP_FAILURE_RETRY(flock(opened, LOCK_EX | LOCK_NB)) != 0) {
      const int code = errno;
      const std::string holder = readText(opened);
      ::close(opened);
      if (code != EWOULDBLOCK && !isUnsupported(code)) {
        errno = code;
        Status status = systemError("lock", file);
        release();
        return status;
      }
      if (code != EWOULDBLOCK) {
        // Left behind it would look like a lock.
        ::unlink(file.c_str()); // nobody has a lock on it
        unlocked = "'" + of + "' cannot be locked (" + std::strerror(code) +
                   "): nothing keeps other runs from saving into it at the same time";
        return {};
      }
      // Empty: whoever has it is about to write its name.
      const bool isRun = holder.starts_with(runMark);
      if (!isRun && std::chrono::steady_clock::now() - began < longestWait) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      isNew = false; // it is the other's
      release();
      const size_t skipped = isRun ? runMark.size() : std::min(holder.size(), writeMark.size());
      return fail(Code::IoError, "the folder '", of, "' is in use: process ",
                  holder.substr(skipped, holder.find('\n') - skipped),
                  " saves into it; give each run a folder of its own");
    }
    descriptor = opened;
    path = file;
    // Between open and flock its holder may have removed it: a lock on a file without a name locks
    // nobody out.
    struct stat mine, there;
    const bool isThere = fstat(opened, &mine) == 0 && stat(file.c_str(), &there) == 0;
    if (!isThere && errno != ENOENT) {
      Status status = systemError("inspect", path);
      release();
      return status;
    }
    if (!isThere || !isSame(mine, there)) {
      ::close(std::exchange(descriptor, -1)); // the file of someone who has let go
      continue;
    }
    const std::string text =
        std::string(purpose == Purpose::Run ? runMark : writeMark) + ownName() + "\n";
    if (TEMP_FAILURE_RETRY(ftruncate(descriptor, 0)) != 0 || !writeText(descriptor, text)) {
      Status status = systemError("write", path);
      release();
      return status;
    }
    return {};
  }
}

/// Unlinked before the lock goes: who waits then finds that its file is gone, and makes another.
void FolderLock::release() {
  if (descriptor >= 0) {
    ::unlink(path.c_str());
    ::close(descriptor);
  }
  descriptor = -1;
  std::error_code ignored;
  if (isNew)
    std::filesystem::remove(folder, ignored); // only if it is empty
  isNew = false;
  folder.clear();
}

/// By the folder itself: two spellings of a path are the same.
/// A folder that cannot be locked counts as well, once `take` has been through with it.
bool FolderLock::holds(const std::string &other) const {
  struct stat mine, there;
  if (folder.empty())
    return false;
  // A folder that cannot be looked at is compared by its name.
  if (stat(folder.c_str(), &mine) != 0 || stat(other.c_str(), &there) != 0)
    return errno != ENOENT && folder == other;
  return isSame(mine, there);
}

} // namespace trainrt
