// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much memory the system and the process's control groups can still give.
#ifndef TRAINRT_IO_FREE_MEMORY_H
#define TRAINRT_IO_FREE_MEMORY_H

#include <cstdint>
#include <string>

namespace trainrt {

/// Bytes without swapping, what the system can drop from its caches among them; -1 where it does
/// not tell. `root`: of the file system, for tests.
int64_t freeHostMemory(const std::string &root = "");

} // namespace trainrt

#endif // TRAINRT_IO_FREE_MEMORY_H
