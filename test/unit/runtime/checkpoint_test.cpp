// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checkpoints: a resumed run continues bit for bit, damaged ones are skipped, old ones removed.

#include "format/hash.h"
#include "io/safetensors.h"
#include "session/checkpoint.h"
#include "tiny_package.h"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <thread>
#include <tuple>
#include <unistd.h>

using namespace trainrt;
using namespace trainrt::test;
namespace fs = std::filesystem;

namespace {

class CheckpointTest : public ::testing::Test {
protected:
  void SetUp() override {
    writeTinyPackage(folder / "m.tpk");
    ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
  }

  std::unique_ptr<Session> make(int64_t seed = 0) {
    SessionOptions options;
    options.threads = 1;
    options.seed = seed;
    std::unique_ptr<Session> session;
    EXPECT_TRUE(Session::create(package, options, session).ok());
    return session;
  }

  static void train(Session &session, int steps) {
    for (int i = 0; i < steps; ++i) {
      TinyBatch batch(16, unsigned(session.stepCount()));
      StepResult result;
      ASSERT_TRUE(session.step({batch.batch()}, {}, result).ok());
    }
  }

  static std::vector<unsigned char> bytes(const Session &session) {
    std::vector<unsigned char> all;
    auto append = [&](const ArrayView &array) {
      auto *data = static_cast<const unsigned char *>(array.data);
      all.insert(all.end(), data, data + array.bytes);
    };
    ArrayView array;
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(session.parameter(i, array).ok());
      append(array);
      EXPECT_TRUE(session.state(i, array).ok());
      append(array);
    }
    return all;
  }

  Status save(Session &session, unsigned keep = 0, const std::string &position = "") {
    return saveCheckpoint(session, folder / "ck", keep, position, info);
  }

  std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder / "ck"))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryFolder folder;
  std::shared_ptr<const Package> package;
  CheckpointInfo info;
};

} // namespace

TEST_F(CheckpointTest, ResumesBitForBit) {
  auto through = make(5);
  train(*through, 6);
  auto first = make(5);
  train(*first, 3);
  ASSERT_TRUE(save(*first, 0, R"({"row": 48, "epoch": 1})").ok());
  auto second = make(99); // the checkpoint's seed wins
  Status status = loadCheckpoint(*second, folder / "ck", info);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(info.step, 3);
  EXPECT_EQ(info.seed, 5);
  EXPECT_EQ(second->seed(), 5);
  EXPECT_EQ(info.path, folder / "ck/step-3");
  EXPECT_EQ(info.dataPosition, R"({"epoch":1,"row":48})");
  EXPECT_EQ(bytes(*first), bytes(*second));
  // A frozen parameter that is equal stays mapped.
  EXPECT_EQ(second->memory().parameters, first->memory().parameters);
  train(*second, 3);
  EXPECT_EQ(bytes(*second), bytes(*through));
  EXPECT_EQ(second->stepCount(), 6);
}

TEST_F(CheckpointTest, LoadsAFolderItself) {
  auto session = make();
  train(*session, 2);
  ASSERT_TRUE(save(*session).ok());
  auto other = make();
  ASSERT_TRUE(loadCheckpoint(*other, folder / "ck/step-2", info).ok());
  EXPECT_EQ(other->stepCount(), 2);
  EXPECT_EQ(info.dataPosition, "null");
}

TEST_F(CheckpointTest, KeepsTheNewest) {
  auto session = make();
  for (int i = 0; i < 12; ++i) {
    train(*session, 1);
    ASSERT_TRUE(save(*session, 3).ok());
  }
  ASSERT_TRUE(save(*session, 3).ok()); // the same step once more
  EXPECT_EQ(names(), (std::vector<std::string>{"step-10", "step-11", "step-12"}));
}

