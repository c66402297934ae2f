// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Choosing among a package's kernels: a cubin runs on its own major version from its minor version
// on; architectures with a letter ("sm_90a") on just that version; PTX on everything newer.

#include "device/cuda/kernels.h"
#include "device/cuda/library_search.h"
#include "format/kernel_marks.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <string_view>

namespace trainrt::cuda {

namespace {

struct Architecture {
  int number = 0; ///< 90
  bool exact = false;
};

/// Of "90a-0.cubin" or "90\n".
Architecture parseArchitecture(std::string_view text) {
  Architecture result;
  size_t i = 0;
  for (; i < text.size() && i < 4 && text[i] >= '0' && text[i] <= '9'; ++i)
    result.number = result.number * 10 + (text[i] - '0');
  // A letter behind the number.
  result.exact = i < text.size() && text[i] >= 'a' && text[i] <= 'z';
  return result;
}

bool runsOn(Architecture architecture, const Context &context) {
  if (architecture.exact)
    return architecture.number == context.capability();
  return architecture.number / 10 == context.capabilityMajor() &&
         architecture.number <= context.capability();
}

/// What the PTX text was made for; 0 where it does not say.
Architecture targetOf(std::string_view ptx) {
  constexpr std::string_view directive = ".target sm_";
  // The directive stands in the head of the text.
  size_t at = ptx.substr(0, 4096).find(directive);
  return at == std::string_view::npos ? Architecture{}
                                      : parseArchitecture(ptx.substr(at + directive.size()));
}

/// Of the entries that begin with a prefix: ", but for sm_80, sm_89 (PTX)"; "" where there are
/// none.
std::string listArchitectures(const Package &package, const std::string &prefix) {
  std::string text;
  for (const ZipEntry &entry : package.zip().entries()) {
    if (!entry.name.starts_with(prefix))
      continue;
    std::string name = entry.name.substr(prefix.size());
    if (name.ends_with(".cubin"))
      name.resize(name.size() - std::string_view(".cubin").size());
    else if (name == "ptx")
      name = "sm_" +
             std::to_string(
                 targetOf({reinterpret_cast<const char *>(package.zip().data(entry)), entry.size})
                     .number) +
             " (PTX)";
    else
      continue;
    text += (text.empty() ? ", but for " : ", ") + name;
  }
  return text;
}

/// Whether a kernel waits by itself for what is in front of it: a symbol beside it says so, in a
/// cubin's names or in PTX.
bool waitsByItself(const std::string &image, const std::string &kernel) {
  const char *early = std::getenv("TRAINRT_EARLY_KERNELS");
  const std::string mark = kernelWaitsMark + kernel;
  return !(early && std::string_view(early) == "0") &&
         (image.find(mark + '\0') != std::string::npos ||
          image.find(mark + ';') != std::string::npos);
}

} // namespace

/// The best that runs here of the entries that begin with a prefix, all cubins of it; else PTX.
/// `architecture` is what was loaded; 0 where nothing was.
Status Kernels::loadModules(const Package &package, const std::string &cubinPrefix,
                            const std::string &ptxName, int &architecture) {
  Architecture best;
  architecture = 0;
  for (const ZipEntry &entry : package.zip().entries()) {
    if (!entry.name.starts_with(cubinPrefix))
      continue;
    Architecture found = parseArchitecture(entry.name.substr(cubinPrefix.size()));
    // An exact one goes over others of the same number.
    if (runsOn(found, context) && (found.number > best.number || found.exact))
      best = found;
  }
  for (const ZipEntry &entry : package.zip().entries())
    if (best.number && entry.name.starts_with(cubinPrefix)) {
      Architecture found = parseArchitecture(entry.name.substr(cubinPrefix.size()));
      if (found.number != best.number || found.exact != best.exact)
        continue;
      TRAINRT_TRY(loadModule(package, entry));
      architecture = best.number;
    }
  // PTX only where no cubin runs: it is compiled while loading.
  if (const ZipEntry *ptx = package.zip().find(ptxName); !architecture && ptx) {
    std::string_view text(reinterpret_cast<const char *>(package.zip().data(*ptx)), ptx->size);
    Architecture target = targetOf(text);
    if (target.number && !target.exact && target.number <= context.capability()) {
      TRAINRT_TRY(loadModule(package, *ptx));
      architecture = target.number;
    }
  }
  return {};
}

/// Among the modules from `firstModule` on; without a handle where none has it.
Status Kernels::find(const std::string &name, size_t firstModule, Function &function) {
  const Driver &driver = context.driver();
  // A cubin has a section for each of its kernels. Asking a module for a kernel of another one is
  // an error that debugging tools report.
  const std::string section = std::string(".text.") + name + '\0';
  // Twice: by the section that names it, then by asking every module.
  for (bool bySection : {true, false})
    for (size_t i = firstModule; i < modules.size(); ++i)
      if (!function.handle && (!bySection || modules[i].image.find(section) != std::string::npos)) {
        driver.cuModuleGetFunction(&function.handle, modules[i].handle, name.c_str());
        function.waits = function.handle && waitsByItself(modules[i].image, name);
      }
  if (!function.handle)
    return {};
  // The query also makes the driver load a function that it would load when it is first launched,
  // which must not be while a graph is captured.
  return driver.check(driver.cuFuncGetAttribute(&function.maxThreads,
                                                CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                                function.handle),
                      ("cannot load kernel '" + name + "'").c_str());
}

/// All kernels of the program, in its order, or an error. Nothing is loaded later.
Status Kernels::load(const Context &context, const Package &package,
                     std::unique_ptr<Kernels> &kernels) {
  std::unique_ptr<Kernels> result(new Kernels(context));
  const Program &program = package.program();
  int architecture = 0;
  TRAINRT_TRY(result->loadModules(package, "kernels/cuda-sm_", "kernels/cuda.ptx", architecture));
  // A program without kernels needs none.
  if (!architecture && !program.kernels.empty())
    return fail(Code::BadPackage, "package '", package.path(), "' was compiled for ",
                package.target(), ", which ", context.name(), " of architecture sm_",
                context.capability(), " does not run; compile it with --target cuda:sm_",
                context.capability());
  // In the program's order: the number of a kernel there is its place in `functions`.
  for (const KernelDecl &kernel : program.kernels) {
    Function function;
    TRAINRT_TRY(result->find(kernel.name, 0, function));
    if (!function.handle)
      return fail(Code::BadPackage, "package '", package.path(), "': its kernels for sm_",
                  architecture, " lack '", kernel.name, "'");
    result->functions.push_back(function);
  }
  TRAINRT_TRY(result->loadExternals(package));
  // Only the search has read them.
  for (Module &module : result->modules)
    module.image = {};
  TRAINRT_TRY(result->readChoices(package));
  kernels = std::move(result);
  return {};
}

/// Plug-ins have modules of their own, whose kernels may be called as others'.
Status Kernels::loadExternals(const Package &package) {
  const std::vector<ExternalFunction> &all = package.program().externals;
  const std::vector<bool> launched = launchedExternals(package.program());
  TRAINRT_TRY(package.externals(calls));
  externals.resize(all.size());
  std::map<std::string, std::pair<size_t, int>> loaded;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!launched[i])
      continue;
    const std::string &plugin = all[i].plugin;
    auto [at, isNew] = loaded.try_emplace(plugin, modules.size(), 0);
    auto &[firstModule, architecture] = at->second;
    if (isNew)
      TRAINRT_TRY(loadModules(package, "plugins/" + plugin + ".sm_", "plugins/" + plugin + ".ptx",
                              architecture));
    if (!architecture)
      return fail(Code::BadPackage, "package '", package.path(),
                  "': ", pluginText(package.program(), i), " has no code that ", context.name(),
                  " of architecture sm_", context.capability(), " runs",
                  listArchitectures(package, "plugins/" + plugin + "."),
                  "; compile with a plug-in that has PTX or a cubin for it");
    TRAINRT_TRY(find(all[i].name, firstModule, externals[i]));
    if (!externals[i].handle)
      return fail(Code::BadPackage, "package '", package.path(),
                  "': ", pluginText(package.program(), i), " has no kernel '", all[i].name,
                  "' (of C++ it is extern \"C\")");
  }
  return {};
}

