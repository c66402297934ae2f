// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// .npy headers of every version, stored and deflated .npz, and arrays that are refused with the
// numpy call that mends them.

#include "format/hash.h"
#include "io/array_file.h"
#include "io/npz.h"
#include "limited_new.h"
#include "tiny_package.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <zlib.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

std::string npy(const std::string &dict, const std::string &data, int version = 1) {
  std::string header = dict;
  size_t prefix = version == 1 ? 10 : 12;
  header.append((64 - (prefix + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string result = "\x93NUMPY";
  result += char(version);
  result += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    result += char(header.size() >> (8 * i) & 255);
  return result + header + data;
}

std::string floats(std::initializer_list<float> values) {
  return {reinterpret_cast<const char *>(values.begin()), values.size() * 4};
}

Status parse(const std::string &file, ArrayView &array) {
  uint64_t offset;
  return parseNpyHeader(reinterpret_cast<const unsigned char *>(file.data()), file.size(), array,
                        offset);
}

/// A zip of one deflated entry, as numpy.savez_compressed makes it.
std::vector<unsigned char> deflatedZip(const std::string &name, const std::string &content,
                                       uint32_t statedSize) {
  std::string packed(content.size() + 100, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(content.data()));
  stream.avail_in = uInt(content.size());
  stream.next_out = reinterpret_cast<Bytef *>(packed.data());
  stream.avail_out = uInt(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  std::vector<unsigned char> zip;
  auto put = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      zip.push_back(static_cast<unsigned char>(value >> (8 * i)));
  };
  uint32_t crc = trainrt::crc32(content.data(), content.size());
  auto common = [&] {
    put(0, 2), put(8, 2), put(0, 4), put(crc, 4), put(packed.size(), 4), put(statedSize, 4);
    put(name.size(), 2), put(0, 2);
  };
  put(0x04034b50, 4), put(20, 2), common();
  zip.insert(zip.end(), name.begin(), name.end());
  zip.insert(zip.end(), packed.begin(), packed.end());
  size_t directory = zip.size();
  put(0x02014b50, 4), put(20, 2), put(20, 2), common();
  put(0, 2), put(0, 2), put(0, 2), put(0, 4), put(0, 4);
  zip.insert(zip.end(), name.begin(), name.end());
  size_t size = zip.size() - directory;
  put(0x06054b50, 4), put(0, 4), put(1, 2), put(1, 2), put(size, 4), put(directory, 4), put(0, 2);
  return zip;
}

} // namespace

TEST(Npy, Versions) {
  for (int version : {1, 2, 3}) {
    ArrayView array;
    std::string file = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                           floats({1, 2, 3, 4, 5, 6}), version);
    Status status = parse(file, array);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(array.dtype, DType::F32);
    EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(std::memcmp(array.data, floats({1, 2, 3, 4, 5, 6}).data(), 24), 0);
    for (size_t size = 0; size < file.size(); ++size)
      EXPECT_FALSE(parse(file.substr(0, size), array).ok()) << size;
  }
  ArrayView array;
  EXPECT_FALSE(
      parse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", floats({1}), 4), array)
          .ok());
}

TEST(Npy, ShapesAndTypes) {
  ArrayView array;
  EXPECT_TRUE(
      parse(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "abc"), array).ok());
  EXPECT_EQ(array.dtype, DType::Bool);
  EXPECT_TRUE(
      parse(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", "12345678"), array)
          .ok());
  EXPECT_TRUE(array.shape.empty());
  EXPECT_TRUE(
      parse(npy("{'shape': (0, 4), 'fortran_order': False, 'descr': '<f2'}", ""), array).ok());
  EXPECT_EQ(array.bytes, 0);
  // One axis: the order does not matter.
  EXPECT_TRUE(
      parse(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2,), }", "ab"), array).ok());
}

TEST(Npy, RefusedWithTheFix) {
  struct Case {
    const char *dict, *message;
  } cases[] = {
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }",
       "'>f4' is big endian; save it with .astype('<f4')"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "number type"},
      {"{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }", "number type"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
       "structured dtypes are not supported; save each field as an array of its own"},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "ascontiguousarray"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99, 99), }",
       "bytes, 4 are there (truncated?)"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999, 9999999999), }",
       "too large"},
      {"{'descr': '<f4', 'fortran_order': False}", "the npy header is damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
       "the npy header is damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1", "the npy header is damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "the npy header is damaged"},
  };
  for (const Case &c : cases) {
    ArrayView array;
    Status status = parse(npy(c.dict, floats({1})), array);
    EXPECT_EQ(status.code(), Code::BadData) << c.dict;
    EXPECT_NE(status.message().find(c.message), std::string::npos) << c.dict << "\n"
                                                                   << status.message();
  }
}

