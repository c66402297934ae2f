// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A .npy header is the text of a Python dict with three known keys; the small parser below reads
// just that form, which is what numpy writes and requires.

#include "io/npz.h"
#include "format/hash.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <zlib.h>

namespace trainrt {

namespace {

/// A cursor over the header's text.
struct Cursor {
  std::string_view text;
  void skipSpace() {
    while (!text.empty() && (text[0] == ' ' || text[0] == '\n' || text[0] == '\t'))
      text.remove_prefix(1);
  }
  bool eat(std::string_view token) {
    skipSpace();
    if (!text.starts_with(token))
      return false;
    text.remove_prefix(token.size());
    return true;
  }
  bool string(std::string_view &value) {
    skipSpace();
    if (text.empty() || (text[0] != '\'' && text[0] != '"'))
      return false;
    size_t end = text.find(text[0], 1);
    if (end == text.npos)
      return false;
    value = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    return true;
  }
  /// Negative numbers and those beyond 63 bits are refused: they would be sizes.
  bool number(int64_t &value) {
    skipSpace();
    size_t digits = 0;
    value = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text[digits] - '0', &value))
        return false;
    text.remove_prefix(digits);
    return digits != 0;
  }
};

Status parseType(std::string_view descr, DType &dtype) {
  struct Known {
    const char *name;
    DType dtype;
  };
  // Types by kind and bytes, as numpy has them; complex numbers, strings and objects are none.
  static constexpr Known known[] = {{"f4", DType::F32}, {"f8", DType::F64}, {"f2", DType::F16},
                                    {"i1", DType::I8},  {"i2", DType::I16}, {"i4", DType::I32},
                                    {"i8", DType::I64}, {"u1", DType::U8},  {"u2", DType::U16},
                                    {"u4", DType::U32}, {"u8", DType::U64}, {"b1", DType::Bool}};
  std::string_view base = descr.size() > 1 ? descr.substr(1) : "";
  for (const Known &candidate : known)
    if (base == candidate.name) {
      dtype = candidate.dtype;
      // '<', '=' and '|' are this machine's order, or have none.
      if (descr[0] == '>' && sizeOf(dtype) > 1)
        return fail(Code::BadData, "dtype '", descr, "' is big endian; save it with .astype('<",
                    base, "')");
      return {};
    }
  return fail(Code::BadData, "dtype '", descr,
              "' is not supported; save it as a number type, for instance with "
              ".astype(numpy.float32) or .astype(numpy.int64)");
}

} // namespace

/// The dict may have its keys in any order, each once; anything else is refused, since it might
/// mean something.
Status parseNpyHeader(const unsigned char *data, uint64_t size, ArrayView &array,
                      uint64_t &dataOffset) {
  if (size < 10 || std::memcmp(data, "\x93NUMPY", 6) != 0)
    return fail(Code::BadData, "not a .npy file (no numpy magic)");
  unsigned major = data[6];
  if (major < 1 || major > 3)
    return fail(Code::BadData, "npy format version ", major, " is not supported");
  uint64_t lengthSize = major == 1 ? 2 : 4, length = 0;
  if (size < 8 + lengthSize)
    return fail(Code::BadData, "the npy header is truncated");
  std::memcpy(&length, data + 8, lengthSize);
  if (length > size - 8 - lengthSize)
    return fail(Code::BadData, "the npy header is truncated");
  dataOffset = 8 + lengthSize + length;

  Cursor cursor{{reinterpret_cast<const char *>(data) + 8 + lengthSize, length}};
  auto bad = [] { return fail(Code::BadData, "the npy header is damaged"); };
  bool haveType = false, haveOrder = false, haveShape = false, fortran = false;
  // Kept until the dict has been read: a damaged header is told as such first.
  Status typeStatus;
  array.shape.clear();
  if (!cursor.eat("{"))
    return bad();
  while (!cursor.eat("}")) {
    std::string_view key;
    if (!cursor.string(key) || !cursor.eat(":"))
      return bad();
    if (key == "descr" && !haveType) {
      haveType = true;
      std::string_view descr;
      if (!cursor.string(descr))
        return fail(Code::BadData, "structured dtypes are not supported; save each field as an "
                                   "array of its own");
      typeStatus = parseType(descr, array.dtype);
    } else if (key == "fortran_order" && !haveOrder) {
      haveOrder = true;
      fortran = cursor.eat("True");
      if (!fortran && !cursor.eat("False"))
        return bad();
    } else if (key == "shape" && !haveShape) {
      haveShape = true;
      if (!cursor.eat("("))
        return bad();
      while (!cursor.eat(")")) {
        // 64 axes bound what a hostile header allocates; numpy has at most 64.
        if (array.shape.size() == 64 || !cursor.number(array.shape.emplace_back()))
          return bad();
        // Python 2 wrote long integers so.
        cursor.eat("L");
        if (!cursor.eat(",") && !cursor.text.starts_with(")"))
          return bad();
      }
    } else {
      return bad();
    }
    if (!cursor.eat(",") && (cursor.skipSpace(), !cursor.text.starts_with("}")))
      return bad();
  }
  if (!haveType || !haveOrder || !haveShape)
    return bad();
  TRAINRT_TRY(typeStatus);
  // With one axis both orders are the same.
  if (fortran && array.shape.size() > 1)
    return fail(Code::BadData,
                "it is in Fortran order; save it with numpy.ascontiguousarray(array)");
  if (!countBytes(array.dtype, array.shape.data(), array.shape.size(), array.bytes))
    return fail(Code::BadData, "shape ", shapeText(array.shape), " is too large");
  // The dataOffset is within the size: it was compared above.
  if (static_cast<uint64_t>(array.bytes) > size - dataOffset)
    return fail(Code::BadData, "shape ", shapeText(array.shape), " of ", nameOf(array.dtype),
                " needs ", array.bytes, " bytes, ", size - dataOffset, " are there (truncated?)");
  array.data = data + dataOffset;
  return {};
}

