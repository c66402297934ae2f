// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions that are ranks: their steps are those of one session with all micro-batches.

#include "comm/thread_ranks.h"
#include "format/hash.h"
#include "program_generated.h"
#include "session/checkpoint_file.h"
#include "session/estimate.h"
#include "session/ranks/rank_group.h"
#include "tiny_package.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

using namespace trainrt;
using namespace trainrt::test;

namespace {

struct Tiny {
  explicit Tiny(const TinyOptions &options = distributedTiny()) {
    writeTinyPackage(folder / "m.tpk", options);
    EXPECT_TRUE(Package::open(folder / "m.tpk", package).ok());
    settings.threads = 2;
  }
  Status emulate(int world) { return RankGroup::create(package, settings, world, first, group); }
  Status alone() { return Session::create(package, settings, first); }
  Status step(const std::vector<Batch> &batches, const StepOptions &options, StepResult &result) {
    return group ? group->step(*first, batches, options, result)
                 : first->step(batches, options, result);
  }
  /// Parameters and state.
  std::vector<unsigned char> values() {
    std::vector<unsigned char> all;
    for (size_t i = 0; i < package->program().parameters.size(); ++i) {
      ArrayView array;
      EXPECT_TRUE(first->parameter(i, array).ok());
      const auto *begin = static_cast<const unsigned char *>(array.data);
      all.insert(all.end(), begin, begin + array.bytes);
    }
    for (size_t i = 0; i < package->program().state.size(); ++i) {
      ArrayView array;
      EXPECT_TRUE(first->state(i, array).ok());
      const auto *begin = static_cast<const unsigned char *>(array.data);
      all.insert(all.end(), begin, begin + array.bytes);
    }
    return all;
  }

  TemporaryFolder folder;
  std::shared_ptr<const Package> package;
  SessionOptions settings;
  std::unique_ptr<Session> first;
  std::unique_ptr<RankGroup> group;
};

} // namespace

TEST(SessionRanks, MakeTheStepsOfOne) {
  const TinyBatch batches[4] = {TinyBatch(6), TinyBatch(3, 2), TinyBatch(5, 3), TinyBatch(4, 4)};
  for (AccumulateBy by : {AccumulateBy::Mean, AccumulateBy::Rows})
    for (size_t count : {1, 2, 3, 4}) {
      Tiny one, ranks;
      ASSERT_TRUE(one.alone().ok());
      ASSERT_TRUE(ranks.emulate(4).ok());
      EXPECT_EQ(ranks.group->world(), 4);
      std::vector<Batch> all;
      for (size_t i = 0; i < count; ++i)
        all.push_back(batches[i].batch());
      StepOptions options;
      options.accumulateBy = by;
      for (int step = 1; step <= 3; ++step) {
        StepResult expected, found;
        const Status status = ranks.step(all, options, found);
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_TRUE(one.step(all, options, expected).ok());
        EXPECT_EQ(found.step, step);
        EXPECT_EQ(found.loss, expected.loss);
        EXPECT_EQ(ranks.values(), one.values()) << count << " batches";
      }
    }
}

TEST(SessionRanks, MakeStepsThatAreOneFunction) {
  const TinyBatch batches[4] = {TinyBatch(6), TinyBatch(3, 2), TinyBatch(5, 3), TinyBatch(4, 4)};
  for (AccumulateBy by : {AccumulateBy::Mean, AccumulateBy::Rows}) {
    Tiny one(togetherTiny()), ranks(togetherTiny());
    ASSERT_TRUE(one.alone().ok());
    ASSERT_TRUE(ranks.emulate(3).ok());
    StepOptions options;
    options.accumulateBy = by;
    // Some ranks have no batch, or one has two.
    for (size_t count : {3, 1, 2, 3, 4, 2}) {
      std::vector<Batch> all;
      for (size_t i = 0; i < count; ++i)
        all.push_back(batches[i].batch());
      StepResult expected, found;
      const Status status = ranks.step(all, options, found);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_TRUE(one.step(all, options, expected).ok());
      EXPECT_EQ(found.loss, expected.loss);
      EXPECT_EQ(ranks.values(), one.values()) << count << " batches";
      // What a step of several needs comes with it.
      if (one.first->stepCount() < 5)
        EXPECT_EQ(ranks.first->memory().gradients, 0);
    }
    EXPECT_GT(ranks.first->memory().gradients, 0);
  }
}

