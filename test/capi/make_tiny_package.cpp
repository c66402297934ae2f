// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the unit tests' tiny package, for the programs that see the C API only:
// make-tiny-package FILE [cuda|cuda-gemm|cuda-offload|tokens|cuda-tokens]
#include "tiny_package.h"

#include <string_view>

int main(int argc, char **argv) {
  const std::string_view kind = argc == 3 ? argv[2] : "";
  const bool tokens = kind == "tokens" || kind == "cuda-tokens";
  trainrt::test::TinyOptions options;
  options.cudaGemm = kind == "cuda-gemm";
  options.offload = kind == "cuda-offload";
  options.cuda = options.cudaGemm || options.offload || kind == "cuda" || kind == "cuda-tokens";
  if (tokens) // of the input "id": 2 pads, and as a label -100 is ignored
    options.editManifest = [](std::string &manifest) {
      const std::string name = "\"name\": \"id\"";
      manifest.insert(manifest.find(name), "\"tokens\": [{\"role\": \"embed\", \"pad\": 2}, "
                                           "{\"role\": \"label\", \"pad\": -100}], ");
    };
  if (argc != (options.cuda || tokens ? 3 : 2))
    return 2;
  trainrt::test::writeTinyPackage(argv[1], options);
  return 0;
}
