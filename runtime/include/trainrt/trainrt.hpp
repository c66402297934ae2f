// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C++17 over the C API, header only: handles that free themselves, tensors and batches that keep
// their shapes and names, callbacks as functions, and errors as exceptions. The ABI is that of
// trainrt.h, so hosts of any compiler may use it; hosts without exceptions use trainrt.h itself.
//
//   trainrt::Package package("model.tpk");
//   trainrt::Session session(package);
//   trainrt::Batch batch;
//   batch.add("x", x, {8, 3}).add("labels", labels, {8});   // std::vector, std::span, std::array
//   double loss = session.step(batch).loss;
//   session.save("checkpoints");
//   session.predict(batch);
//   for (float logit : session.output("logits").values<float>()) ...
//
// Handles can be moved, not copied. Values are borrowed: what is given to a batch must live until
// the batch has been used, what is read from a session is valid as trainrt.h says. Everything but
// `Session::cancel` belongs to one thread at a time. After a move only assignment and destruction
// of the source are allowed.
#ifndef TRAINRT_TRAINRT_HPP
#define TRAINRT_TRAINRT_HPP

#if __cplusplus < 201703L
#error "trainrt.hpp needs C++17 (-std=c++17); trainrt.h is for C and for older C++"
#endif

#include "trainrt/data.h"
#include "trainrt/export.h"
#include "trainrt/trainrt.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

namespace trainrt {

/// Every failure of the C API, with its status. Also what this header itself refuses
/// (TRAINRT_INVALID_ARGUMENT).
class Exception : public std::runtime_error {
public:
  Exception(trainrt_status status, const std::string &message)
      : std::runtime_error(message), code(status) {}
  trainrt_status status() const noexcept { return code; }

private:
  trainrt_status code;
};

#if __cplusplus >= 202002L
template <typename T> using Span = std::span<T>;
#else
/// What is needed of C++20's std::span.
template <typename T> class Span {
public:
  constexpr Span() = default;
  constexpr Span(T *data, size_t size) : first(data), count(size) {}
  template <typename Container, typename = std::enable_if_t<std::is_convertible_v<
                                    decltype(std::declval<Container &>().data()), T *>>>
  constexpr Span(Container &&container) : first(container.data()), count(container.size()) {}
  template <size_t n> constexpr Span(T (&array)[n]) : first(array), count(n) {}
  constexpr T *data() const { return first; }
  constexpr size_t size() const { return count; }
  constexpr bool empty() const { return count == 0; }
  constexpr T *begin() const { return first; }
  constexpr T *end() const { return first + count; }
  constexpr T &operator[](size_t index) const { return first[index]; }

private:
  T *first = nullptr;
  size_t count = 0;
};
#endif

/// The dtype of a C++ type. f16 and bf16 have none: give those by dtype and address.
template <typename T> constexpr trainrt_dtype dtypeOf() {
  using Value = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Value, bool>)
    return TRAINRT_BOOL;
  else if constexpr (std::is_same_v<Value, float>)
    return TRAINRT_F32;
  else if constexpr (std::is_same_v<Value, double>)
    return TRAINRT_F64;
  else {
    static_assert(std::is_integral_v<Value> && sizeof(Value) <= 8, "no dtype has this type");
    constexpr trainrt_dtype integers[2][4] = {{TRAINRT_U8, TRAINRT_U16, TRAINRT_U32, TRAINRT_U64},
                                              {TRAINRT_I8, TRAINRT_I16, TRAINRT_I32, TRAINRT_I64}};
    return integers[std::is_signed_v<Value>][sizeof(Value) == 1   ? 0
                                             : sizeof(Value) == 2 ? 1
                                             : sizeof(Value) == 4 ? 2
                                                                  : 3];
  }
}

using Shape = std::vector<int64_t>;

