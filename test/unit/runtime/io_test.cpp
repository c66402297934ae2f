// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checksums, zip and safetensors: round trips, and files that are damaged in every place.

#include "format/hash.h"
#include "format/json.h"
#include "format/zip.h"
#include "io/safetensors.h"
#include "tiny_package.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

Status openZip(const std::string &path, ZipReader &reader) {
  std::shared_ptr<const MappedFile> file;
  TRAINRT_TRY(MappedFile::open(path, file));
  return ZipReader::open(file, reader);
}

/// Opening with every check that a package gets, except its own checksums.
Status checkZip(const std::string &path) {
  ZipReader reader;
  TRAINRT_TRY(openZip(path, reader));
  TRAINRT_TRY(reader.checkCanonical());
  for (const ZipEntry &entry : reader.entries())
    TRAINRT_TRY(reader.checkCrc(entry));
  return {};
}

void writeSafetensorsText(const std::string &path, const std::string &header, size_t dataBytes) {
  std::vector<unsigned char> bytes(8 + header.size() + dataBytes);
  uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  writeBytes(path, bytes);
}

} // namespace

TEST(Hash, KnownAnswers) {
  EXPECT_EQ(fnv1a64("", 0), 0xcbf29ce484222325ull);
  EXPECT_EQ(fnv1a64("a", 1), 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(fnv1a64("foobar", 6), 0x85944171f73967e8ull);
  EXPECT_EQ(crc32("123456789", 9), 0xcbf43926u);
  EXPECT_EQ(crc32("56789", 5, crc32("1234", 4)), 0xcbf43926u);
  const std::string text(1000, 'x');
  for (size_t first : {0, 1, 7, 512, 999, 1000})
    EXPECT_EQ(joinCrc32(crc32(text.data(), first), crc32(text.data() + first, 1000 - first),
                        1000 - first),
              crc32(text.data(), 1000))
        << first;
  EXPECT_EQ(hex64(0x1f), "000000000000001f");
}

TEST(Safetensors, HeadersThatDoNotFit) {
  TemporaryFolder folder;
  const std::string path = folder / "m.safetensors";
  auto says = [&](const std::vector<unsigned char> &bytes, const std::string &message) {
    writeBytes(path, bytes);
    SafetensorsReader reader;
    Status status = SafetensorsReader::open(path, reader);
    EXPECT_EQ(status.code(), Code::BadData);
    EXPECT_EQ(status.message(), "'" + path + "': not a readable safetensors file: " + message);
  };
  says(std::vector<unsigned char>(9), "it has 9 bytes only");
  std::vector<unsigned char> bytes(12);
  bytes[0] = 5;
  says(bytes, "its header of 5 bytes does not fit into the file of 12 bytes (truncated?)");
}

TEST(Paths, RelativePaths) {
  for (const char *good : {"a", "a/b", "./a", "../a", "../../a/b", "a/../b"})
    EXPECT_TRUE(isRelativePath(good)) << good;
  for (std::string_view bad :
       {std::string_view(""), std::string_view("/a"), std::string_view("a\0b", 3)})
    EXPECT_FALSE(isRelativePath(bad)) << bad;
}

TEST(Json, NestsOnlySoDeep) {
  auto tower = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parseJson<nlohmann::json>(tower(maxJsonDepth)).is_array());
  EXPECT_TRUE(parseJson<nlohmann::json>(tower(maxJsonDepth + 1)).is_discarded());
  EXPECT_FALSE(nestsTooDeep(std::string(1000, '[').insert(0, "[\"\\\"") + "\"]"));
  std::string wide = "[0";
  for (int i = 0; i < 1000; ++i)
    wide += ",{\"a\":[[]]}";
  EXPECT_FALSE(nestsTooDeep(wide + "]"));
  EXPECT_STREQ(notJsonObject(tower(1'000'000)), "nests lists and objects more than 64 deep");
}

TEST(Messages, NamesAreShown) {
  EXPECT_EQ(shown("h\xc3\xa4llo \xe2\x82\xac \xf0\x9f\x98\x80 /a.b"),
            "h\xc3\xa4llo \xe2\x82\xac \xf0\x9f\x98\x80 /a.b");
  EXPECT_EQ(shown(std::string("a\x1b[2J\0\n\x7f", 8)), "a\\x1b[2J\\x00\\x0a\\x7f");
  // Controls and reversals of direction of more than one byte, and what is no UTF-8.
  EXPECT_EQ(shown("\xc2\x9b \xe2\x80\xae"), "\\xc2\\x9b \\xe2\\x80\\xae");
  EXPECT_EQ(shown("\xff \xc3 \xe0\x80\x80 \xed\xa0\x80 \xf4\x90\x80\x80"),
            "\\xff \\xc3 \\xe0\\x80\\x80 \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80");
  const std::string longer = "begin" + std::string(1 << 20, 'x') + "end", text = shown(longer);
  EXPECT_LT(text.size(), 300u);
  EXPECT_TRUE(text.starts_with("beginxx") && text.ends_with("xxend")) << text;
  EXPECT_NE(text.find("[...1048384 bytes...]"), text.npos) << text;
  EXPECT_EQ(shown(text), text);
  // No character is cut in two.
  std::string wide;
  for (int i = 0; i < 1000; ++i)
    wide += "\xe2\x82\xac";
  EXPECT_EQ(shown(wide).find("\\x"), std::string::npos);
}

