// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counting what is real in arrays of every type, lengths of rows, what manifests say about tokens,
// and the records of steps.
#include "session/data/density.h"
#include "tiny_package.h"

#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

template <typename T>
ArrayView view(const std::vector<T> &values, DType dtype, std::vector<int64_t> shape) {
  ArrayView array;
  array.data = values.data();
  array.dtype = dtype;
  array.shape = std::move(shape);
  array.bytes = int64_t(values.size() * sizeof(T));
  return array;
}

template <typename T> void countIds(DType dtype) {
  // A pad in the middle is one like those at the end.
  const std::vector<T> ids{5, 1, 7, 1, 1, 1, 1, 1, 2, 3, 4, 6};
  DensityRecord record;
  std::vector<int64_t> lengths;
  ASSERT_TRUE(countReal(view(ids, dtype, {3, 4}), 1, record, &lengths).ok());
  EXPECT_EQ(record.valid, 6);
  EXPECT_EQ(record.total, 12);
  EXPECT_EQ(record.validByRow, (std::vector<int64_t>{2, 0, 4}));
  EXPECT_EQ(lengths, (std::vector<int64_t>{3, 0, 4}));
}

TEST(Density, IdsOfEveryType) {
  countIds<int8_t>(DType::I8);
  countIds<int16_t>(DType::I16);
  countIds<int32_t>(DType::I32);
  countIds<int64_t>(DType::I64);
  countIds<uint8_t>(DType::U8);
  countIds<uint16_t>(DType::U16);
  countIds<uint32_t>(DType::U32);
  countIds<uint64_t>(DType::U64);
}

TEST(Density, APadThatTheTypeCannotHoldIsNowhere) {
  const std::vector<uint8_t> ids{156, 255, 0};
  DensityRecord record;
  ASSERT_TRUE(countReal(view(ids, DType::U8, {1, 3}), -100, record).ok());
  EXPECT_EQ(record.valid, 3);
  const std::vector<int32_t> wide{0, 1};
  DensityRecord other;
  ASSERT_TRUE(countReal(view(wide, DType::I32, {2}), int64_t(1) << 32, other).ok());
  EXPECT_EQ(other.valid, 2);
}

TEST(Density, MasksOfEveryType) {
  auto counted = [](const ArrayView &array) {
    DensityRecord record;
    EXPECT_TRUE(countReal(array, std::nullopt, record).ok());
    return record.validByRow;
  };
  const std::vector<int64_t> expected{1, 2};
  EXPECT_EQ(counted(view(std::vector<uint8_t>{1, 0, 1, 1}, DType::Bool, {2, 2})), expected);
  EXPECT_EQ(counted(view(std::vector<int64_t>{1, 0, 1, 1}, DType::I64, {2, 2})), expected);
  EXPECT_EQ(counted(view(std::vector<float>{1, -0.0f, 0.5f, 1}, DType::F32, {2, 2})), expected);
  EXPECT_EQ(counted(view(std::vector<double>{1, 0, 1, 1}, DType::F64, {2, 2})), expected);
  EXPECT_EQ(counted(view(std::vector<uint16_t>{0x3c00, 0x8000, 1, 1}, DType::F16, {2, 2})),
            expected);
}