/// Borrowed values with a shape of its own.
class Tensor {
public:
  Tensor() = default;
  Tensor(trainrt_dtype dtype, const void *data, Shape shape)
      : address(data), type(dtype), extents(std::move(shape)) {}
  Tensor(const trainrt_tensor &from)
      : address(from.data), type(from.dtype), extents(from.shape, from.shape + from.rank) {}
  /// Throws where `values` has not as many elements as `shape`.
  template <typename T> Tensor(Span<const T> values, Shape shape) {
    *this = Tensor(dtypeOf<T>(), values.data(), std::move(shape));
    if (elements() != int64_t(values.size()))
      throw Exception(TRAINRT_INVALID_ARGUMENT, "a tensor of " + std::to_string(elements()) +
                                                    " elements was given " +
                                                    std::to_string(values.size()) + " values");
  }

  trainrt_dtype dtype() const { return type; }
  const Shape &shape() const { return extents; }
  const void *data() const { return address; }
  int64_t elements() const {
    trainrt_tensor view = c();
    return trainrt_tensor_elements(&view);
  }
  /// Throws where the dtype is another one.
  template <typename T> Span<const T> values() const {
    if (type != dtypeOf<T>())
      throw Exception(TRAINRT_INVALID_ARGUMENT, std::string("a tensor of ") +
                                                    trainrt_dtype_name(type) + " was read as " +
                                                    trainrt_dtype_name(dtypeOf<T>()));
    return Span<const T>(static_cast<const T *>(address), size_t(elements()));
  }
  /// For the C API; valid as long as this object.
  trainrt_tensor c() const {
    return {const_cast<void *>(address), type, int32_t(extents.size()), extents.data()};
  }

private:
  const void *address = nullptr;
  trainrt_dtype type = TRAINRT_F32;
  Shape extents;
};

namespace detail {
/// The values of a contiguous container or array.
template <typename Values> auto valuesOf(const Values &values) {
  using T = std::remove_cv_t<std::remove_reference_t<decltype(*std::data(values))>>;
  return Span<const T>(std::data(values), std::size(values));
}

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
  void operator()(trainrt_sampler *sampler) const { trainrt_sampler_free(sampler); }
};
} // namespace detail

/// Tensors by name: one micro-batch, or the contents of a file.
class Batch {
public:
  /// `values`: a std::vector, std::array, std::span or array of a type that has a dtype.
  template <typename Values> Batch &add(std::string_view name, const Values &values, Shape shape) {
    return add(name, Tensor(detail::valuesOf(values), std::move(shape)));
  }
  Batch &add(std::string_view name, Tensor tensor) {
    entries.emplace_back(name, std::move(tensor));
    return *this;
  }
  void clear() { entries.clear(); }
  size_t size() const { return entries.size(); }

  /// For the C API; valid until the batch is changed, moved or asked again.
  trainrt_batch c() const {
    view.clear();
    for (const auto &[name, tensor] : entries)
      view.push_back({name.c_str(), tensor.c()});
    return {view.data(), view.size()};
  }

private:
  std::vector<std::pair<std::string, Tensor>> entries;
  mutable std::vector<trainrt_named_tensor> view;
};

