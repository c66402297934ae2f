// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// own_connection PACKAGE FOLDER: two ranks that are threads of this program, which connects them
// itself (trainrt_communicator), train a package of `trainc --distribute`. Says what each could do.
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <trainrt/ranks.hpp>

namespace {

constexpr int world = 2;

/// What ranks give each other, while all of them are in an exchange.
class Meeting {
public:
  /// False where a rank has left for good.
  bool arrive() {
    std::unique_lock<std::mutex> lock(mutex);
    const int round = rounds;
    if (++arrived == world) {
      arrived = 0;
      ++rounds;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return rounds != round || left; });
    return rounds != round;
  }
  void leave() {
    std::lock_guard<std::mutex> lock(mutex);
    left = true;
    changed.notify_all();
  }
  const void *const *sent[world] = {};

private:
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0, rounds = 0;
  bool left = false;
};

struct Rank {
  Meeting *meeting;
  int number;
  double losses[3], score;
  std::string refused, problem;
};

int exchange(void *user, const void *const *sent, const int64_t *, void *const *received,
             const int64_t *bytes) {
  Rank &rank = *static_cast<Rank *>(user);
  rank.meeting->sent[rank.number] = sent;
  if (!rank.meeting->arrive())
    return 1;
  for (int other = 0; other < world; ++other)
    if (bytes[other])
      std::memcpy(received[other], rank.meeting->sent[other][rank.number], size_t(bytes[other]));
  // What was sent is needed until all have it.
  return !rank.meeting->arrive();
}

struct Rows {
  std::vector<float> x = std::vector<float>(4 * 256), y = std::vector<float>(4 * 263);
  explicit Rows(size_t seed) {
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = float((i * 7 + seed * 13) % 11) / 11;
  }
  trainrt::Batch batch() const {
    trainrt::Batch batch;
    batch.add("x", x, {4, 256}).add("y", y, {4, 263});
    return batch;
  }
};

void train(const trainrt::Package &package, const std::string &folder, Rank &rank) {
  trainrt_communicator communicator = trainrt_communicator_default();
  communicator.user = &rank;
  communicator.rank = rank.number;
  communicator.world = world;
  communicator.exchange = exchange;
  communicator.abort = [](void *user, const char *) {
    static_cast<Rank *>(user)->meeting->leave();
  };
  try {
    trainrt::Ranks ranks(communicator);
    trainrt::SessionOptions options;
    options.threads = 1;
    trainrt::Session session(package, ranks.options(options));
    for (int step = 0; step < 3; ++step) {
      const Rows rows(size_t(step * world + rank.number));
      rank.losses[step] = session.step(rows.batch()).loss;
    }
    const Rows held(99);
    rank.score = session.eval(held.batch()).loss;
    try {
      session.parameter("w1");
    } catch (const trainrt::Exception &exception) {
      rank.refused = exception.what();
    }
    session.save(folder);
  } catch (const trainrt::Exception &exception) {
    rank.problem = exception.what();
  }
}

} // namespace

int main(int argc, char **argv) try {
  if (argc != 3)
    return 2;
  const trainrt::Package package(argv[1]);
  Meeting meeting;
  Rank ranks[world] = {{&meeting, 0, {}, 0, "", ""}, {&meeting, 1, {}, 0, "", ""}};
  std::thread other([&] { train(package, argv[2], ranks[1]); });
  train(package, argv[2], ranks[0]);
  other.join();
  for (const Rank &rank : ranks)
    if (!rank.problem.empty()) {
      std::printf("rank %d: %s\n", rank.number, rank.problem.c_str());
      return 1;
    }
  // One session that gets all batches, and one that goes on from what the ranks have saved.
  trainrt::SessionOptions options;
  options.threads = 1;
  trainrt::Session one(package, options), loaded(package, options);
  loaded.load(argv[2]);
  int differ = ranks[0].refused != ranks[1].refused;
  for (int step = 0; step < 3; ++step) {
    const Rows first(size_t(step * world)), second(size_t(step * world + 1));
    const trainrt::Batch batches[] = {first.batch(), second.batch()};
    const double loss = one.step(batches).loss;
    for (const Rank &rank : ranks)
      differ += rank.losses[step] != loss;
  }
  const Rows held(99);
  const double score = one.eval(held.batch()).loss;
  differ += score != ranks[0].score || score != ranks[1].score;
  for (const trainrt_tensor_info &parameter : package.tensors(TRAINRT_PARAMETER)) {
    const auto expected = one.parameter(parameter.name).values<float>();
    const auto found = loaded.parameter(parameter.name).values<float>();
    differ += expected.size() != found.size() ||
              std::memcmp(expected.data(), found.data(), expected.size() * sizeof(float)) != 0;
  }
  std::printf("%d differ; w1: %s\n", differ, ranks[0].refused.c_str());
  return differ != 0;
} catch (const trainrt::Exception &exception) {
  std::printf("%s\n", exception.what());
  return 1;
}
