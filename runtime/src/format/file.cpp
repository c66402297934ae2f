// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// POSIX files with messages that name the path and the reason.

#include "format/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TRAINRT_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(TRAINRT_ADDRESS_SANITIZER) || defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace trainrt {

namespace fs = std::filesystem;

namespace {
/// In the name of a file that is not complete yet.
constexpr const char *temporaryMark = ".tmp-";

/// Behind a mapped file, to the end of its last page, zeros can be read: with AddressSanitizer,
/// reading there is the error that it would be at the end of any other memory.
uint64_t tailOf(uint64_t length) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (page - length % page) % page;
}

/// Reads errno first: making the text may change it.
Status systemError(const std::string &what, const std::string &path) {
  int code = errno;
  return fail(code == ENOENT ? Code::NotFound : Code::IoError, "cannot ", what, " '", path,
              "': ", std::strerror(code));
}
} // namespace

/// The mapping is shared by all who hold the pointer, and ends with the last one. MAP_PRIVATE:
/// nothing is ever written to it.
Status MappedFile::open(const std::string &path, std::shared_ptr<const MappedFile> &file) {
  // O_NONBLOCK: nothing waits for somebody to write into a FIFO.
  int descriptor = TEMP_FAILURE_RETRY(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor < 0)
    return systemError("open", path);
  struct stat info;
  if (fstat(descriptor, &info) != 0) {
    Status status = systemError("inspect", path);
    ::close(descriptor);
    return status;
  }
  // A folder can be opened for reading as well; a device would map, and never end.
  if (!S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return fail(Code::IoError, "cannot read '", path, "': it is not a regular file");
  }
  std::shared_ptr<MappedFile> mapped(new MappedFile());
  mapped->name = path;
  mapped->length = static_cast<uint64_t>(info.st_size);
  if (mapped->length) {
    void *address = mmap(nullptr, mapped->length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) {
      Status status = systemError("map", path);
      ::close(descriptor);
      return status;
    }
    mapped->bytes = static_cast<const unsigned char *>(address);
    ASAN_POISON_MEMORY_REGION(mapped->bytes + mapped->length, tailOf(mapped->length));
  }
  // The mapping keeps the file open by itself.
  ::close(descriptor);
  file = std::move(mapped);
  return {};
}

/// Only whole pages inside of the range: their neighbours may be in use. Read again they come from
/// the file.
void MappedFile::evict(const void *begin, uint64_t size) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
  const auto last = (reinterpret_cast<uintptr_t>(begin) + size) / page * page;
  if (last > first) // only advice: nothing depends on it
    (void)madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (!bytes)
    return;
  ASAN_UNPOISON_MEMORY_REGION(bytes + length, tailOf(length));
  munmap(const_cast<unsigned char *>(bytes), length);
}

