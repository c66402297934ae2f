// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quantized parameters from the package's float weights, from weights files of every form, and by
// rules for first values; sharded checkpoints; checkpoints of models with adapters; and what a
// manifest may not say about all this.

#include "io/convert.h"
#include "io/safetensors.h"
#include "session/adapter/lora_merge.h"
#include "session/checkpoint.h"
#include "session/estimate.h"
#include "session/quantize/four_bit.h"
#include "tiny_package.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>

using namespace trainrt;
using namespace trainrt::test;

namespace {

constexpr int64_t rows = 37, columns = 129, count = rows * columns, bytes = (count + 1) / 2;
constexpr int64_t blocks = (count + 63) / 64;

std::string quantized(const std::string &text, const std::string &dtype = "bf16") {
  return ", \"trainable\": false, \"quantized\": {\"dtype\": \"" + dtype +
         "\", \"shape\": [37, 129], " + text + "}";
}
void replace(std::string &text, const std::string &from, const std::string &to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}
std::string partOf(const std::string &name) {
  return ", \"trainable\": false, \"part_of\": \"" + name + "\"";
}

class QuantizedParametersTest : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_TRUE(SafetensorsReader::open(TRAINRT_QUANTIZED_RESULTS, results).ok());
    const ArrayView &source = result("random.bf16");
    tiny.extraFiles = {{"float.raw", bytesOf(source)}};
    const std::string weights = ", \"weights\": {\"file\": \"float.raw\", \"offset\": 0, "
                                "\"length\": " +
                                std::to_string(count * 2) + "}";
    tiny.extra = {
        {"D.weight",
         DType::U8,
         {bytes},
         quantized(
             "\"format\": \"nf4\", \"block\": 64, \"parts\": {\"absmax\": \"D.weight.absmax\", "
             "\"nested_absmax\": \"D.weight.nested_absmax\", "
             "\"nested_offset\": \"D.weight.nested_offset\"}") +
             weights},
        {"D.weight.absmax", DType::U8, {blocks}, partOf("D.weight")},
        {"D.weight.nested_absmax", DType::F32, {1}, partOf("D.weight")},
        {"D.weight.nested_offset", DType::F32, {}, partOf("D.weight")},
        {"F.weight",
         DType::U8,
         {bytes},
         quantized("\"format\": \"fp4\", \"block\": 128, "
                   "\"parts\": {\"absmax\": \"F.weight.absmax\"}") +
             weights},
        {"F.weight.absmax", DType::F32, {(count + 127) / 128}, partOf("F.weight")},
        {"I.weight",
         DType::I8,
         {rows, columns},
         quantized("\"format\": \"int8\", \"parts\": {\"row_absmax\": \"I.SCB\"}") + weights},
        {"I.SCB", DType::F32, {rows}, partOf("I.weight")},
        {"C.weight", DType::F16, {rows, columns}, quantized("\"format\": \"cast\"") + weights},
    };
  }

  static std::vector<unsigned char> bytesOf(const ArrayView &array) {
    auto *data = static_cast<const unsigned char *>(array.data);
    return {data, data + array.bytes};
  }
  const ArrayView &result(const std::string &name) const {
    const SafetensorsReader::Entry *entry = results.find(name);
    EXPECT_TRUE(entry) << name;
    static const ArrayView none;
    return entry ? entry->array : none;
  }

  void makePackage() {
    writeTinyPackage(folder / "m.tpk", tiny);
    Status status = Package::open(folder / "m.tpk", package);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  Status create(std::unique_ptr<Session> &session, SessionOptions options = {}) {
    if (!options.threads)
      options.threads = 2;
    return Session::create(package, options, session);
  }
  std::unique_ptr<Session> make(const SessionOptions &options = {}) {
    std::unique_ptr<Session> session;
    Status status = create(session, options);
    EXPECT_TRUE(status.ok()) << status.message();
    return session;
  }
  static SessionOptions from(const std::string &path) {
    SessionOptions options;
    options.weights = SessionOptions::Weights::File;
    options.weightsPath = path;
    return options;
  }
  static std::vector<unsigned char> value(const Session &session, const std::string &name) {
    const auto &parameters = session.package().program().parameters;
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].name == name) {
        ArrayView array;
        Status status = session.parameter(i, array);
        EXPECT_TRUE(status.ok()) << status.message();
        return bytesOf(array);
      }
    ADD_FAILURE() << name;
    return {};
  }

  void expectValues(const Session &session) {
    for (auto [name, stored] :
         std::map<std::string, std::string>{{"D.weight", "nf4.64/codes"},
                                            {"D.weight.absmax", "nf4.64/nested_codes"},
                                            {"D.weight.nested_absmax", "nf4.64/nested_absmax"},
                                            {"D.weight.nested_offset", "nf4.64/nested_offset"},
                                            {"F.weight", "fp4.128/codes"},
                                            {"F.weight.absmax", "fp4.128/absmax"},
                                            {"I.weight", "int8/codes"},
                                            {"I.SCB", "int8/absmax"}})
      EXPECT_EQ(value(session, name), bytesOf(result("random.bf16/" + stored))) << name;
    EXPECT_EQ(value(session, "C.weight"), castToHalf());
  }
  std::vector<unsigned char> castToHalf() {
    std::vector<float> values(count);
    elementsOf(result("random.bf16").data, DType::BF16)(0, count, values.data());
    std::vector<unsigned char> halves(count * 2);
    roundElements(values.data(), count, DType::F16, halves.data());
    return halves;
  }

  using Tensors = std::vector<std::pair<std::string, ArrayView>>;
  /// All parameters as a file has them that bitsandbytes knows nothing of.
  Tensors floatTensors() {
    Tensors tensors = {{"w", {initialW, DType::F32, {3}, 12}}};
    for (const char *name : {"D.weight", "F.weight", "I.weight", "C.weight"})
      tensors.push_back({name, result("random.bf16")});
    return tensors;
  }
  std::string write(const Tensors &tensors, const std::string &name = "w.safetensors") {
    Status status = writeSafetensors(folder / name, tensors);
    EXPECT_TRUE(status.ok()) << status.message();
    return folder / name;
  }
  void expectMisfit(const Tensors &tensors, const std::string &message) {
    std::unique_ptr<Session> session;
    Status status = create(session, from(write(tensors)));
    EXPECT_EQ(status.code(), Code::BadData) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }

  static std::string stateText(const std::string &kind, int block, bool nested,
                               const std::string &shape = "[37, 129]", int nestedBlocks = 256,
                               double offset = 0) {
    char number[32];
    std::snprintf(number, sizeof number, "%.17g", offset);
    return "{\"quant_type\": \"" + kind + "\", \"blocksize\": " + std::to_string(block) +
           ", \"dtype\": \"bfloat16\", \"shape\": " + shape +
           (nested ? ", \"nested_blocksize\": " + std::to_string(nestedBlocks) +
                         ", \"nested_dtype\": \"float32\", \"nested_offset\": " + number
                   : "") +
           "}";
  }
  ArrayView textArray(const std::string &text) {
    const std::string &kept = texts.emplace_back(text);
    const auto size = int64_t(kept.size());
    return {kept.data(), DType::U8, {size}, size};
  }
  /// The parameters as bitsandbytes stores them.
  Tensors bitsandbytesTensors() {
    const std::string base = "random.bf16/";
    ArrayView column = result(base + "nf4.64/codes");
    column.shape = {bytes, 1};
    float offset;
    std::memcpy(&offset, result(base + "nf4.64/nested_offset").data, 4);
    return {{"w", {initialW, DType::F32, {3}, 12}},
            {"D.weight", column},
            {"D.weight.absmax", result(base + "nf4.64/nested_codes")},
            {"D.weight.nested_absmax", result(base + "nf4.64/nested_absmax")},
            {"D.weight.quant_map", result("nf4.map")},
            {"D.weight.nested_quant_map", result("dynamic_map")},
            {"D.weight.quant_state.bitsandbytes__nf4",
             textArray(stateText("nf4", 64, true, "[37, 129]", 256, double(offset)))},
            {"F.weight", result(base + "fp4.128/codes")},
            {"F.weight.absmax", result(base + "fp4.128/absmax")},
            {"F.weight.quant_map", result("fp4.map")},
            {"F.weight.quant_state.bitsandbytes__fp4", textArray(stateText("fp4", 128, false))},
            {"I.weight", result(base + "int8/codes")},
            {"I.SCB", result(base + "int8/absmax")},
            {"C.weight", result("random.bf16")}};
  }
  Tensors with(const std::string &name, const ArrayView &array) {
    Tensors tensors = bitsandbytesTensors();
    for (auto &tensor : tensors)
      if (tensor.first == name)
        tensor.second = array;
    return tensors;
  }
  Tensors without(const std::string &name) {
    Tensors tensors = bitsandbytesTensors();
    std::erase_if(tensors, [&](const auto &tensor) { return tensor.first == name; });
    return tensors;
  }

  std::deque<std::string> texts;
  SafetensorsReader results;
  TinyOptions tiny;
  TemporaryFolder folder;
  std::shared_ptr<const Package> package;
};

} // namespace

