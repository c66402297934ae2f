// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fields of tensorflow/core/util/event.proto and framework/summary.proto that numbers need.
#include "cli/log/event_file.h"

#include <array>
#include <cstring>

namespace trainrt::run {

namespace {

/// Of this machine, which is little-endian, as the format is.
template <typename T> std::string bytesOf(T value) {
  std::string text(sizeof value, '\0');
  std::memcpy(text.data(), &value, sizeof value);
  return text;
}

/// Seven bits a byte, the lowest first; all but the last have the top bit set.
std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 128; value >>= 7)
    text += char(value | 128);
  return text + char(value);
}

enum WireType { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

std::string field(int number, WireType type, const std::string &value) {
  const std::string key = varint(uint64_t(number) << 3 | type);
  return type == Bytes ? key + varint(value.size()) + value : key + value;
}

/// 1 is the time in seconds since 1970, 2 the step; `what` is a field already.
std::string event(double time, int64_t step, const std::string &what) {
  return field(1, Fixed64, bytesOf(time)) + field(2, Varint, varint(uint64_t(step))) + what;
}

/// So that checksums of checksums are no constants.
std::string masked(const std::string &text) {
  const uint32_t crc = crc32c(text);
  return bytesOf(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

} // namespace

/// Castagnoli's polynomial, its bits reversed, since the lowest bit goes first.
uint32_t crc32c(const std::string &text) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> result{};
    for (uint32_t i = 0; i < 256; ++i) {
      result[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        result[i] = result[i] >> 1 ^ (result[i] & 1 ? 0x82f63b78u : 0);
    }
    return result;
  }();
  uint32_t crc = ~0u;
  for (unsigned char byte : text)
    crc = table[(crc ^ byte) & 255] ^ crc >> 8;
  return ~crc;
}

/// The length has a checksum of its own, so that a reader trusts it before it reads so far.
std::string eventRecord(const std::string &message) {
  const std::string length = bytesOf(uint64_t(message.size()));
  return length + masked(length) + message + masked(message);
}

std::string versionEvent(double time) { return event(time, 0, field(3, Bytes, "brain.Event:2")); }

std::string restartEvent(double time, int64_t step) {
  constexpr uint64_t start = 1; // SessionLog.START
  return event(time, step, field(7, Bytes, field(1, Varint, varint(start))));
}

/// All values of a step in one event. They are f32 there, by the format.
std::string scalarEvent(double time, int64_t step,
                        const std::vector<std::pair<std::string, double>> &values) {
  std::string summary;
  for (const auto &[name, value] : values)
    summary += field(1, Bytes,
                     field(1, Bytes, name) + field(2, Fixed32, bytesOf(static_cast<float>(value))));
  return event(time, step, field(5, Bytes, summary));
}

} // namespace trainrt::run
