// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which plug-in was running when the process crashed, threw or was ended.

#ifndef TRAINC_PLUGIN_CULPRIT_H
#define TRAINC_PLUGIN_CULPRIT_H

#include <cstdint>
#include <optional>
#include <string>

namespace trainc::plugin {

struct Culprit {
  std::string path;
  /// Of its innermost call, as addr2line takes it; 0 where it was being loaded.
  uint64_t offset = 0;
  /// What was thrown, "" if nothing was.
  std::string thrown;
};

/// While it lives, whatever happens is the fault of the plug-in at `path`; after `watch` also what
/// happens later with its code on the stack.
class LoadingPlugin {
public:
  explicit LoadingPlugin(const std::string &path);
  ~LoadingPlugin();
  LoadingPlugin(const LoadingPlugin &) = delete;
  LoadingPlugin &operator=(const LoadingPlugin &) = delete;

  /// `symbol` is an address in its code.
  void watch(const void *symbol);
};

/// Looks for plug-ins on the stack: for handlers of signals.
void noteCulprit();
/// What noteCulprit has found since this was last called.
std::optional<Culprit> takeCulprit();

} // namespace trainc::plugin

#endif // TRAINC_PLUGIN_CULPRIT_H
