/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Preloaded into trainc-run or trainc: lets calls that work on files fail, be slow or never return.
 *
 * KILL_AT=N    the process ends with SIGKILL in the middle of call number N of those that change
 * files FULL_AT=N    the disk is full from call number N of those on UNDER=FOLDER counts all calls
 * for files there instead, by an absolute path: with FAULT_AT=N   number N has the fault FAULT: a
 * number of errno, "short" (a part is read or written), "kill" (SIGKILL, in the middle) or "stop"
 * (SIGSTOP, before it)
 *   FAULT_LOG=F  each adds a line "NAME PATH" to F
 *   SLOW=N       each takes up to N microseconds more
 * MEMINFO=F    stands for /proc/meminfo, and there are no control groups
 * NO_LIBRARY=L there is no library L
 * NO_EXCHANGE=1 folders cannot be exchanged, as on some filesystems */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* Programs that this one starts are left alone. */
__attribute__((constructor)) static void alone(void) { unsetenv("LD_PRELOAD"); }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int limit(const char *variable) {
  const char *text = getenv(variable);
  return text ? atoi(text) : -1;
}

/* Whether the disk is full; a call that the process does not survive does not return. */
static int full(void) {
  static atomic_int calls;
  const int call = ++calls;
  if (getenv("UNDER"))
    return 0;
  if (call == limit("KILL_AT"))
    raise(SIGKILL);
  const int from = limit("FULL_AT");
  if (from < 0 || call < from)
    return 0;
  errno = ENOSPC;
  return 1;
}

/* Files that are open, by their names. */
enum { most_files = 1024, longest_name = 512 };
static char names[most_files][longest_name];

static const char *name_of(int file) { return file >= 0 && file < most_files ? names[file] : ""; }
static int named(int file, const char *name) {
  if (file >= 0 && file < most_files)
    snprintf(names[file], longest_name, "%s", name);
  return file;
}
static const char *within(int folder, const char *name, char *into) {
  if (*name == '/' || folder == AT_FDCWD)
    return name;
  snprintf(into, longest_name, "%.250s/%.250s", name_of(folder), name);
  return into;
}

enum fault { none, fails, is_short, kills };

/* What happens in this call; with `fails`, errno is set. */
static enum fault fault(const char *call, const char *path) {
  static atomic_int calls;
  const char *under = getenv("UNDER");
  if (!under || strncmp(path, under, strlen(under)) != 0)
    return none;
  const int error = errno;
  const char *log = getenv("FAULT_LOG");
  if (log) {
    char line[longest_name + 32];
    const int length = snprintf(line, sizeof line, "%s %s\n", call, path);
    const int file = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    syscall(SYS_write, file, line, (size_t)length);
    syscall(SYS_close, file);
  }
  if (limit("SLOW") > 0) {
    const struct timespec most = {0, (long)rand() % limit("SLOW") * 1000};
    syscall(SYS_nanosleep, &most, NULL);
  }
  errno = error;
  if (++calls != limit("FAULT_AT"))
    return none;
  const char *what = getenv("FAULT");
  if (strcmp(what, "kill") == 0)
    return kills;
  if (strcmp(what, "stop") == 0) {
    raise(SIGSTOP);
    return none;
  }
  if (strcmp(what, "short") == 0)
    return is_short;
  errno = atoi(what);
  return fails;
}

/* For calls without a middle. */
static int failed(const char *call, const char *path) {
  const enum fault what = fault(call, path);
  if (what == kills)
    raise(SIGKILL);
  return what == fails;
}

/* Half of it is written, whatever comes then. */
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
  const enum fault what = fault("pwrite", name_of(file));
  if (what == fails)
    return -1;
  if (getenv("UNDER") && what == none)
    return REAL(pwrite)(file, data, size, at);
  ssize_t half = REAL(pwrite)(file, data, size / 2, at);
  if (what == kills)
    raise(SIGKILL);
  if (full())
    return -1;
  return half < 0 || size < 2 ? REAL(pwrite)(file, data, size, at) : half;
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
  return pwrite(file, data, size, at);
}
ssize_t write(int file, const void *data, size_t size) {
  const enum fault what = fault("write", name_of(file));
  if (what == fails)
    return -1;
  ssize_t done = REAL(write)(file, data, what == none || size < 2 ? size : size / 2);
  if (what == kills)
    raise(SIGKILL);
  return done;
}
ssize_t read(int file, void *data, size_t size) {
  const enum fault what = fault("read", name_of(file));
  if (what == kills)
    raise(SIGKILL);
  return what == fails ? -1 : REAL(read)(file, data, what == none || size < 2 ? size : size / 2);
}
ssize_t pread(int file, void *data, size_t size, off_t at) {
  const enum fault what = fault("pread", name_of(file));
  if (what == kills)
    raise(SIGKILL);
  return what == fails ? -1
                       : REAL(pread)(file, data, what == none || size < 2 ? size : size / 2, at);
}