TEST(SessionRanks, HoldNoGradientsForOneFunction) {
  Tiny ranks(togetherTiny());
  ranks.settings.threads = 3; // one each
  ASSERT_TRUE(ranks.emulate(3).ok());
  const TinyBatch batch(4);
  StepResult result;
  ASSERT_TRUE(ranks.step({batch.batch(), batch.batch(), batch.batch()}, {}, result).ok());
  ASSERT_TRUE(ranks.step({batch.batch()}, {}, result).ok());
  MemoryUse told, several;
  ASSERT_TRUE(estimateMemory(*ranks.package, {4}, 1, 1, told, false, 3).ok());
  const MemoryUse held = ranks.first->memory();
  EXPECT_EQ(told.scratch, held.scratch);
  EXPECT_EQ(told.arena, held.arena);
  EXPECT_EQ(told.gradients, 0);
  EXPECT_EQ(told.gradients, held.gradients);
  ASSERT_TRUE(estimateMemory(*ranks.package, {4}, 2, 1, several, false, 3).ok());
  EXPECT_GT(several.gradients, 0);
}

TEST(SessionRanks, ComeToOneVerdict) {
  TinyOptions unchecked = togetherTiny();
  unchecked.valueRule = false; // only the kernel meets bad indices
  Tiny ranks(unchecked);
  ASSERT_TRUE(ranks.emulate(3).ok());
  const TinyBatch good(4);
  TinyBatch bad(4, 2);
  const std::vector<unsigned char> before = ranks.values();
  StepResult result;
  bad.id[1] = 99;
  Status status = ranks.step({good.batch(), bad.batch(), good.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_EQ(status.message(),
            "rank 1: node '/model/Gather': index 99 at position 1 of its indices is out of range");
  EXPECT_EQ(ranks.values(), before);
  // Also where a rank has no batch, and where none is good.
  status = ranks.step({good.batch(), bad.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_EQ(ranks.values(), before);
  bad.id[1] = 1;
  bad.x[0] = NAN;
  status = ranks.step({good.batch(), bad.batch()}, {}, result);
  EXPECT_EQ(status.message(), "step 1: the loss is not finite; parameters and state are those "
                              "before the step");
  EXPECT_EQ(ranks.values(), before);
  StepOptions options;
  options.allowNonfinite = true;
  ASSERT_TRUE(ranks.step({good.batch(), bad.batch()}, options, result).ok());
  EXPECT_TRUE(result.nonfinite && !result.inPart);
  EXPECT_EQ(ranks.values(), before);
  ASSERT_TRUE(ranks.step({good.batch(), good.batch()}, {}, result).ok());
  EXPECT_EQ(result.step, 2);
  EXPECT_NE(ranks.values(), before);
  // Nobody is left who could say that nothing was changed.
  bad.id[1] = 99;
  status = ranks.step({bad.batch(), bad.batch(), bad.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_EQ(ranks.step({good.batch()}, {}, result).code(), Code::InvalidArgument);
}

TEST(SessionRanks, HoldWhatIsEstimated) {
  for (int world : {1, 2, 5}) {
    Tiny ranks;
    ranks.settings.threads = unsigned(world); // one each
    ASSERT_TRUE(ranks.emulate(world).ok());
    const TinyBatch batch(4);
    StepResult result;
    // One micro-batch for each is what one session would take for several.
    ASSERT_TRUE(ranks.step(std::vector(size_t(world), batch.batch()), {}, result).ok());
    MemoryUse told, none;
    ASSERT_TRUE(estimateMemory(*ranks.package, {4}, 1, 1, told, false, world).ok());
    const MemoryUse held = ranks.first->memory();
    EXPECT_EQ(told.scratch, held.scratch) << world;
    EXPECT_EQ(told.arena, held.arena) << world;
    EXPECT_EQ(told.gradients, held.gradients) << world;
    // Three numbers: of each rank's part a piece to and from each rank, and the sum.
    ASSERT_TRUE(estimateMemory(*ranks.package, {4}, 1, 1, none).ok());
    EXPECT_EQ(told.scratch - none.scratch,
              world > 1 ? (3 + world - 1) / world * (2 * world + 1) * 4 : 0);
    EXPECT_EQ(estimateMemory(*ranks.package, {4}, 1, 1, none, false, 0).message(),
              "symbol 'world': 0 is no number of ranks");
    EXPECT_EQ(estimateMemory(*ranks.package, {4}, 1, 1, none, false, 4, 3).message(),
              "symbol 'shards': 3 is no divisor of the number of ranks, 4");
  }
}

TEST(SessionRanks, SayWhatIsInShards) {
  TinyOptions options = distributedTiny();
  options.editProgram = [edit = options.editProgram](fb::ProgramT &program) {
    edit(program);
    program.state[0]->shard_unit = program.parameters[0]->gradient_unit = 4;
  };
  Tiny ranks(options);
  ASSERT_TRUE(ranks.emulate(2).ok());
  const TinyBatch a(4), b(4, 2);
  StepResult result;
  ASSERT_TRUE(ranks.step({a.batch(), b.batch()}, {}, result).ok());
  ArrayView array;
  EXPECT_EQ(ranks.first->state(0, array).message(),
            "state 'w/exp_avg': each rank holds a part of it; a checkpoint has all");
  EXPECT_EQ(ranks.first->gradient(0, array).message(),
            "the gradient of 'w': each rank holds a part of it");
}

TEST(SessionRanks, SharePartsOfParameters) {
  TinyOptions options = distributedTiny();
  options.editProgram = [edit = options.editProgram](fb::ProgramT &program) {
    edit(program);
    program.parameters[0]->shard_unit = 2;
  };
  TemporaryFolder folder;
  writeTinyPackage(folder / "m.tpk", options);
  std::shared_ptr<const Package> package;
  ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::shared_ptr<Communicator>> ranks;
  for (auto &rank : createThreadRanks(3))
    ranks.push_back(std::move(rank));
  for (const auto &rank : ranks) {
    SessionOptions settings;
    settings.ranks = rank;
    ASSERT_TRUE(Session::create(package, settings, sessions.emplace_back()).ok());
  }
  // Two of three elements are the first rank's, one the second's, and none the third's.
  const float w[3] = {1, 2, 3};
  ShardRange own;
  for (size_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(sessions[rank]->setParameter(0, {w, DType::F32, {3}, 12}).ok());
    ASSERT_TRUE(sessions[rank]->holdsShard(Session::Value::Parameter, 0, own));
    EXPECT_EQ(own.there, rank == 0 ? 8 : rank == 1 ? 4 : 0);
    ArrayView part;
    ASSERT_TRUE(sessions[rank]->shard(Session::Value::Parameter, 0, part).ok());
    EXPECT_EQ(std::memcmp(part.data, w + 2 * rank, size_t(part.bytes)), 0);
  }
  // One process has its own part alone; where all ranks are in it, they have it together.
  ArrayView array;
  EXPECT_EQ(sessions[0]->parameter(0, array).message(),
            "parameter 'w': each rank holds a part of it; a checkpoint has all, which one process "
            "reads");
  std::vector<Session *> here;
  for (const std::unique_ptr<Session> &session : sessions)
    here.push_back(session.get());
  sessions[0]->setRanksHere(here);
  const float other[3] = {4, 5, 6};
  ASSERT_TRUE(sessions[0]->setParameter(0, {other, DType::F32, {3}, 12}).ok());
  ASSERT_TRUE(sessions[0]->parameter(0, array).ok());
  EXPECT_EQ(std::memcmp(array.data, other, 12), 0);
}

TEST(SessionRanks, FollowWhatACallerSets) {
  Tiny one, ranks;
  ASSERT_TRUE(one.alone().ok());
  ASSERT_TRUE(ranks.emulate(2).ok());
  const TinyBatch a(4), b(4, 2);
  const float w[3] = {1, 2, 3}, momentum[3] = {0.5f, 0.25f, 0};
  for (Tiny *tiny : {&one, &ranks}) {
    ASSERT_TRUE(tiny->first->setParameter(0, {w, DType::F32, {3}, 12}).ok());
    ASSERT_TRUE(tiny->first->setState(0, {momentum, DType::F32, {3}, 12}).ok());
    tiny->first->restored(7, 3);
    StepResult result;
    ASSERT_TRUE(tiny->step({a.batch(), b.batch()}, {}, result).ok());
    EXPECT_EQ(result.step, 8);
  }
  EXPECT_EQ(ranks.values(), one.values());
}

TEST(SessionRanks, GiveFactorsAndTellOfTheStepBefore) {
  Tiny one, ranks;
  ASSERT_TRUE(one.alone().ok());
  ASSERT_TRUE(ranks.emulate(2).ok());
  const TinyBatch a(4), b(2, 2);
  const double weights[2] = {0.75, 0.5};
  StepOptions options;
  options.weights = weights;
  StepResult expected, found;
  ASSERT_TRUE(one.step({a.batch(), b.batch()}, options, expected).ok());
  options.lag = true;
  ASSERT_TRUE(ranks.step({a.batch(), b.batch()}, options, found).ok());
  EXPECT_EQ(found.step, 0);
  ASSERT_TRUE(ranks.first->finish(found).ok());
  EXPECT_EQ(found.step, 1);
  EXPECT_EQ(found.loss, expected.loss);
  EXPECT_EQ(ranks.values(), one.values());
  const double wrong[2] = {0.75, INFINITY};
  options.weights = wrong;
  const Status status = ranks.step({a.batch(), b.batch()}, options, found);
  EXPECT_EQ(status.message().find("rank 1: weights[0]: inf is no factor of a loss"), 0u)
      << status.message();
}

TEST(SessionRanks, AreAllToldWhatOneCannotDo) {
  Tiny ranks;
  ASSERT_TRUE(ranks.emulate(2).ok());
  const TinyBatch good(4);
  TinyBatch bad(4, 2);
  bad.id[1] = 99;
  const std::vector<unsigned char> before = ranks.values();
  StepResult result;
  Status status = ranks.step({good.batch(), bad.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_EQ(status.message().find("rank 1: "), 0u) << status.message();
  EXPECT_EQ(ranks.values(), before);
  status = ranks.step({}, {}, result);
  EXPECT_EQ(status.message(), "a step needs at least one batch on some rank");
  ranks.first->cancel();
  status = ranks.step({good.batch(), good.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::Cancelled);
  bad.id[1] = 1;
  bad.x[0] = NAN;
  status = ranks.step({good.batch(), bad.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::Nonfinite);
  EXPECT_EQ(ranks.values(), before);
  StepOptions options;
  options.allowNonfinite = options.last = true;
  ASSERT_TRUE(ranks.step({good.batch(), bad.batch()}, options, result).ok());
  EXPECT_TRUE(result.nonfinite && result.last);
  ASSERT_TRUE(ranks.step({good.batch(), good.batch()}, {}, result).ok());
  EXPECT_FALSE(result.last);
  EXPECT_NE(ranks.values(), before);
}

TEST(SessionRanks, TakeWhatTheirCallersSayBeside) {
  std::vector<std::shared_ptr<Communicator>> ends;
  for (std::unique_ptr<Communicator> &end : createThreadRanks(2))
    ends.push_back(std::move(end));
  Tiny ranks[2];
  const TinyBatch batch(4);
  Status statuses[2];
  for (size_t rank = 0; rank < 2; ++rank) {
    ranks[rank].settings.ranks = ends[rank];
    ASSERT_TRUE(ranks[rank].alone().ok());
  }
  auto step = [&] {
    auto run = [&](size_t rank) {
      StepResult result;
      statuses[rank] = ranks[rank].step({batch.batch()}, {}, result);
    };
    std::thread other(run, 1);
    run(0);
    other.join();
  };
  ends[0]->notes.count = 3;
  ends[1]->notes.count = 4;
  step();
  ASSERT_TRUE(statuses[0].ok()) << statuses[0].message();
  EXPECT_EQ(ends[0]->notes.total, 7);
  EXPECT_EQ(ends[1]->notes.total, 7);
  const std::vector<unsigned char> before = ranks[0].values();
  ends[0]->notes.count = 3;
  ends[1]->notes.refusal = Status(Code::BadData, "the file is gone");
  step();
  for (const Status &status : statuses) {
    EXPECT_EQ(status.code(), Code::BadData);
    EXPECT_EQ(status.message(), "rank 1: the file is gone");
  }
  EXPECT_EQ(ranks[0].values(), before);
  // It was said of one step.
  ends[0]->notes.count = 3;
  step();
  ASSERT_TRUE(statuses[1].ok()) << statuses[1].message();
  EXPECT_EQ(ends[0]->notes.total, -1);
}

TEST(SessionRanks, AreRefused) {
  Tiny ranks;
  for (int world : {0, -1, 65}) {
    const Status status = ranks.emulate(world);
    EXPECT_NE(status.message().find("ranks cannot be emulated: there may be 1 to 64"),
              std::string::npos);
  }
  ASSERT_TRUE(ranks.emulate(2).ok());
  const TinyBatch batch(4);
  StepResult result;
  const Status status = ranks.first->gradients({batch.batch()}, {}, result);
  EXPECT_NE(status.message().find("gradients without an update are for one rank: ranks exchange "
                                  "theirs within the update"),
            std::string::npos);
  Tiny alone{TinyOptions()};
  EXPECT_NE(alone.emulate(2).message().find(
                "the package is for one rank, not for 2; compile it with --distribute data"),
            std::string::npos);
  EXPECT_TRUE(alone.emulate(1).ok());
  ASSERT_TRUE(alone.step({batch.batch()}, {}, result).ok());
}

namespace {

/// The files of a checkpoint.
std::vector<std::vector<unsigned char>> filesOf(const std::string &checkpoint) {
  std::vector<std::vector<unsigned char>> files;
  for (const char *name : {"parameters.safetensors", "optimizer.safetensors", "state.json"})
    files.push_back(readBytes(checkpoint + "/" + name));
  return files;
}

/// Sessions of a package that are ranks, each called on a thread of its own.
struct Threads {
  explicit Threads(int world) {
    for (std::unique_ptr<Communicator> &rank : createThreadRanks(world)) {
      SessionOptions options = tiny.settings;
      options.threads = 1;
      options.ranks = std::move(rank);
      EXPECT_TRUE(Session::create(tiny.package, options, sessions.emplace_back()).ok());
    }
  }
  std::vector<Status> run(const std::function<Status(int rank, Session &)> &body) {
    std::vector<Status> statuses(sessions.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < sessions.size(); ++rank)
      threads.emplace_back([&, rank] { statuses[rank] = body(int(rank), *sessions[rank]); });
    for (std::thread &thread : threads)
      thread.join();
    return statuses;
  }
  Tiny tiny;
  std::vector<std::unique_ptr<Session>> sessions;
};

} // namespace

TEST(SessionRanks, SaveTheFilesOfOne) {
  Tiny one;
  ASSERT_TRUE(one.alone().ok());
  const TinyBatch a(4), b(4, 2);
  StepResult result;
  CheckpointInfo info;
  ASSERT_TRUE(one.step({a.batch(), b.batch()}, {}, result).ok());
  ASSERT_TRUE(saveCheckpoint(*one.first, one.folder / "ck", 0, R"({"row":8})", info).ok());
  const auto expected = filesOf(one.folder / "ck/step-1");
  for (int world : {1, 2, 5}) {
    Tiny ranks;
    ASSERT_TRUE(ranks.emulate(world).ok());
    ASSERT_TRUE(ranks.step({a.batch(), b.batch()}, {}, result).ok());
    CheckpointClaim claim;
    const Status status =
        ranks.group->save(*ranks.first, ranks.folder / "ck", 1, R"({"row":8})", info, &claim);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(info.path, ranks.folder / "ck/step-1");
    EXPECT_EQ(filesOf(info.path), expected) << world;
    // One goes on from there.
    ASSERT_TRUE(loadCheckpoint(*one.first, ranks.folder / "ck", info).ok());
    EXPECT_EQ(ranks.values(), one.values());
    // What is not finite is found by whichever rank writes it, and told by rank 0.
    const float nan[] = {1, NAN, 3};
    ASSERT_TRUE(ranks.first->setParameter(0, {nan, DType::F32, {3}, 12}).ok());
    ranks.first->warnings().clear();
    ASSERT_TRUE(ranks.group->save(*ranks.first, ranks.folder / "ck", 1, "", info, &claim).ok());
    EXPECT_NE(ranks.first->warnings().find("values of 'w' are not finite"), std::string::npos)
        << ranks.first->warnings();
  }
}

TEST(SessionRanks, SaveAllOrNothing) {
  Threads ranks(3);
  const std::string folder = ranks.tiny.folder / "ck", other = ranks.tiny.folder / "elsewhere";
  std::filesystem::create_directory(other);
  auto save = [&](const std::string &ofTheLast) {
    return ranks.run([&](int rank, Session &session) {
      CheckpointInfo info;
      return saveCheckpoint(session, rank == 2 ? ofTheLast : folder, 0, "", info);
    });
  };
  for (const Status &status : save(folder))
    ASSERT_TRUE(status.ok()) << status.message();
  const auto whole = filesOf(folder + "/step-0");
  // A rank that sees another folder of this name, or that cannot write.
  for (const Status &status : save(other)) {
    EXPECT_EQ(status.message().find("rank 2: it writes a part of the checkpoint that rank 0 has "
                                    "begun: cannot open '" +
                                    other),
              0u)
        << status.message();
    EXPECT_EQ(status.code(), Code::NotFound);
  }
  // Ranks that are not at the same step.
  ranks.sessions[1]->restored(4, 0);
  for (const Status &status : save(folder)) {
    EXPECT_EQ(status.message().find("the ranks of a run save the same step, but rank 0 saves "
                                    "step-0 of the tensors "),
              0u)
        << status.message();
    EXPECT_NE(status.message().find(", and rank 1 step-4 of"), std::string::npos);
  }
  ranks.sessions[1]->restored(0, 0);
  // One that does something else.
  const TinyBatch batch(4);
  for (const Status &status : ranks.run([&](int rank, Session &session) {
         CheckpointInfo info;
         StepResult result;
         return rank == 1 ? session.step({batch.batch()}, {}, result)
                          : saveCheckpoint(session, folder, 0, "", info);
       }))
    EXPECT_EQ(status.message(), "the ranks of a run make the same calls, but rank 0 saves a "
                                "checkpoint, and rank 1 makes a step");
  EXPECT_EQ(filesOf(folder + "/step-0"), whole);
  EXPECT_TRUE(std::filesystem::is_empty(other));
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    EXPECT_EQ(entry.path().filename(), "step-0");
  // None of this was the end of the run.
  for (const Status &status : save(folder))
    EXPECT_TRUE(status.ok()) << status.message();
  // A rank that is lost is named, with the checkpoint.
  for (const Status &status : ranks.run([&](int rank, Session &session) {
         CheckpointInfo info;
         if (rank > 0)
           return saveCheckpoint(session, folder, 0, "", info);
         session.communicator()->abort(Status(Code::RankLost, "rank 0 has ended"));
         return Status(Code::RankLost, "checkpoint '" + folder + "/step-0': rank 0 has ended");
       }))
    EXPECT_EQ(status.message(), "checkpoint '" + folder + "/step-0': rank 0 has ended");
}

TEST(SessionRanks, ShareOutTheBytesOfFiles) {
  const std::vector<SafetensorsEntry> tensors{
      {"a", DType::F32, {100}, {}}, {"b", DType::I8, {7, 3}, {}}, {"c", DType::F64, {2, 40}, {}}};
  std::vector<int64_t> loads;
  std::vector<int> owners(tensors.size(), -1);
  for (int rank = 0; rank < 2; ++rank) {
    loads = {0, 300};
    const std::vector<ElementRange> ranges = dealTensors(tensors, rank, loads);
    for (size_t i = 0; i < ranges.size(); ++i)
      if (ranges[i].end) {
        EXPECT_EQ(ranges[i].begin, 0);
        EXPECT_EQ(owners[i], -1);
        owners[i] = rank;
      }
  }
  EXPECT_EQ(owners, (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(loads, (std::vector<int64_t>{661, 700}));

  // Ranks that have parts of a tensor each.
  TemporaryFolder folder;
  std::vector<float> values(100);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i);
  std::vector<WrittenBytes> parts;
  uint32_t crc = 0;
  CheckpointFile files[3];
  for (int64_t rank = 0; rank < 3; ++rank) {
    const ElementRange range{rank * 40, std::min<int64_t>(100, rank * 40 + 40)};
    auto get = [&values, range](ArrayView &view) {
      view = {values.data() + range.begin, DType::F32, {100}, (range.end - range.begin) * 4};
      return Status();
    };
    CheckpointFile &file = files[rank];
    ASSERT_TRUE(file.layOut({{"a", DType::F32, {100}, get}}, {range}).ok());
    ASSERT_TRUE((rank ? file.open(folder / "f") : file.create(folder / "f")).ok());
    ASSERT_TRUE(file.write([](size_t, const ArrayView &) {}).ok());
    EXPECT_EQ(file.checksum(parts, crc).ok(), false);
    parts.insert(parts.end(), file.written().begin(), file.written().end());
  }
  ASSERT_TRUE(files[0].checksum(parts, crc).ok());
  const std::vector<unsigned char> bytes = readBytes(folder / "f");
  EXPECT_EQ(crc, crc32(bytes.data(), bytes.size()));
  SafetensorsReader reader;
  ASSERT_TRUE(SafetensorsReader::open(folder / "f", reader).ok());
  EXPECT_EQ(std::memcmp(reader.find("a")->array.data, values.data(), 400), 0);
  parts.push_back(parts.back());
  EXPECT_NE(
      files[0].checksum(parts, crc).message().find("no rank, or two, have written those from"),
      std::string::npos);
  SharedFile other;
  EXPECT_NE(other.open(folder / "f", 7).message().find(" bytes and not 7"), std::string::npos);
  EXPECT_EQ(other.create(folder / "f", 7).code(), Code::IoError);
}
