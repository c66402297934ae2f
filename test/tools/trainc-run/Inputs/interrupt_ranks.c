/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Preloaded into trainc-run that is a rank: lets it end or hang in a call that works on
 * connections.
 *
 * AT=CALL:N[:MS]: with call number N of CALL the process gets the signal SIGNAL, or MS milliseconds
 * behind it. CALL is connect (to the coordinator, then to other ranks), gather (what all ranks tell
 * each other by way of the coordinator; its answers count on rank 0, too), send (other words that
 * have texts), leave (the last of all words) or writev (what goes to other ranks).
 * CALLS=F: each adds a line "CALL BYTES" to F.
 * Processes of one host share no memory, so that all they tell each other goes by way of the
 * coordinator; with SHARES=1 they do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

__attribute__((constructor)) static void alone(void) { unsetenv("LD_PRELOAD"); }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* At this thread: it does not go on. */
static void end(void) { raise(atoi(getenv("SIGNAL"))); }

static void *end_later(void *milliseconds) {
  usleep((useconds_t)(size_t)milliseconds * 1000);
  end();
  return NULL;
}

static void called(const char *call, size_t bytes, atomic_int *count) {
  const int number = ++*count;
  if (getenv("CALLS")) {
    char line[64];
    const int length = snprintf(line, sizeof line, "%s %zu\n", call, bytes);
    const int file = open(getenv("CALLS"), O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (write(file, line, (size_t)length) != length)
      abort();
    close(file);
  }
  const char *at = getenv("AT");
  const size_t length = strlen(call);
  if (!at || strncmp(at, call, length) != 0 || at[length] != ':' || atoi(at + length + 1) != number)
    return;
  const char *later = strchr(at + length + 1, ':');
  pthread_t thread;
  if (!later)
    end();
  else
    pthread_create(&thread, NULL, end_later, (void *)(size_t)atoi(later + 1));
}

int shm_open(const char *name, int flags, mode_t mode) {
  if (getenv("SHARES"))
    return REAL(shm_open)(name, flags, mode);
  errno = ENOSYS;
  return -1;
}
int connect(int file, const struct sockaddr *to, socklen_t size) {
  static atomic_int count;
  if (to->sa_family == AF_INET || to->sa_family == AF_INET6)
    called("connect", 0, &count);
  return REAL(connect)(file, to, size);
}
ssize_t send(int file, const void *data, size_t size, int flags) {
  static atomic_int told, words, last;
  /* Magic, kind, number of texts. */
  enum { gather = 6, leave = 8, without_texts = 12 };
  const char kind = ((const char *)data)[4];
  if (size > without_texts)
    called(kind == gather ? "gather" : "send", size, kind == gather ? &told : &words);
  else if (kind == leave)
    called("leave", size, &last);
  return REAL(send)(file, data, size, flags);
}
/* Shorter ones are Gloo's own words. */
ssize_t writev(int file, const struct iovec *parts, int many) {
  static atomic_int count;
  size_t bytes = 0;
  for (int i = 0; i < many; ++i)
    bytes += parts[i].iov_len;
  if (bytes > 64)
    called("writev", bytes, &count);
  return REAL(writev)(file, parts, many);
}