/// Nothing is unpacked or checked yet. Names are without the ending that numpy gives them.
Status NpzReader::open(std::shared_ptr<const MappedFile> file, NpzReader &reader) {
  NpzReader result;
  TRAINRT_TRY(ZipReader::open(std::move(file), result.zip));
  for (const ZipEntry &entry : result.zip.entries()) {
    std::string name = entry.name;
    if (name.ends_with(".npy"))
      name.resize(name.size() - 4);
    result.names.push_back(std::move(name));
  }
  result.unpacked.resize(result.names.size());
  result.checked.resize(result.names.size());
  reader = std::move(result);
  return {};
}

/// Checks and unpacks an array at its first use only. The result stays valid as long as the reader.
Status NpzReader::array(size_t index, ArrayView &array) {
  const ZipEntry &entry = zip.entries()[index];
  auto bad = [&](Code code, const auto &...what) {
    return fail(code, "'", zip.mapping()->path(), "': array '", names[index], "': ", what...);
  };
  const unsigned char *bytes = zip.data(entry);
  if (!checked[index]) {
    if (entry.method == 8) {
      // 1032:1 is deflate's limit; a larger claim is a damaged or hostile file.
      if (entry.size / 1032 > entry.packedSize + 1)
        return bad(Code::BadData, "its unpacked size of ", entry.size, " bytes is impossible");
      // One byte more than it should have, so that too much output is seen; sizes come from the
      // file, hence nothrow.
      std::unique_ptr<unsigned char[]> buffer(new (std::nothrow) unsigned char[entry.size + 1]);
      if (!buffer)
        return bad(Code::OutOfMemory, "no memory to unpack its ", entry.size, " bytes");
      z_stream stream{};
      if (inflateInit2(&stream, -15) != Z_OK)
        throw std::bad_alloc(); // of what may be wrong, all else is in the call
      uint64_t in = 0, out = 0;
      // Input and output in pieces of at most 1 GiB: zlib counts in 32 bits.
      int result = Z_OK;
      while (result == Z_OK) {
        uInt inChunk = static_cast<uInt>(std::min<uint64_t>(entry.packedSize - in, 1u << 30));
        uInt outChunk = static_cast<uInt>(std::min<uint64_t>(entry.size + 1 - out, 1u << 30));
        stream.next_in = const_cast<unsigned char *>(bytes) + in;
        stream.avail_in = inChunk;
        stream.next_out = buffer.get() + out;
        stream.avail_out = outChunk;
        result = inflate(&stream, Z_NO_FLUSH);
        uint64_t read = inChunk - stream.avail_in, wrote = outChunk - stream.avail_out;
        in += read;
        out += wrote;
        // No progress: the input ends too early, or there is more output than stated.
        if (!read && !wrote)
          break;
      }
      inflateEnd(&stream);
      // All of the three: the stream is whole, as long as stated, and has the right bytes.
      if (result != Z_STREAM_END || out != entry.size ||
          trainrt::crc32(buffer.get(), out) != entry.crc)
        return bad(Code::BadData, "its compressed data is damaged");
      unpacked[index] = std::move(buffer);
    } else if (entry.method == 0) {
      if (trainrt::crc32(bytes, entry.size) != entry.crc)
        return bad(Code::BadData, "it is damaged (its CRC-32 differs)");
    } else {
      return bad(Code::BadData, "zip compression method ", entry.method,
                 " is not supported; save it with numpy.savez");
    }
    checked[index] = true;
  }
  // Kept as long as the reader; what was stored plainly is read where it is mapped.
  if (unpacked[index])
    bytes = unpacked[index].get();
  uint64_t offset;
  Status status = parseNpyHeader(bytes, entry.size, array, offset);
  return status.ok() ? status : bad(status.code(), status.message());
}

} // namespace trainrt
