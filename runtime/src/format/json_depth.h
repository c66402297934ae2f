// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How deep JSON may nest. Readers and printers of it call themselves for each level, so a file of
// brackets would take the whole stack, a host application's too.
#ifndef TRAINRT_FORMAT_JSON_DEPTH_H
#define TRAINRT_FORMAT_JSON_DEPTH_H

#include <string_view>

namespace trainrt {

/// None of our formats has ten levels.
inline constexpr int maxJsonDepth = 64;

/// Whether lists and objects in `text` nest deeper than `maxJsonDepth`. To be asked before any
/// parser sees text that somebody else wrote; whether it is JSON at all, the parser says.
bool nestsTooDeep(std::string_view text);

} // namespace trainrt

#endif // TRAINRT_FORMAT_JSON_DEPTH_H
