// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types, shapes and tensor contents: from protobuf messages to MLIR types and dense attributes.
// Functions that can fail return an error text, empty on success.

#ifndef TRAINC_LIB_IMPORT_ONNX_PROTOCONVERT_H
#define TRAINC_LIB_IMPORT_ONNX_PROTOCONVERT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "onnx.pb.h"
#include <cstdint>
#include <string>
#include <vector>

namespace trainc::detail {

/// The MLIR type of a TensorProto.DataType; null for strings and unknown numbers. Signed integers
/// and bool are signless, unsigned ones are ui8 ... ui64.
mlir::Type convertElementType(int dataType, mlir::MLIRContext *context);

/// The type of a value: a (ranked or unranked) tensor, or !onnx.any. `dims` receives an array of
/// the axes' names if any axis has one, else null.
mlir::Type convertType(const ::onnx::TypeProto &type, mlir::MLIRContext *context,
                       mlir::ArrayAttr &dims);

/// Type and size in bytes (as stored: 4-bit elements are packed) of a tensor.
struct TensorLayout {
  mlir::RankedTensorType type;
  uint64_t elements = 0;
  uint64_t bytes = 0;
};
std::string tensorLayout(const ::onnx::TensorProto &tensor, mlir::MLIRContext *context,
                         TensorLayout &out);

/// True if the elements are in one of the typed fields (float_data, int32_data, ...).
bool hasTypedData(const ::onnx::TensorProto &tensor);
/// Converts the typed field into the bytes that raw_data would hold.
std::string typedBytes(const ::onnx::TensorProto &tensor, const TensorLayout &layout,
                       std::vector<char> &out);

/// A dense attribute from raw bytes; their number was checked to be `layout.bytes`.
mlir::DenseElementsAttr denseFromBytes(const TensorLayout &layout, llvm::ArrayRef<char> bytes);

/// The contents of a tensor that is inside a node (never external data).
std::string inlineTensor(const ::onnx::TensorProto &tensor, mlir::MLIRContext *context,
                         mlir::Attribute &out);

} // namespace trainc::detail

#endif // TRAINC_LIB_IMPORT_ONNX_PROTOCONVERT_H
