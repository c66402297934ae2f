// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The protobuf wire format, as far as files are copied with parts replaced: the fields of a message
// in order, and messages put together from pieces that stay where they are.
#ifndef TRAINRT_IO_PROTOBUF_H
#define TRAINRT_IO_PROTOBUF_H

#include <cstdint>
#include <deque>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trainrt {

/// What is wrong with a message; the text is for a person.
class MalformedMessage : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Field {
  enum Type : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  uint64_t number = 0;
  unsigned type = 0;
  uint64_t value = 0;       ///< of a varint
  std::string_view content; ///< without tag and length
  std::string_view whole;   ///< with them

  bool is(uint64_t wanted, Type as) const { return number == wanted && type == as; }
};

/// Calls `visit` for each field in order. Throws MalformedMessage.
void eachField(std::string_view message, const std::function<void(const Field &)> &visit);

/// The numbers of a packed repeated field. Throws MalformedMessage.
std::vector<uint64_t> packedVarints(std::string_view content);

/// Owns the few bytes that a message needs beside those of the file it comes from.
using Scraps = std::deque<std::string>;

/// A message made of borrowed pieces, so that gigabytes are copied once: when it is written.
class Message {
public:
  explicit Message(Scraps &scraps) : scraps(scraps) {}

  /// A field as it is.
  void add(const Field &field) { append(field.whole); }
  void addVarint(uint64_t number, uint64_t value);
  /// `content` must outlive the message.
  void addBytes(uint64_t number, std::string_view content);
  void addText(uint64_t number, std::string content);
  void addMessage(uint64_t number, const Message &message);

  uint64_t size() const { return length; }
  const std::vector<std::string_view> &pieces() const { return list; }

private:
  void append(std::string_view piece);
  void appendTag(uint64_t number, uint64_t contentSize);

  Scraps &scraps;
  std::vector<std::string_view> list;
  uint64_t length = 0;
};

} // namespace trainrt

#endif // TRAINRT_IO_PROTOBUF_H
