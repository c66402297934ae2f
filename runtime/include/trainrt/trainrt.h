/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * libtrainrt: load a compiled package (`model.tpk`), train or evaluate it inside a host program.
 *
 * The life of a host: open a package, create a session, call `trainrt_step` with batches, save
 * checkpoints, free both. Every function that can fail returns a `trainrt_status` and, where
 * `error` is not NULL, a `trainrt_error` with the full message; free it with `trainrt_error_free`.
 * On failure output arguments are untouched unless stated.
 *
 * The library has no global state, writes nothing to standard output or error, installs no signal
 * handlers and throws nothing. A package may be shared by sessions and threads; a session is used
 * by one thread at a time: a call while another thread is in one is refused (INVALID_ARGUMENT), but
 * for those that say that they are safe from any thread, as `trainrt_session_cancel`. All
 * strings are UTF-8, zero terminated, and belong to the object that returned them.
 *
 * Structs that may grow begin with `size`: fill them with their `*_default()` function first.
 */
#ifndef TRAINRT_TRAINRT_H
#define TRAINRT_TRAINRT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "trainrt/command.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TRAINRT_API __attribute__((visibility("default")))
#else
#define TRAINRT_API
#endif

#define TRAINRT_VERSION_MAJOR 1
#define TRAINRT_VERSION_MINOR 6
#define TRAINRT_VERSION ((TRAINRT_VERSION_MAJOR << 16) | TRAINRT_VERSION_MINOR)

/* Version of the library that is loaded, `major << 16 | minor`. Same major: compatible if minor is
 * not older. */
TRAINRT_API uint32_t trainrt_version(void);

/*===- status and errors ---------------------------------------------------------------===*/

/* What happened, and what the caller should do about it. */
typedef enum trainrt_status {
  TRAINRT_OK = 0,
  /* a call breaks this header's rules (NULL, bad index, bad option): fix the caller */
  TRAINRT_INVALID_ARGUMENT = 1,
  /* damaged, tampered, newer, or made for another machine: compile it again */
  TRAINRT_BAD_PACKAGE = 2,
  /* an input, data file, weights file or checkpoint does not fit: fix the data */
  TRAINRT_BAD_DATA = 3,
  /* the weights' file is absent or changed: give weights, or random initial values */
  TRAINRT_MISSING_WEIGHTS = 4,
  /* no such name or file, or no valid checkpoint: check the name or path */
  TRAINRT_NOT_FOUND = 5,
  /* use a smaller batch; the session is as before the call */
  TRAINRT_OUT_OF_MEMORY = 6,
  /* the operating system refused a read or write: check disk and permissions */
  TRAINRT_IO_ERROR = 7,
  /* the loss was not finite; parameters and state are those before the step */
  TRAINRT_NONFINITE = 8,
  /* `trainrt_session_cancel` or the progress callback stopped it; nothing changed */
  TRAINRT_CANCELLED = 9,
  /* the package lacks what was asked (e.g. training with an inference package) */
  TRAINRT_UNSUPPORTED = 10,
  /* a bug in the runtime or the compiler: please report it with the message */
  TRAINRT_INTERNAL = 11,
  /* there is no GPU or driver for this package, or the GPU failed: the message says which */
  TRAINRT_DEVICE_ERROR = 12,
  TRAINRT_RANK_LOST = 13, /* another rank has ended, or does not come (since 1.4) */
  /* not a status: makes the enum as wide as an int, in C++ too */
  TRAINRT_STATUS_INT_ = 0x7fffffff
} trainrt_status;

typedef struct trainrt_error trainrt_error;

/* "ok", "invalid_argument", ...; never NULL. */
TRAINRT_API const char *trainrt_status_name(trainrt_status status);
TRAINRT_API trainrt_status trainrt_error_status(const trainrt_error *error);
/* One or more lines, no trailing newline: what, where (file, entry, name, axis, row) and what to
 * do. */
TRAINRT_API const char *trainrt_error_message(const trainrt_error *error);
/* NULL is allowed. */
TRAINRT_API void trainrt_error_free(trainrt_error *error);

/*===- tensors -------------------------------------------------------------------------===*/

typedef enum trainrt_dtype {
  TRAINRT_F32 = 0,
  TRAINRT_F64 = 1,
  TRAINRT_F16 = 2,
  TRAINRT_BF16 = 3,
  TRAINRT_I8 = 4,
  TRAINRT_I16 = 5,
  TRAINRT_I32 = 6,
  TRAINRT_I64 = 7,
  TRAINRT_U8 = 8,
  TRAINRT_U16 = 9,
  TRAINRT_U32 = 10,
  TRAINRT_U64 = 11,
  TRAINRT_BOOL = 12,
  TRAINRT_DTYPE_INT_ = 0x7fffffff
} trainrt_dtype;

