// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A C++ host, built as C++17 and as C++20: the wrapper's handles, tensors, callbacks and exceptions
// on DIR/m.tpk.
#include "trainrt/ranks.hpp"
#include "trainrt/trainrt.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <type_traits>

namespace {

int failures = 0;

void check(bool condition, const char *what) {
  if (!condition) {
    std::printf("failed: %s\n", what);
    ++failures;
  }
}

/// `body` must throw an Exception of `status` whose message contains `text`.
template <typename Body>
void throws(trainrt_status status, const char *text, const char *what, Body body) {
  try {
    body();
    check(false, what);
  } catch (const trainrt::Exception &exception) {
    if (exception.status() != status || !std::strstr(exception.what(), text))
      std::printf("%s: %s\n", trainrt_status_name(exception.status()), exception.what());
    check(exception.status() == status && std::strstr(exception.what(), text), what);
  }
}

static_assert(std::is_move_constructible_v<trainrt::Session> &&
              !std::is_copy_constructible_v<trainrt::Session>);
static_assert(std::is_nothrow_move_assignable_v<trainrt::Package> &&
              !std::is_copy_assignable_v<trainrt::Package>);
static_assert(trainrt::dtypeOf<const int64_t>() == TRAINRT_I64 &&
              trainrt::dtypeOf<unsigned long long>() == TRAINRT_U64 &&
              trainrt::dtypeOf<signed char>() == TRAINRT_I8 &&
              trainrt::dtypeOf<bool>() == TRAINRT_BOOL &&
              trainrt::dtypeOf<double>() == TRAINRT_F64);

struct Data {
  std::vector<float> x = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1};
  std::array<float, 4> y = {1, 2, 3, 4};
  int64_t id[4] = {0, 1, 2, 3};
  trainrt::Batch batch() const {
    trainrt::Batch batch;
    batch.add("x", x, {4, 3}).add("id", id, {4}).add("y", y, {4});
    return batch;
  }
};

void stepsAndValues(const trainrt::Package &package, const std::string &folder) {
  Data data;
  trainrt::Session created(package);
  trainrt::Session session = std::move(created);
  const trainrt::Batch batch = data.batch();
  double first = session.step(batch).loss;
  const std::vector<trainrt::Batch> two = {batch, batch};
  for (int i = 0; i < 20; ++i)
    session.step(two);
  check(session.eval(batch).loss < first, "the loss falls");
  trainrt::Batch unlabelled;
  unlabelled.add("x", data.x, {4, 3}).add("id", data.id, {4});
  check(std::isnan(session.predict(unlabelled).loss), "no loss without labels");
  trainrt::Tensor pred = session.output("pred");
  check(pred.shape() == trainrt::Shape{4} && pred.values<float>().size() == 4, "prediction");
  throws(TRAINRT_INVALID_ARGUMENT, "f32 was read as f64", "dtype", [&] { pred.values<double>(); });
  throws(TRAINRT_INVALID_ARGUMENT, "6 elements was given 4", "shape",
         [&] { trainrt::Batch().add("y", data.y, {2, 3}); });
  throws(TRAINRT_BAD_DATA, "'y'", "an input is missing", [&] { session.step(unlabelled); });
  throws(TRAINRT_NOT_FOUND, "did you mean 'w'", "no parameter", [&] { session.parameter("ww"); });
  session.gradients(batch);
  check(session.gradient("w").elements() == 3, "gradient");

  // By name into a file, and from it into another session, which goes on with the same bits.
  trainrt::Batch values;
  for (const trainrt_tensor_info &info : package.tensors(TRAINRT_PARAMETER))
    values.add(info.name, session.parameter(info.name));
  for (const trainrt_tensor_info &info : package.tensors(TRAINRT_STATE))
    values.add(info.name, session.state(info.name));
  trainrt::File::write(folder + "/all.safetensors", values);
  trainrt::File file(folder + "/all.safetensors");
  check(file.size() == 4, "file");
  trainrt::SessionOptions options;
  options.weights = TRAINRT_WEIGHTS_NONE;
  options.threads = 1;
  trainrt::Session other(package, options);
  check(other.threads() == 1, "threads");
  for (bool states : {false, true})
    for (size_t i = 0; i < file.size(); ++i) {
      bool isState =
          file.name(i) == "nonfinite" || file.name(i).find('/') != std::string_view::npos;
      if (isState == states && states)
        other.setState(file.name(i), file.tensor(i));
      else if (isState == states)
        other.setParameter(file.name(i), file.tensor(i));
    }
  other.setStep(session.stepCount());
  check(other.step(batch).loss == session.step(batch).loss, "the same after values were set");

  check(!session.tryLoad(folder + "/none"), "no checkpoint yet");
  session.save(folder + "/cpp", 1, R"({"row":4})");
  trainrt::Session resumed(package);
  auto info = resumed.tryLoad(folder + "/cpp");
  check(info && info->step == 22 && std::string(info->data_position) == R"({"row":4})", "resume");
  check(resumed.load(folder + "/cpp").step == 22, "resume again");
  check(resumed.step(batch).loss == session.step(batch).loss, "the same after resuming");
}