int openat(int folder, const char *path, int flags, ...) {
  char whole[longest_name];
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    if (full())
      return -1;
  }
  // What the system says about its memory can be made up.
  if (getenv("MEMINFO") && strcmp(path, "/proc/self/cgroup") == 0) {
    errno = ENOENT;
    return -1;
  }
  if (getenv("MEMINFO") && strcmp(path, "/proc/meminfo") == 0)
    path = getenv("MEMINFO");
  const char *name = within(folder, path, whole);
  const char *call = flags & O_DIRECTORY ? "opendir" : "open";
  return failed(call, name) ? -1 : named(REAL(openat)(folder, path, flags, mode), name);
}
int open(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return openat(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return openat(AT_FDCWD, path, flags, mode);
}
/* It is closed, whatever it answers. */
int close(int file) {
  const int bad = failed("close", name_of(file)), error = errno;
  named(file, "");
  const int result = REAL(close)(file);
  if (!bad)
    return result;
  errno = error;
  return -1;
}

int mkdir(const char *path, mode_t mode) {
  return full() || failed("mkdir", path) ? -1 : REAL(mkdir)(path, mode);
}
int fsync(int file) { return full() || failed("fsync", name_of(file)) ? -1 : REAL(fsync)(file); }
int flock(int file, int how) {
  return failed("flock", name_of(file)) ? -1 : REAL(flock)(file, how);
}
int ftruncate(int file, off_t size) {
  return failed("ftruncate", name_of(file)) ? -1 : REAL(ftruncate)(file, size);
}
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }
void *mmap(void *at, size_t size, int access, int flags, int file, off_t from) {
  return file >= 0 && failed("mmap", name_of(file))
             ? MAP_FAILED
             : (void *)syscall(SYS_mmap, at, size, access, flags, file, from);
}
void *mmap64(void *at, size_t size, int access, int flags, int file, off64_t from) {
  return mmap(at, size, access, flags, file, from);
}

int stat(const char *path, struct stat *to) {
  return failed("stat", path) ? -1 : REAL(stat)(path, to);
}
int lstat(const char *path, struct stat *to) {
  return failed("lstat", path) ? -1 : REAL(lstat)(path, to);
}
int fstat(int file, struct stat *to) {
  return failed("fstat", name_of(file)) ? -1 : REAL(fstat)(file, to);
}
int access(const char *path, int how) {
  return failed("access", path) ? -1 : REAL(access)(path, how);
}
/* libstdc++ opens folders to be removed by openat, others by opendir. */
DIR *opendir(const char *path) { return failed("opendir", path) ? NULL : REAL(opendir)(path); }
DIR *fdopendir(int file) {
  return failed("fdopendir", name_of(file)) ? NULL : REAL(fdopendir)(file);
}
int closedir(DIR *folder) {
  named(dirfd(folder), "");
  return REAL(closedir)(folder);
}
struct dirent *readdir(DIR *folder) {
  return failed("readdir", name_of(dirfd(folder))) ? NULL : REAL(readdir)(folder);
}
struct dirent64 *readdir64(DIR *folder) {
  return failed("readdir", name_of(dirfd(folder))) ? NULL : REAL(readdir64)(folder);
}

void *dlopen(const char *name, int how) {
  const char *lacking = getenv("NO_LIBRARY");
  return lacking && name && strcmp(name, lacking) == 0 ? NULL : REAL(dlopen)(name, how);
}

/* Taking away and renaming need no space. */
static void count(void) {
  const int error = errno;
  full();
  errno = error;
}
int rename(const char *from, const char *to) {
  count();
  return failed("rename", from) ? -1 : REAL(rename)(from, to);
}
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  count();
  if (failed("renameat2", from))
    return -1;
  if (getenv("NO_EXCHANGE")) {
    errno = EINVAL;
    return -1;
  }
  return REAL(renameat2)(from_folder, from, to_folder, to, flags);
}
int unlink(const char *path) {
  count();
  return failed("unlink", path) ? -1 : REAL(unlink)(path);
}
int unlinkat(int folder, const char *path, int flags) {
  char whole[longest_name];
  count();
  return failed("unlinkat", within(folder, path, whole)) ? -1 : REAL(unlinkat)(folder, path, flags);
}
int remove(const char *path) {
  count();
  return failed("remove", path) ? -1 : REAL(remove)(path);
}
int rmdir(const char *path) {
  count();
  return failed("rmdir", path) ? -1 : REAL(rmdir)(path);
}
