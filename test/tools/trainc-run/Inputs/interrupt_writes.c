/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Preloaded into trainc-run: counts the calls that change files, and ends the process with SIGKILL
 * in the middle of call number KILL_AT, or lets the disk be full from call number FULL_AT on.
 * The file MEMINFO
 * stands for /proc/meminfo. With NO_EXCHANGE set, folders cannot be exchanged, as on some
 * filesystems. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int limit(const char *variable) {
  const char *text = getenv(variable);
  return text ? atoi(text) : -1;
}

/* Whether the disk is full; a call that the process does not survive does not return. */
static int full(void) {
  static int calls;
  ++calls;
  if (calls == limit("KILL_AT"))
    raise(SIGKILL);
  const int from = limit("FULL_AT");
  if (from < 0 || calls < from)
    return 0;
  errno = ENOSPC;
  return 1;
}

/* Half of it is written, whatever comes then. */
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
  ssize_t half = REAL(pwrite)(file, data, size / 2, at);
  if (full())
    return -1;
  return half < 0 || size < 2 ? REAL(pwrite)(file, data, size, at) : half;
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
  return pwrite(file, data, size, at);
}

int open(const char *path, int flags, ...) {
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
  if (getenv("MEMINFO") && strcmp(path, "/proc/meminfo") == 0)
    path = getenv("MEMINFO");
  return REAL(open)(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) { return full() ? -1 : REAL(mkdir)(path, mode); }
int fsync(int file) { return full() ? -1 : REAL(fsync)(file); }

/* Taking away and renaming need no space. */
static void count(void) {
  const int error = errno;
  full();
  errno = error;
}
int rename(const char *from, const char *to) {
  count();
  return REAL(rename)(from, to);
}
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  count();
  if (getenv("NO_EXCHANGE")) {
    errno = EINVAL;
    return -1;
  }
  return REAL(renameat2)(from_folder, from, to_folder, to, flags);
}
int unlink(const char *path) {
  count();
  return REAL(unlink)(path);
}
int unlinkat(int folder, const char *path, int flags) {
  count();
  return REAL(unlinkat)(folder, path, flags);
}
int remove(const char *path) {
  count();
  return REAL(remove)(path);
}
int rmdir(const char *path) {
  count();
  return REAL(rmdir)(path);
}
