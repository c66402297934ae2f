// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finding and loading NVIDIA's libraries at run time, and what their choices depend on. Nothing of
// CUDA is linked: a program that never opens a CUDA package needs none of it, and one that does is
// told what is missing and where it was looked for.
#ifndef TRAINRT_DEVICE_CUDA_LIBRARY_SEARCH_H
#define TRAINRT_DEVICE_CUDA_LIBRARY_SEARCH_H

#include "format/status.h"

#include <string>
#include <vector>

namespace trainrt::cuda {

struct Driver;

/// A loaded library; stays loaded until the process ends.
struct SharedLibrary {
  void *handle = nullptr;
  std::string path; ///< as it was opened; only a name if the loader's own path led to it

  void *symbol(const char *name) const;
  template <typename Function> bool resolve(Function &function, const char *name) const {
    function = reinterpret_cast<Function>(symbol(name));
    return function != nullptr;
  }
};

/// The folders that are searched before the loader's own path, in this order: of the executable,
/// its
/// ../lib and that of libtrainrt; each folder F of TRAINRT_CUDA_PATH (colons between them) with
/// F/lib64, F/lib and, where F is a Python site-packages folder, F/nvidia/*/lib; CUDA_HOME/lib64
/// and CUDA_ROOT/lib64.
std::vector<std::string> librarySearchPath();

/// Loads the first of `names` ("libcublasLt.so.13") that is found; all folders are tried for one
/// name before the next, then the loader's path, then /usr/local/cuda/lib64, then NVIDIA's wheels
/// in the Pythons of VIRTUAL_ENV, CONDA_PREFIX, PATH, ~/.local, /usr/local and /usr. NotFound with
/// the names, the folders and `hint` (what provides the library).
Status loadLibrary(const std::vector<std::string> &names, const std::string &hint,
                   SharedLibrary &library);

/// All files of this name in the same places, in the same order; of the loader's path only what can
/// be listed, LD_LIBRARY_PATH and the system's folders.
std::vector<std::string> findLibraries(const std::string &name);

/// Loads the library at `path`.
Status loadLibraryAt(const std::string &path, SharedLibrary &library);

/// "NVIDIA H200, 132 SMs": the current device as far as libraries' choices depend on it.
Status deviceIdentity(const Driver &driver, std::string &identity);

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_LIBRARY_SEARCH_H
