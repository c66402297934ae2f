// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values as bytes and back, for processes of one version on machines of one byte order.
#ifndef TRAINRT_FORMAT_BYTE_TEXT_H
#define TRAINRT_FORMAT_BYTE_TEXT_H

#include "format/status.h"

#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

namespace trainrt {

/// Numbers as they lie in memory; texts behind their sizes.
class ByteWriter {
public:
  template <typename T> void add(const T &value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  void add(bool flag) { add(uint8_t(flag)); }
  void add(const std::string &text) {
    add(int64_t(text.size()));
    bytes += text;
  }
  void add(const Status &status) {
    add(int32_t(status.code()));
    add(status.message());
  }
  /// These two are as the reader has them, so that a message says its fields once (`visit`).
  template <typename... Values> void fields(const Values &...values) { (add(values), ...); }
  template <typename List, typename Each> void list(const List &values, const Each &each) {
    add(int64_t(values.size()));
    for (const auto &value : values)
      each(value);
  }
  std::string bytes;
};

/// What a ByteWriter of the same version wrote. Once something was not there `good` stays false and
/// counts are 0; `isDone` tells in the end. The bytes outlive it.
class ByteReader {
public:
  explicit ByteReader(const std::string &bytes) : bytes(bytes) {}

  template <typename T> void read(T &value) {
    static_assert(std::is_arithmetic_v<T>);
    if (bytes.size() - at < sizeof value) {
      good = false;
      return;
    }
    std::memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
  }
  void read(bool &flag) {
    uint8_t byte = 0;
    read(byte);
    flag = byte != 0;
  }
  /// How many of at least one byte follow.
  /// A text that is none of ours makes nobody allocate more elements than it has bytes.
  size_t readCount() {
    int64_t count = 0;
    read(count);
    good = good && count >= 0 && uint64_t(count) <= bytes.size() - at;
    return good ? size_t(count) : 0;
  }
  void read(std::string &text) {
    const size_t size = readCount();
    text = bytes.substr(at, size);
    at += size;
  }
  void read(Status &status) {
    int32_t code = 0;
    std::string message;
    read(code);
    read(message);
    status = Status(static_cast<Code>(code), std::move(message));
  }
  template <typename... Values> void fields(Values &...values) { (read(values), ...); }
  template <typename List, typename Each> void list(List &values, const Each &each) {
    values.resize(readCount());
    for (auto &value : values)
      each(value);
  }
  bool isDone() const { return good && at == bytes.size(); }

private:
  const std::string &bytes;
  size_t at = 0;
  bool good = true;
};

/// `Message`, to be read, or const and to be written: `visit(bytes, message)` says the fields of
/// either.
template <typename Given, typename Message>
concept MessageOf = std::same_as<std::remove_const_t<Given>, Message>;

} // namespace trainrt

#endif // TRAINRT_FORMAT_BYTE_TEXT_H
