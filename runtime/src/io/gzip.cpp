// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Through zlib.

#include "io/gzip.h"

#include <new>
#include <zlib.h>

namespace trainrt {

/// A stream that ends too early, or is no gzip, is BadData; what follows the stream is left out.
Status gunzip(const unsigned char *bytes, size_t size, std::string &unpacked) {
  z_stream stream{};
  constexpr int gzipFormat = 16;
  // The one reason with valid arguments is that there is no memory.
  if (inflateInit2(&stream, MAX_WBITS + gzipFormat) != Z_OK)
    throw std::bad_alloc(); // of what may be wrong, all else is in the call
  stream.next_in = const_cast<unsigned char *>(bytes);
  // 32 bits wide: callers have far less.
  stream.avail_in = static_cast<uInt>(size);
  unpacked.clear();
  int result = Z_OK;
  while (result == Z_OK) {
    // The output's size is not known before: it grows by pieces, whose unused end is cut off.
    const size_t before = unpacked.size(), room = 256 << 10;
    unpacked.resize(before + room);
    stream.next_out = reinterpret_cast<unsigned char *>(unpacked.data()) + before;
    stream.avail_out = static_cast<uInt>(room);
    // Z_BUF_ERROR, when input is missing, ends the loop as an error does.
    result = inflate(&stream, Z_NO_FLUSH);
    unpacked.resize(before + room - stream.avail_out);
  }
  inflateEnd(&stream);
  return result == Z_STREAM_END ? Status() : fail(Code::BadData, "compressed data is damaged");
}

} // namespace trainrt
