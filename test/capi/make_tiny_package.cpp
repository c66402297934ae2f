// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the unit tests' tiny package, for the programs that see the C API only:
// make-tiny-package FILE [cuda|cuda-gemm|cuda-offload|cuda-quantized|cuda-ranks|tokens|cuda-tokens|
// rows]
#include "tiny_package.h"

#include <string_view>

int main(int argc, char **argv) {
  const std::string_view kind = argc == 3 ? argv[2] : "";
  const bool tokens = kind == "tokens" || kind == "cuda-tokens";
  trainrt::test::TinyOptions options;
  if (kind == "cuda-ranks")
    options = trainrt::test::distributedTiny();
  options.cudaGemm = kind == "cuda-gemm";
  options.offload = kind == "cuda-offload";
  if (kind == "cuda-quantized") { // every format, and adapters
    const std::string quantized = ", \"quantized\": {\"dtype\": \"f32\", \"shape\": [3, 5], ";
    options.extra = {
        {"N",
         trainrt::DType::U8,
         {8},
         quantized + "\"format\": \"nf4\", \"block\": 16, \"parts\": "
                     "{\"absmax\": \"NA\", \"nested_absmax\": \"NB\", \"nested_offset\": \"NO\"}}"},
        {"NA", trainrt::DType::U8, {1}, ", \"part_of\": \"N\""},
        {"NB", trainrt::DType::F32, {1}, ", \"part_of\": \"N\""},
        {"NO", trainrt::DType::F32, {}, ", \"part_of\": \"N\""},
        {"F",
         trainrt::DType::U8,
         {8},
         quantized + "\"format\": \"fp4\", \"block\": 16, \"parts\": "
                     "{\"absmax\": \"FA\"}}"},
        {"FA", trainrt::DType::BF16, {1}, ", \"part_of\": \"F\""},
        {"I",
         trainrt::DType::I8,
         {3, 5},
         quantized + "\"format\": \"int8\", \"parts\": {\"row_absmax\": \"IA\"}}"},
        {"IA", trainrt::DType::F32, {3}, ", \"part_of\": \"I\""},
        {"C", trainrt::DType::F16, {3, 5}, quantized + "\"format\": \"cast\"}"},
        {"A", trainrt::DType::F32, {2, 5}, ", \"trainable\": true, \"init\": {\"uniform\": 0.5}"},
        {"B", trainrt::DType::F32, {3, 2}, ", \"trainable\": true, \"init\": {\"constant\": 0}"}};
    options.editManifest = [](std::string &manifest) {
      manifest.insert(manifest.find("\"files\""), "\"lora\": {}, ");
    };
  }
  options.cuda = options.cudaGemm || options.offload || kind == "cuda-quantized" ||
                 kind == "cuda" || kind == "cuda-ranks" || kind == "cuda-tokens";
  if (tokens) // of the input "id": 2 pads, and as a label -100 is ignored
    options.editManifest = [](std::string &manifest) {
      const std::string name = "\"name\": \"id\"";
      manifest.insert(manifest.find(name), "\"tokens\": [{\"role\": \"embed\", \"pad\": 2}, "
                                           "{\"role\": \"label\", \"pad\": -100}], ");
    };
  const bool rows = kind == "rows";
  if (rows) // of "x", what is not 0 counts
    options.editManifest = [](std::string &manifest) {
      manifest.insert(manifest.find("\"name\": \"x\""),
                      "\"tokens\": [{\"role\": \"embed\", \"mask\": \"x\"}], ");
    };
  if (argc != (options.cuda || tokens || rows ? 3 : 2))
    return 2;
  trainrt::test::writeTinyPackage(argv[1], options);
  return 0;
}