/* Bytes of one element; 0 for an unknown dtype. */
TRAINRT_API size_t trainrt_dtype_size(trainrt_dtype dtype);
/* "f32", "i64", "bool8", ... as in the manifest; "?" for an unknown dtype. */
TRAINRT_API const char *trainrt_dtype_name(trainrt_dtype dtype);

/* A dense row-major array, borrowed: `shape` has `rank` entries (may be NULL when rank is 0).
 * `data` must be aligned to the element size. It is in host memory; a session on a GPU takes inputs
 * and, since 1.3, values to be set in that GPU's memory, too: they are read in the order of its
 * stream, have the input's own dtype, and are not checked before the run. The step reads inputs
 * where they are, so they stay the caller's, unchanged, until what is on that stream by the end of
 * the call is done (`trainrt_session_signal_stream` puts another stream behind it, and the step's
 * result says it, too). See views.h. */
typedef struct trainrt_tensor {
  void *data;
  trainrt_dtype dtype;
  int32_t rank;
  const int64_t *shape;
} trainrt_tensor;

typedef struct trainrt_named_tensor {
  const char *name;
  trainrt_tensor tensor;
} trainrt_named_tensor;

/* Elements of `tensor` (1 for rank 0); -1 if a dim is negative or the product overflows. */
TRAINRT_API int64_t trainrt_tensor_elements(const trainrt_tensor *tensor);

/* DLPack (https://dmlc.github.io/dlpack), zero copy; include its own header for the struct.
 *
 * from: a CPU tensor, dense row-major; `tensor` borrows the data, the shape and `managed` itself.
 *
 * from, device (since 1.1): also one in a CUDA GPU's memory; `*gpu` is its number, -1 for a CPU's.
 * Only for sessions on that GPU: their inputs and, since 1.3, values to be set.
 *
 * to: `*managed` borrows `tensor->data`, which must outlive it; free it with its own `deleter`. */
struct DLManagedTensor;
TRAINRT_API trainrt_status trainrt_tensor_from_dlpack(const struct DLManagedTensor *managed,
                                                      trainrt_tensor *tensor,
                                                      trainrt_error **error);
TRAINRT_API trainrt_status trainrt_tensor_from_dlpack_device(const struct DLManagedTensor *managed,
                                                             trainrt_tensor *tensor, int32_t *gpu,
                                                             trainrt_error **error);
TRAINRT_API trainrt_status trainrt_tensor_to_dlpack(const trainrt_tensor *tensor,
                                                    struct DLManagedTensor **managed,
                                                    trainrt_error **error);

/*===- package -------------------------------------------------------------------------===*/

typedef struct trainrt_package trainrt_package;

/* Opens, maps and checks a package, and runs nothing of it. Sessions run its native code: only use
 * packages of people you trust (signed_package.h). BAD_PACKAGE names entry and field. */
TRAINRT_API trainrt_status trainrt_package_open(const char *path, trainrt_package **package,
                                                trainrt_error **error);
/* NULL is allowed. Sessions keep what they need: a package may be freed before them. */
TRAINRT_API void trainrt_package_free(trainrt_package *package);

/* The text of manifest.json (compile options, optimizer, ...), zero terminated. */
TRAINRT_API const char *trainrt_package_manifest(const trainrt_package *package);

typedef struct trainrt_package_info {
  size_t size;
  const char *producer;       /* "trainc 0.1.0" */
  const char *model;          /* file name of the ONNX model */
  const char *target;         /* kernels in use: "cpu:x86-64-v3"; GPU: compiled for: "cuda:sm_90" */
  const char *loss;           /* name of the loss output; NULL without one */
  const char *batch_symbol;   /* NULL: the batch is static or there is none */
  int32_t batch_symbol_index; /* index for `trainrt_package_symbol`; -1: none */
  int32_t can_train;          /* 1: `trainrt_step` with one batch works */
  /* 1: `trainrt_step` with several micro-batches and `trainrt_gradients` work */
  int32_t can_accumulate;
  int32_t can_eval;      /* 1: `trainrt_eval` works */
  const char *optimizer; /* "adamw", ...; NULL for an inference package */
  double lr;             /* compiled-in defaults of the hyper-parameters; NaN: has none */
  double weight_decay;
  double clip_norm;   /* NaN: compiled without clipping */
  int64_t accumulate; /* micro-batches of a step that the package asks for, 1 or more */
  /* Since 1.2: output of evaluations, one f32: the denominator of the loss; NULL: rows are. If
     `loss_is_mean`, losses of batches that are weighted by it give that of all their rows. */
  const char *loss_weight;
  int32_t loss_is_mean;
  /* Since 1.4: what ranks that train it together share: "data", rows; NULL: it is for one rank. */
  const char *distribute;
} trainrt_package_info;

