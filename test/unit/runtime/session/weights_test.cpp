// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the weights of a session come from: files beside the package, in it, given ones, random
// ones, none.

#include "io/safetensors.h"
#include "session_fixture.h"

#include <cctype>
#include <cmath>
#include <fstream>

using namespace trainrt;
using namespace trainrt::test;

TEST_F(SessionTest, MissingOrChangedWeights) {
  SessionOptions options;
  std::unique_ptr<Session> session;
  writeBytes(folder / "weights.raw", std::vector<unsigned char>(28));
  Status status = Session::create(package, options, session);
  EXPECT_EQ(status.code(), Code::MissingWeights);
  EXPECT_NE(status.message().find("has changed since the package was compiled"), std::string::npos)
      << status.message();
  writeBytes(folder / "weights.raw", std::vector<unsigned char>(27));
  EXPECT_EQ(Session::create(package, options, session).code(), Code::MissingWeights);
  std::remove((folder / "weights.raw").c_str());
  status = Session::create(package, options, session);
  EXPECT_EQ(status.code(), Code::MissingWeights);
  EXPECT_NE(status.message().find("the weights' file is missing: "), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("--init"), std::string::npos) << status.message();
  TinyOptions tiny;
  tiny.absent = true;
  makePackage(tiny);
  EXPECT_EQ(Session::create(package, options, session).code(), Code::MissingWeights);
  options.weights = SessionOptions::Weights::Random;
  status = Session::create(package, options, session);
  EXPECT_EQ(status.code(), Code::MissingWeights);
  EXPECT_NE(status.message().find("random values are for what is trained, and 'table' is not: the "
                                  "weights' file '"),
            std::string::npos)
      << status.message();
  EXPECT_TRUE(status.message().ends_with(".onnx, .safetensors or .npz)")) << status.message();
}

TEST_F(SessionTest, EmbeddedWeights) {
  TinyOptions options;
  options.embedded = true;
  makePackage(options);
  EXPECT_EQ(w(*make()), std::vector<float>(initialW, initialW + 3));
}

TEST_F(SessionTest, WeightsFile) {
  float values[3] = {9, 8, 7};
  SessionOptions options;
  options.weights = SessionOptions::Weights::File;
  options.weightsPath = folder / "w.safetensors";
  ASSERT_TRUE(writeSafetensors(options.weightsPath, {{"w", {values, DType::F32, {3}, 12}},
                                                     {"other", {values, DType::F32, {1}, 4}}})
                  .ok());
  auto session = make(options); // "table" comes from the package
  EXPECT_EQ(w(*session), (std::vector<float>{9, 8, 7}));
  EXPECT_NE(session->warnings().find("1 arrays are no parameters of the model and are ignored "
                                     "(first: 'other')"),
            std::string::npos)
      << session->warnings();
  uint16_t halves[3] = {0x3c00, 0x4000, 0x4200};
  ASSERT_TRUE(writeSafetensors(options.weightsPath, {{"w", {halves, DType::F16, {3}, 6}}}).ok());
  EXPECT_EQ(w(*make(options)), (std::vector<float>{1, 2, 3}));

  std::unique_ptr<Session> refused;
  ASSERT_TRUE(
      writeSafetensors(options.weightsPath, {{"w", {values, DType::F32, {1, 3}, 12}}}).ok());
  Status status = Session::create(package, options, refused);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_NE(status.message().find("'w' has shape [1, 3], expected [3]"), std::string::npos);
  ASSERT_TRUE(writeSafetensors(options.weightsPath, {{"v", {values, DType::F32, {3}, 12}}}).ok());
  status = Session::create(package, options, refused);
  EXPECT_EQ(status.message(),
            "'" + options.weightsPath + "' does not fit the model:\n  'w' is missing");
  options.weightsPath = folder / "none";
  EXPECT_EQ(Session::create(package, options, refused).code(), Code::NotFound);
}