TEST_F(QuantizedParametersTest, FromThePackage) {
  makePackage();
  auto session = make();
  expectValues(*session);
  // Made, not mapped; and the estimate knows.
  MemoryUse use;
  ASSERT_TRUE(estimateMemory(*package, {4}, 1, 1, use).ok());
  EXPECT_EQ(session->memory().mapped - 20, 16); // the table, and constants
  EXPECT_EQ(session->memory().mapped, use.mapped);
  SessionOptions options;
  options.threads = 5;
  expectValues(*make(options));
  options.inference = true;
  expectValues(*make(options));
}

TEST_F(QuantizedParametersTest, FromFloatWeights) {
  makePackage();
  Tensors tensors = floatTensors();
  std::filesystem::remove(folder / "float.raw"); // all is in the file
  auto session = make(from(write(tensors)));
  expectValues(*session);
  EXPECT_EQ(session->warnings(), "");
  tensors[1].second = result("random.f32");
  expectMisfit(tensors, "'D.weight' is float32, expected bfloat16");
  tensors[1].second = result("random.bf16");
  tensors[2].second.shape = {columns, rows};
  expectMisfit(tensors, "'F.weight' has shape [129, 37], expected [37, 129]");
  tensors.erase(tensors.begin() + 2);
  expectMisfit(tensors, "'F.weight' is missing");
}

