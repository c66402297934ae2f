// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one way in which the runtime and trainc-run read JSON.
#ifndef TRAINRT_FORMAT_JSON_H
#define TRAINRT_FORMAT_JSON_H

#include "format/json_depth.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace trainrt {

/// Discarded (is_discarded) where the text is no JSON or nests deeper than `maxJsonDepth`.
/// `callback` is that of nlohmann's parser.
template <typename Json>
Json parseJson(std::string_view text, const typename Json::parser_callback_t &callback = nullptr) {
  if (nestsTooDeep(text))
    return Json(Json::value_t::discarded);
  return Json::parse(text, callback, /*allow_exceptions=*/false);
}

/// What `text` is, of which parseJson made no object (or not the wanted one).
inline const char *notJsonObject(std::string_view text) {
  static_assert(maxJsonDepth == 64);
  return nestsTooDeep(text) ? "nests lists and objects more than 64 deep" : "is no JSON object";
}

} // namespace trainrt

#endif // TRAINRT_FORMAT_JSON_H
