// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training inside a C++ program: the same as embed.c, with a loop of its own over batches.
//
//   embed-cpp PACKAGE CHECKPOINTS LAST_STEP
#include "moons.h"

#include <trainrt/trainrt.hpp>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

namespace {

trainrt::Session *toCancel;
void onSignal(int) { toCancel->cancel(); }

/// Points and labels, and the batch that borrows them.
struct Moons {
  Moons(uint64_t number, int count) : points(size_t(2 * count)), labels(size_t(count)) {
    make_moons(number, count, points.data(), labels.data());
    batch.add("points", points, {count, 2}).add("labels", labels, {count});
    unlabelled.add("points", points, {count, 2});
  }
  std::vector<float> points;
  std::vector<int64_t> labels;
  trainrt::Batch batch, unlabelled;
};

void run(const char *packagePath, const std::string &checkpoints, int64_t lastStep) {
  const trainrt::Package package(packagePath);
  trainrt::SessionOptions options;
  options.threads = 1; // leaves the other cores to the application
  trainrt::Session session(package, options);
  if (auto resumed = session.tryLoad(checkpoints))
    std::printf("resumed after step %lld\n", static_cast<long long>(resumed->step));

  toCancel = &session;
  std::signal(SIGINT, onSignal);
  bool interrupted = false;
  try {
    // The data of a step follows from its number: a resumed run sees what it would have seen.
    while (session.stepCount() < lastStep) {
      const Moons data(uint64_t(session.stepCount() + 1), MOONS_BATCH);
      const trainrt_step_result result = session.step(data.batch);
      if (result.step % 500 == 0) {
        std::printf("step %lld: loss %.9g\n", static_cast<long long>(result.step), result.loss);
        std::fflush(stdout);
      }
    }
  } catch (const trainrt::Exception &exception) {
    if (exception.status() != TRAINRT_CANCELLED)
      throw;
    interrupted = true;
  }
  std::signal(SIGINT, SIG_DFL);
  session.save(checkpoints, 1);
  if (interrupted)
    std::printf("interrupted and saved after step %lld\n",
                static_cast<long long>(session.stepCount()));

  const Moons heldOut(0, MOONS_HELD_OUT);
  const double loss = session.eval(heldOut.batch).loss;
  session.predict(heldOut.unlabelled);
  const trainrt::Tensor logits = session.output("logits");
  const auto values = logits.values<float>();
  int right = 0;
  for (size_t i = 0; i < heldOut.labels.size(); ++i)
    right += (values[2 * i + 1] > values[2 * i]) == heldOut.labels[i];
  std::printf("held out: loss %.9g, %d of %d right\n", loss, right, MOONS_HELD_OUT);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: embed-cpp PACKAGE CHECKPOINTS LAST_STEP\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], std::stoll(argv[3]));
    return 0;
  } catch (const std::exception &exception) {
    std::fprintf(stderr, "embed: %s\n", exception.what());
    return 1;
  }
}