TEST_F(QuantizedParametersTest, NarrowerWeightsAreTheSameValues) {
  tiny.extraFiles[0].second = std::vector<unsigned char>(count * 4);
  for (TinyParameter &extra : tiny.extra)
    for (auto [wide, narrow] : std::map<std::string, std::string>{
             {"bf16\"", "f32\""}, {std::to_string(count * 2), std::to_string(count * 4)}})
      if (size_t at = extra.fields.find(wide); at != std::string::npos)
        extra.fields.replace(at, wide.size(), narrow);
  makePackage();
  expectValues(*make(from(write(floatTensors()))));
}

TEST_F(QuantizedParametersTest, WhatIsNotFiniteIsNamed) {
  makePackage();
  std::unique_ptr<Session> session;
  for (size_t i = 1; i < 5; ++i) {
    Tensors tensors = floatTensors();
    std::vector<unsigned char> damaged = bytesOf(tensors[i].second);
    const unsigned char infinity[2] = {0x80, 0x7f};
    std::memcpy(&damaged[2 * (3 * columns + 17)], infinity, 2);
    tensors[i].second.data = damaged.data();
    Status status = create(session, from(write(tensors)));
    EXPECT_EQ(status.code(), Code::BadData);
    EXPECT_NE(status.message().find("'" + tensors[i].first + "' of '" + folder.path),
              std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("element [3, 17] is inf"), std::string::npos)
        << status.message();
  }
  tiny.extraFiles[0].second[2 * count - 1] = 0x7f;
  tiny.extraFiles[0].second[2 * count - 2] = 0xff;
  makePackage();
  Status status = create(session);
  EXPECT_NE(status.message().find("'D.weight' of '" + folder.path +
                                  "/float.raw': element "
                                  "[36, 128] is nan: it cannot be stored as nf4"),
            std::string::npos)
      << status.message();
}

TEST_F(QuantizedParametersTest, FromBitsandbytes) {
  makePackage();
  std::filesystem::remove(folder / "float.raw");
  auto session = make(from(write(bitsandbytesTensors())));
  expectValues(*session);
  EXPECT_EQ(session->warnings(), "");
  EXPECT_GE(session->memory().mapped, 2 * bytes); // codes stay where they are
}

