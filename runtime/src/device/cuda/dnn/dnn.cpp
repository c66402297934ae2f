// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the cuDNN plugin and the libraries that it needs.

#include "device/cuda/dnn/cudnn_search.h"
#include "device/cuda/dnn/plugin_plans.h"
#include "device/cuda/driver.h"
#include "device/cuda/library_search.h"

#include <cstdlib>

namespace trainrt::cuda {

Cudnn::Cudnn(std::shared_ptr<DnnImpl> impl) : impl(std::move(impl)) {}
Cudnn::~Cudnn() = default;

Status Dnn::load(std::unique_ptr<Dnn> &dnn) {
  std::unique_ptr<Cudnn> loaded;
  TRAINRT_TRY(Cudnn::load(loaded));
  dnn = std::move(loaded);
  return {};
}

/// The plugin, the libraries that it needs, and their versions, which name stored plans.
Status Cudnn::load(std::unique_ptr<Cudnn> &dnn) {
  auto impl = std::make_shared<DnnImpl>();
  const Driver *driver = nullptr;
  TRAINRT_TRY(Driver::load(driver));

  SharedLibrary library;
  const char *named = std::getenv("TRAINRT_CUDNN_PLUGIN");
  Status found = named && *named
                     ? loadLibraryAt(named, library)
                     : loadLibrary({"libtrainrt-cudnn.so"},
                                   "the plugin for fused attention and convolutions, which is "
                                   "built beside libtrainrt.so where cuDNN's headers are; "
                                   "TRAINRT_CUDNN_PLUGIN names another place",
                                   library);
  TRAINRT_TRY(found.as(Code::DeviceError));
  TrainrtCudnnEntry entry = nullptr;
  impl->plugin = library.resolve(entry, TRAINRT_CUDNN_PLUGIN_ENTRY) ? entry() : nullptr;
  if (!impl->plugin || impl->plugin->abi != TRAINRT_CUDNN_PLUGIN_ABI)
    return fail(Code::DeviceError, library.path,
                " belongs to another version of libtrainrt; install the two together");

  // cuDNN opens these by name when it needs them; being loaded, they are found wherever they were.
  SharedLibrary cudnn, cudart, optional;
  TRAINRT_TRY(loadLibrary({"libcudart.so.13", "libcudart.so.12"},
                          "it is part of the CUDA toolkit and of the wheel nvidia-cuda-runtime",
                          cudart)
                  .as(Code::DeviceError));
  // Without these two cuDNN may still work: it says what it lacks.
  (void)loadLibrary({"libnvrtc.so.13", "libnvrtc.so.12"}, "", optional).ok();
  (void)loadLibrary({"libcublasLt.so.13", "libcublasLt.so.12"}, "", optional).ok();
  int64_t version = 0;
  std::string why, device, installed;
  TRAINRT_TRY(loadCudnn(cudnn, installed).as(Code::DeviceError));
  if (impl->plugin->open(cudnn.handle, cudart.path.c_str(), &version, sink(why)))
    return fail(Code::DeviceError, cudnn.path, ": ", why,
                ". Found: ", installed.empty() ? cudnn.path : installed,
                ". Install the wheel nvidia-cudnn-cu13 or set TRAINRT_CUDA_PATH to a folder with a "
                "newer one");
  TRAINRT_TRY(deviceIdentity(*driver, device));
  impl->identity =
      "cuDNN " + std::to_string(version) + ", " + impl->plugin->version + ", " + device;
  impl->folder = planCacheFolder();
  TRAINRT_TRY(Depthwise::load(impl->depthwise));
  dnn.reset(new Cudnn(std::move(impl)));
  return {};
}

Cudnn::Counts Cudnn::counts() const {
  std::lock_guard<std::mutex> lock(impl->mutex);
  return impl->counts;
}

} // namespace trainrt::cuda
