// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --export, --adapter, --merge-adapter and --dump-gradients.
#include "cli/export.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "format/json.h"
#include "format/lora_manifest.h"
#include "io/convert.h"
#include "trainrt/data.h"
#include "trainrt/export.h"

#include <vector>

namespace trainrt::run {

namespace {

using Getter = trainrt_status (*)(const trainrt_session *, const char *, trainrt_tensor *,
                                  trainrt_error **);

/// Parameters that have all of `flags`, in the package's order. Nothing is written where one of
/// them cannot be had.
void write(const Package &package, trainrt_session *session, const std::string &path, Getter get,
           uint32_t flags, const char *what, Reporter &reporter) {
  std::vector<trainrt_named_tensor> tensors;
  for (const trainrt_tensor_info &parameter : package.parameters) {
    if ((parameter.flags & flags) != flags)
      continue;
    trainrt_tensor tensor;
    ErrorSlot error;
    error.check(get(session, parameter.name, &tensor, error));
    tensors.push_back({parameter.name, tensor});
  }
  ErrorSlot error;
  error.check(trainrt_file_write(path.c_str(), tensors.data(), tensors.size(), error));
  reporter.note("wrote " + grouped(int64_t(tensors.size())) + " " + what + " to " + path);
}

/// How many modules of the package have adapters.
/// 0 for a package without any.
int64_t countAdapters(const Package &package) {
  std::optional<Lora> lora;
  const auto manifest = parseJson<nlohmann::json>(trainrt_package_manifest(package.handle.get()));
  if (Status status = readLora(manifest, lora); !status.ok())
    throw Failure(exitInput, status.message());
  return lora ? int64_t(lora->modules.size()) : 0;
}

/// What --model and --outputs say; valid as long as these.
/// Not to be copied: `given` points into `names`.
class OnnxOptions {
public:
  explicit OnnxOptions(const Options &options) : given(trainrt_onnx_options_default()) {
    for (const std::string &name : options.outputs)
      names.push_back(name.c_str());
    given.model = options.model.empty() ? nullptr : options.model.c_str();
    given.outputs = names.data();
    given.output_count = names.size();
  }
  operator const trainrt_onnx_options *() const { return &given; }

private:
  trainrt_onnx_options given;
  std::vector<const char *> names;
};

/// Says which parameter, the first, has values that are not finite; all of them are in `path`.
void warnNotFinite(const Package &package, trainrt_session *session, const std::string &path,
                   Reporter &reporter) {
  for (const trainrt_tensor_info &parameter : package.parameters) {
    trainrt_tensor tensor;
    ErrorSlot error;
    error.check(trainrt_session_parameter(session, parameter.name, &tensor, error));
    int64_t count = 1;
    for (int32_t axis = 0; axis < tensor.rank; ++axis)
      count *= tensor.shape[axis];
    if (holdsNoNumber(DType(tensor.dtype), tensor.data, count))
      return reporter.warning("'" + path + "': values of '" + std::string(parameter.name) +
                              "' are not finite");
  }
}

void exportOnnx(const Options &options, const Package &package, trainrt_session *session,
                Reporter &reporter) {
  const std::string &path = options.exportPath;
  int32_t hasData = 0;
  ErrorSlot error;
  error.check(trainrt_onnx_save(session, path.c_str(), OnnxOptions(options), &hasData, error));
  reporter.note("wrote the model with " + grouped(int64_t(package.parameters.size())) +
                " parameters to " + path + (hasData ? " and " + path + ".data" : ""));
}

/// What is not said on the command line stays as in --adapter.
void exportAdapter(const Options &options, const Package &package, trainrt_session *session,
                   Reporter &reporter) {
  trainrt_adapter_options chosen = trainrt_adapter_options_default();
  if (!options.baseName.empty())
    chosen.base_name = options.baseName.c_str();
  if (!options.taskType.empty())
    chosen.task_type = options.taskType.c_str();
  ErrorSlot error;
  error.check(trainrt_adapter_save(session, options.exportPath.c_str(), &chosen, error));
  reporter.note("wrote the adapter of " + grouped(countAdapters(package)) + " modules to " +
                options.exportPath);
}

} // namespace

/// Before the training: whatever of an export can fail by the package alone fails here.
void checkExports(const Options &options, const Package &package) {
  const char *const option = options.exportsAdapter()
                                 ? "--export FOLDER (neither .onnx nor .safetensors)"
                             : !options.adapter.empty()      ? "--adapter"
                             : !options.mergeAdapter.empty() ? "--merge-adapter"
                                                             : nullptr;
  if (option && !countAdapters(package))
    throw Failure(exitInput, package.path + ": " + option +
                                 " needs a package with adapters, which trainc --lora makes");
  if (!options.exportsOnnx())
    return;
  ErrorSlot error;
  const trainrt_status status = trainrt_onnx_check(package.handle.get(), options.exportPath.c_str(),
                                                   OnnxOptions(options), error);
  error.check(status, status == TRAINRT_NOT_FOUND || status == TRAINRT_IO_ERROR
                          ? "--export to .onnx writes the parameters into the model that the "
                            "package was compiled from; say where that is with --model FILE.onnx, "
                            "or export to .safetensors"
                          : "");
}

void loadAdapter(const Options &options, trainrt_session *session, Reporter &reporter) {
  if (options.adapter.empty())
    return;
  ErrorSlot error;
  error.check(trainrt_adapter_load(session, options.adapter.c_str(), error));
  for (const std::string &line : split(trainrt_session_warnings(session), '\n'))
    if (!line.empty())
      reporter.warning(line);
  reporter.fact("adapter", options.adapter);
}

/// After the training. Values that are not finite are written nevertheless, and warned about: they
/// are what the model has.
void writeExports(const Options &options, const Package &package, trainrt_session *session,
                  Reporter &reporter) {
  if (options.exportsOnnx())
    exportOnnx(options, package, session, reporter);
  else if (options.exportsAdapter())
    exportAdapter(options, package, session, reporter);
  else if (!options.exportPath.empty())
    write(package, session, options.exportPath, trainrt_session_parameter, 0, "parameters",
          reporter);
  if (!options.mergeAdapter.empty()) {
    ErrorSlot error;
    error.check(trainrt_adapter_merge(session, options.mergeAdapter.c_str(), error));
    reporter.note("wrote the model, " + grouped(countAdapters(package)) +
                  " of its weights with their adapters, to " + options.mergeAdapter);
  }
  for (const std::string &path : {options.exportPath, options.mergeAdapter})
    if (!path.empty())
      warnNotFinite(package, session, path, reporter);
}

/// Of the last `trainrt_gradients`. Frozen parameters have none.
void exportGradients(const Package &package, trainrt_session *session, const std::string &path,
                     Reporter &reporter) {
  write(package, session, path, trainrt_session_gradient, TRAINRT_FLAG_TRAINABLE, "gradients",
        reporter);
}

} // namespace trainrt::run
