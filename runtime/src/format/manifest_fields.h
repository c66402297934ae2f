// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The manifest's fields, which are untrusted: each is checked for its type, and errors name it.
#ifndef TRAINRT_FORMAT_MANIFEST_FIELDS_H
#define TRAINRT_FORMAT_MANIFEST_FIELDS_H

#include "format/status.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trainrt {

template <typename... Args> Status badManifest(const Args &...what) {
  return fail(Code::BadPackage, "manifest.json: ", what...);
}

/// A checksum as the manifest has it: 16 hexadecimal digits.
bool parseHex64(const nlohmann::json &value, uint64_t &result);

/// Typed access to the members of one object; `path` is its place in the manifest. A member that is
/// null is absent. What has no word about it here stays as it is where its member is absent.
class Fields {
public:
  Fields(const nlohmann::json &object, std::string path) : json(object), path(std::move(path)) {}

  std::string at(const char *key) const { return path.empty() ? key : path + "." + key; }
  bool has(const char *key) const { return json.contains(key) && !json[key].is_null(); }
  /// Of a member that is there.
  const nlohmann::json &raw(const char *key) const { return json[key]; }

  /// An error if it is absent.
  Status text(const char *key, std::string &value) const;
  Status optionalText(const char *key, std::string &value) const;
  Status flag(const char *key, bool &value) const;
  /// An error if it is absent.
  Status count(const char *key, int64_t &value) const;
  Status integer(const char *key, int64_t &value) const;
  Status number(const char *key, double &value) const;
  /// An error if it is absent.
  Status hex(const char *key, uint64_t &value) const;
  Status object(const char *key, std::optional<Fields> &value) const;
  /// Adds the objects of a list.
  Status list(const char *key, std::vector<Fields> &items) const;
  /// Adds the texts of a list.
  Status names(const char *key, std::vector<std::string> &items) const;

private:
  const nlohmann::json &json;
  std::string path;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_MANIFEST_FIELDS_H
