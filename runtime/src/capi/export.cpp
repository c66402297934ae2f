// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Adapters and ONNX models of the C API.

#include "trainrt/export.h"
#include "capi/internal.h"
#include "export/adapter.h"
#include "export/onnx_export.h"

using namespace trainrt;
using namespace trainrt::capi;

namespace {

/// Runs `use` with the session's adapters.
template <typename Use>
trainrt_status withAdapter(trainrt_session *session, const char *path, const char *what,
                           trainrt_error **error, const Use &use) {
  return guardSession(session, error, [&]() -> Status {
    // NULL of either: the second one is named by the function's own parameter.
    if (!session || !path)
      return nullArgument(session ? what : "session");
    // Warnings of this call only.
    session->impl->warnings().clear();
    std::unique_ptr<Adapter> adapter;
    TRAINRT_TRY(Adapter::open(*session->impl, adapter));
    return use(*adapter);
  });
}

/// Only opens and checks.
Status openExport(const Package &package, const char *path, const trainrt_onnx_options *options,
                  std::unique_ptr<OnnxExport> &onnx) {
  // Options of an older version keep the defaults of what they lack.
  trainrt_onnx_options chosen = trainrt_onnx_options_default();
  TRAINRT_TRY(readStruct(options, "options", chosen));
  if (chosen.output_count && !chosen.outputs)
    return nullArgument("options->outputs");
  OnnxExport::Settings settings;
  if (chosen.model)
    settings.model = chosen.model;
  // Checked one by one: anybody may call this.
  for (size_t i = 0; i < chosen.output_count; ++i) {
    if (!chosen.outputs[i])
      return nullArgument("options->outputs[i]");
    settings.outputs.push_back(chosen.outputs[i]);
  }
  return OnnxExport::open(package, settings, path, onnx);
}

} // namespace

extern "C" {

trainrt_status trainrt_adapter_save(trainrt_session *session, const char *folder,
                                    const trainrt_adapter_options *options, trainrt_error **error) {
  return withAdapter(session, folder, "folder", error, [&](Adapter &adapter) -> Status {
    trainrt_adapter_options chosen = trainrt_adapter_options_default();
    TRAINRT_TRY(readStruct(options, "options", chosen));
    // What the call says goes over what an adapter that was loaded has said.
    BaseModel base = session->base;
    if (chosen.base_name)
      base.name = chosen.base_name;
    if (chosen.task_type)
      base.taskType = chosen.task_type;
    return adapter.write(base, folder);
  });
}

trainrt_status trainrt_adapter_load(trainrt_session *session, const char *folder,
                                    trainrt_error **error) {
  return withAdapter(session, folder, "folder", error,
                     [&](Adapter &adapter) { return adapter.load(folder, session->base); });
}

trainrt_status trainrt_adapter_merge(trainrt_session *session, const char *path,
                                     trainrt_error **error) {
  return withAdapter(session, path, "path", error,
                     [&](Adapter &adapter) { return adapter.writeMerged(path); });
}

trainrt_status trainrt_onnx_check(const trainrt_package *package, const char *path,
                                  const trainrt_onnx_options *options, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!package || !path)
      return nullArgument(package ? "path" : "package");
    std::unique_ptr<OnnxExport> onnx;
    return openExport(*package->impl, path, options, onnx);
  });
}

trainrt_status trainrt_onnx_save(trainrt_session *session, const char *path,
                                 const trainrt_onnx_options *options, int32_t *has_data,
                                 trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || !path)
      return nullArgument(session ? "path" : "session");
    std::unique_ptr<OnnxExport> onnx;
    // Everything is checked before anything is written.
    TRAINRT_TRY(openExport(session->impl->package(), path, options, onnx));
    TRAINRT_TRY(onnx->write(*session->impl));
    if (has_data)
      *has_data = onnx->hasData();
    return {};
  });
}

} // extern "C"
