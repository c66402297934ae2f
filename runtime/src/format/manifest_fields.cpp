// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "format/manifest_fields.h"

namespace trainrt {

bool parseHex64(const nlohmann::json &value, uint64_t &result) {
  if (!value.is_string())
    return false;
  const auto &text = value.get_ref<const std::string &>();
  if (text.size() != 16)
    return false;
  result = 0;
  for (char c : text) {
    // Only lower case, as hex64 writes it: one value has one spelling.
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0)
      return false;
    result = result << 4 | uint64_t(digit);
  }
  return true;
}

/// `has` before `json[key]`: the operator of a constant object needs the key to be there.
Status Fields::text(const char *key, std::string &value) const {
  if (!has(key) || !json[key].is_string())
    return badManifest("field '", at(key), "' is missing or no string");
  value = json[key].get<std::string>();
  return {};
}

Status Fields::optionalText(const char *key, std::string &value) const {
  return has(key) ? text(key, value) : Status();
}

Status Fields::flag(const char *key, bool &value) const {
  if (!has(key))
    return {};
  if (!json[key].is_boolean())
    return badManifest("field '", at(key), "' is no boolean");
  value = json[key].get<bool>();
  return {};
}

Status Fields::count(const char *key, int64_t &value) const {
  // Unsigned numbers beyond 63 bits are refused: read as signed ones they are negative.
  if (!has(key) || !json[key].is_number_integer() || json[key].get<int64_t>() < 0)
    return badManifest("field '", at(key), "' is missing or no count");
  value = json[key].get<int64_t>();
  return {};
}

Status Fields::integer(const char *key, int64_t &value) const {
  if (!has(key))
    return {};
  if (!json[key].is_number_integer())
    return badManifest("field '", at(key), "' is no integer");
  value = json[key].get<int64_t>();
  return {};
}

Status Fields::number(const char *key, double &value) const {
  if (!has(key))
    return {};
  if (!json[key].is_number())
    return badManifest("field '", at(key), "' is no number");
  value = json[key].get<double>();
  return {};
}

Status Fields::hex(const char *key, uint64_t &value) const {
  if (!has(key) || !parseHex64(json[key], value))
    return badManifest("field '", at(key), "' is missing or no checksum (16 hex digits)");
  return {};
}

Status Fields::list(const char *key, std::vector<Fields> &items) const {
  if (!has(key))
    return {};
  if (!json[key].is_array())
    return badManifest("field '", at(key), "' is no list");
  for (size_t i = 0; i < json[key].size(); ++i) {
    if (!json[key][i].is_object())
      return badManifest("field '", at(key), "[", i, "]' is no object");
    // Items keep their place in the text for messages; they refer to `json`, which outlives them.
    items.emplace_back(json[key][i], at(key) + "[" + std::to_string(i) + "]");
  }
  return {};
}

Status Fields::object(const char *key, std::optional<Fields> &value) const {
  if (!has(key))
    return {};
  if (!json[key].is_object())
    return badManifest("field '", at(key), "' is no object");
  value.emplace(json[key], at(key));
  return {};
}

Status Fields::names(const char *key, std::vector<std::string> &items) const {
  if (!has(key))
    return {};
  if (!json[key].is_array())
    return badManifest("field '", at(key), "' is no list");
  for (const nlohmann::json &name : json[key]) {
    if (!name.is_string())
      return badManifest("field '", at(key), "' holds ", name.dump(), ", which is no name");
    items.push_back(name.get<std::string>());
  }
  return {};
}

} // namespace trainrt