TEST(Npy, NoHeader) {
  const std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "1234");
  std::string version = good, second = good;
  version[6] = 9;
  second[6] = 2; // a length of 4 bytes
  struct Case {
    std::string file, message;
  } cases[] = {{"hello, world", "not a .npy file (no numpy magic)"},
               {version, "npy format version 9 is not supported"},
               {second.substr(0, 11), "the npy header is truncated"},
               {good.substr(0, 20), "the npy header is truncated"}};
  for (const Case &c : cases) {
    ArrayView array;
    Status status = parse(c.file, array);
    EXPECT_EQ(status.code(), Code::BadData) << c.message;
    EXPECT_EQ(status.message(), c.message);
  }
}

TEST(Npz, StoredAndDeflated) {
  TemporaryFolder folder;
  std::string content =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", floats({1, 2, 3}));
  ZipWriter zip;
  ASSERT_TRUE(zip.create(folder / "stored.npz").ok());
  ASSERT_TRUE(zip.add("x.npy", content.data(), content.size()).ok());
  std::string object = npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "12345678");
  ASSERT_TRUE(zip.add("bad.npy", object.data(), object.size()).ok());
  ASSERT_TRUE(zip.finish().ok());
  writeBytes(folder / "deflated.npz", deflatedZip("x.npy", content, uint32_t(content.size())));
  for (const char *name : {"stored.npz", "deflated.npz"}) {
    ArrayFile file;
    ASSERT_TRUE(ArrayFile::open(folder / name, file).ok());
    ASSERT_EQ(file.name(0), "x");
    ArrayView array;
    Status status = file.array(0, array);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(std::memcmp(array.data, floats({1, 2, 3}).data(), 12), 0);
  }
  ArrayFile file;
  ASSERT_TRUE(ArrayFile::open(folder / "stored.npz", file).ok());
  ArrayView array;
  Status status = file.array(1, array);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_NE(status.message().find("stored.npz': array 'bad'"), std::string::npos)
      << status.message();
}