static inline trainrt_package_info trainrt_package_info_default(void) {
  trainrt_package_info info;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  return info;
}
/* `info->size` must be set. */
TRAINRT_API trainrt_status trainrt_package_get_info(const trainrt_package *package,
                                                    trainrt_package_info *info,
                                                    trainrt_error **error);

/* A named size: where it is read from and what it may be. */
typedef struct trainrt_symbol {
  const char *name;
  int64_t min;
  int64_t max;       /* INT64_MAX: no bound */
  int64_t divisor;   /* values are multiples of it */
  const char *input; /* NULL: fixed, min == max */
  /* The input's axis, of which it is the size or, where `text` of that axis is a sum such as
     "2*w + 1" (since 1.6), tells it: `trainrt_package_symbol_value`. */
  /* -1: a count of elements of the input, rounded up to one of few values (since 1.2) */
  int32_t axis;
} trainrt_symbol;

TRAINRT_API size_t trainrt_package_symbol_count(const trainrt_package *package);
TRAINRT_API trainrt_status trainrt_package_symbol(const trainrt_package *package, size_t index,
                                                  trainrt_symbol *symbol, trainrt_error **error);

/* Since 1.6: the value of a symbol where its axis has this size. INVALID_ARGUMENT: the symbol has
 * no axis, or that is no size of it ("2*w" is even). */
TRAINRT_API trainrt_status trainrt_package_symbol_value(const trainrt_package *package,
                                                        size_t index, int64_t size, int64_t *value,
                                                        trainrt_error **error);

typedef enum trainrt_kind {
  TRAINRT_INPUT = 0,
  TRAINRT_OUTPUT = 1,
  TRAINRT_PARAMETER = 2,
  TRAINRT_STATE = 3,
  TRAINRT_KIND_INT_ = 0x7fffffff
} trainrt_kind;

/* One axis: `value` >= 0 where it is static; else -1, and `text` has symbols ("seq + 1"). */
typedef struct trainrt_dim {
  int64_t value;
  const char *text; /* never NULL: "128" for a static axis */
  int32_t symbol;   /* index of the symbol where the axis is exactly one; else -1 */
} trainrt_dim;

enum {
  TRAINRT_FLAG_TRAINABLE = 1, /* parameter: updated by a step */
  TRAINRT_FLAG_LOSS = 2,      /* output: the loss */
  /* input: needed by `trainrt_step` / `trainrt_gradients`; output: computed there */
  TRAINRT_FLAG_USED_IN_TRAIN = 4,
  TRAINRT_FLAG_USED_IN_EVAL = 8, /* input: needed by `trainrt_eval`; output: computed there */
  TRAINRT_FLAG_OPTIONAL = 16,    /* input: the graph marks it optional */
  TRAINRT_FLAG_EMBEDDED = 32,    /* parameter: the weights are inside the package */
  TRAINRT_FLAG_WEIGHT = 64,      /* output: the loss_weight (since 1.2) */
  TRAINRT_FLAG_GRAD_NORM = 128   /* output: the norm of the gradients (since 1.4) */
};

typedef struct trainrt_tensor_info {
  size_t size;
  const char *name;
  trainrt_dtype dtype;
  int32_t rank;
  const trainrt_dim *dims;
  uint32_t flags;
  /* parameter: where its initial value lies, relative to the package's folder; NULL: nowhere */
  const char *weights_file;
  int64_t weights_offset; /* bytes, within the file or the package's entry weights.bin */
  int64_t weights_length; /* bytes */
} trainrt_tensor_info;

static inline trainrt_tensor_info trainrt_tensor_info_default(void) {
  trainrt_tensor_info info;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  return info;
}

TRAINRT_API size_t trainrt_package_tensor_count(const trainrt_package *package, trainrt_kind kind);
TRAINRT_API trainrt_status trainrt_package_tensor(const trainrt_package *package, trainrt_kind kind,
                                                  size_t index, trainrt_tensor_info *info,
                                                  trainrt_error **error);
/* NOT_FOUND lists near names. */
TRAINRT_API trainrt_status trainrt_package_find(const trainrt_package *package, trainrt_kind kind,
                                                const char *name, size_t *index,
                                                trainrt_error **error);

/*===- memory --------------------------------------------------------------------------===*/

/* Bytes the runtime holds, by category: on a GPU, bytes of its memory. `total` is what `peak_bytes`
 * means everywhere: all but `mapped`. */
typedef struct trainrt_memory {
  size_t size;
  uint64_t total;
  uint64_t parameters; /* trained or copied parameters */
  uint64_t state;      /* optimizer state */
  uint64_t gradients;  /* accumulators: only with several micro-batches or `trainrt_gradients` */
  uint64_t arena;      /* activations and temporaries */
  uint64_t arena_lower_bound; /* most bytes live at once: no plan can do better */
  uint64_t inputs;            /* converted copies of inputs; GPU: all of them */
  uint64_t outputs;
  uint64_t scratch; /* kernels' scratch, all threads; a session adds what matmuls pack; GPU:
                       constants, and the workspace of matmuls and attention */
  uint64_t mapped;  /* frozen parameters and constants mapped from files: shared, evictable, not in
                       total */
  /* since 1.1, GPU: kernels, libraries and graphs, by what the driver has less memory free */
  uint64_t driver;
  /* since 1.2, GPU: pinned memory of the host in which activations wait (trainc --offload);
     not in total */
  uint64_t pinned;
} trainrt_memory;

