// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which of several installed cuDNNs is loaded: the newest. Versions are read from the files, since
// one process cannot try two: the parts of a second cuDNN would be those of the first.
#ifndef TRAINRT_DEVICE_CUDA_CUDNN_SEARCH_H
#define TRAINRT_DEVICE_CUDA_CUDNN_SEARCH_H

#include "device/cuda/library_search.h"

#include <cstdint>

namespace trainrt::cuda {

struct FoundCudnn {
  std::string path;    ///< of libcudnn.so.9
  int64_t version = 0; ///< 91900 for 9.19.0, as cudnnGetVersion(); 0: its files do not say
};

/// The version of the cuDNN whose libcudnn.so.9 is at `path`, or 0.
int64_t cudnnVersionAt(const std::string &path);

/// All that are installed, newest first; those of one version in the order of the search.
std::vector<FoundCudnn> findCudnn();

/// Loads the newest. `others` names all that were found, with their versions, for messages.
Status loadCudnn(SharedLibrary &library, std::string &others);

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_CUDNN_SEARCH_H