TEST(Npz, DamagedContentIsFound) {
  TemporaryFolder folder;
  std::string content =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", floats({1, 2, 3}));
  auto error = [&](std::vector<unsigned char> bytes) {
    writeBytes(folder / "bad.npz", bytes);
    ArrayFile file;
    ArrayView array;
    Status status = ArrayFile::open(folder / "bad.npz", file);
    return status.ok() ? file.array(0, array) : status;
  };
  std::vector<unsigned char> good = deflatedZip("x.npy", content, uint32_t(content.size()));
  ASSERT_TRUE(error(good).ok());
  // Bytes of the compressed data, after the 30-byte header and the name.
  for (size_t i = 35; i < 60; ++i) {
    std::vector<unsigned char> bytes = good;
    bytes[i] ^= 0x10;
    EXPECT_FALSE(error(bytes).ok()) << i;
  }
  // A size that deflate cannot reach must not be allocated.
  auto says = [&](std::vector<unsigned char> bytes, const char *message) {
    Status status = error(std::move(bytes));
    EXPECT_EQ(status.code(), Code::BadData);
    EXPECT_TRUE(status.message().ends_with(message)) << status.message();
  };
  says(deflatedZip("x.npy", content, 0xfffffff0u),
       "its unpacked size of 4294967280 bytes is impossible");
  says(deflatedZip("x.npy", content, uint32_t(content.size()) - 1),
       "its compressed data is damaged");
  std::vector<unsigned char> method = good;
  const size_t directory = method.size() - 22 - 46 - 5;
  method[directory + 10] = 12;
  says(method, "zip compression method 12 is not supported; save it with numpy.savez");
  // Sizes and places that are said to be in zip64 fields.
  std::vector<unsigned char> short64 = good;
  std::fill_n(short64.begin() + long(directory) + 24, 4, 0xff);
  short64[directory + 30] = 4;
  short64.insert(short64.begin() + long(directory) + 46 + 5, {1, 0, 0, 0});
  short64[short64.size() - 10] = static_cast<unsigned char>(short64[short64.size() - 10] + 4);
  says(short64, "entry 'x.npy': zip64 field too short");
  std::vector<unsigned char> end64 = good;
  std::fill_n(end64.end() - 6, 4, 0xff);
  const unsigned char locator[20] = {0x50, 0x4b, 6, 7};
  end64.insert(end64.end() - 22, locator, locator + 20);
  says(end64, "the zip64 end-of-directory record is damaged");
  ZipWriter zip;
  ASSERT_TRUE(zip.create(folder / "stored.npz").ok());
  ASSERT_TRUE(zip.add("x.npy", content.data(), content.size()).ok());
  ASSERT_TRUE(zip.finish().ok());
  std::vector<unsigned char> stored = readBytes(folder / "stored.npz");
  auto magic =
      std::search(stored.begin(), stored.end(), content.begin(), content.end(),
                  [](unsigned char a, char b) { return a == static_cast<unsigned char>(b); });
  ASSERT_NE(magic, stored.end());
  *magic ^= 1;
  says(stored, "it is damaged (its CRC-32 differs)");
}

TEST(ArrayFile, NoMemory) {
  TemporaryFolder folder;
  // 64 KiB, which deflate makes small, and which lie where no float may.
  const std::string values(1 << 16, '\0');
  const std::string content =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (16384,), }", values);
  writeBytes(folder / "deflated.npz", deflatedZip("x.npy", content, uint32_t(content.size())));
  const std::string header =
      "{\"x\": {\"dtype\": \"F32\", \"shape\": [16384], \"data_offsets\": [0, 65536]}} ";
  std::vector<unsigned char> odd = {static_cast<unsigned char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  odd.insert(odd.end(), header.begin(), header.end());
  ASSERT_NE(odd.size() % 4, 0u);
  odd.resize(odd.size() + values.size());
  writeBytes(folder / "odd.safetensors", odd);
  for (const auto &[name, message] :
       {std::pair("deflated.npz", ": array 'x': no memory to unpack its 65664 bytes"),
        std::pair("odd.safetensors", ": array 'x': no memory for its 65536 bytes")}) {
    ArrayFile file;
    Status status = ArrayFile::open(folder / name, file);
    ASSERT_TRUE(status.ok()) << status.message();
    ArrayView array;
    {
      LimitedNew limit(1 << 15);
      status = file.array(0, array);
    }
    EXPECT_EQ(status.code(), Code::OutOfMemory);
    EXPECT_EQ(status.message(), "'" + (folder / name) + "'" + message);
    EXPECT_TRUE(file.array(0, array).ok()) << name;
  }
}

TEST(ArrayFile, NeitherKind) {
  TemporaryFolder folder;
  writeBytes(folder / "text", {'h', 'e', 'l', 'l', 'o'});
  ArrayFile file;
  Status status = ArrayFile::open(folder / "text", file);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_NE(status.message().find("neither"), std::string::npos);
  EXPECT_EQ(ArrayFile::open(folder / "none", file).code(), Code::NotFound);
}