static inline trainrt_memory trainrt_memory_default(void) {
  trainrt_memory memory;
  memset(&memory, 0, sizeof memory);
  memory.size = sizeof memory;
  return memory;
}

typedef struct trainrt_symbol_value {
  const char *name;
  int64_t value;
} trainrt_symbol_value;

/* What a run would need, before running it: `micro_batches` >= 1 for training, 0 for evaluation
 * only; `threads` 0 = all cores. Symbols left out must be fixed (min == max), "world" (since 1.5),
 * which is 1 then: how many ranks train, or counts, then as large as their inputs; one that is
 * given is of the quicker variants' batches. INVALID_ARGUMENT names a missing or illegal symbol
 * value. */
TRAINRT_API trainrt_status trainrt_package_memory(const trainrt_package *package,
                                                  const trainrt_symbol_value *symbols,
                                                  size_t symbol_count, uint32_t micro_batches,
                                                  uint32_t threads, trainrt_memory *memory,
                                                  trainrt_error **error);

/*===- session -------------------------------------------------------------------------===*/

typedef struct trainrt_session trainrt_session;

/* Where the initial parameters come from. */
typedef enum trainrt_weights {
  /* what the package names: MISSING_WEIGHTS if a file is absent or has changed */
  TRAINRT_WEIGHTS_PACKAGE = 0,
  /* `weights_path`, .safetensors, .npz or .onnx, the index (.json) of a checkpoint in several
     files, or the folder that holds it: by name; BAD_DATA lists missing and misfit ones. Frozen
     parameters that it lacks come from the package */
  TRAINRT_WEIGHTS_FILE = 1,
  /* trainable parameters are normal(0, init_std) from `seed` and their name, except that names
     ending in "bias" are 0 and one-dimensional ones ending in "weight" are 1 (norms). Others come
     from the package, as with TRAINRT_WEIGHTS_PACKAGE */
  TRAINRT_WEIGHTS_RANDOM = 2,
  /* none yet: a checkpoint or `trainrt_session_set_parameter` must give every one */
  TRAINRT_WEIGHTS_NONE = 3,
  TRAINRT_WEIGHTS_INT_ = 0x7fffffff
} trainrt_weights;

/* Optional: memory for parameters, state and arena in host memory; a GPU's is the driver's.
 * Memory that trainrt_session_export shares is given back by who gives its last share back.
 * `alignment` is a power of two. `allocate` returns NULL if it cannot. */
typedef struct trainrt_allocator {
  void *user;
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  void (*deallocate)(void *user, void *memory, size_t bytes);
} trainrt_allocator;

/* Called on the calling thread between commands of a function, `done` of `total`. Non-zero asks to
 * cancel. */
typedef int (*trainrt_progress)(void *user, int64_t done, int64_t total);

/* Since 1.1: as what an input is read. */
typedef enum trainrt_token_role {
  TRAINRT_EMBED = 0, /* ids of tokens, which choose rows of an embedding */
  TRAINRT_LABEL = 1, /* targets of a loss that ignores one class */
  TRAINRT_TOKEN_ROLE_INT_ = 0x7fffffff
} trainrt_token_role;

/* Since 1.1: how much of an input of one step is real: tokens that are no padding, labels that are
 * not ignored. All micro-batches together. */
typedef struct trainrt_density {
  size_t size;
  int64_t step; /* the number that the step has if it succeeds */
  const char *input;
  trainrt_token_role role;
  int64_t pad;      /* elements equal to it are not real */
  const char *mask; /* not NULL: those are, where this input is 0; `pad` says nothing then */
  int64_t valid;
  int64_t total;
  const int64_t *valid_by_row; /* `rows` of them */
  size_t rows;
} trainrt_density;

/* `density` is valid during the call only. */
typedef void (*trainrt_density_done)(void *user, const trainrt_density *density);

/* Since 1.2: memory at the beginning or the end of a part of a step, on a GPU of its memory. What
 * is in use at a place within a step is what the plan says; the rest is measured. */
typedef struct trainrt_phase_memory {
  size_t size;
  int64_t step; /* the number that the step has if it succeeds */
  /* "pre_forward", "post_forward", "pre_backward", "post_backward", "pre_update", "post_update", as
     far as the step has them; "pre_step" and "post_step" of packages that do not tell the parts */
  const char *phase;
  uint64_t allocated; /* in use */
  uint64_t peak;      /* the most in use since the step began */
  uint64_t cached;    /* held, in use or not: as `total` of trainrt_memory would be now */
} trainrt_phase_memory;