Status Kernels::readChoices(const Package &package) {
  std::string device;
  TRAINRT_TRY(deviceIdentity(context.driver(), device));
  machineName = "kernels, " + device;
  auto own = package.tuning().find(machineName);
  if (own == package.tuning().end())
    return {};
  const std::vector<KernelDecl> &all = package.program().kernels;
  for (const auto &[key, name] : own->second) {
    // A name that is not in the package.
    auto kernel = std::find_if(all.begin(), all.end(),
                               [&](const KernelDecl &decl) { return decl.name == name; });
    if (kernel == all.end())
      return fail(Code::BadPackage, "entry '", tuningEntry, "': there is no kernel '", name, "'");
    // Whether it is one of the launch's variants is known when that is prepared.
    choices[key] = uint32_t(kernel - all.begin());
  }
  return {};
}

/// By the key of a launch; the compiled order where nothing was tuned.
uint32_t Kernels::chosen(const std::string &key, uint32_t otherwise) const {
  auto found = choices.find(key);
  return found == choices.end() ? otherwise : found->second;
}

Status Kernels::loadModule(const Package &package, const ZipEntry &entry) {
  const Driver &driver = context.driver();
  // PTX must end with a zero; cubins are copied, too, so that they are aligned.
  std::string image(reinterpret_cast<const char *>(package.zip().data(entry)), entry.size);
  char log[4096] = "";
  // The driver's reason, such as a register that PTX lacks.
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log - 1)};
  CUmodule module = nullptr;
  CUresult result = driver.cuModuleLoadDataEx(&module, image.c_str(), 2, options, values);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    return driver.error(result, "no memory on " + context.name() + " for the kernels");
  if (result != CUDA_SUCCESS)
    return fail(Code::BadPackage, "package '", package.path(), "', entry '", entry.name,
                "': ", context.name(), " cannot load it: ", driver.describe(result),
                Lines{log[0] ? std::string("\n") + log : ""});
  assert(module && "loaded");
  modules.push_back({module, std::move(image)});
  return {};
}

/// No run is under way any more.
Kernels::~Kernels() {
  for (const Module &module : modules)
    context.driver().cuModuleUnload(module.handle);
}

/// Before a launch with so much; only beyond the usual limit has the driver to be asked.
Status Kernels::allowShared(Function &function, int64_t bytes) {
  if (bytes <= function.sharedLimit)
    return {};
  TRAINRT_TRY(context.driver().check(
      context.driver().cuFuncSetAttribute(
          function.handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, int(bytes)),
      "a kernel's shared memory is more than the GPU has"));
  // Raised only: launches of other sizes may be under way.
  function.sharedLimit = bytes;
  return {};
}

} // namespace trainrt::cuda