TEST_F(CheckpointTest, KeepsTheNewestWhoseValuesAreFinite) {
  auto session = make();
  const float nan[] = {1, NAN, 3}, good[] = {1, 2, 3};
  auto saveWith = [&](const float *w) {
    const int64_t step = session->stepCount() + 1;
    ASSERT_TRUE(session->setParameter(0, {w, DType::F32, {3}, 12}).ok());
    session->restored(step, 0);
    session->warnings().clear();
    ASSERT_TRUE(save(*session, 2).ok());
    EXPECT_EQ(session->warnings().find("'w' are not finite") != std::string::npos, w == nan)
        << session->warnings();
  };
  for (const float *w : {good, good, nan, nan, nan})
    saveWith(w);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-2", "step-4", "step-5"}));
  saveWith(good);
  saveWith(nan);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-6", "step-7"}));
}

TEST_F(CheckpointTest, KeepsTheNewestOfThisRun) {
  auto other = make();
  for (int i = 0; i < 5; ++i) {
    train(*other, 1);
    if (i > 2)
      ASSERT_TRUE(save(*other).ok());
  }
  auto session = make();
  for (int i = 0; i < 3; ++i) {
    train(*session, 1);
    ASSERT_TRUE(save(*session, 2).ok());
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"step-2", "step-3", "step-4", "step-5"}));
}