TEST(Messages, TextOfOthersIsShown) {
  const std::string name = "a\x1b[0m\nb";
  const std::string_view view = name;
  Status status = fail(Code::BadData, "line\n'", name, "' '", view, "'").within(name + ": ");
  EXPECT_EQ(status.message(), "a\\x1b[0m\\x0ab: line\n'a\\x1b[0m\\x0ab' 'a\\x1b[0m\\x0ab'");
  EXPECT_EQ(fail(Code::BadData, "these:", Lines{"\n  a\x1b\n  b"}).message(),
            "these:\n  a\\x1b\n  b");
}

TEST(Zip, RoundTripIsAlignedAndDeterministic) {
  TemporaryFolder folder;
  for (const char *name : {"a.zip", "b.zip"}) {
    ZipWriter writer;
    ASSERT_TRUE(writer.create(folder / name).ok());
    for (int i = 0; i < 70; ++i) {
      std::string content(size_t(i * 3), char('a' + i % 26));
      ASSERT_TRUE(writer
                      .add(std::string(size_t(i % 9 + 1), 'n') + std::to_string(i), content.data(),
                           content.size())
                      .ok());
    }
    ASSERT_TRUE(writer.begin("pieces", 6).ok());
    ASSERT_TRUE(writer.append("abc", 3).ok());
    ASSERT_TRUE(writer.append("def", 3).ok());
    ASSERT_TRUE(writer.end().ok());
    ASSERT_TRUE(writer.finish().ok());
  }
  EXPECT_EQ(readBytes(folder / "a.zip"), readBytes(folder / "b.zip"));
  ZipReader reader;
  ASSERT_TRUE(openZip(folder / "a.zip", reader).ok());
  EXPECT_EQ(reader.entries().size(), 71u);
  for (const ZipEntry &entry : reader.entries())
    EXPECT_EQ(entry.offset % ZipWriter::alignment, 0u);
  const ZipEntry *pieces = reader.find("pieces");
  ASSERT_TRUE(pieces);
  EXPECT_EQ(std::memcmp(reader.data(*pieces), "abcdef", 6), 0);
  EXPECT_FALSE(reader.find("piece"));
  EXPECT_TRUE(checkZip(folder / "a.zip").ok());
}

TEST(Zip, UnfinishedLeavesNothing) {
  TemporaryFolder folder;
  {
    ZipWriter writer;
    ASSERT_TRUE(writer.create(folder / "a.zip").ok());
    ASSERT_TRUE(writer.add("x", "abc", 3).ok());
  }
  EXPECT_TRUE(readBytes(folder / "a.zip").empty());
  ZipWriter writer;
  EXPECT_EQ(writer.create(folder / "no/such/folder.zip").code(), Code::NotFound);
}

TEST(Zip, EveryFlippedByteAndEveryTruncationIsFound) {
  TemporaryFolder folder;
  ZipWriter writer;
  ASSERT_TRUE(writer.create(folder / "a.zip").ok());
  ASSERT_TRUE(writer.add("first", "hello world", 11).ok());
  ASSERT_TRUE(writer.add("second/entry", "0123456789", 10).ok());
  ASSERT_TRUE(writer.finish().ok());
  std::vector<unsigned char> good = readBytes(folder / "a.zip");
  for (size_t i = 0; i < good.size(); ++i) {
    for (unsigned char mask : {0x01, 0x80, 0xff}) {
      std::vector<unsigned char> bytes = good;
      bytes[i] ^= mask;
      writeBytes(folder / "bad.zip", bytes);
      EXPECT_FALSE(checkZip(folder / "bad.zip").ok()) << "byte " << i;
    }
    writeBytes(folder / "bad.zip", {good.begin(), good.begin() + long(i)});
    EXPECT_FALSE(checkZip(folder / "bad.zip").ok()) << "truncated to " << i;
  }
}

