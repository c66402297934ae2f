// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading and writing the wire format; every read is within the message.
#include "io/protobuf.h"

namespace trainrt {

namespace {

/// At most ten bytes, of which the last has one bit left: what is beyond 64 bits is dropped, as
/// protobuf does.
uint64_t readVarint(std::string_view message, size_t &at) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && at < message.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(message[at++]);
    value |= uint64_t(byte & 127) << shift;
    if (!(byte & 128))
      return value;
  }
  throw MalformedMessage("it ends within a number");
}

void writeVarint(uint64_t value, std::string &to) {
  for (; value >= 128; value >>= 7)
    to.push_back(char(value | 128));
  to.push_back(char(value));
}

} // namespace

/// Fields in the order of the message, unknown ones included; groups, which no ONNX file has, are
/// refused.
void eachField(std::string_view message, const std::function<void(const Field &)> &visit) {
  for (size_t at = 0; at < message.size();) {
    Field field;
    const size_t begin = at;
    const uint64_t tag = readVarint(message, at);
    field.number = tag >> 3;
    field.type = tag & 7;
    // Field numbers have 29 bits.
    if (field.number == 0 || field.number >= (uint64_t(1) << 29))
      throw MalformedMessage("it has something that is no field");
    uint64_t length = 0;
    switch (field.type) {
    case Field::varint:
      field.value = readVarint(message, at);
      break;
    case Field::fixed64:
      length = 8;
      break;
    case Field::bytes:
      length = readVarint(message, at);
      break;
    case Field::fixed32:
      length = 4;
      break;
    default:
      throw MalformedMessage("it has a field of an unknown type");
    }
    if (length > message.size() - at)
      throw MalformedMessage("it is truncated: a field of " + std::to_string(length) +
                             " bytes has " + std::to_string(message.size() - at));
    field.content = message.substr(at, length);
    at += length;
    field.whole = message.substr(begin, at - begin);
    visit(field);
  }
}

/// Throws MalformedMessage where the last one is cut off.
std::vector<uint64_t> packedVarints(std::string_view content) {
  std::vector<uint64_t> values;
  for (size_t at = 0; at < content.size();)
    values.push_back(readVarint(content, at));
  return values;
}

/// Pieces stay whoever's they are: the message only refers to them.
void Message::append(std::string_view piece) {
  length += piece.size();
  // What was beside it in the file stays one piece.
  // Compares addresses: pieces of the original that lie behind each other are joined, so that a
  // large model stays a few pieces.
  if (!list.empty() && list.back().data() + list.back().size() == piece.data())
    list.back() = std::string_view(list.back().data(), list.back().size() + piece.size());
  else if (!piece.empty())
    list.push_back(piece);
}

/// Scraps hold what is new; a deque, whose strings stay where they are.
void Message::appendTag(uint64_t number, uint64_t contentSize) {
  std::string &tag = scraps.emplace_back();
  writeVarint(number << 3 | Field::bytes, tag);
  writeVarint(contentSize, tag);
  append(tag);
}

void Message::addVarint(uint64_t number, uint64_t value) {
  std::string &text = scraps.emplace_back();
  writeVarint(number << 3 | Field::varint, text);
  writeVarint(value, text);
  append(text);
}

void Message::addBytes(uint64_t number, std::string_view content) {
  appendTag(number, content.size());
  append(content);
}

void Message::addText(uint64_t number, std::string content) {
  addBytes(number, scraps.emplace_back(std::move(content)));
}

/// Only its pieces are taken: the message itself may go afterwards.
void Message::addMessage(uint64_t number, const Message &message) {
  appendTag(number, message.length);
  for (std::string_view piece : message.list)
    append(piece);
}

} // namespace trainrt