/* `memory` is valid during the call only. */
typedef void (*trainrt_memory_done)(void *user, const trainrt_phase_memory *memory);

/* The processes that train together, see ranks.h. */
typedef struct trainrt_ranks trainrt_ranks;

typedef struct trainrt_session_options {
  size_t size;
  uint32_t threads;  /* 0: all cores this process may use. The results never depend on it */
  int32_t inference; /* 1: only `trainrt_eval`: no optimizer state, all parameters stay mapped */
  int64_t seed;      /* key of dropout, other random numbers and WEIGHTS_RANDOM */
  trainrt_weights weights;
  const char *weights_path;
  double init_std;             /* of WEIGHTS_RANDOM */
  trainrt_allocator allocator; /* zeros: the default */
  trainrt_progress progress;   /* NULL: none */
  void *progress_user;
  /* since 1.1, for packages of a GPU */
  int32_t device; /* as CUDA numbers them: among those that CUDA_VISIBLE_DEVICES leaves */
  /* 1: every kernel by itself, waited for, so that an error names the one at fault; slow */
  int32_t synchronous;
  /* a CUstream (or cudaStream_t) of the device's primary context that all work is enqueued on,
     which must outlive the session; NULL: one of the session's own */
  void *stream;
  /* since 1.1, for debugging; both make steps slower, and TRAINRT_STEP_LAG then waits */
  /* called on the calling thread, in order, for each command that has run; a GPU starts them one by
     one and is timed by its own clock; NULL: none */
  trainrt_command_done command_done;
  void *command_user;
  /* 1: the message, or the warning, about a loss that is not finite names the first command that
     made such a value; very slow, and not together with `command_done` */
  int32_t check_numerics;
  /* since 1.2; 1: never by variants of functions, which are quicker for batches that allow it */
  int32_t no_variants;
  /* called on the calling thread at the beginning of `trainrt_step`, once its batches are known to
     fit, for each input that the package knows as tokens or labels (`trainc --pad-token`); they are
     counted on the host. NULL: none */
  trainrt_density_done density;
  void *density_user;
  /* 1: `trainrt_checkpoint_load` takes checkpoints of other models, too, with a warning, where
     names, types and shapes agree: of the same model exported anew in another way, for example */
  int32_t any_model;
  /* called on the calling thread during `trainrt_step`, in order, for each part of the step (of its
     last micro-batch, and of the update) once it has been given to the device. NULL: none */
  trainrt_memory_done memory;
  void *memory_user;
  /* since 1.4: this many ranks train together within the session, each with a thread and memory of
     its own, as processes would, and with the same bits: `trainrt_step` shares its micro-batches
     out to them, the first ones to rank 0. For packages of `trainc --distribute`. 0: none */
  int32_t emulate_world;
  /* since 1.4: the session is one rank of these processes, see ranks.h, which must outlive it; not
     together with `emulate_world`. NULL: it is alone */
  trainrt_ranks *ranks;
  /* since 1.5: of `emulate_world`; as trainrt_ranks_options has them */
  int32_t ranks_per_node, shard_within;
} trainrt_session_options;

static inline trainrt_session_options trainrt_session_options_default(void) {
  trainrt_session_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.init_std = 0.02;
  return options;
}

/* `options` NULL: the defaults. */
TRAINRT_API trainrt_status trainrt_session_create(const trainrt_package *package,
                                                  const trainrt_session_options *options,
                                                  trainrt_session **session, trainrt_error **error);
/* NULL is allowed. */
TRAINRT_API void trainrt_session_free(trainrt_session *session);

/* Notes from creation, loading or saving that a person may want to see (skipped checkpoints,
 * ignored tensors), one a line; "" without any. Valid until the next call on the session, which
 * replaces it. */
TRAINRT_API const char *trainrt_session_warnings(const trainrt_session *session);

/* Steps done so far (restored by a checkpoint). */
TRAINRT_API int64_t trainrt_session_step(const trainrt_session *session);
TRAINRT_API int64_t trainrt_session_seed(const trainrt_session *session);
/* Threads in use. */
TRAINRT_API uint32_t trainrt_session_threads(const trainrt_session *session);
/* What is held now; `total` is the largest so far. */
TRAINRT_API trainrt_status trainrt_session_memory(const trainrt_session *session,
                                                  trainrt_memory *memory, trainrt_error **error);

/* Since 1.1: host memory for batches, aligned to 64 bytes, until `trainrt_host_free` or the end of
 * the session. On a GPU it is pinned: an array of the input's dtype in it is copied to the GPU
 * from where it lies, while the host goes on, so it must not change before the *result* of its step
 * has been returned (with TRAINRT_STEP_LAG that is one call later). Elsewhere it is ordinary
 * memory. Both are safe from any thread, also while a step runs. OUT_OF_MEMORY. */
