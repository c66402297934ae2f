// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of plug-ins on the host: shared objects out of the package (docs/plugins.md).
#ifndef TRAINRT_PLAN_EXTERNALS_H
#define TRAINRT_PLAN_EXTERNALS_H

#include "format/program.h"
#include "format/zip.h"
#include "plan/shared_object.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

struct trainrt_external_call;

namespace trainrt {

using ExternalCall = int (*)(const trainrt_external_call *call);

/// The kind of processor that this machine has, as entries of plug-ins name it: "x86-64".
extern const char *const externalProcessor;

/// The entry of the shared object that has an external function, for this machine. BadPackage where
/// there is none, with those that there are.
Status findExternal(const ZipReader &archive, const Program &program, size_t external,
                    const ZipEntry *&entry);

class ExternalFunctions {
public:
  /// Loads the plug-ins of all functions of a program that are no kernels; BadPackage names the
  /// plug-in.
  static Status load(const ZipReader &archive, const Program &program,
                     std::unique_ptr<ExternalFunctions> &result);

  /// Null of a kernel.
  ExternalCall function(uint32_t index) const { return functions[index]; }

private:
  std::map<std::string, SharedObject> objects;
  std::vector<ExternalCall> functions;
};

} // namespace trainrt

#endif // TRAINRT_PLAN_EXTERNALS_H
