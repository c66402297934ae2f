// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plug-in is an input: its faults are none of the compiler, and make no reproducer.

#include "lib/Driver/PluginFaults.h"

#include "lib/Driver/CrashGuard.h"
#include "lib/Driver/Log.h"
#include "trainc/Driver/Driver.h"
#include "trainc/Plugin/LoadedPlugins.h"
#include "trainc/Registry/Registry.h"

using namespace trainc;

/// Descriptions in JSON are the importer's, which reads them with the model.
int trainc::loadPlugins(const std::vector<std::string> &files) {
  for (const std::string &file : files) {
    if (!plugin::isSharedObject(file))
      continue;
    CrashGuard guard;
    std::optional<plugin::Fault> fault;
    if (std::string signal = guard.run([&] { fault = loadPlugin(file); }); !signal.empty())
      return tellCulprit(*plugin::takeCulprit(), "while it was loaded", signal);
    if (fault) {
      Log::error(fault->where, fault->what);
      return ExitInput;
    }
  }
  return ExitSuccess;
}

int trainc::tellCulprit(const plugin::Culprit &culprit, const std::string &where,
                        const std::string &signal) {
  if (culprit.thrown.empty())
    Log::error(culprit.path, "the plug-in has crashed " + where + " (" + signal + ")");
  else
    Log::error(culprit.path, "the plug-in has thrown " + where + ": " + culprit.thrown +
                                 "; it is to catch it, and to return failure");
  if (culprit.offset) {
    llvm::errs() << "trainc: note: the call is at 0x";
    llvm::errs().write_hex(culprit.offset);
    llvm::errs() << " of it: where it was built with -g, addr2line -Cfe FILE ADDRESS says which\n";
  }
  return ExitInput;
}