TEST(Zip, ErrorsSayWhat) {
  TemporaryFolder folder;
  ZipWriter writer;
  ASSERT_TRUE(writer.create(folder / "a.zip").ok());
  ASSERT_TRUE(writer.add("first", "hello world", 11).ok());
  ASSERT_TRUE(writer.add("other", "0123456789", 10).ok());
  ASSERT_TRUE(writer.finish().ok());
  using Bytes = std::vector<unsigned char>;
  const Bytes good = readBytes(folder / "a.zip");
  auto load = [&](size_t at) {
    return good[at] | size_t(good[at + 1]) << 8 | size_t(good[at + 2]) << 16;
  };
  const size_t end = good.size() - 22, directory = load(end + 16);
  const size_t second = directory + 46 + 5 + good[directory + 30];
  const size_t local = load(second + 42), content = 30 + 5 + load(28) % 65536;
  auto rename = [](Bytes &bytes, size_t at, const std::string &name) {
    std::copy(name.begin(), name.end(), bytes.begin() + long(at));
  };
  struct Case {
    std::function<void(Bytes &)> change;
    const char *message;
  } cases[] = {
      {[&](Bytes &b) { b.pop_back(); },
       "not a readable zip file: no end-of-directory record, the file is truncated or damaged"},
      {[&](Bytes &b) { b[end + 19] = 1; }, "the directory lies outside of the file"},
      {[&](Bytes &b) { b[directory] ^= 1; }, "directory entry 0 is damaged"},
      {[&](Bytes &b) { b[second + 28] = 0xff; }, "directory entry 1 is damaged"},
      {[&](Bytes &b) { b[directory + 8] |= 1; }, "entry 'first' is encrypted"},
      {[&](Bytes &b) { b[0] ^= 1; }, "entry 'first': no local header where the directory says"},
      {[&](Bytes &b) { b[directory + 23] = 1; }, "bytes lies outside of the file of "},
      {[&](Bytes &b) { b[30] = b[directory + 46] = 0; }, "entry 0: zero byte in its name"},
      {[&](Bytes &b) {
         rename(b, local + 30, "first");
         rename(b, second + 46, "first");
       },
       "entry 'first' is there twice"},
      {[&](Bytes &b) { b[content] ^= 1; }, "entry 'first' is damaged (its CRC-32 differs)"},
      {[&](Bytes &b) { b[10] ^= 1; }, "entry 'first' is damaged (its zip header was changed)"},
      {[&](Bytes &b) { b[second + 38] ^= 1; },
       "entry 'other' is damaged (its zip directory entry was changed)"},
      {[&](Bytes &b) { b[end + 6] ^= 1; }, "the zip directory's end record is damaged"},
  };
  for (const Case &c : cases) {
    Bytes bytes = good;
    c.change(bytes);
    writeBytes(folder / "bad.zip", bytes);
    Status status = checkZip(folder / "bad.zip");
    EXPECT_EQ(status.code(), Code::BadData) << c.message;
    EXPECT_NE(status.message().find(c.message), std::string::npos) << c.message << "\n"
                                                                   << status.message();
  }
}

TEST(Safetensors, RoundTrip) {
  TemporaryFolder folder;
  float floats[] = {1, 2, 3, 4, 5, 6};
  int64_t integers[] = {-7};
  unsigned char flags[] = {1, 0, 1};
  ASSERT_TRUE(writeSafetensors(folder / "a.safetensors",
                               {{"flags", {flags, DType::Bool, {3}, 3}},
                                {"a/b \"c\"", {floats, DType::F32, {2, 3}, 24}},
                                {"scalar", {integers, DType::I64, {}, 8}},
                                {"empty", {nullptr, DType::F32, {0, 5}, 0}}},
                               {{"who", "test"}})
                  .ok());
  std::vector<unsigned char> bytes = readBytes(folder / "a.safetensors");
  SafetensorsReader reader;
  Status status = SafetensorsReader::open(folder / "a.safetensors", reader);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(reader.entries().size(), 4u);
  EXPECT_EQ(reader.metadata().at("who"), "test");
  const SafetensorsReader::Entry *entry = reader.find("a/b \"c\"");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->array.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(entry->array.data, floats, 24), 0);
  EXPECT_EQ(reader.find("empty")->array.bytes, 0);
  EXPECT_EQ(*static_cast<const int64_t *>(reader.find("scalar")->array.data), -7);
  for (size_t size = 0; size < bytes.size(); ++size) {
    writeBytes(folder / "short", {bytes.begin(), bytes.begin() + long(size)});
    SafetensorsReader broken;
    EXPECT_FALSE(SafetensorsReader::open(folder / "short", broken).ok()) << size;
  }
}

TEST(Safetensors, BadHeadersAreRefused) {
  TemporaryFolder folder;
  const std::string deep(200'000, '[');
  struct Case {
    const char *header;
    size_t data;
    const char *message;
  } cases[] = {
      {"[]", 0, "is no JSON object"},
      {"{\"a\"", 0, "is no JSON object"},
      {deep.c_str(), 0, "its header nests lists and objects more than 64 deep"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
       "does not have the 4 bytes of data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "leaves a gap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, "after the last tensor"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 2,
       "outside of the 2 bytes of data (truncated?)"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "overlaps"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "occurs twice"},
      {R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,4]}})", 4,
       "\"F4\" is not supported; store it as F32, F16, BF16 or integers"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "not a list of sizes"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
       "does not have"},
      {R"({"a":{"dtype":"F32","shape":3,"data_offsets":[0,4]}})", 4, "shape is not a list"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "needs dtype"},
      {R"({"a":3})", 4, "needs dtype"},
  };
  for (const Case &c : cases) {
    writeSafetensorsText(folder / "bad", c.header, c.data);
    SafetensorsReader reader;
    Status status = SafetensorsReader::open(folder / "bad", reader);
    EXPECT_EQ(status.code(), Code::BadData) << c.header;
    EXPECT_NE(status.message().find(c.message), std::string::npos) << c.header << "\n"
                                                                   << status.message();
    EXPECT_NE(status.message().find("bad'"), std::string::npos) << status.message();
  }
}
