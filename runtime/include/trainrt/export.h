/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * A session's parameters in files that other programs read: adapters in PEFT's layout, the model
 * with its adapters merged, the ONNX model that the package was compiled from. Since 1.4. An
 * addition to trainrt.h, whose rules hold here, too. Plain files of tensors: `trainrt_file_write`.
 */
#ifndef TRAINRT_EXPORT_H
#define TRAINRT_EXPORT_H

#include "trainrt/trainrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/*===- adapters ------------------------------------------------------------------------===*/

/* What adapter_config.json says of the base model. NULL: as in the adapter that was loaded, if
 * any. */
typedef struct trainrt_adapter_options {
  size_t size;
  const char *base_name; /* its folder, or its name on the hub */
  const char *task_type; /* "CAUSAL_LM", ... */
} trainrt_adapter_options;

static inline trainrt_adapter_options trainrt_adapter_options_default(void) {
  trainrt_adapter_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/* Writes `folder`/adapter_config.json and adapter_model.safetensors; there is no moment in which
 * one of them is of an older adapter. UNSUPPORTED: the package has no adapters. `options` may be
 * NULL. */
TRAINRT_API trainrt_status trainrt_adapter_save(trainrt_session *session, const char *folder,
                                                const trainrt_adapter_options *options,
                                                trainrt_error **error);

/* Values from such a folder, for every adapter of the package. BAD_DATA: it is an adapter of other
 * modules, ranks or strengths. What it has and the package does not train is ignored, with a
 * warning (`trainrt_session_warnings`). */
TRAINRT_API trainrt_status trainrt_adapter_load(trainrt_session *session, const char *folder,
                                                trainrt_error **error);

/* Writes the model without adapters, these added to its weights, as safetensors. */
TRAINRT_API trainrt_status trainrt_adapter_merge(trainrt_session *session, const char *path,
                                                 trainrt_error **error);

/*===- ONNX ----------------------------------------------------------------------------===*/

typedef struct trainrt_onnx_options {
  size_t size;
  /* the model that was compiled; NULL: where `trainrt_package_model_path` says */
  const char *model;
  /* which of its outputs stay; what only others need goes. None: all stay. */
  const char *const *outputs;
  size_t output_count;
} trainrt_onnx_options;

static inline trainrt_onnx_options trainrt_onnx_options_default(void) {
  trainrt_onnx_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/* Where the package says that the model is which it was compiled from; nobody has looked whether it
 * is. Valid as long as the package. */
TRAINRT_API const char *trainrt_package_model_path(const trainrt_package *package);

/* What can be wrong with `trainrt_onnx_save` before there is anything to be saved: the model is not
 * there, or is another one. `options` may be NULL. */
TRAINRT_API trainrt_status trainrt_onnx_check(const trainrt_package *package, const char *path,
                                              const trainrt_onnx_options *options,
                                              trainrt_error **error);

/* Writes that model in evaluation mode, with the session's parameters: quantized ones decoded, and
 * with adapters that the model does not have itself added to its weights. NOT_FOUND: the model is
 * not there. Large models, and those whose weights were beside them, get a second file,
 * `path`.data, which `*has_data` tells; `has_data` and `options` may be NULL. */
TRAINRT_API trainrt_status trainrt_onnx_save(trainrt_session *session, const char *path,
                                             const trainrt_onnx_options *options, int32_t *has_data,
                                             trainrt_error **error);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_EXPORT_H */