/// Removes what killed processes left of `path`: who is still writing holds the lock of its file.
/// A process that is killed leaves its temporary file, but its lock goes with it. Errors are
/// ignored: files stay that somebody else may remove.
static void removeAbandoned(const std::string &path) {
  const std::string folder = directoryOf(path), begin = path.substr(folder.size()) + temporaryMark;
  std::error_code error;
  for (fs::directory_iterator it(folder.empty() ? "." : folder, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->path().filename().string().starts_with(begin))
      continue;
    const int left = ::open(it->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (left >= 0 && flock(left, LOCK_EX | LOCK_NB) == 0)
      ::unlink(it->path().c_str());
    if (left >= 0)
      ::close(left);
  }
}

/// Never committed: nothing of it is found, and the target is as it was.
AtomicFile::~AtomicFile() {
  if (descriptor >= 0)
    ::close(descriptor);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

Status AtomicFile::create(const std::string &path) {
  target = path;
  // The rename at the end would put a file in the place of a device ("/dev/null").
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT)
      return systemError("create", path);
  } else if (!S_ISREG(info.st_mode)) {
    return fail(Code::IoError, "cannot write '", path, "': it is ",
                S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
  }
  removeAbandoned(path);
  // Not mkstemp: its mode 0600 would stay, and reading the umask to mend that is not thread safe.
  for (int attempt = 0; attempt < 100; ++attempt) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
      return systemError("create", path);
    const std::string name = path + temporaryMark + std::to_string(random);
    descriptor =
        TEMP_FAILURE_RETRY(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (descriptor < 0 && errno == EEXIST)
      continue;
    if (descriptor < 0)
      break;
    // Before the lock is taken, the file looks abandoned.
    // Somebody else's removeAbandoned may have taken the lock, or the file, between open and flock:
    // another name then.
    if ((flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
        (fstat(descriptor, &info) == 0 && info.st_nlink == 0)) {
      ::close(std::exchange(descriptor, -1));
      continue;
    }
    temporary = name;
    return {};
  }
  return systemError("create", path);
}

Status AtomicFile::write(const void *data, uint64_t size) {
  TRAINRT_TRY(writeAt(offset, data, size));
  offset += size;
  return {};
}

/// A write may be shorter than asked for, and Linux writes at most 2 GiB at once. 0 bytes written
/// would loop for ever: an error.
static Status writeAll(int descriptor, const std::string &path, uint64_t at, const void *data,
                       uint64_t size) {
  auto *bytes = static_cast<const char *>(data);
  while (size) {
    ssize_t done = TEMP_FAILURE_RETRY(
        ::pwrite(descriptor, bytes, std::min<uint64_t>(size, 1u << 30), static_cast<off_t>(at)));
    if (done <= 0)
      return systemError("write", path);
    bytes += done;
    at += static_cast<uint64_t>(done);
    size -= static_cast<uint64_t>(done);
  }
  return {};
}

Status AtomicFile::writeAt(uint64_t at, const void *data, uint64_t size) {
  return writeAll(descriptor, target, at, data, size);
}

Status AtomicFile::sync() {
  return TEMP_FAILURE_RETRY(fsync(descriptor)) == 0 ? Status() : systemError("write", target);
}

/// The data are on disk before the name points to them: a crash leaves the old file or the whole
/// new one.
Status AtomicFile::commit() {
  TRAINRT_TRY(sync());
  // Open until then: its lock says that it is not abandoned.
  if (::rename(temporary.c_str(), target.c_str()) != 0)
    return systemError("create", target);
  temporary.clear();
  // All is on disk: closing has nothing more to write.
  ::close(std::exchange(descriptor, -1));
  // The rename itself is on disk only when the folder is.
  return syncDirectory(directoryOf(target));
}

SharedFile::~SharedFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

/// Behind an error the file may be there: its folder goes with all that is in it.
Status SharedFile::create(const std::string &path, uint64_t bytes) {
  name = path;
  descriptor =
      TEMP_FAILURE_RETRY(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (descriptor < 0)
    return systemError("create", path);
  // A full disk is found here, not by one of many writers. Filesystems that reserve nothing only
  // take the size.
  if (TEMP_FAILURE_RETRY(::fallocate(descriptor, 0, 0, off_t(bytes))) != 0) {
    if (errno != EOPNOTSUPP && errno != ENOSYS)
      return systemError("create", path);
    if (TEMP_FAILURE_RETRY(::ftruncate(descriptor, off_t(bytes))) != 0)
      return systemError("create", path);
  }
  return {};
}

Status SharedFile::open(const std::string &path, uint64_t bytes) {
  name = path;
  descriptor = TEMP_FAILURE_RETRY(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  struct stat info;
  if (descriptor < 0 || fstat(descriptor, &info) != 0)
    return systemError("open", path);
  if (uint64_t(info.st_size) != bytes)
    return fail(Code::IoError, "'", path, "' has ", info.st_size, " bytes and not ", bytes);
  return {};
}

Status SharedFile::writeAt(uint64_t offset, const void *data, uint64_t size) {
  return writeAll(descriptor, name, offset, data, size);
}

Status SharedFile::sync() {
  return TEMP_FAILURE_RETRY(fsync(descriptor)) == 0 ? Status() : systemError("write", name);
}

Status writeFile(const std::string &path, std::string_view content) {
  AtomicFile file;
  TRAINRT_TRY(file.create(path));
  TRAINRT_TRY(file.write(content.data(), content.size()));
  return file.commit();
}

Status syncDirectory(const std::string &path) {
  std::string name = path.empty() ? "." : path;
  int descriptor = TEMP_FAILURE_RETRY(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor < 0)
    return systemError("open", name);
  // Some filesystems cannot sync folders (EINVAL): then there is nothing more to do.
  int result = TEMP_FAILURE_RETRY(fsync(descriptor));
  int code = errno;
  // close may change errno.
  ::close(descriptor);
  if (result != 0 && code != EINVAL) {
    errno = code;
    return systemError("sync", name);
  }
  return {};
}

std::string directoryOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

/// A zero would end the name early for the system: what is checked here would not be what is
/// opened.
bool isRelativePath(std::string_view path) {
  return !path.empty() && path.front() != '/' && path.find('\0') == path.npos;
}

} // namespace trainrt
