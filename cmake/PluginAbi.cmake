# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Writes OUTPUT, which defines TRAINC_PLUGIN_ABI: the text ABI and a hash of FILES in SOURCE.
set(text)
foreach(file ${FILES})
  file(SHA256 ${SOURCE}/${file} hash)
  string(APPEND text "${file} ${hash}\n")
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 12 hash)
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// By which a plug-in and the program that loads it know that they fit; made by cmake/PluginAbi.cmake.
#ifndef TRAINC_PLUGIN_ABI
#define TRAINC_PLUGIN_ABI "@ABI@, headers @hash@"
#endif
]])
