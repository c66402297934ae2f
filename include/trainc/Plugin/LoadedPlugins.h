// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plug-ins in C++ that this process has loaded: as MLIR's registry of passes, they are the
// process's.

#ifndef TRAINC_PLUGIN_LOADEDPLUGINS_H
#define TRAINC_PLUGIN_LOADEDPLUGINS_H

#include "mlir/Pass/PassManager.h"
#include "trainc/Plugin/Plugin.h"
#include "trainc/Plugin/PluginRegistry.h"
#include <deque>

namespace trainc::plugin {

struct LoadedPlugin {
  /// The file's name without "lib" and ending; the file, without links.
  std::string name, path;
  PluginRegistry registry;
  /// Names of its dialects.
  std::vector<std::string> dialects;
};

/// What the compiler itself has: plug-ins add to it, and replace none of it.
struct OwnNames {
  legalize::HandlerTable handlers;
  std::vector<std::string> dialects;
};

/// Whether a file begins as shared objects do.
bool isSharedObject(llvm::StringRef path);
/// Loads the shared object at `path`, unless it has been, and registers its passes with MLIR;
/// returns what is wrong. It stays until the process ends.
std::optional<Fault> loadPlugin(llvm::StringRef path, const OwnNames &own);

/// In the order in which they were loaded.
const std::deque<LoadedPlugin> &getLoadedPlugins();
/// Whose dialect this is, or null.
const LoadedPlugin *findPluginOfDialect(llvm::StringRef dialect);
/// Whose handler has a node of this operator, "domain::Name", or null.
const LoadedPlugin *findPluginOfOperator(llvm::StringRef name);
/// Adds the dialects of all.
void addPluginDialects(mlir::DialectRegistry &registry);
/// Adds the passes that run at the end of a phase.
void addPluginPasses(mlir::OpPassManager &pm, llvm::StringRef phase);

} // namespace trainc::plugin

#endif // TRAINC_PLUGIN_LOADEDPLUGINS_H