class Package {
public:
  explicit Package(const std::string &path) {
    detail::Call call;
    trainrt_package *opened = nullptr;
    call.check(trainrt_package_open(path.c_str(), &opened, call));
    handle.reset(opened);
  }
  /// One that must have been signed with the private key of `key`: `trainrt_package_open_signed`.
  Package(const std::string &path, const std::string &key) {
    detail::Call call;
    trainrt_package *opened = nullptr;
    call.check(trainrt_package_open_signed(path.c_str(), key.c_str(), &opened, call));
    handle.reset(opened);
  }
  trainrt_package_info info() const {
    detail::Call call;
    trainrt_package_info info = trainrt_package_info_default();
    call.check(trainrt_package_get_info(get(), &info, call));
    return info;
  }
  std::string_view manifest() const { return trainrt_package_manifest(get()); }
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
  /// Of the symbol of this number, where its axis has this size.
  int64_t symbolValue(size_t index, int64_t size) const {
    detail::Call call;
    int64_t value = 0;
    call.check(trainrt_package_symbol_value(get(), index, size, &value, call));
    return value;
  }
  /// What a run with these sizes would hold; see `trainrt_package_memory`.
  trainrt_memory memory(const std::vector<std::pair<std::string, int64_t>> &sizes,
                        uint32_t microBatches = 1, uint32_t threads = 0) const {
    std::vector<trainrt_symbol_value> values;
    for (const auto &[name, value] : sizes)
      values.push_back({name.c_str(), value});
    detail::Call call;
    trainrt_memory memory = trainrt_memory_default();
    call.check(trainrt_package_memory(get(), values.data(), values.size(), microBatches, threads,
                                      &memory, call));
    return memory;
  }
  /// What in which inputs is real.
  std::vector<trainrt_token_input> tokenInputs() const {
    std::vector<trainrt_token_input> list(trainrt_package_token_input_count(get()),
                                          trainrt_token_input_default());
    for (size_t i = 0; i < list.size(); ++i) {
      detail::Call call;
      call.check(trainrt_package_token_input(get(), i, &list[i], call));
    }
    return list;
  }
  /// Lengths of the `rows` rows that these arrays have; see `trainrt_package_row_lengths`.
  std::vector<int64_t> rowLengths(const Batch &arrays, size_t rows,
                                  const std::optional<std::string> &symbol = std::nullopt) const {
    std::vector<int64_t> lengths(rows);
    trainrt_batch view = arrays.c();
    detail::Call call;
    call.check(trainrt_package_row_lengths(get(), &view, symbol ? symbol->c_str() : nullptr,
                                           lengths.data(), rows, call));
    return lengths;
  }
  const trainrt_package *get() const { return handle.get(); }

private:
  std::unique_ptr<trainrt_package, detail::Free> handle;
};

/// `trainrt_sampler_options` with C++ types; what is missing here can be set in `c`.
struct SamplerOptions {
  std::vector<int64_t> lengths; ///< of every row
  /// What a row costs; empty: its length. Must not throw.
  std::function<double(int64_t row)> complexity;
  /// Everything else; `rows` is the number of lengths where there are any.
  trainrt_sampler_options c = trainrt_sampler_options_default();
};

/// Which rows form which batch of which rank; see `trainrt_sampler_create`.
class Sampler {
public:
  struct Position {
    int64_t epoch = 0, batch = 0;
  };
  explicit Sampler(const SamplerOptions &options) {
    trainrt_sampler_options given = options.c;
    if (!options.lengths.empty()) {
      given.rows = int64_t(options.lengths.size());
      given.lengths = options.lengths.data();
    }
    if (options.complexity) {
      given.complexity = [](void *user, int64_t row) {
        return (*static_cast<const std::function<double(int64_t)> *>(user))(row);
      };
      given.complexity_user = const_cast<std::function<double(int64_t)> *>(&options.complexity);
    }
    detail::Call call;
    trainrt_sampler *created = nullptr;
    call.check(trainrt_sampler_create(&given, &created, call));
    handle.reset(created);
  }
  /// The rows of this rank's next batch; valid until the next call.
  Span<const int64_t> next() {
    detail::Call call;
    const int64_t *rows = nullptr;
    size_t count = 0;
    call.check(trainrt_sampler_next(handle.get(), &rows, &count, call));
    return Span<const int64_t>(rows, count);
  }
  /// Batches of this rank in an epoch.
  int64_t batches(int64_t epoch) { return trainrt_sampler_batches(handle.get(), epoch); }
  Position position() const {
    detail::Call call;
    Position at;
    call.check(trainrt_sampler_position(handle.get(), &at.epoch, &at.batch, call));
    return at;
  }
  void seek(Position at) {
    detail::Call call;
    call.check(trainrt_sampler_seek(handle.get(), at.epoch, at.batch, call));
  }
  /// Equal where positions mean the same.
  uint64_t hash() const { return trainrt_sampler_hash(handle.get()); }

private:
  std::unique_ptr<trainrt_sampler, detail::Free> handle;
};

/// `trainrt_session_options` with C++ types; what is missing here can be set in `c`.
struct SessionOptions {
  uint32_t threads = 0; ///< 0: all cores
  bool inference = false;
  int64_t seed = 0;
  trainrt_weights weights = TRAINRT_WEIGHTS_PACKAGE;
  std::string weightsPath;
  /// Called between commands, `done` of `total`; false asks to cancel. Must not throw.
  std::function<bool(int64_t done, int64_t total)> progress;
  /// Everything else: allocator, GPU, stream, debugging. The fields above win.
  trainrt_session_options c = trainrt_session_options_default();
};

