/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Checks of the C hosts' tests: failures are counted and printed. */
#ifndef TRAINRT_TEST_CAPI_CHECK_H
#define TRAINRT_TEST_CAPI_CHECK_H

#include "trainrt/trainrt.h"

#include <stdio.h>
#include <stdlib.h>

static int failures = 0;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                               \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

/* The call must return `expected`, with a message that contains `text`. */
#define CHECK_ERROR(call, expected, text)                                                          \
  do {                                                                                             \
    error = NULL;                                                                                  \
    trainrt_status status_ = (call);                                                               \
    if (status_ != (expected) || trainrt_error_status(error) != (expected) ||                      \
        !strstr(trainrt_error_message(error), text)) {                                             \
      printf("%s:%d: got %s '%s', expected %s '%s'\n", __FILE__, __LINE__,                         \
             trainrt_status_name(status_), trainrt_error_message(error),                           \
             trainrt_status_name(expected), text);                                                 \
      ++failures;                                                                                  \
    }                                                                                              \
    trainrt_error_free(error);                                                                     \
    error = NULL;                                                                                  \
  } while (0)

#define CHECK_OK(call)                                                                             \
  do {                                                                                             \
    trainrt_status status_ = (call);                                                               \
    if (status_ != TRAINRT_OK) {                                                                   \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, trainrt_status_name(status_),                  \
             trainrt_error_message(error));                                                        \
      trainrt_error_free(error);                                                                   \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#endif