TEST_F(CheckpointTest, ManySaveIntoOneFolder) {
  constexpr int savers = 4, saves = 6;
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Status> outcomes(savers);
  std::vector<std::thread> threads;
  for (int i = 0; i < savers; ++i)
    sessions.push_back(make(i));
  for (int i = 0; i < savers; ++i)
    threads.emplace_back([&, i] {
      CheckpointInfo saved;
      for (int n = 0; n < saves && outcomes[size_t(i)].ok(); ++n) {
        train(*sessions[size_t(i)], 1);
        outcomes[size_t(i)] = saveCheckpoint(*sessions[size_t(i)], folder / "ck", 0, "", saved);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &outcome : outcomes)
    EXPECT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_EQ(names().size(), size_t(saves)) << "something was left behind";
  for (int n = 1; n <= saves; ++n) {
    auto session = make();
    Status status = loadCheckpoint(*session, folder / "ck/step-" + std::to_string(n), info);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

/// Whoever reads finds the newest, or the one after it: never none.
TEST_F(CheckpointTest, IsReadWhileItIsReplaced) {
  constexpr int saves = 60;
  auto saver = make();
  train(*saver, 1);
  ASSERT_TRUE(save(*saver, 1).ok());
  std::atomic<bool> saving = true;
  std::thread thread([&] {
    CheckpointInfo saved;
    for (int n = 0; n < saves; ++n) {
      train(*saver, 1);
      EXPECT_TRUE(saveCheckpoint(*saver, folder / "ck", 1, "", saved).ok());
    }
    saving = false;
  });
  int64_t before = 0;
  auto reader = make();
  while (saving) {
    Status status = loadCheckpoint(*reader, folder / "ck", info);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(reader->warnings(), "");
    EXPECT_GE(info.step, before);
    before = info.step;
  }
  thread.join();
}

TEST_F(CheckpointTest, ClaimsAFolder) {
  auto first = make(), second = make();
  CheckpointClaim one, two;
  ASSERT_TRUE(claimCheckpoints(*first, folder / "ck", false, {}, one).ok());
  Status status = claimCheckpoints(*second, folder / "ck", true, {}, two);
  EXPECT_EQ(status.code(), Code::IoError);
  EXPECT_NE(status.message().find("process " + std::to_string(getpid())), std::string::npos)
      << status.message();
  train(*second, 1);
  EXPECT_EQ(save(*second).code(), Code::IoError);
  train(*first, 2);
  ASSERT_TRUE(saveCheckpoint(*first, folder / "ck", 0, "", info, &one).ok());
  one.lock.release();
  EXPECT_EQ(names(), std::vector<std::string>{"step-2"});

  // It is another run's for a session that has not loaded it.
  EXPECT_EQ(claimCheckpoints(*second, folder / "ck", false, {}, two).code(), Code::BadData);
  ASSERT_TRUE(claimCheckpoints(*first, folder / "ck", false, info, one).ok());
  one.lock.release();
  ASSERT_TRUE(claimCheckpoints(*second, folder / "ck", true, {}, two).ok());
  EXPECT_EQ(names(), (std::vector<std::string>{".lock", "step-2"}));
  ASSERT_TRUE(saveCheckpoint(*second, folder / "ck", 0, "", info, &two).ok());
  EXPECT_EQ(names(), (std::vector<std::string>{".lock", "step-1"}));
}

TEST_F(CheckpointTest, FoundWhileItIsOverwritten) {
  auto session = make();
  train(*session, 3);
  ASSERT_TRUE(save(*session).ok());
  fs::rename(folder / "ck/step-3", folder / "ck/.step-3-before-77");
  auto other = make();
  ASSERT_TRUE(loadCheckpoint(*other, folder / "ck", info).ok());
  EXPECT_EQ(info.step, 3);
  // The first one of the new run is there, and the process died before it removed the others.
  auto fresh = make();
  train(*fresh, 1);
  fs::rename(folder / "ck/.step-3-before-77", folder / "aside");
  ASSERT_TRUE(save(*fresh).ok());
  fs::rename(folder / "aside", folder / "ck/.step-3-before-77");
  ASSERT_TRUE(loadCheckpoint(*other, folder / "ck", info).ok());
  EXPECT_EQ(info.step, 1);
  ASSERT_TRUE(save(*other).ok());
  EXPECT_EQ(names(), std::vector<std::string>{"step-1"});
}

TEST_F(CheckpointTest, DamagedOnesAreSkipped) {
  auto session = make();
  std::vector<unsigned char> atTwo;
  for (int i = 1; i <= 6; ++i) {
    train(*session, 1);
    ASSERT_TRUE(save(*session).ok());
    if (i == 2)
      atTwo = bytes(*session);
  }
  auto flip = [&](const std::string &name) {
    std::vector<unsigned char> content = readBytes(folder / name);
    content[content.size() - 3] ^= 1;
    writeBytes(folder / name, content);
  };
  flip("ck/step-6/parameters.safetensors");
  flip("ck/step-5/optimizer.safetensors");
  writeBytes(folder / "ck/step-4/state.json", {'{'});
  fs::remove(folder / "ck/step-3/optimizer.safetensors");
  fs::create_directories(folder / "ck/.step-7-1"); // what a killed run leaves
  auto other = make();
  Status status = loadCheckpoint(*other, folder / "ck", info);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(info.step, 2);
  EXPECT_EQ(bytes(*other), atTwo);
  for (const char *name : {"step-6", "step-5", "step-4", "step-3"})
    EXPECT_NE(other->warnings().find(name), std::string::npos) << other->warnings();
  ASSERT_TRUE(save(*other).ok());
  EXPECT_FALSE(fs::exists(folder / "ck/.step-7-1"));
}

TEST_F(CheckpointTest, EveryByteIsCovered) {
  auto session = make(3);
  train(*session, 1);
  ASSERT_TRUE(save(*session).ok());
  const std::vector<unsigned char> atOne = bytes(*session);
  train(*session, 1);
  ASSERT_TRUE(save(*session, 0, R"({"state.json": "12345678", "row": 4.5})").ok());
  const std::vector<unsigned char> atTwo = bytes(*session);
  auto other = make();
  for (const char *name : {"state.json", "parameters.safetensors", "optimizer.safetensors"}) {
    const std::string path = folder / "ck/step-2/" + name;
    const std::vector<unsigned char> whole = readBytes(path);
    for (size_t i = 0; i < whole.size(); ++i) {
      std::vector<unsigned char> broken = whole;
      broken[i] ^= 1u << i % 7;
      writeBytes(path, broken);
      ASSERT_TRUE(loadCheckpoint(*other, folder / "ck", info).ok()) << name << " " << i;
      EXPECT_EQ(info.step, 1) << name << " " << i;
      EXPECT_EQ(bytes(*other), atOne);
      broken = whole;
      broken.resize(i);
      writeBytes(path, broken);
      ASSERT_TRUE(loadCheckpoint(*other, folder / "ck", info).ok()) << name << " " << i;
      EXPECT_EQ(info.step, 1) << name << " cut at " << i;
    }
    writeBytes(path, whole);
  }
  ASSERT_TRUE(loadCheckpoint(*other, folder / "ck", info).ok());
  EXPECT_EQ(info.step, 2);
  EXPECT_EQ(info.dataPosition, R"({"row":4.5,"state.json":"12345678"})");
  EXPECT_EQ(bytes(*other), atTwo);
}

TEST_F(CheckpointTest, FoundWhileItIsReplaced) {
  auto session = make();
  train(*session, 1);
  ASSERT_TRUE(save(*session).ok());
  // Killed between the two renames of a filesystem that cannot exchange folders.
  fs::rename(folder / "ck/step-1", folder / "ck/.step-1-old-77");
  fs::create_directories(folder / "ck/.step-1-77");
  auto other = make();
  Status status = loadCheckpoint(*other, folder / "ck", info);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(info.step, 1);
  EXPECT_EQ(bytes(*other), bytes(*session));
  ASSERT_TRUE(save(*other, 1).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "ck"), fs::directory_iterator()), 1);
}

TEST_F(CheckpointTest, NoneOrAllDamaged) {
  auto session = make();
  EXPECT_EQ(loadCheckpoint(*session, folder / "ck", info).message(),
            "there is no checkpoint folder '" + (folder / "ck") + "'");
  fs::create_directory(folder / "empty");
  EXPECT_EQ(loadCheckpoint(*session, folder / "empty", info).message(),
            "there is no checkpoint (step-N) in '" + (folder / "empty") + "'");
  train(*session, 1);
  ASSERT_TRUE(save(*session).ok());
  fs::remove(folder / "ck/step-1/state.json");
  Status status = loadCheckpoint(*session, folder / "ck", info);
  EXPECT_EQ(status.code(), Code::NotFound);
  EXPECT_NE(status.message().find("step-1"), std::string::npos) << status.message();
  EXPECT_EQ(save(*session, 0, "{not json").code(), Code::InvalidArgument);
}

/// The state.json of the folder `path` with `edit(text)`, as a runtime of before format 1.1 wrote
/// it: without a checksum of its own.
template <typename Edit> static void editState(const std::string &path, Edit edit) {
  std::vector<unsigned char> bytes = readBytes(path + "/state.json");
  std::string json(bytes.begin(), bytes.end());
  json.replace(json.find("\"minor\": 1"), 10, "\"minor\": 0");
  const size_t key = json.find(",\n    \"state.json\"");
  json.erase(key, json.find('\n', key + 2) - key);
  edit(json);
  writeBytes(path + "/state.json", {json.begin(), json.end()});
}

TEST_F(CheckpointTest, StatesThatNoRuntimeWrites) {
  auto session = make();
  ASSERT_TRUE(save(*session).ok());
  const std::string path = folder / "ck/step-0";
  const std::vector<unsigned char> good = readBytes(path + "/state.json");
  for (const auto &[from, to, message] :
       {std::tuple("\"major\": 1", "\"major\": 2",
                   "field 'format.major' is newer than this runtime, which reads up to 1"),
        std::tuple("\"step\": 0", "\"step\": -1", "field 'step' is negative"),
        std::tuple("\"step\": 0", "\"step\": 9223372036854775807", "field 'step' is too large"),
        std::tuple("\"step\": 0", "\"step\": 0.5", "field 'step' is missing")}) {
    writeBytes(path + "/state.json", good);
    editState(path, [&, from = from, to = to](std::string &json) {
      const size_t at = json.find(from);
      ASSERT_NE(at, std::string::npos) << from << " in " << json;
      json.replace(at, std::strlen(from), to);
    });
    Status status = loadCheckpoint(*session, path, info);
    EXPECT_EQ(status.code(), Code::NotFound);
    EXPECT_NE(status.message().find(std::string("state.json': ") + message), std::string::npos)
        << status.message();
  }
}

TEST_F(CheckpointTest, OfAnotherModel) {
  auto session = make();
  ASSERT_TRUE(save(*session).ok());
  const std::string path = folder / "ck/step-0", parameters = "/parameters.safetensors";
  auto refused = [&](const std::string &message) {
    const uint32_t crc =
        crc32(readBytes(path + parameters).data(), readBytes(path + parameters).size());
    editState(path, [&](std::string &json) {
      json.replace(json.find(": \"", json.find("parameters.safetensors")) + 3, 8,
                   hex64(crc).substr(8));
    });
    Status status = loadCheckpoint(*session, folder / "ck", info);
    EXPECT_EQ(status.code(), Code::BadData);
    EXPECT_NE(status.message().find("is of another model or optimizer: " + message),
              std::string::npos)
        << status.message();
  };
  const std::vector<unsigned char> state = readBytes(path + "/state.json");
  ArrayView w, table;
  ASSERT_TRUE(session->parameter(0, w).ok() && session->parameter(1, table).ok());
  ASSERT_TRUE(writeSafetensors(path + parameters, {{"w", w}, {"table", table}, {"more", w}}).ok());
  refused("it has 3 tensors, expected 2");
  writeBytes(path + "/state.json", state);
  fs::copy_file(path + "/optimizer.safetensors", path + parameters,
                fs::copy_options::overwrite_existing);
  refused("'w' is missing");
}

TEST_F(CheckpointTest, OfAnotherGraph) {
  auto open = [&](const std::string &identity, bool inference = false) {
    TinyOptions tiny;
    tiny.inference = inference;
    tiny.editManifest = [&](std::string &manifest) {
      manifest.replace(manifest.find("\"producer\""), 0, "\"identity\": \"" + identity + "\", ");
    };
    writeTinyPackage(folder / "m.tpk", tiny);
    ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
  };
  open("1-00000000000000aa");
  auto session = make();
  train(*session, 2);
  ASSERT_TRUE(save(*session).ok());
  const std::vector<unsigned char> saved = bytes(*session);

  // The same, one of another way to tell, and none.
  for (const char *identity : {"1-00000000000000aa", "2-00000000000000bb", ""}) {
    open(identity);
    auto other = make();
    Status status = loadCheckpoint(*other, folder / "ck", info);
    EXPECT_TRUE(status.ok()) << identity << ": " << status.message();
    EXPECT_EQ(other->warnings(), "") << identity;
    EXPECT_EQ(bytes(*other), saved);
  }

  open("1-00000000000000bb");
  auto other = make();
  const std::vector<unsigned char> before = bytes(*other);
  Status status = loadCheckpoint(*other, folder / "ck", info);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_NE(status.message().find("is of another model: the graph of '"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("; option 'any_model' (trainc-run --any-model) loads it all the "
                                  "same, and '" +
                                  (folder / "ck/step-2/parameters.safetensors' has its weights ")),
            std::string::npos)
      << status.message();
  EXPECT_EQ(bytes(*other), before);
  EXPECT_EQ(other->stepCount(), 0);

  SessionOptions options;
  options.anyModel = true;
  ASSERT_TRUE(Session::create(package, options, other).ok());
  ASSERT_TRUE(loadCheckpoint(*other, folder / "ck", info).ok());
  EXPECT_EQ(bytes(*other), saved);
  EXPECT_NE(other->warnings().find("another model"), std::string::npos) << other->warnings();

  open("1-00000000000000bb", /*inference=*/true);
  ASSERT_TRUE(Session::create(package, {}, other).ok());
  status = loadCheckpoint(*other, folder / "ck", info);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_NE(other->warnings().find("another model"), std::string::npos) << other->warnings();
}

TEST_F(CheckpointTest, ReadOnlyFolder) {
  auto session = make();
  writeBytes(folder / "file", {});
  Status status = saveCheckpoint(*session, folder / "file/ck", 0, "", info);
  EXPECT_EQ(status.code(), Code::IoError);
}
