// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a program asks of plug-ins.

#include "trainrt/plugin.h"
#include "plan/running_external.h"

const char *trainrt_running_plugin(void) { return trainrt::runningExternal(); }
