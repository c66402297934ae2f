// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plug-in is for a kind of processor, not for one of its levels.

#include "plan/externals.h"
#include "plan/running_external.h"
#include "trainrt/plugin.h"

namespace trainrt {

#if defined(__aarch64__)
const char *const externalProcessor = "aarch64";
#else
const char *const externalProcessor = "x86-64";
#endif

Status findExternal(const ZipReader &archive, const Program &program, size_t external,
                    const ZipEntry *&entry) {
  const std::string prefix = "plugins/" + program.externals[external].plugin + ".";
  entry = archive.find(prefix + externalProcessor + ".so");
  if (entry)
    return {};
  std::string others;
  for (const ZipEntry &other : archive.entries())
    if (other.name.starts_with(prefix) && other.name.ends_with(".so"))
      others += (others.empty() ? "" : ", ") +
                other.name.substr(prefix.size(), other.name.size() - prefix.size() - 3);
  if (others.empty())
    return fail(Code::BadPackage, "entry '", prefix, externalProcessor, ".so', the code of ",
                pluginText(program, external), ", is missing: compile the model again");
  return fail(Code::BadPackage, pluginText(program, external), " is for ", others, "; this CPU is ",
              externalProcessor, ": compile with a plug-in that has a library for it");
}

Status ExternalFunctions::load(const ZipReader &archive, const Program &program,
                               std::unique_ptr<ExternalFunctions> &result) {
  auto loaded = std::make_unique<ExternalFunctions>();
  const std::vector<bool> launched = launchedExternals(program);
  for (const Function &function : program.functions)
    for (const Command &command : function.commands)
      if (const auto *external = std::get_if<External>(&command.op);
          external && !external->launched && launched[external->function])
        return fail(Code::BadPackage, "'", program.externals[external->function].name,
                    "' of the plug-in '", program.externals[external->function].plugin,
                    "' is launched as a kernel and called as a function in C: give one of them "
                    "another name");
  for (size_t i = 0; i < launched.size(); ++i) {
    if (launched[i]) {
      loaded->functions.push_back(nullptr);
      continue;
    }
    const ExternalFunction &function = program.externals[i];
    auto [at, isNew] = loaded->objects.try_emplace(function.plugin);
    SharedObject &object = at->second;
    const std::string where = pluginText(program, i) + " ";
    if (isNew) {
      const ZipEntry *entry = nullptr;
      TRAINRT_TRY(findExternal(archive, program, i, entry));
      // Its constructors run, and may end the process as its functions may.
      const std::string what = where + "while it was loaded";
      const RunningExternal running(what.c_str());
      TRAINRT_TRY(object.load(archive.data(*entry), entry->size).within(where));
      auto *abi = static_cast<const uint32_t *>(object.symbol("trainrt_plugin_abi"));
      if (!abi || *abi != TRAINRT_PLUGIN_ABI)
        return fail(Code::BadPackage, where, "is of version ", abi ? *abi : 0,
                    " of trainrt/plugin.h; this runtime calls version ", TRAINRT_PLUGIN_ABI,
                    ": build it with this runtime's header, and compile the model again");
    }
    void *symbol = object.symbol(function.name);
    if (!symbol)
      return fail(Code::BadPackage, where, "has no function '", function.name, "'");
    loaded->functions.push_back(reinterpret_cast<ExternalCall>(symbol));
  }
  result = std::move(loaded);
  return {};
}

} // namespace trainrt