/// What `Session::train` asks for before each step.
struct NextStep {
  int64_t step = 0; ///< its number, from 1
  /// To be filled: one micro-batch, or several. They are those of the step before.
  std::vector<Batch> batches;
  trainrt_step_options options = trainrt_step_options_default();
};

class Session {
public:
  explicit Session(const Package &package, SessionOptions options = {}) {
    trainrt_session_options given = options.c;
    given.threads = options.threads;
    given.inference = options.inference;
    given.seed = options.seed;
    given.weights = options.weights;
    given.weights_path = options.weightsPath.c_str();
    if (options.progress) {
      progress = std::make_unique<Progress>(std::move(options.progress));
      given.progress = [](void *user, int64_t done, int64_t total) -> int {
        return !(*static_cast<Progress *>(user))(done, total);
      };
      given.progress_user = progress.get();
    }
    detail::Call call;
    trainrt_session *created = nullptr;
    call.check(trainrt_session_create(package.get(), &given, &created, call));
    handle.reset(created);
  }

  /// One optimizer step over one micro-batch, or several.
  trainrt_step_result step(const Batch &batch,
                           const trainrt_step_options &options = trainrt_step_options_default()) {
    return step(Span<const Batch>(&batch, 1), options);
  }
  trainrt_step_result step(Span<const Batch> batches,
                           const trainrt_step_options &options = trainrt_step_options_default()) {
    return run(trainrt_step, batches, options);
  }
  /// Of a step with TRAINRT_STEP_LAG; `step` is 0 where there is none.
  trainrt_step_result finish() {
    detail::Call call;
    trainrt_step_result result = trainrt_step_result_default();
    call.check(trainrt_session_finish(get(), &result, call));
    return result;
  }
  trainrt_step_result
  gradients(const Batch &batch,
            const trainrt_step_options &options = trainrt_step_options_default()) {
    return gradients(Span<const Batch>(&batch, 1), options);
  }
  trainrt_step_result
  gradients(Span<const Batch> batches,
            const trainrt_step_options &options = trainrt_step_options_default()) {
    return run(trainrt_gradients, batches, options);
  }

  /// Steps with data from `next` until it returns false, `done` does, or step `lastStep` (0: none)
  /// is made. Returns the last step's result. What a callback throws ends the training and is
  /// thrown again from here; the session stays usable.
  trainrt_step_result train(const std::function<bool(NextStep &)> &next,
                            const std::function<bool(const trainrt_step_result &)> &done = nullptr,
                            int64_t lastStep = 0) {
    Loop loop{next, done, {}, {}, nullptr};
    trainrt_train_options options = trainrt_train_options_default();
    options.next = [](void *user, trainrt_next_step *step) -> int {
      return static_cast<Loop *>(user)->give(*step);
    };
    if (done)
      options.done = [](void *user, const trainrt_step_result *result) -> int {
        return static_cast<Loop *>(user)->tell(*result);
      };
    options.next_user = options.done_user = &loop;
    options.last_step = lastStep;
    detail::Call call;
    trainrt_step_result result = trainrt_step_result_default();
    trainrt_status status = trainrt_train(get(), &options, &result, call);
    if (loop.thrown)
      std::rethrow_exception(loop.thrown);
    call.check(status);
    return result;
  }

  trainrt_eval_result eval(const Batch &batch) { return eval(batch, 0); }
  /// An evaluation without labels: inputs that are not given are zeros, the loss is NaN.
  trainrt_eval_result predict(const Batch &batch) { return eval(batch, TRAINRT_EVAL_FILL_MISSING); }

