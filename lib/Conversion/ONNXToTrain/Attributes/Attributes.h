// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a node's attributes are ones that its operator has, before its handler reads them: a
// misspelt one would be as if it were absent, and train another model than the file's.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_ATTRIBUTES_ATTRIBUTES_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_ATTRIBUTES_ATTRIBUTES_H

#include "dialects/ONNX/ONNXDialect.h"
#include <string>

namespace trainc::legalize {

/// What is wrong with the attributes of a node of the operator `name` ("Conv",
/// "com.microsoft::Gelu"), or "": one that the node's opset does not have or has of another type, a
/// required one that is absent, a value that ONNX does not know. Names and types are asked of
/// operators that ONNX or ONNX Runtime's inference describe, values of every one. What depends on
/// the node's inputs (the length of a list of axes) is its handler's to ask.
std::string attributeProblem(onnx::NodeOp node, llvm::StringRef name);

/// "" where a node has no more inputs than its operator: those would be as if they were absent.
std::string inputCountProblem(onnx::NodeOp node, llvm::StringRef name);

/// The same as `attributeProblem` of one attribute's value, by its name and its operator's without
/// the domain.
std::string valueProblem(llvm::StringRef op, llvm::StringRef name, mlir::Attribute value);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_ATTRIBUTES_ATTRIBUTES_H