TEST_F(QuantizedParametersTest, WhatBitsandbytesSaysMustAgree) {
  makePackage();
  const std::string wanted =
      ", the package wants nf4 in blocks of 64 with double quantization, of [37, 129]";
  const std::string key = "D.weight.quant_state.bitsandbytes__nf4";
  for (auto [text, theirs] : std::map<std::string, std::string>{
           {stateText("nf4", 128, true),
            "nf4 in blocks of 128 with double quantization, of [37, 129]"},
           {stateText("fp4", 64, true),
            "fp4 in blocks of 64 with double quantization, of [37, 129]"},
           {stateText("nf4", 64, false), "nf4 in blocks of 64 with plain statistics, of [37, 129]"},
           {stateText("nf4", 64, true, "[129, 37]"),
            "nf4 in blocks of 64 with double quantization, of [129, 37]"}})
    expectMisfit(with(key, textArray(text)), "'D.weight' is " + theirs + wanted);
  expectMisfit(with(key, textArray(stateText("nf4", 64, true, "[37, 129]", 512))),
               "'D.weight' has statistics in blocks of 512, the package wants 256");
  for (const char *text : {"", "[]", "{\"blocksize\": 64}", "\xff\xfe",
                           "{\"blocksize\": 64, \"quant_type\": \"nf4\", \"shape\": [37.5]}",
                           "{\"blocksize\": 64, \"quant_type\": \"nf4\", \"shape\": [37, 129], "
                           "\"nested_blocksize\": 256}"})
    expectMisfit(with(key, textArray(text)), "'" + key + "' is no description by bitsandbytes");
  std::vector<unsigned char> other = bytesOf(result("nf4.map"));
  other[6] ^= 0x10;
  ArrayView map = result("nf4.map");
  map.data = other.data();
  expectMisfit(with("D.weight.quant_map", map),
               "'D.weight.quant_map' has other values than the format's");
  expectMisfit(with("D.weight.nested_quant_map", map),
               "'D.weight.nested_quant_map' has other values than the format's");
  for (const char *part : {"D.weight.absmax", "D.weight.nested_absmax", "F.weight.absmax", "I.SCB"})
    expectMisfit(without(part), "'" + std::string(part) + "' is missing");
  expectMisfit(with("D.weight.absmax", result("random.bf16/nf4.64/absmax")),
               "'D.weight.absmax' is float32 [75], expected uint8 [75]");
  expectMisfit(with("F.weight", result("random.bf16/int8/absmax")),
               "'F.weight' has shape [37], expected [2387]");
  expectMisfit(without(key), "'D.weight.nested_offset' is missing");
  expectMisfit(with("C.weight", result("random.bf16/int8/codes")),
               "'C.weight' is int8, expected bfloat16, or cast with its statistics");
}

TEST_F(QuantizedParametersTest, CodesSeenAsAnotherType) {
  // bitsandbytes' quant_storage, which FSDP needs: the same bytes as bf16.
  const ArrayView &source = result("wide.bf16");
  const int64_t size = source.bytes / 2;
  TinyParameter weight{"W", DType::U8, {size / 2}, ""}, absmax{"A", DType::F16, {size / 64}, ""};
  weight.fields = ", \"quantized\": {\"format\": \"nf4\", \"block\": 64, \"dtype\": \"bf16\", "
                  "\"shape\": [24, 1536], \"parts\": {\"absmax\": \"A\"}}";
  absmax.fields = partOf("W");
  tiny.extra = {weight, absmax};
  makePackage();
  ArrayView codes = result("wide.bf16/nf4.64/codes");
  codes.dtype = DType::BF16;
  codes.shape = {size / 4, 1};
  Tensors tensors = {
      {"w", {initialW, DType::F32, {3}, 12}},
      {"W", codes},
      {"W.absmax", result("wide.bf16/nf4.64/absmax")},
      {"W.quant_state.bitsandbytes__nf4", textArray(stateText("nf4", 64, false, "[24, 1536]"))}};
  auto session = make(from(write(tensors)));
  EXPECT_EQ(value(*session, "W"), bytesOf(codes));
  // The package has the statistics rounded: the same as when they are made.
  const std::vector<unsigned char> rounded = value(*session, "A");
  EXPECT_EQ(rounded.size(), size_t(size / 32));
  tensors = {tensors[0], {"W", source}};
  session = make(from(write(tensors)));
  EXPECT_EQ(value(*session, "W"), bytesOf(codes));
  EXPECT_EQ(value(*session, "A"), rounded);
  std::vector<float> widened(size_t(size / 64));
  elementsOf(rounded.data(), DType::F16)(0, size / 64, widened.data());
  auto *exact = static_cast<const float *>(result("wide.bf16/nf4.64/absmax").data);
  for (size_t i = 0; i < widened.size(); ++i)
    ASSERT_LE(std::fabs(widened[i] - exact[i]), exact[i] * 0x1p-11f);
  // A statistic that f16 cannot hold is no infinity.
  std::vector<unsigned char> large = bytesOf(source);
  large[2 * 6401] = 0x80, large[2 * 6401 + 1] = 0x47; // 65536
  tensors[1].second.data = large.data();
  expectMisfit(tensors, "the absmax 65536 of block 100 is too large for f16");
}

TEST_F(QuantizedParametersTest, FromAnEarlierRunsCheckpoint) {
  makePackage();
  CheckpointInfo info;
  auto session = make();
  ASSERT_TRUE(saveCheckpoint(*session, folder / "ckpt", 0, "", info).ok());
  std::filesystem::remove(folder / "float.raw");
  expectValues(*make(from(info.path + "/parameters.safetensors")));
  SessionOptions none;
  none.weights = SessionOptions::Weights::None;
  session = make(none);
  Status status = loadCheckpoint(*session, folder / "ckpt", info);
  ASSERT_TRUE(status.ok()) << status.message();
  expectValues(*session);
}