/// What the tiny package, without adapters and away from any model, cannot give.
void exports(const trainrt::Package &package, const std::string &folder) {
  trainrt::Session session(package);
  auto statusOf = [](auto call) {
    try {
      call();
    } catch (const trainrt::Exception &error) {
      return error.status();
    }
    return TRAINRT_OK;
  };
  check(statusOf([&] { session.saveAdapter(folder + "/adapter", "base"); }) == TRAINRT_UNSUPPORTED,
        "no adapter to save");
  check(statusOf([&] { session.loadAdapter(folder + "/adapter"); }) == TRAINRT_UNSUPPORTED,
        "no adapter to load");
  check(statusOf([&] { session.mergeAdapter(folder + "/merged"); }) == TRAINRT_UNSUPPORTED,
        "no adapter to merge");
  check(statusOf([&] { session.saveOnnx(folder + "/out.onnx", {}, folder + "/none.onnx"); }) ==
            TRAINRT_NOT_FOUND,
        "no model");
  trainrt_error *error = nullptr;
  check(trainrt_onnx_check(package.get(), (folder + "/out.onnx").c_str(), nullptr, &error) ==
            TRAINRT_NOT_FOUND,
        "no model where the package says");
  check(std::string(trainrt_error_message(error)).find(trainrt_package_model_path(package.get())) !=
            std::string::npos,
        "it says where that is");
  trainrt_error_free(error);
}