TRAINRT_API trainrt_status trainrt_host_alloc(trainrt_session *session, size_t bytes, void **memory,
                                              trainrt_error **error);
TRAINRT_API void trainrt_host_free(trainrt_session *session, void *memory);

/* Asks the running call, or else the next one, to return CANCELLED. Safe from any thread and from a
 * signal handler. It takes effect where nothing is lost: during an evaluation or the gradients of
 * micro-batches at once, but never within an update, so a fused step that has begun is completed.
 */
TRAINRT_API void trainrt_session_cancel(trainrt_session *session);

/*===- steps ---------------------------------------------------------------------------===*/

/* One micro-batch: every input that the function needs, by name, in any order; others are ignored.
 * The arrays are only read, and only during the call (but see trainrt_host_alloc, and
 * trainrt_tensor for those in a GPU's memory). Lossless conversions are made (narrower to wider
 * integers of a fitting sign, bool to integers, f16/bf16 to f32/f64, f32 to f64); others are
 * BAD_DATA with the `.astype` to use. */
typedef struct trainrt_batch {
  const trainrt_named_tensor *inputs;
  size_t count;
} trainrt_batch;

enum {
  /* go on after a loss or gradients that are not finite; see `nonfinite` of the result */
  TRAINRT_STEP_ALLOW_NONFINITE = 1,
  /* since 1.1: return the result of the step before this one, made with this flag, too, so that a
     GPU need not wait for the host between steps. `trainrt_session_finish` returns the last one's.
     If it is NONFINITE, this step is not made. Of several ranks all say so or none, and their next
     call on the session is `trainrt_step` or `trainrt_session_finish` on all of them */
  TRAINRT_STEP_LAG = 2,
  /* since 1.1: trainrt_session_check has found these batches to be good and nothing in them has
     changed, so their values are not looked at again */
  TRAINRT_STEP_CHECKED = 4,
  /* since 1.4: this rank of several will make no step behind this one; see `last` of the result */
  TRAINRT_STEP_LAST = 8
};

/* Since 1.4: what the losses and gradients of micro-batches count for. */
typedef enum trainrt_accumulate_by {
  TRAINRT_BY_LOSS = 0,   /* BY_TOKENS where the package has a loss_weight, else BY_MEAN */
  TRAINRT_BY_MEAN = 1,   /* 1/N each: what callers of before 1.4 get */
  TRAINRT_BY_ROWS = 2,   /* their rows */
  TRAINRT_BY_TOKENS = 3, /* what each loss is divided by: a step is that of one batch of all rows */
  TRAINRT_BY_INT_ = 0x7fffffff
} trainrt_accumulate_by;

typedef struct trainrt_step_options {
  size_t size;
  double lr;           /* NaN: the package's */
  double weight_decay; /* NaN: the package's */
  double clip_norm; /* NaN: the package's; INVALID_ARGUMENT if it was compiled without clipping */
  /* NULL: as `accumulate_by` says; else N factors of the micro-batches' losses and gradients */
  const double *weights;
  uint32_t flags;
  trainrt_accumulate_by accumulate_by; /* since 1.4 */
} trainrt_step_options;

static inline trainrt_step_options trainrt_step_options_default(void) {
  trainrt_step_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.lr = options.weight_decay = options.clip_norm = (double)NAN;
  return options;
}

typedef struct trainrt_step_result {
  size_t size;
  int64_t step;        /* number of this step, from 1; 0: there is none (TRAINRT_STEP_LAG) */
  double loss;         /* before the update: mean (or weighted sum) of the micro-batches' losses */
  double lr;           /* used in this step */
  double milliseconds; /* of this call */
  uint64_t peak_bytes; /* most memory held so far, see trainrt_memory.total */
  int32_t nonfinite;   /* 1: not made for the loss or gradients; 2: elements were left out */
  /* since 1.1: of `milliseconds`, those in which the call waited for the GPU */
  double wait_milliseconds;
  /* since 1.4: norm of all gradients, before clipping; NaN: not told (trainc --grad-norm) */
  double grad_norm;
  /* since 1.4: operations that the step's functions make, as trainc counts them; 0: not told */
  double flops;
  /* since 1.4, of several ranks: 1: one of them has made this call with TRAINRT_STEP_LAST, so that
     none makes a further step */
  int32_t last;
} trainrt_step_result;

static inline trainrt_step_result trainrt_step_result_default(void) {
  trainrt_step_result result;
  memset(&result, 0, sizeof result);
  result.size = sizeof result;
  result.grad_norm = (double)NAN;
  return result;
}