TEST_F(QuantizedParametersTest, OnADevice) {
  setenv("TRAINRT_CUDA_DRIVER", TRAINRT_FAKE_CUDA, 1);
  tiny.cuda = true;
  makePackage();
  expectValues(*make());
  expectValues(*make(from(write(floatTensors()))));
  expectValues(*make(from(write(bitsandbytesTensors()))));
  unsetenv("TRAINRT_CUDA_DRIVER");
}

TEST_F(QuantizedParametersTest, RandomValuesAreForWhatIsTrained) {
  tiny.extra.resize(4);
  tiny.extra[0].fields =
      quantized("\"format\": \"nf4\", \"block\": 64, \"parts\": {\"absmax\": \"D.weight.absmax\", "
                "\"nested_absmax\": \"D.weight.nested_absmax\", "
                "\"nested_offset\": \"D.weight.nested_offset\"}");
  makePackage();
  std::unique_ptr<Session> session;
  Status status = create(session);
  EXPECT_EQ(status.code(), Code::MissingWeights);
  EXPECT_NE(status.message().find("'D.weight' has no weights"), std::string::npos)
      << status.message();
  SessionOptions options;
  options.weights = SessionOptions::Weights::Random;
  options.seed = 7;
  status = create(session, options);
  EXPECT_EQ(status.code(), Code::MissingWeights);
  EXPECT_NE(status.message().find("for what is trained, and 'D.weight' is not"), std::string::npos)
      << status.message();
}

TEST_F(QuantizedParametersTest, FirstValuesByRule) {
  tiny.extra = {
      {"A", DType::F32, {16, 64}, ", \"trainable\": true, \"init\": {\"uniform\": 0.125}"},
      {"B", DType::BF16, {64, 16}, ", \"trainable\": true, \"init\": {\"constant\": 0}"},
      {"O", DType::F16, {5}, ", \"init\": {\"constant\": 1.5}"}};
  tiny.extraFiles.clear();
  makePackage();
  auto floats = [](const std::vector<unsigned char> &raw, DType dtype) {
    std::vector<float> values(raw.size() / sizeOf(dtype));
    elementsOf(raw.data(), dtype)(0, int64_t(values.size()), values.data());
    return values;
  };
  SessionOptions options;
  options.seed = 3;
  auto session = make(options);
  const std::vector<unsigned char> a = value(*session, "A");
  double sum = 0, squares = 0;
  for (float x : floats(a, DType::F32)) {
    ASSERT_LT(std::fabs(x), 0.125f);
    sum += x, squares += double(x) * x;
  }
  EXPECT_LT(std::fabs(sum / 1024), 0.125 / 16);
  EXPECT_NEAR(squares / 1024, 0.125 * 0.125 / 3, 0.125 * 0.125 / 30);
  EXPECT_EQ(value(*session, "B"), std::vector<unsigned char>(2048));
  EXPECT_EQ(floats(value(*session, "O"), DType::F16), std::vector<float>(5, 1.5f));
  // The rule holds also where other parameters are random or of a file, whatever the threads.
  SessionOptions random = options, file = from(write({{"w", {initialW, DType::F32, {3}, 12}}}));
  random.weights = SessionOptions::Weights::Random;
  random.threads = 5;
  file.seed = 3;
  for (const SessionOptions &other : {random, file}) {
    EXPECT_EQ(value(*make(other), "A"), a);
    EXPECT_EQ(floats(value(*make(other), "O"), DType::F16), std::vector<float>(5, 1.5f));
  }
  file.seed = 4;
  EXPECT_NE(value(*make(file), "A"), a);
  // A file that has them wins.
  std::vector<float> own(1024, 2.5f);
  write({{"w", {initialW, DType::F32, {3}, 12}}, {"A", {own.data(), DType::F32, {16, 64}, 4096}}});
  EXPECT_EQ(floats(value(*make(file), "A"), DType::F32), own);
}