  Tensor parameter(std::string_view name) const { return read(trainrt_session_parameter, name); }
  /// With its low-rank adapter added; see `trainrt_session_merged_parameter`.
  Tensor mergedParameter(std::string_view name) {
    return read(trainrt_session_merged_parameter, name);
  }
  Tensor state(std::string_view name) const { return read(trainrt_session_state, name); }
  Tensor gradient(std::string_view name) const { return read(trainrt_session_gradient, name); }
  Tensor output(std::string_view name) const { return read(trainrt_session_output, name); }
  void setParameter(std::string_view name, const Tensor &value) {
    write(trainrt_session_set_parameter, name, value);
  }
  void setState(std::string_view name, const Tensor &value) {
    write(trainrt_session_set_state, name, value);
  }
  /// After all parameters and state have been set; see `trainrt_session_set_step`.
  void setStep(int64_t step) {
    detail::Call call;
    call.check(trainrt_session_set_step(get(), step, call));
  }

  /// The adapter as a folder in PEFT's layout; see `trainrt_adapter_save`.
  void saveAdapter(const std::string &folder, const std::string &baseName = {},
                   const std::string &taskType = {}) {
    trainrt_adapter_options options = trainrt_adapter_options_default();
    options.base_name = baseName.empty() ? nullptr : baseName.c_str();
    options.task_type = taskType.empty() ? nullptr : taskType.c_str();
    detail::Call call;
    call.check(trainrt_adapter_save(get(), folder.c_str(), &options, call));
  }
  void loadAdapter(const std::string &folder) {
    detail::Call call;
    call.check(trainrt_adapter_load(get(), folder.c_str(), call));
  }
  /// The model with its adapters merged, as safetensors.
  void mergeAdapter(const std::string &path) {
    detail::Call call;
    call.check(trainrt_adapter_merge(get(), path.c_str(), call));
  }
  /// The model that was compiled, in evaluation mode and with the session's parameters; see
  /// `trainrt_onnx_save`. Returns whether there is a second file, `path`.data.
  bool saveOnnx(const std::string &path, const std::vector<std::string> &outputs = {},
                const std::string &model = {}) {
    std::vector<const char *> names;
    for (const std::string &output : outputs)
      names.push_back(output.c_str());
    trainrt_onnx_options options = trainrt_onnx_options_default();
    options.model = model.empty() ? nullptr : model.c_str();
    options.outputs = names.data();
    options.output_count = names.size();
    int32_t hasData = 0;
    detail::Call call;
    call.check(trainrt_onnx_save(get(), path.c_str(), &options, &hasData, call));
    return hasData != 0;
  }

  /// Keeps the newest `keep` checkpoints, 0: all. `dataPosition`: JSON text, given back by `load`.
  void save(const std::string &directory, uint32_t keep = 0,
            const std::optional<std::string> &dataPosition = std::nullopt) {
    detail::Call call;
    call.check(trainrt_checkpoint_save(get(), directory.c_str(), keep,
                                       dataPosition ? dataPosition->c_str() : nullptr, call));
  }
  /// Keeps the folder for this session; see `trainrt_checkpoint_claim`.
  void claim(const std::string &directory, bool overwrite = false) {
    detail::Call call;
    call.check(trainrt_checkpoint_claim(get(), directory.c_str(),
                                        overwrite ? TRAINRT_CLAIM_OVERWRITE : 0, call));
  }
  trainrt_checkpoint_info load(const std::string &directory) {
    detail::Call call;
    trainrt_checkpoint_info info = trainrt_checkpoint_info_default();
    call.check(trainrt_checkpoint_load(get(), directory.c_str(), &info, call));
    return info;
  }
  /// The same, but nothing where there is no checkpoint yet (TRAINRT_NOT_FOUND).
  std::optional<trainrt_checkpoint_info> tryLoad(const std::string &directory) {
    detail::Call call;
    trainrt_checkpoint_info info = trainrt_checkpoint_info_default();
    trainrt_status status = trainrt_checkpoint_load(get(), directory.c_str(), &info, call);
    if (status == TRAINRT_NOT_FOUND)
      return std::nullopt;
    call.check(status);
    return info;
  }