/* One optimizer step over `batch_count` >= 1 micro-batches (which may differ in shape). `options`
 * and `result` may be NULL. Before anything runs, every batch is checked: BAD_DATA names the input,
 * axis or row, what was expected, and the node that needs it. NONFINITE: `result` is filled,
 * parameters, state and step count are unchanged; with `nonfinite` 2 in part new. */
TRAINRT_API trainrt_status trainrt_step(trainrt_session *session, const trainrt_batch *batches,
                                        size_t batch_count, const trainrt_step_options *options,
                                        trainrt_step_result *result, trainrt_error **error);

/* Since 1.1: checks batches as trainrt_step does before anything runs, with its errors. Safe from
 * any thread, also while a step runs: a thread that loads data can do it ahead. */
TRAINRT_API trainrt_status trainrt_session_check(trainrt_session *session,
                                                 const trainrt_batch *batches, size_t batch_count,
                                                 trainrt_error **error);

/* Since 1.2: the value that the count `symbol` (see trainrt_symbol.axis) has at least in the
 * batches to come, for arrays in GPU memory, which the host does not count: without it, all of
 * their elements may count. -1: counted again. Where the host sees that more is needed, it is
 * BAD_DATA; in GPU memory the step itself finds that, and ends the run. */
TRAINRT_API trainrt_status trainrt_session_set_count(trainrt_session *session, const char *symbol,
                                                     int64_t value, trainrt_error **error);

/* Since 1.2: which plans a session has made, and who ran its batches. */
typedef struct trainrt_plan_info {
  size_t size;
  uint64_t plans; /* made so far: a function for certain sizes; on a GPU with its graphs */
  double build_milliseconds; /* that this took */
  uint64_t batches;          /* so far, of functions that have variants */
  uint64_t variant_batches;  /* of these, those that a variant computed */
  /* Why others, for which a variant would have paid, were not: a line for each condition that did
     not hold, with the number of batches and the row of the first; "" if there are none. Valid
     until the next call. */
  size_t declined_count;
  const char *declined;
} trainrt_plan_info;

static inline trainrt_plan_info trainrt_plan_info_default(void) {
  trainrt_plan_info info;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  return info;
}

TRAINRT_API trainrt_status trainrt_session_plans(trainrt_session *session, trainrt_plan_info *info,
                                                 trainrt_error **error);

/* Since 1.1: waits for a step made with TRAINRT_STEP_LAG whose result has not been returned, and
 * returns it, as without that flag; `result->step` is 0 if there is none. Other calls wait for it
 * first, too, and leave its result to this one; `trainrt_session_step` counts only steps that have
 * been waited for. `result` may be NULL. */
TRAINRT_API trainrt_status trainrt_session_finish(trainrt_session *session,
                                                  trainrt_step_result *result,
                                                  trainrt_error **error);

/* Since 1.1: the step that `trainrt_train` is about to make. */
typedef struct trainrt_next_step {
  size_t size;
  int64_t step; /* its number, from 1 */
  /* to be set, both: the micro-batches, borrowed until the next call of the function (values in
     memory of trainrt_host_alloc: until `done` is told of the step) */
  const trainrt_batch *batches;
  size_t batch_count;
  trainrt_step_options *options; /* the defaults, to be changed where they do not fit */
} trainrt_next_step;

/* Gives the data of a step. 1: make it; 0: there is no more data, training ends; anything else
 * ends it with CANCELLED. */
typedef int (*trainrt_next)(void *user, trainrt_next_step *next);

/* Told of every step in order, also of one that was NONFINITE. Non-zero: training ends. */
typedef int (*trainrt_step_done)(void *user, const trainrt_step_result *result);

typedef struct trainrt_train_options {
  size_t size;
  trainrt_next next; /* must be set */
  void *next_user;
  trainrt_step_done done; /* NULL: none */
  void *done_user;
  int64_t last_step; /* ends after the step of this number; 0: when `next` or `done` says so */
} trainrt_train_options;

