// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much a model grows when its local functions are inlined, before that is done: functions that
// call each other multiply.

#ifndef TRAINC_LIB_IMPORT_ONNX_EXPANSION_H
#define TRAINC_LIB_IMPORT_ONNX_EXPANSION_H

#include "onnx.pb.h"
#include "llvm/ADT/StringMap.h"
#include <optional>
#include <string>

namespace trainc::detail {

/// Local functions by `functionKey`.
using Functions = llvm::StringMap<const ::onnx::FunctionProto *>;
std::string functionKey(llvm::StringRef domain, llvm::StringRef name, llvm::StringRef overload);

/// The key of the function that computes the gradient of `function`, where its metadata names one.
std::optional<std::string> gradientKey(const ::onnx::FunctionProto &function);
/// An entry of a function's metadata; "" where it has none.
llvm::StringRef metadataOf(const ::onnx::FunctionProto &function, llvm::StringRef key);

struct Expansion {
  /// Nodes in the file, those of functions and subgraphs among them, and how many are taken of a
  /// file with that many: exporters that make a function of every operator stay far below.
  uint64_t fileNodes = 0, limit = 0;
  /// Bytes of names and attributes that may come of functions.
  uint64_t byteLimit = 0;
  /// Nodes after inlining, at most UINT64_MAX, and the function with the largest part in them.
  uint64_t nodes = 0, functionNodes = 0;
  std::string function;
};

/// In a time that is linear in the file's size. Functions that call themselves count once.
Expansion measureExpansion(const ::onnx::ModelProto &model, const Functions &functions);

} // namespace trainc::detail

#endif // TRAINC_LIB_IMPORT_ONNX_EXPANSION_H
