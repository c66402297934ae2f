// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What gzip packed.
#ifndef TRAINRT_IO_GZIP_H
#define TRAINRT_IO_GZIP_H

#include "format/status.h"

#include <cstddef>
#include <string>

namespace trainrt {

/// BadData where the bytes are no whole stream.
Status gunzip(const unsigned char *bytes, size_t size, std::string &unpacked);

} // namespace trainrt

#endif // TRAINRT_IO_GZIP_H
