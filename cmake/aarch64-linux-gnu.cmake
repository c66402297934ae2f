# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Cross compiling the runtime for AArch64 with clang, Debian's cross libraries and what `scripts/install-deps cross`
# puts into .deps/aarch64 (docs/aarch64.md):
#   cmake -S runtime -B build-aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=../cmake/aarch64-linux-gnu.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(TRAINC_DEBIAN_ARCHITECTURE arm64)
set(cross ${CMAKE_CURRENT_LIST_DIR}/../.deps/aarch64)
foreach(language C CXX)
  set(CMAKE_${language}_COMPILER_TARGET aarch64-linux-gnu)
endforeach()
set(CMAKE_C_COMPILER clang-22)
set(CMAKE_CXX_COMPILER clang++-22)
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -fuse-ld=lld-22)
endforeach()
set(CMAKE_STRIP /usr/lib/llvm-22/bin/llvm-strip)
set(CMAKE_FIND_ROOT_PATH ${cross} /usr/aarch64-linux-gnu)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${cross}/lib)