void loops(const trainrt::Package &package) {
  Data data;
  int64_t commands = 0;
  trainrt::SessionOptions options;
  options.progress = [&](int64_t, int64_t total) {
    commands = total;
    return true;
  };
  trainrt::Session session(package, std::move(options)), straight(package);
  auto next = [&](trainrt::NextStep &step) {
    step.batches.assign(size_t(step.step % 2 + 1), data.batch());
    step.options.lr = 0.01;
    return step.step <= 12;
  };
  std::vector<double> losses;
  auto done = [&](const trainrt_step_result &result) {
    losses.push_back(result.loss);
    return result.step != 5;
  };
  check(session.train(next, done).step == 5 && losses.size() == 5, "done ends it");
  check(session.train(next, done, 8).step == 8, "the last step");
  check(session.train(next).step == 12 && losses.size() == 8, "next ends it");
  check(commands > 0, "progress");
  trainrt_step_options lr = trainrt_step_options_default();
  lr.lr = 0.01;
  for (int64_t i = 1; i <= 8; ++i)
    check(straight.step(std::vector<trainrt::Batch>(size_t(i % 2 + 1), data.batch()), lr).loss ==
              losses[size_t(i - 1)],
          "the same as single steps");
  auto thrown = [&](auto next, auto done) {
    try {
      session.train(next, done, 100);
    } catch (const std::logic_error &error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto always = [&](trainrt::NextStep &step) {
    step.batches.assign(1, data.batch());
    return true;
  };
  auto fails = [](auto &) -> bool { throw std::logic_error("mine"); };
  check(thrown(fails, nullptr) == "mine" && session.stepCount() == 12, "next throws");
  check(thrown(always, fails) == "mine" && session.stepCount() == 13, "done throws");
  throws(TRAINRT_CANCELLED, "cancelled", "cancel", [&] {
    session.train(always, [&](const trainrt_step_result &) {
      session.cancel();
      return true;
    });
  });
  check(session.stepCount() == 14, "goes on after a cancel");
}

void samples(const trainrt::Package &package) {
  trainrt::SamplerOptions options;
  options.lengths = {3, 1, 2, 4};
  options.c.batch_size = 2;
  trainrt::Sampler byLength(options);
  check(byLength.batches(0) == 2, "batches");
  auto first = byLength.next();
  check(first.size() == 2 && first[0] == 3 && first[1] == 0, "the longest rows");
  check(byLength.position().batch == 1, "position");
  options.complexity = [](int64_t row) { return row == 1 ? 9.0 : 1.0; };
  trainrt::Sampler byWork(options);
  check(byWork.next()[0] == 1, "the most expensive row");
  check(byWork.hash() != byLength.hash(), "another plan");
  byLength.seek({5, 0});
  check(byLength.position().epoch == 5, "seek");
  options.c.world = 9;
  throws(TRAINRT_BAD_DATA, "4 rows are too few for 9 ranks", "ranks",
         [&] { trainrt::Sampler sampler(options); });
  check(package.tokenInputs().empty(), "tokens");
  throws(TRAINRT_NOT_FOUND, "nothing tells how long rows are", "lengths",
         [&] { package.rowLengths({}, 0); });
}

/// What a rank alone exchanges with itself.
int exchange(void *, const void *const *sent, const int64_t *bytes, void *const *received,
             const int64_t *) {
  if (bytes[0])
    std::memcpy(received[0], sent[0], size_t(bytes[0]));
  return 0;
}

void ranks() {
  trainrt::Ranks alone;
  check(alone.world() == 1 && alone.rank() == 0 && alone.launcher().empty(), "nobody's rank");
  check(!alone.get() && !alone.options().c.ranks && alone.localRank() == -1, "no connection");
  check(alone.gather("mine") == std::vector<std::string>{"mine"}, "gather alone");
  throws(TRAINRT_INVALID_ARGUMENT, "rank 2 is none of 2", "rank",
         [] { trainrt::Ranks wrong(2, 2, "127.0.0.1:1"); });
  trainrt_communicator communicator = trainrt_communicator_default();
  throws(TRAINRT_INVALID_ARGUMENT, "communicator->exchange", "nothing to exchange by",
         [&] { trainrt::Ranks wrong(communicator); });
  communicator.exchange = exchange;
  trainrt::Ranks connected(communicator);
  check(connected.options().c.ranks == connected.get() && connected.get(), "options");
  check(connected.gather("all") == std::vector<std::string>{"all"}, "gather");
  connected.setCount(3);
  check(connected.count() == -1, "no step has been made");
  connected = trainrt::Ranks();
  check(!connected.get(), "moved");
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  try {
    trainrt::Package package(std::string(argv[1]) + "/m.tpk");
    check(package.info().can_train, "can_train");
    check(package.tensors(TRAINRT_PARAMETER).size() == 2, "parameters");
    check(package.symbols().size() == 1, "symbols");
    check(package.memory({{"batch", 8}}).arena > 0, "memory");
    check(package.manifest().find("checksums") != std::string_view::npos, "manifest");
    throws(TRAINRT_NOT_FOUND, "/no/such", "no package", [] { trainrt::Package("/no/such.tpk"); });
    stepsAndValues(package, argv[1]);
    exports(package, argv[1]);
    loops(package);
    samples(package);
    ranks();
  } catch (const std::exception &exception) {
    std::printf("unexpected: %s\n", exception.what());
    return 1;
  }
  return failures != 0;
}