TEST(Density, RowsWithoutPlaces) {
  DensityRecord record;
  std::vector<int64_t> lengths;
  EXPECT_TRUE(
      countReal(view(std::vector<int64_t>{}, DType::I64, {2, 0}), 0, record, &lengths).ok());
  EXPECT_EQ(record.total, 0);
  EXPECT_EQ(lengths, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(countReal(view(std::vector<int64_t>{1, 2, 3}, DType::I64, {3}), 0, record, &lengths)
                .message(),
            "3 rows where others have 2");
  EXPECT_EQ(countReal(view(std::vector<float>{1}, DType::F32, {1}), 0, record).message(),
            "an array of f32 holds no ids");
}

/// The tiny package, with `tokens` for its input `id`.
TinyOptions withTokens(const std::string &tokens) {
  TinyOptions options;
  options.editManifest = [tokens](std::string &manifest) {
    const size_t at = manifest.find("\"name\": \"id\"");
    ASSERT_NE(at, std::string::npos) << manifest;
    manifest.insert(at, "\"tokens\": " + tokens + ", ");
  };
  return options;
}

Status openWith(const std::string &tokens, std::shared_ptr<const Package> &package,
                const TemporaryFolder &folder) {
  writeTinyPackage(folder / "m.tpk", withTokens(tokens));
  return Package::open(folder / "m.tpk", package);
}

TEST(Density, StepsTellWhatTheyGet) {
  TemporaryFolder folder;
  std::shared_ptr<const Package> package;
  Status opened = openWith(R"([{"role": "embed", "pad": 2}, {"role": "label", "pad": -100},
                               {"role": "of a newer compiler"}])",
                           package, folder);
  ASSERT_TRUE(opened.ok()) << opened.message();
  std::vector<DensityRecord> records;
  SessionOptions options;
  options.density = [&](const DensityRecord &record) { records.push_back(record); };
  std::unique_ptr<Session> session;
  ASSERT_TRUE(Session::create(package, options, session).ok());
  TinyBatch first(4), second(2);
  first.id = {0, 2, 2, 3};
  second.id = {2, 1};
  StepResult result;
  ASSERT_TRUE(session->step({first.batch(), second.batch()}, {}, result).ok());
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].step, 1);
  EXPECT_EQ(records[0].input->name, "id");
  EXPECT_FALSE(records[0].tokens->isLabel);
  EXPECT_EQ(records[0].valid, 3);
  EXPECT_EQ(records[0].total, 6);
  EXPECT_EQ(records[0].validByRow, (std::vector<int64_t>{1, 0, 0, 1, 0, 1}));
  EXPECT_TRUE(records[1].tokens->isLabel);
  EXPECT_EQ(records[1].valid, 6);
  // What does not fit is no step.
  first.id[0] = 99;
  EXPECT_EQ(session->step({first.batch()}, {}, result).code(), Code::BadData);
  EXPECT_EQ(records.size(), 2u);
  first.id[0] = 1;
  ASSERT_TRUE(session->step({first.batch()}, {}, result).ok());
  EXPECT_EQ(records.back().step, 2);
}

TEST(Density, ManifestsAreChecked) {
  TemporaryFolder folder;
  std::shared_ptr<const Package> package;
  auto refused = [&](const std::string &tokens, const std::string &words) {
    Status status = openWith(tokens, package, folder);
    EXPECT_EQ(status.code(), Code::BadPackage);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  refused(R"([{"role": "embed"}])", "must be there, and only one of them");
  refused(R"([{"role": "embed", "pad": 0, "mask": "x"}])", "only one of them");
  refused(R"([{"role": "embed", "pad": 0.5}])", "tokens[0].pad' is no integer");
  refused(R"([{"role": "embed", "mask": "attention_mask"}])",
          "'id' is masked by 'attention_mask', which is no input");
  refused(R"({"role": "embed"})", "is no list");
}

TEST(Density, RowLengthsNeedSomethingThatTells) {
  TemporaryFolder folder;
  std::shared_ptr<const Package> package;
  ASSERT_TRUE(openWith("[]", package, folder).ok());
  std::vector<int64_t> lengths;
  TinyBatch batch(2);
  Status status = measureRowLengths(*package, batch.batch(), -1, lengths);
  EXPECT_EQ(status.code(), Code::NotFound);
  EXPECT_NE(status.message().find("trainc --pad-token ID"), std::string::npos);
}

TEST(Density, RowLengthsNeedTheInputsShape) {
  TemporaryFolder folder;
  std::shared_ptr<const Package> package;
  TinyOptions options;
  options.editManifest = [](std::string &manifest) {
    manifest.insert(manifest.find("\"name\": \"x\""),
                    "\"tokens\": [{\"role\": \"embed\", \"mask\": \"id\"}], ");
  };
  writeTinyPackage(folder / "m.tpk", options);
  Status status = Package::open(folder / "m.tpk", package);
  ASSERT_TRUE(status.ok()) << status.message();
  TinyBatch batch(2);
  std::vector<int64_t> lengths;
  status = measureRowLengths(*package, batch.batch(), -1, lengths);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_EQ(status.message(), "input 'id' has rank 1 and must have 2");
}

} // namespace