TEST_F(QuantizedParametersTest, CheckpointsInSeveralFiles) {
  makePackage();
  Tensors tensors = floatTensors();
  const std::string index = "model.safetensors.index.json";
  write({tensors.begin(), tensors.begin() + 2}, "model-1.safetensors");
  write({tensors.begin() + 2, tensors.end()}, "model-2.safetensors");
  auto writeIndex = [&](const std::string &text) { std::ofstream(folder / index) << text; };
  const std::string good =
      "{\"metadata\": {}, \"weight_map\": {\"w\": \"model-1.safetensors\", \"D.weight\": "
      "\"model-1.safetensors\", \"F.weight\": \"model-2.safetensors\", \"I.weight\": "
      "\"model-2.safetensors\", \"C.weight\": \"model-2.safetensors\"}}";
  writeIndex(good);
  std::filesystem::remove(folder / "float.raw");
  expectValues(*make(from(folder / index)));
  expectValues(*make(from(folder.path)));
  std::unique_ptr<Session> session;
  auto expectRefused = [&](Code code, const std::string &message) {
    Status status = create(session, from(folder.path));
    EXPECT_EQ(status.code(), code) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  };
  for (const char *text : {"", "[]", "{\"weight_map\": 3}"}) {
    writeIndex(text);
    expectRefused(Code::BadData, "is no index of a checkpoint");
  }
  writeIndex("{\"weight_map\": {\"w\": \"/etc/passwd\"}}");
  expectRefused(Code::BadData, "the file of 'w' is no path relative to the index");
  writeIndex("{\"weight_map\": {\"w\": \"model-2.safetensors\"}}");
  expectRefused(Code::BadData,
                "model-2.safetensors' lacks 'w', which '" + (folder / index) + "' says is in it");
  writeIndex(good);
  std::filesystem::remove(folder / "model-2.safetensors");
  expectRefused(Code::NotFound, "model-2.safetensors' is missing, which holds 3 tensors of '");
  // Without an index, the one file of a small model.
  std::filesystem::remove(folder / index);
  expectRefused(Code::NotFound, "holds neither model.safetensors.index.json nor model.safetensors");
  write(tensors, "model.safetensors");
  expectValues(*make(from(folder.path)));
}

/// Element by element from codes and statistics as the format is described, rounded to bf16, then
/// with the adapter and rounded again.
TEST_F(QuantizedParametersTest, AdaptersAreMergedIntoDecodedValues) {
  const std::string uniform = ", \"trainable\": true, \"init\": {\"uniform\": 1}";
  std::string modules;
  for (const std::string name : {"D", "F", "I", "C"}) {
    tiny.extra.push_back({name + ".A", DType::F32, {2, columns}, uniform});
    tiny.extra.push_back({name + ".B", DType::F32, {rows, 2}, uniform});
    modules += std::string(modules.empty() ? "" : ", ") + "{\"path\": \"" + name +
               "\", \"weight\": \"" + name + ".weight\", \"a\": \"" + name + ".A\", \"b\": \"" +
               name + ".B\", \"rank\": 2, \"alpha\": 1, \"scale\": 0.5}";
  }
  tiny.editManifest = [&](std::string &manifest) {
    replace(
        manifest, "\"loss\": \"loss\"",
        "\"lora\": {\"rank\": 2, \"alpha\": 1, \"dropout\": 0, \"bias\": \"none\", \"modules\": [" +
            modules + "]}, \"loss\": \"loss\"");
  };
  makePackage();
  auto session = make();
  auto floats = [&](const std::string &name) {
    const std::vector<unsigned char> raw = value(*session, name);
    std::vector<float> values(raw.size() / 4);
    std::memcpy(values.data(), raw.data(), raw.size());
    return values;
  };
  auto rounded = [](float value) { return bfloatToFloat(floatToBfloat(value)); };
  const auto nf4 = value(*session, "D.weight"), fp4 = value(*session, "F.weight");
  const auto statistics = value(*session, "D.weight.absmax"), int8 = value(*session, "I.weight");
  const auto half = value(*session, "C.weight");
  const float nested = floats("D.weight.nested_absmax")[0];
  const float offset = floats("D.weight.nested_offset")[0];
  const std::vector<float> absmax = floats("F.weight.absmax"), rowAbsmax = floats("I.SCB");
  auto code = [](const std::vector<unsigned char> &codes, int64_t i) {
    return size_t(i % 2 ? codes[size_t(i / 2)] & 15 : codes[size_t(i / 2)] >> 4);
  };
  auto decoded = [&](const std::string &name, int64_t i) -> float {
    if (name == "D")
      return rounded(codeValues(QuantFormat::NF4)[code(nf4, i)] *
                     (dynamicMap()[statistics[size_t(i / 64)]] * nested + offset));
    if (name == "F")
      return rounded(codeValues(QuantFormat::FP4)[code(fp4, i)] * absmax[size_t(i / 128)]);
    if (name == "I")
      return rounded(float(int8_t(int8[size_t(i)])) * rowAbsmax[size_t(i / columns)] / 127);
    uint16_t bits;
    std::memcpy(&bits, &half[size_t(i) * 2], 2);
    return halfToFloat(bits);
  };
  for (const Lora::Module &module : package->manifest().lora->modules) {
    OwnedArray merged;
    Status status = mergeAdapter(*session, module, merged);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(merged.dtype, DType::BF16);
    ASSERT_EQ(merged.shape, (std::vector<int64_t>{rows, columns}));
    const std::vector<float> a = floats(module.a), b = floats(module.b);
    for (int64_t i = 0; i < count; ++i) {
      const auto row = size_t(i / columns), column = size_t(i % columns);
      const double expected = double(decoded(module.path, i)) +
                              0.5 * (double(b[row * 2]) * a[column] +
                                     double(b[row * 2 + 1]) * a[size_t(columns) + column]);
      uint16_t bits;
      std::memcpy(&bits, &merged.bytes[size_t(i) * 2], 2);
      // One unit of bf16: int8's division may round otherwise before.
      const float found = bfloatToFloat(bits);
      ASSERT_NEAR(found, expected, std::fabs(expected) * 0x1p-8 + 1e-9) << module.path << " " << i;
    }
  }
}