  trainrt_memory memory() const {
    detail::Call call;
    trainrt_memory memory = trainrt_memory_default();
    call.check(trainrt_session_memory(get(), &memory, call));
    return memory;
  }
  /// What the device can still give; see `trainrt_session_free_memory`.
  uint64_t freeMemory() const {
    detail::Call call;
    uint64_t bytes = 0;
    call.check(trainrt_session_free_memory(get(), &bytes, call));
    return bytes;
  }
  int64_t stepCount() const { return trainrt_session_step(get()); }
  int64_t seed() const { return trainrt_session_seed(get()); }
  uint32_t threads() const { return trainrt_session_threads(get()); }
  std::string warnings() const { return trainrt_session_warnings(get()); }
  /// What a count has at least; see `trainrt_session_set_count`.
  void setCount(const std::string &symbol, int64_t value) {
    detail::Call call;
    call.check(trainrt_session_set_count(get(), symbol.c_str(), value, call));
  }
  /// Safe from any thread and from a signal handler.
  void cancel() noexcept { trainrt_session_cancel(get()); }
  trainrt_session *get() const noexcept { return handle.get(); }

private:
  using Progress = std::function<bool(int64_t, int64_t)>;

  /// The callbacks of one training; nothing is thrown through the C API.
  struct Loop {
    const std::function<bool(NextStep &)> &next;
    const std::function<bool(const trainrt_step_result &)> &done;
    NextStep step;
    std::vector<trainrt_batch> views;
    std::exception_ptr thrown;

    int give(trainrt_next_step &into) noexcept {
      try {
        step.step = into.step;
        step.options = *into.options;
        if (!next(step))
          return 0;
        *into.options = step.options;
        views.clear();
        for (const Batch &batch : step.batches)
          views.push_back(batch.c());
        into.batches = views.data();
        into.batch_count = views.size();
        return 1;
      } catch (...) {
        thrown = std::current_exception();
        return -1;
      }
    }
    int tell(const trainrt_step_result &result) noexcept {
      try {
        return thrown || !done(result);
      } catch (...) {
        thrown = std::current_exception();
        return 1;
      }
    }
  };

  template <typename Function>
  trainrt_step_result run(Function function, Span<const Batch> batches,
                          const trainrt_step_options &options) {
    detail::Call call;
    std::vector<trainrt_batch> views;
    for (const Batch &batch : batches)
      views.push_back(batch.c());
    trainrt_step_result result = trainrt_step_result_default();
    call.check(function(get(), views.data(), views.size(), &options, &result, call));
    return result;
  }
  trainrt_eval_result eval(const Batch &batch, uint32_t flags) {
    detail::Call call;
    trainrt_eval_options options = trainrt_eval_options_default();
    options.flags = flags;
    trainrt_eval_result result = trainrt_eval_result_default();
    trainrt_batch view = batch.c();
    call.check(trainrt_eval(get(), &view, &options, &result, call));
    return result;
  }
  template <typename Function> Tensor read(Function function, std::string_view name) const {
    detail::Call call;
    trainrt_tensor tensor{};
    call.check(function(get(), std::string(name).c_str(), &tensor, call));
    return tensor;
  }
  template <typename Function>
  void write(Function function, std::string_view name, const Tensor &value) {
    detail::Call call;
    trainrt_tensor tensor = value.c();
    call.check(function(get(), std::string(name).c_str(), &tensor, call));
  }

  /// At a place that moving the session does not change; outlives the handle.
  std::unique_ptr<Progress> progress;
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
  /// Writes a .safetensors file, which appears when it is complete.
  static void write(const std::string &path, const Batch &tensors) {
    detail::Call call;
    trainrt_batch view = tensors.c();
    call.check(trainrt_file_write(path.c_str(), view.inputs, view.count, call));
  }
  size_t size() const { return trainrt_file_count(handle.get()); }
  std::string_view name(size_t index) const {
    const char *name = trainrt_file_name(handle.get(), index);
    return name ? name : "";
  }
  /// Its values live as long as this object.
  Tensor tensor(size_t index) const {
    detail::Call call;
    trainrt_tensor tensor{};
    call.check(trainrt_file_tensor(handle.get(), index, &tensor, call));
    return tensor;
  }

private:
  std::unique_ptr<trainrt_file, detail::Free> handle;
};

} // namespace trainrt

#endif // TRAINRT_TRAINRT_HPP
