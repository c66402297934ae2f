// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C++17 over the C API, header only: handles that free themselves and errors as exceptions. The ABI
// is that of trainrt.h, so hosts of any compiler may use it.
#ifndef TRAINRT_TRAINRT_HPP
#define TRAINRT_TRAINRT_HPP

#include "trainrt/trainrt.h"

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace trainrt {

/// Every failure of the C API, with its status.
class Exception : public std::runtime_error {
public:
  Exception(trainrt_status status, const char *message)
      : std::runtime_error(message), code(status) {}
  trainrt_status status() const noexcept { return code; }

private:
  trainrt_status code;
};

namespace detail {
/// Collects the error of one call: `Call call; call.check(trainrt_...(..., call))`.
class Call {
public:
  Call() = default;
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;
  ~Call() { trainrt_error_free(error); }
  operator trainrt_error **() { return &error; }
  void check(trainrt_status status) const {
    if (status != TRAINRT_OK)
      throw Exception(status, error ? trainrt_error_message(error) : trainrt_status_name(status));
  }

private:
  trainrt_error *error = nullptr;
};
struct Free {
  void operator()(trainrt_package *package) const { trainrt_package_free(package); }
  void operator()(trainrt_session *session) const { trainrt_session_free(session); }
  void operator()(trainrt_file *file) const { trainrt_file_free(file); }
};
} // namespace detail

class Package {
public:
  /// Throws Exception.
  explicit Package(const std::string &path) {
    detail::Call call;
    trainrt_package *opened = nullptr;
    call.check(trainrt_package_open(path.c_str(), &opened, call));
    handle.reset(opened);
  }
  trainrt_package_info info() const {
    detail::Call call;
    trainrt_package_info info = trainrt_package_info_default();
    call.check(trainrt_package_get_info(get(), &info, call));
    return info;
  }
  std::string manifest() const { return trainrt_package_manifest(get()); }
  std::vector<trainrt_tensor_info> tensors(trainrt_kind kind) const {
    std::vector<trainrt_tensor_info> list(trainrt_package_tensor_count(get(), kind),
                                          trainrt_tensor_info_default());
    for (size_t i = 0; i < list.size(); ++i) {
      detail::Call call;
      call.check(trainrt_package_tensor(get(), kind, i, &list[i], call));
    }
    return list;
  }
  std::vector<trainrt_symbol> symbols() const {
    std::vector<trainrt_symbol> list(trainrt_package_symbol_count(get()));
    for (size_t i = 0; i < list.size(); ++i) {
      detail::Call call;
      call.check(trainrt_package_symbol(get(), i, &list[i], call));
    }
    return list;
  }
  /// What a run with these sizes would hold; see `trainrt_package_memory`.
  trainrt_memory memory(const std::vector<trainrt_symbol_value> &sizes, uint32_t microBatches = 1,
                        uint32_t threads = 0) const {
    detail::Call call;
    trainrt_memory memory = trainrt_memory_default();
    call.check(trainrt_package_memory(get(), sizes.data(), sizes.size(), microBatches, threads,
                                      &memory, call));
    return memory;
  }
  const trainrt_package *get() const { return handle.get(); }

private:
  std::unique_ptr<trainrt_package, detail::Free> handle;
};

/// One micro-batch, by name; the arrays are borrowed.
using Inputs = std::vector<trainrt_named_tensor>;

class Session {
public:
  /// Throws Exception.
  explicit Session(const Package &package,
                   const trainrt_session_options &options = trainrt_session_options_default()) {
    detail::Call call;
    trainrt_session *created = nullptr;
    call.check(trainrt_session_create(package.get(), &options, &created, call));
    handle.reset(created);
  }

  trainrt_step_result step(const std::vector<Inputs> &batches,
                           const trainrt_step_options &options = trainrt_step_options_default()) {
    return run(trainrt_step, batches, options);
  }
  trainrt_step_result
  gradients(const std::vector<Inputs> &batches,
            const trainrt_step_options &options = trainrt_step_options_default()) {
    return run(trainrt_gradients, batches, options);
  }
  /// `fillMissing`: see TRAINRT_EVAL_FILL_MISSING.
  trainrt_eval_result eval(const Inputs &inputs, bool fillMissing = false) {
    detail::Call call;
    trainrt_eval_options options = trainrt_eval_options_default();
    options.flags = fillMissing ? TRAINRT_EVAL_FILL_MISSING : 0;
    trainrt_eval_result result = trainrt_eval_result_default();
    trainrt_batch batch{inputs.data(), inputs.size()};
    call.check(trainrt_eval(get(), &batch, &options, &result, call));
    return result;
  }

  trainrt_tensor parameter(const std::string &name) const {
    return read(trainrt_session_parameter, name);
  }
  trainrt_tensor state(const std::string &name) const { return read(trainrt_session_state, name); }
  trainrt_tensor gradient(const std::string &name) const {
    return read(trainrt_session_gradient, name);
  }
  trainrt_tensor output(const std::string &name) const {
    return read(trainrt_session_output, name);
  }
  void setParameter(const std::string &name, const trainrt_tensor &value) {
    detail::Call call;
    call.check(trainrt_session_set_parameter(get(), name.c_str(), &value, call));
  }
  void setState(const std::string &name, const trainrt_tensor &value) {
    detail::Call call;
    call.check(trainrt_session_set_state(get(), name.c_str(), &value, call));
  }

  void save(const std::string &directory, uint32_t keep = 0,
            const std::optional<std::string> &dataPosition = std::nullopt) {
    detail::Call call;
    call.check(trainrt_checkpoint_save(get(), directory.c_str(), keep,
                                       dataPosition ? dataPosition->c_str() : nullptr, call));
  }
  trainrt_checkpoint_info load(const std::string &directory) {
    detail::Call call;
    trainrt_checkpoint_info info = trainrt_checkpoint_info_default();
    call.check(trainrt_checkpoint_load(get(), directory.c_str(), &info, call));
    return info;
  }

  trainrt_memory memory() const {
    detail::Call call;
    trainrt_memory memory = trainrt_memory_default();
    call.check(trainrt_session_memory(get(), &memory, call));
    return memory;
  }
  int64_t stepCount() const { return trainrt_session_step(get()); }
  int64_t seed() const { return trainrt_session_seed(get()); }
  std::string warnings() const { return trainrt_session_warnings(get()); }
  /// Safe from any thread.
  void cancel() { trainrt_session_cancel(get()); }
  trainrt_session *get() const { return handle.get(); }

private:
  template <typename Function>
  trainrt_step_result run(Function function, const std::vector<Inputs> &batches,
                          const trainrt_step_options &options) {
    detail::Call call;
    std::vector<trainrt_batch> list;
    for (const Inputs &inputs : batches)
      list.push_back({inputs.data(), inputs.size()});
    trainrt_step_result result = trainrt_step_result_default();
    call.check(function(get(), list.data(), list.size(), &options, &result, call));
    return result;
  }
  template <typename Function>
  trainrt_tensor read(Function function, const std::string &name) const {
    detail::Call call;
    trainrt_tensor tensor{};
    call.check(function(get(), name.c_str(), &tensor, call));
    return tensor;
  }

  std::unique_ptr<trainrt_session, detail::Free> handle;
};

/// Named arrays of a .npz or .safetensors file.
class File {
public:
  explicit File(const std::string &path) {
    detail::Call call;
    trainrt_file *opened = nullptr;
    call.check(trainrt_file_open(path.c_str(), &opened, call));
    handle.reset(opened);
  }
  size_t size() const { return trainrt_file_count(handle.get()); }
  std::string name(size_t index) const { return trainrt_file_name(handle.get(), index); }
  /// Valid as long as this object.
  trainrt_named_tensor tensor(size_t index) const {
    detail::Call call;
    trainrt_named_tensor result{trainrt_file_name(handle.get(), index), {}};
    call.check(trainrt_file_tensor(handle.get(), index, &result.tensor, call));
    return result;
  }

private:
  std::unique_ptr<trainrt_file, detail::Free> handle;
};

} // namespace trainrt

#endif // TRAINRT_TRAINRT_HPP
