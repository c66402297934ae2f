// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loading: the file is read first, so that nothing of another ABI runs, then its function is
// called, and what it has registered is held against what there is.

#include "trainc/Plugin/LoadedPlugins.h"

#include "SharedLibrary.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassRegistry.h"
#include "trainc/Plugin/Culprit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <dlfcn.h>

using llvm::StringRef;

/// In the programs whose symbols plug-ins find (cmake/plugin-symbols.list).
extern "C" __attribute__((visibility("default"))) const char trainc_plugin_host[];
const char trainc_plugin_host[] = TRAINC_PLUGIN_ABI;

namespace trainc::plugin {

/// Others keep pointers to entries, so none moves when one more is loaded.
static std::deque<LoadedPlugin> &plugins() {
  static std::deque<LoadedPlugin> list;
  return list;
}

const std::deque<LoadedPlugin> &getLoadedPlugins() { return plugins(); }

/// The only one: `checkDialects` refuses a second.
const LoadedPlugin *findPluginOfDialect(StringRef dialect) {
  for (const LoadedPlugin &plugin : plugins())
    if (llvm::is_contained(plugin.dialects, dialect))
      return &plugin;
  return nullptr;
}

/// By `DOMAIN::NAME`, as handlers are registered.
const LoadedPlugin *findPluginOfOperator(StringRef name) {
  for (const LoadedPlugin &plugin : plugins())
    if (plugin.registry.handlers.entries.contains(name))
      return &plugin;
  return nullptr;
}

void addPluginDialects(mlir::DialectRegistry &registry) {
  for (const LoadedPlugin &plugin : plugins())
    plugin.registry.dialects.appendTo(registry);
}

/// In the order in which plug-ins were named, and each one's in that of its calls.
void addPluginPasses(mlir::OpPassManager &pm, StringRef phase) {
  for (const LoadedPlugin &plugin : plugins())
    for (const PluginRegistry::PhasePass &pass : plugin.registry.passes)
      if (pass.phase == phase)
        pm.addPass(pass.make());
}

/// By its first bytes: the name says nothing.
bool isSharedObject(StringRef path) {
  auto file = llvm::MemoryBuffer::getFileSlice(path, /*MapSize=*/4, /*Offset=*/0);
  return file && (*file)->getBuffer() == "\x7f"
                                         "ELF";
}

namespace {

/// Behind code generation there are no ops of a dialect that could be somebody's.
constexpr StringRef kPhases[] = {"legalize", "graph", "schedule"};

/// Each step returns what is wrong, "" if nothing. They are in an order in which each may take for
/// granted what the ones before it have found.
class Loader {
public:
  Loader(StringRef path, const OwnNames &own, LoadedPlugin &plugin)
      : path(path), own(own), plugin(plugin) {}

  std::string run() {
    for (auto step : {&Loader::checkFile, &Loader::checkHost, &Loader::open,
                      &Loader::checkOperators, &Loader::checkDialects, &Loader::checkPasses})
      if (std::string problem = (this->*step)(); !problem.empty())
        return problem;
    return "";
  }

private:
  static std::string quoted(StringRef text) { return "'" + text.str() + "'"; }

  /// Without running anything of it.
  std::string checkFile() {
    auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                              /*RequiresNullTerminator=*/false);
    if (!buffer)
      return buffer.getError().message();
    SharedLibrary library;
    if (std::string problem = readSharedLibrary((*buffer)->getBuffer(), library); !problem.empty())
      return problem;
    if (library.compilerAbi.empty())
      return library.abi ? "it is the code of a plug-in in C: name the JSON that describes it"
                         : "it is no plug-in in C++: one of its files says TRAINC_PLUGIN "
                           "(trainc/Plugin/PluginRegistry.h)";
    if (library.compilerAbi != TRAINC_PLUGIN_ABI)
      return "it was built for another compiler, " + quoted(library.compilerAbi) +
             ", and this one is " + quoted(TRAINC_PLUGIN_ABI) +
             ": build it again with the headers of this one (trainc-dev)";
    return "";
  }

  /// Types of MLIR are told apart by addresses, so both have to have the same copy of it.
  std::string checkHost() {
    if (dlsym(RTLD_DEFAULT, "trainc_plugin_host"))
      return "";
    return "this trainc is one executable with LLVM inside, which plug-ins in C++ cannot share; "
           "the one of Debian's package or of a build loads them (for Python: TRAINC=FILE)";
  }

