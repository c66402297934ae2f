// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The wire-format walk: ModelProto.graph (7) -> GraphProto.initializer (5) -> TensorProto.raw_data
// (9). Every read is bounds checked; a length that leaves its message is reported with its byte
// offset.

#include "WireFormat.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Twine.h"

using llvm::StringRef;
using llvm::Twine;

namespace trainc::detail {
namespace {

enum WireType : unsigned { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

/// One field of a message; offsets are into the file.
struct Field {
  uint64_t number = 0;
  unsigned type = 0;
  uint64_t begin = 0;   // of the tag
  uint64_t payload = 0; // of the content, after tag and length
  uint64_t end = 0;     // one past the content
};

class Walker {
public:
  Walker(StringRef file, StrippedModel &out) : file(file), out(out) {}

  /// Everything is copied but raw_data of initializers, whose place in the file is noted.
  std::string run() {
    out.bytes.reserve(1 << 16);
    bool ok = each(0, file.size(), [&](const Field &field) {
      if (field.number != 7 || field.type != Bytes)
        return copy(field, out.bytes);
      out.hasGraph = true;
      std::string graph;
      if (!walkGraph(field, graph))
        return false;
      writeMessage(7, graph, out.bytes);
      return true;
    });
    return ok ? std::string() : error;
  }

private:
  /// The first error is the cause of those behind it.
  bool fail(const Twine &message) {
    if (error.empty())
      error = message.str();
    return false;
  }

  bool readVarint(uint64_t &pos, uint64_t end, uint64_t &value) {
    value = 0;
    // At most ten bytes.
    for (unsigned shift = 0; shift < 64 && pos < end; shift += 7) {
      auto byte = static_cast<unsigned char>(file[pos++]);
      value |= uint64_t(byte & 127) << shift;
      if (!(byte & 128))
        return true;
    }
    return fail("it ends inside a number at byte " + Twine(pos));
  }

  /// Calls `visit` for the fields of the message in [pos, end).
  bool each(uint64_t pos, uint64_t end, llvm::function_ref<bool(const Field &)> visit) {
    assert(end <= file.size() && "messages lie in the file");
    while (pos < end) {
      Field field;
      field.begin = pos;
      uint64_t tag = 0, length = 0;
      if (!readVarint(pos, end, tag))
        return false;
      field.number = tag >> 3;
      field.type = tag & 7;
      // Numbers that protobuf does not have.
      if (field.number == 0 || field.number >= (1u << 29))
        return fail("byte " + Twine(field.begin) + " starts no protobuf field");
      field.payload = pos;
      switch (field.type) {
      case Varint:
        // Its payload is the number itself, already read.
        if (!readVarint(pos, end, length))
          return false;
        length = 0;
        break;
      case Fixed64:
        length = 8;
        break;
      case Fixed32:
        length = 4;
        break;
      case Bytes:
        if (!readVarint(pos, end, length))
          return false;
        field.payload = pos;
        break;
      // Groups are long gone from the format.
      default:
        return fail("byte " + Twine(field.begin) + " starts no protobuf field");
      }
      // Compared without a sum, which might overflow.
      if (length > end - pos)
        return fail("it is truncated: the field at byte " + Twine(field.begin) + " needs " +
                    Twine(length) + " bytes, " + Twine(end - pos) + " are left");
      pos += length;
      field.end = pos;
      if (!visit(field))
        return false;
      assert(pos <= end && "checked above");
    }
    return true;
  }

  /// As it is, tag included.
  bool copy(const Field &field, std::string &to) {
    to.append(file.data() + field.begin, field.end - field.begin);
    return true;
  }

  static void writeVarint(uint64_t value, std::string &to) {
    for (; value >= 128; value >>= 7)
      to.push_back(char(value | 128));
    to.push_back(char(value));
  }

  /// Lengths change, so that they are written anew.
  static void writeMessage(uint64_t number, const std::string &content, std::string &to) {
    writeVarint(number << 3 | Bytes, to);
    writeVarint(content.size(), to);
    to += content;
  }

  bool walkGraph(const Field &graph, std::string &to) {
    return each(graph.payload, graph.end, [&](const Field &field) {
      // Graphs in attributes are copied whole: their tensors are small.
      if (field.number != 5 || field.type != Bytes)
        return copy(field, to);
      std::string tensor;
      if (!walkTensor(field, tensor))
        return false;
      writeMessage(5, tensor, to);
      return true;
    });
  }

  bool walkTensor(const Field &tensor, std::string &to) {
    RawRange range;
    bool ok = each(tensor.payload, tensor.end, [&](const Field &field) {
      if (field.number != 9 || field.type != Bytes)
        return copy(field, to);
      range.present = true;
      range.offset = field.payload;
      range.length = field.end - field.payload;
      return true;
    });
    // In the order of the initializers, one for each, with raw data or not.
    out.initializers.push_back(range);
    return ok;
  }

  StringRef file;
  StrippedModel &out;
  std::string error;
};

} // namespace

std::string stripModel(StringRef file, StrippedModel &out) { return Walker(file, out).run(); }

} // namespace trainc::detail