TEST_F(QuantizedParametersTest, CheckpointsOfAdaptersHaveNothingFrozen) {
  const std::string uniform = ", \"trainable\": true, \"init\": {\"uniform\": 1}";
  tiny.extra.push_back({"A", DType::F32, {1, 3}, uniform});
  tiny.extra.push_back({"lora_B", DType::F32, {2, 1}, uniform});
  tiny.extra.push_back({"W", DType::F32, {2, 3}, uniform});
  tiny.extra.push_back({"running",
                        DType::F32,
                        {2},
                        ", \"trainable\": false, \"updated\": true, \"init\": {\"constant\": 1}"});
  tiny.editManifest = [](std::string &manifest) {
    replace(
        manifest, "\"loss\": \"loss\"",
        R"("lora": {"rank": 1, "alpha": 1, "dropout": 0, "bias": "none", "modules": [{"path": "m",
               "weight": "W", "a": "A", "b": "lora_B", "rank": 1, "alpha": 1, "scale": 1}]}, )"
        "\"loss\": \"loss\"");
  };
  makePackage();
  SessionOptions options;
  options.seed = 5;
  auto session = make(options);
  CheckpointInfo info;
  ASSERT_TRUE(saveCheckpoint(*session, folder / "ckpt", 0, "", info).ok());
  SafetensorsReader saved;
  ASSERT_TRUE(SafetensorsReader::open(info.path + "/parameters.safetensors", saved).ok());
  std::set<std::string> names;
  for (const SafetensorsReader::Entry &entry : saved.entries())
    names.insert(entry.name);
  EXPECT_EQ(names, (std::set<std::string>{"A", "W", "lora_B", "running", "w"}));

  auto other = make();
  EXPECT_NE(value(*other, "A"), value(*session, "A"));
  Status status = loadCheckpoint(*other, folder / "ckpt", info);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(value(*other, "A"), value(*session, "A"));
  expectValues(*other);
  options.inference = true;
  other = make(options);
  status = loadCheckpoint(*other, folder / "ckpt", info);
  EXPECT_TRUE(status.ok()) << status.message();

  SessionOptions none;
  none.weights = SessionOptions::Weights::None;
  other = make(none);
  status = loadCheckpoint(*other, folder / "ckpt", info);
  EXPECT_EQ(status.code(), Code::MissingWeights);
  EXPECT_NE(status.message().find("frozen parameters as 'table' have no values yet"),
            std::string::npos)
      << status.message();
  ArrayView array;
  EXPECT_EQ(other->parameter(0, array).code(), Code::NotFound); // unchanged

  // One that lacks an adapter is of another model.
  tiny.extra.push_back(
      {"B", DType::F32, {2}, ", \"trainable\": true, \"init\": {\"constant\": 0}"});
  makePackage();
  status = loadCheckpoint(*make(), folder / "ckpt", info);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_NE(status.message().find("'B' is missing"), std::string::npos) << status.message();
}

TEST_F(QuantizedParametersTest, WhatFilesHaveInAnotherTypeMayBeInitialized) {
  // As an adapter that is trained in a 16-bit type is.
  tiny.extra = {{"C.weight",
                 DType::F16,
                 {rows, columns},
                 quantized("\"format\": \"cast\"", "f32") + ", \"init\": {\"uniform\": 0.5}"}};
  makePackage();
  const std::vector<unsigned char> halves = value(*make(), "C.weight");
  std::vector<float> values(count);
  elementsOf(halves.data(), DType::F16)(0, count, values.data());
  auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -0.5);
  EXPECT_LE(*most, 0.5);
  EXPECT_LT(*least, -0.4);
  EXPECT_GT(*most, 0.4);
}