  /// From here on its code runs; all symbols at once, so that one that is missing is told now.
  std::string open() {
    void *library = dlopen(plugin.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return std::string("it cannot be loaded: ") + dlerror();
    void *symbol = dlsym(library, "trainc_plugin_register");
    if (!symbol)
      return "it has no function trainc_plugin_register, which TRAINC_PLUGIN makes";
    // Before the first call: what that one throws is told as the plug-in's.
    loading.watch(symbol);
    reinterpret_cast<void (*)(PluginRegistry &)>(symbol)(plugin.registry);
    return "";
  }

  /// Each operator has one handler, whoever was loaded first.
  std::string checkOperators() {
    for (const auto &entry : plugin.registry.handlers.entries) {
      const StringRef name = entry.getKey();
      if (!entry.getValue().handler)
        return "the operator " + quoted(name) + " has no handler";
      if (name.starts_with("ai.onnx::") || name.starts_with("trainc."))
        return "the operator " + quoted(name) +
               " is of a domain that is none of a plug-in; one of ONNX's own domain is registered "
               "without it";
      if (own.handlers.entries.contains(name))
        return "the operator " + quoted(name) +
               " is the compiler's own, which plug-ins do not replace; give the nodes another "
               "domain or name";
      if (const LoadedPlugin *other = findPluginOfOperator(name))
        return "the operator " + quoted(name) + " is also one of " + quoted(other->path) +
               "; leave one of the two plug-ins out";
    }
    return "";
  }

  std::string checkDialects() {
    for (StringRef name : plugin.registry.dialects.getDialectNames()) {
      // In every registry.
      if (name == mlir::BuiltinDialect::getDialectNamespace())
        continue;
      if (llvm::is_contained(own.dialects, name))
        return "the dialect " + quoted(name) +
               " is the compiler's own and is there already; leave it out, or rename it";
      if (const LoadedPlugin *other = findPluginOfDialect(name))
        return "the dialect " + quoted(name) + " is also one of " + quoted(other->path) +
               "; leave one of the two plug-ins out";
      plugin.dialects.push_back(name.str());
    }
    // What is wrong with one is to be its fault now, not in the middle of a compilation.
    mlir::MLIRContext context(plugin.registry.dialects, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    return "";
  }

  /// A pass may stand in several phases, under one name: that is how pipelines and reproducers
  /// write it down.
  std::string checkPasses() {
    llvm::StringSet<> registered; // in an earlier phase
    for (const PluginRegistry::PhasePass &pass : plugin.registry.passes) {
      if (!llvm::is_contained(kPhases, pass.phase))
        return quoted(pass.phase) + " is no phase that passes of plug-ins belong to; they are " +
               llvm::join(llvm::ArrayRef(kPhases), ", ");
      std::unique_ptr<mlir::Pass> made = pass.make ? pass.make() : nullptr;
      if (!made || made->getArgument().empty())
        return "a pass of the phase " + quoted(pass.phase) +
               " is null, or has no name (getArgument)";
      if (!registered.insert(made->getArgument()).second)
        continue;
      if (mlir::PassInfo::lookup(made->getArgument()))
        return "there is a pass " + quoted(made->getArgument()) +
               " already; give this one another name";
      mlir::registerPass(pass.make);
    }
    return "";
  }

  const StringRef path;
  const OwnNames &own;
  LoadedPlugin &plugin;
  LoadingPlugin loading{plugin.path};
};

} // namespace

std::optional<Fault> loadPlugin(StringRef path, const OwnNames &own) {
  llvm::SmallString<256> real;
  if (std::error_code error = llvm::sys::fs::real_path(path, real))
    return Fault{path.str(), error.message()};
  // Named twice, also by a link, it is loaded once.
  for (const LoadedPlugin &other : plugins())
    if (other.path == real.str())
      return std::nullopt;
  StringRef name = llvm::sys::path::stem(path);
  name.consume_front("lib");
  LoadedPlugin plugin;
  plugin.name = name.str();
  plugin.path = real.str().str();
  if (std::string problem = Loader(path, own, plugin).run(); !problem.empty())
    return Fault{path.str(), problem};
  // One that is refused leaves nothing behind but its code.
  plugins().push_back(std::move(plugin));
  return std::nullopt;
}

} // namespace trainc::plugin