/// The bytes of a mapped file that count as this process's.
static int64_t residentBytes(const std::string &path) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  int64_t total = 0;
  for (std::string line; std::getline(maps, line);) {
    if (std::isxdigit(static_cast<unsigned char>(line[0])) && line.find('-') < line.find(' '))
      inside = line.size() >= path.size() &&
               line.compare(line.size() - path.size(), path.size(), path) == 0;
    else if (inside && line.rfind("Rss:", 0) == 0)
      total += std::stoll(line.substr(4)) * 1024;
  }
  return total;
}

TEST_F(SessionTest, WhatIsCopiedLeavesMemory) {
  constexpr int64_t count = 2 << 20, bytes = count * 4;
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[size_t(i)] = float(i);
  auto *raw = reinterpret_cast<const unsigned char *>(values.data());
  auto from = [&](const char *trainable) {
    return std::string(", \"trainable\": ") + trainable +
           ", \"weights\": {\"file\": \"big.raw\", \"offset\": 0, \"length\": " +
           std::to_string(bytes) + "}";
  };
  TinyOptions options;
  options.extra = {{"trained", DType::F32, {count}, from("true")},
                   {"frozen", DType::F32, {1024}, ", \"trainable\": false"}};
  // Of the file the frozen one is a part, so it stays mapped.
  options.extra[1].fields +=
      ", \"weights\": {\"file\": \"big.raw\", \"offset\": 0, \"length\": 4096}";
  options.extraFiles = {{"big.raw", {raw, raw + bytes}}};
  makePackage(options);
  auto expectSmall = [&](const Session &session, const std::string &file) {
    ArrayView array;
    ASSERT_TRUE(session.parameter(2, array).ok());
    EXPECT_EQ(floats(array), values);
    ASSERT_TRUE(session.parameter(3, array).ok());
    EXPECT_EQ(floats(array), std::vector<float>(values.begin(), values.begin() + 1024));
    const int64_t resident = residentBytes(folder / file);
    EXPECT_GT(resident, 0);         // the frozen one
    EXPECT_LT(resident, bytes / 2); // a page that is read may bring 2 MiB around it
  };
  expectSmall(*make(), "big.raw");

  SessionOptions given;
  given.weights = SessionOptions::Weights::File;
  given.weightsPath = folder / "w.safetensors";
  ASSERT_TRUE(
      writeSafetensors(given.weightsPath, {{"w", {values.data(), DType::F32, {3}, 12}},
                                           {"trained", {values.data(), DType::F32, {count}, bytes}},
                                           {"frozen", {values.data(), DType::F32, {1024}, 4096}}})
          .ok());
  expectSmall(*make(given), "w.safetensors");
}

TEST_F(SessionTest, RandomWeightsDependOnTheSeedOnly) {
  SessionOptions options;
  options.weights = SessionOptions::Weights::Random;
  options.seed = 3;
  std::vector<float> first = w(*make(options));
  options.threads = 4;
  EXPECT_EQ(w(*make(options)), first);
  options.seed = 4;
  EXPECT_NE(w(*make(options)), first);
  EXPECT_LT(std::fabs(first[0]), 0.2f);
  options.initStd = -1;
  std::unique_ptr<Session> refused;
  EXPECT_EQ(Session::create(package, options, refused).code(), Code::InvalidArgument);
}

TEST_F(SessionTest, WithoutWeightsNothingRuns) {
  SessionOptions options;
  options.weights = SessionOptions::Weights::None;
  auto session = make(options);
  ArrayView array;
  EXPECT_EQ(session->parameter(0, array).message(), "parameter 'w' has no value yet");
  TinyBatch batch(4);
  StepResult result;
  Status status = session->step({batch.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::MissingWeights);
  EXPECT_NE(status.message().find("'w', 'table'"), std::string::npos) << status.message();
  ASSERT_TRUE(session->setParameter(0, {initialW, DType::F32, {3}, 12}).ok());
  ASSERT_TRUE(session->setParameter(1, {table, DType::F32, {4}, 16}).ok());
  EXPECT_TRUE(session->step({batch.batch()}, {}, result).ok());
  EXPECT_EQ(session->setParameter(0, {initialW, DType::F32, {1, 3}, 12}).code(), Code::BadData);
}