TEST_F(QuantizedParametersTest, ManifestsThatDoNotFitAreNamed) {
  auto refused = [&](const std::string &from, const std::string &to, const std::string &message) {
    TinyOptions options = tiny;
    options.editManifest = [&](std::string &manifest) { replace(manifest, from, to); };
    writeTinyPackage(folder / "bad.tpk", options);
    std::shared_ptr<const Package> ignored;
    Status status = Package::open(folder / "bad.tpk", ignored);
    EXPECT_EQ(status.code(), Code::BadPackage) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  };
  const std::string field = "field 'parameters[2].";
  refused("\"format\": \"nf4\"", "\"format\": \"nf5\"", field + "quantized.format': 'nf5'");
  refused("\"block\": 64", "\"block\": 48", field + "quantized.block': 48 is no power of 2");
  refused("\"block\": 64", "\"block\": 8", field + "quantized.block': 8 is no power of 2");
  refused("\"block\": 64", "\"block\": -64", field + "quantized.block'");
  refused("\"block\": 64, ", "", field + "quantized.block' is missing");
  refused("\"dtype\": \"bf16\", \"shape\": [37, 129], \"format\": \"nf4\"",
          "\"dtype\": \"f64\", \"shape\": [37, 129], \"format\": \"nf4\"",
          field + "quantized.dtype': 'f64' is not f32, bf16 or f16");
  refused("\"shape\": [37, 129], \"format\": \"nf4\"",
          "\"shape\": [37, \"n\"], \"format\": \"nf4\"", field + "quantized.shape'");
  refused("\"shape\": [37, 129], \"format\": \"nf4\"",
          "\"shape\": [4611686018427387904, 129], \"format\": \"nf4\"",
          field + "quantized.shape' has too many elements");
  refused("\"shape\": [37, 129], \"format\": \"nf4\"", "\"shape\": [37, 127], \"format\": \"nf4\"",
          field + "quantized': 'D.weight' must be u8 [2350] for nf4 of [37, 127]");
  refused("\"shape\": [37, 129], \"format\": \"int8\"",
          "\"shape\": [37, 3, 43], \"format\": \"int8\"", "int8 is for matrices");
  refused("[2387], \"trainable\": false", "[2387], \"trainable\": true",
          field + "quantized': 'D.weight' is not frozen");
  refused("\"nested_absmax\": \"D.weight.nested_absmax\", ", "",
          field + "quantized.parts' has not the parts of nf4");
  refused("\"parts\": {\"row_absmax\": \"I.SCB\"}", "\"parts\": 3",
          ".quantized.parts' is no object");
  refused("{\"absmax\": \"D.weight.absmax\"", "{\"absmax\": \"D.weight.absmin\"",
          field + "quantized.parts': absmax 'D.weight.absmin' is no parameter");
  refused("{\"absmax\": \"D.weight.absmax\"", "{\"absmax\": \"F.weight.absmax\"",
          "absmax 'F.weight.absmax' is no part of 'D.weight'");
  refused("[75], \"trainable\"", "[76], \"trainable\"",
          "absmax 'D.weight.absmax' is u8 [76], expected u8 [75]");
  refused("[75], \"trainable\": false", "[75], \"trainable\": true", "has values of its own");
  refused("[75], ", "[75], \"init\": {\"constant\": 0}, ",
          "'D.weight.absmax' holds no plain numbers");
  refused(", \"part_of\": \"D.weight\"", "", "'D.weight.absmax' is no part of 'D.weight'");
  refused("\"name\": \"w\", ", "\"name\": \"w\", \"part_of\": \"D.weight\", ",
          "field 'parameters[0].part_of': 'D.weight' has no part 'w'");
  refused("\"length\": " + std::to_string(count * 2), "\"length\": " + std::to_string(bytes),
          "the weights of 'D.weight' have 2387 bytes, its shape 9546");
  const std::string w = "\"name\": \"w\", ";
  for (auto [init, message] : std::map<std::string, std::string>{
           {"3", "init' is no object"},
           {"{}", "init' has no rule that is known"},
           {"{\"constant\": 1, \"uniform\": 1}", "init' has two rules"},
           {"{\"uniform\": -1}", "init.uniform': -1 is not possible"},
           {"{\"norms_of\": \"w\", \"axis\": 0}", "'w' is no parameter with values of its own"},
           {"{\"norms_of\": \"D.weight\", \"axis\": 0}", "cannot hold norms along axis 0"},
           {"{\"norms_of\": \"D.weight\", \"normal\": 1}", "init' has two rules"},
           {"{\"normal\": -1}", "init.normal': -1 is not possible"},
           {"{\"constant\": 1e999}", ""},
           {"{\"constant\": \"0\"}", "init.constant' is no number"}})
    refused(w, w + "\"init\": " + init + ", ", message);
  refused("\"loss\": \"loss\"", "\"loss\": \"loss\", \"lora\": []", "field 'lora' is no object");
}