static inline trainrt_train_options trainrt_train_options_default(void) {
  trainrt_train_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/* Since 1.1: steps in a row, with data from a callback. Both callbacks run on the calling thread,
 * between steps, and may call the session's other functions. Where `next` sets TRAINRT_STEP_LAG,
 * `done` is told of a step while the next one runs, and all is waited for at the end. An error ends
 * it as it would end `trainrt_step`. `result`: of the last step; may be NULL. */
TRAINRT_API trainrt_status trainrt_train(trainrt_session *session,
                                         const trainrt_train_options *options,
                                         trainrt_step_result *result, trainrt_error **error);

/* Forward and backward only, as the next step would run them: the gradients stay readable through
 * `trainrt_session_gradient` until the next step. No parameter, state or step count changes. */
TRAINRT_API trainrt_status trainrt_gradients(trainrt_session *session, const trainrt_batch *batches,
                                             size_t batch_count,
                                             const trainrt_step_options *options,
                                             trainrt_step_result *result, trainrt_error **error);

enum {
  /* an input that is not given (labels, when predicting) is taken as zeros; the loss then is NaN.
     Its axes must be known from the other inputs */
  TRAINRT_EVAL_FILL_MISSING = 1
};

typedef struct trainrt_eval_options {
  size_t size;
  uint32_t flags;
} trainrt_eval_options;

static inline trainrt_eval_options trainrt_eval_options_default(void) {
  trainrt_eval_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

typedef struct trainrt_eval_result {
  size_t size;
  double loss; /* NaN: the graph has none, or an input was filled in */
  double milliseconds;
  uint64_t peak_bytes;
} trainrt_eval_result;

static inline trainrt_eval_result trainrt_eval_result_default(void) {
  trainrt_eval_result result;
  memset(&result, 0, sizeof result);
  result.size = sizeof result;
  return result;
}

/* Runs the model in evaluation mode; read its outputs with `trainrt_session_output`. A non-finite
 * loss is no error. */
TRAINRT_API trainrt_status trainrt_eval(trainrt_session *session, const trainrt_batch *batch,
                                        const trainrt_eval_options *options,
                                        trainrt_eval_result *result, trainrt_error **error);

/*===- reading and writing values ------------------------------------------------------===*/

/* Views into the session (copies on the host, if it is on a GPU), read-only: parameters, state and
 * gradients are valid until the session's next call that changes them; outputs (of the last
 * `trainrt_eval`, or those a step computes) until its next step or evaluation. NOT_FOUND: no such
 * name, or (gradient, output) not computed yet. Gradients exist for trainable parameters, fp32 (f64
 * for f64 parameters), in the parameter's shape, zeros if unused. */
TRAINRT_API trainrt_status trainrt_session_parameter(const trainrt_session *session,
                                                     const char *name, trainrt_tensor *tensor,
                                                     trainrt_error **error);
/* Since 1.2: a parameter as the model without adapters has it: its branch added, decoded, in the
 * type and shape that it was made of. Valid until the session's next call. */
TRAINRT_API trainrt_status trainrt_session_merged_parameter(trainrt_session *session,
                                                            const char *name,
                                                            trainrt_tensor *tensor,
                                                            trainrt_error **error);
TRAINRT_API trainrt_status trainrt_session_state(const trainrt_session *session, const char *name,
                                                 trainrt_tensor *tensor, trainrt_error **error);
TRAINRT_API trainrt_status trainrt_session_gradient(const trainrt_session *session,
                                                    const char *name, trainrt_tensor *tensor,
                                                    trainrt_error **error);
TRAINRT_API trainrt_status trainrt_session_output(const trainrt_session *session, const char *name,
                                                  trainrt_tensor *tensor, trainrt_error **error);

/* Copies `tensor` in; dtype and shape must be equal. */
TRAINRT_API trainrt_status trainrt_session_set_parameter(trainrt_session *session, const char *name,
                                                         const trainrt_tensor *tensor,
                                                         trainrt_error **error);
TRAINRT_API trainrt_status trainrt_session_set_state(trainrt_session *session, const char *name,
                                                     const trainrt_tensor *tensor,
                                                     trainrt_error **error);

/* Since 1.1: for hosts that keep parameters and state in a place of their own. After all have been
 * set, says how many steps they have seen: the session continues as after
 * `trainrt_checkpoint_load`, with the seed of its creation. */
TRAINRT_API trainrt_status trainrt_session_set_step(trainrt_session *session, int64_t step,
                                                    trainrt_error **error);

/*===- data files ----------------------------------------------------------------------===*/

/* Named arrays in a .npz or .safetensors file, told apart by their content. Stored arrays are
 * mapped (zero copy), deflated ones are unpacked when first asked for. */
typedef struct trainrt_file trainrt_file;
/* BAD_DATA names file, array and what is wrong. */
TRAINRT_API trainrt_status trainrt_file_open(const char *path, trainrt_file **file,
                                             trainrt_error **error);
TRAINRT_API void trainrt_file_free(trainrt_file *file);
TRAINRT_API size_t trainrt_file_count(const trainrt_file *file);
/* NULL if `index` is out of range. */
TRAINRT_API const char *trainrt_file_name(const trainrt_file *file, size_t index);
/* A view, valid until the file is freed; read-only. */
TRAINRT_API trainrt_status trainrt_file_tensor(trainrt_file *file, size_t index,
                                               trainrt_tensor *tensor, trainrt_error **error);
/* Writes a safetensors file (temporary name, fsync, rename). */
TRAINRT_API trainrt_status trainrt_file_write(const char *path, const trainrt_named_tensor *tensors,
                                              size_t count, trainrt_error **error);

#ifdef __cplusplus
}
#endif

#include "trainrt/checkpoint.h"
#include "trainrt/signed_package.h"
#include "trainrt/speed.h"
#include "trainrt/views.h"

#endif /* TRAINRT_TRAINRT_H */
