// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion of ONNX element types, shapes and tensor contents. Sizes are computed with overflow
// checks, since a hostile file may claim any shape.

#include "ProtoConvert.h"

#include "dialects/ONNX/ONNXDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using ::onnx::TensorProto;

namespace trainc::detail {

/// Null where a type is unknown, as those that came after this was written.
Type convertElementType(int dataType, MLIRContext *context) {
  Builder b(context);
  switch (dataType) {
  case TensorProto::FLOAT:
    return b.getF32Type();
  case TensorProto::DOUBLE:
    return b.getF64Type();
  case TensorProto::FLOAT16:
    return b.getF16Type();
  case TensorProto::BFLOAT16:
    return b.getBF16Type();
  case TensorProto::BOOL:
    return b.getI1Type();
  case TensorProto::INT8:
    return b.getI8Type();
  case TensorProto::INT16:
    return b.getI16Type();
  case TensorProto::INT32:
    return b.getI32Type();
  case TensorProto::INT64:
    return b.getI64Type();
  case TensorProto::UINT8:
    return b.getIntegerType(8, false);
  case TensorProto::UINT16:
    return b.getIntegerType(16, false);
  case TensorProto::UINT32:
    return b.getIntegerType(32, false);
  case TensorProto::UINT64:
    return b.getIntegerType(64, false);
  case TensorProto::INT4:
    return b.getIntegerType(4);
  case TensorProto::UINT4:
    return b.getIntegerType(4, false);
  case TensorProto::COMPLEX64:
    return ComplexType::get(b.getF32Type());
  case TensorProto::COMPLEX128:
    return ComplexType::get(b.getF64Type());
  case TensorProto::FLOAT8E4M3FN:
    return Float8E4M3FNType::get(context);
  case TensorProto::FLOAT8E4M3FNUZ:
    return Float8E4M3FNUZType::get(context);
  case TensorProto::FLOAT8E5M2:
    return Float8E5M2Type::get(context);
  case TensorProto::FLOAT8E5M2FNUZ:
    return Float8E5M2FNUZType::get(context);
  default:
    return {};
  }
}

/// Anything that is no tensor of a known type is "any".
Type convertType(const ::onnx::TypeProto &type, MLIRContext *context, ArrayAttr &dims) {
  dims = {};
  Type any = onnx::AnyType::get(context);
  if (!type.has_tensor_type())
    return any;
  Type element = convertElementType(type.tensor_type().elem_type(), context);
  if (!element)
    return any;
  if (!type.tensor_type().has_shape())
    return UnrankedTensorType::get(element);
  SmallVector<int64_t> shape;
  SmallVector<Attribute> names;
  bool named = false;
  for (const auto &dim : type.tensor_type().shape().dim()) {
    bool known = dim.has_dim_value() && dim.dim_value() >= 0;
    // A negative size is not known, whatever the file means by it.
    shape.push_back(known ? dim.dim_value() : ShapedType::kDynamic);
    names.push_back(StringAttr::get(context, dim.has_dim_param() ? dim.dim_param() : ""));
    named |= dim.has_dim_param() && !dim.dim_param().empty();
  }
  // Null where no size has a name.
  if (named)
    dims = ArrayAttr::get(context, names);
  return RankedTensorType::get(shape, element);
}

std::string tensorLayout(const TensorProto &tensor, MLIRContext *context, TensorLayout &out) {
  Type element = convertElementType(tensor.data_type(), context);
  if (!element)
    return ("its element type (" + Twine(tensor.data_type()) + ") is not supported").str();
  SmallVector<int64_t> shape;
  uint64_t elements = 1;
  bool overflow = false, empty = false;
  // Nor may the other sizes of an empty tensor be beyond all bounds: products of some are formed,
  // too.
  // Each size by itself, then their product.
  for (int64_t dim : tensor.dims()) {
    if (dim < 0)
      return ("it has a negative dimension (" + Twine(dim) + ")").str();
    shape.push_back(dim);
    empty |= dim == 0;
    bool wrapped = false;
    // Never 0, so that an empty tensor's other sizes are multiplied, too.
    elements = llvm::SaturatingMultiply<uint64_t>(elements, std::max<int64_t>(dim, 1), &wrapped);
    overflow |= wrapped;
  }
  if (overflow || elements > (uint64_t(1) << 56))
    return "its shape has more elements than memory can hold";
  if (empty)
    elements = 0;
  // Bits, as some types have less than a byte.
  unsigned bits = 0;
  if (auto complex = dyn_cast<ComplexType>(element))
    bits = 2 * complex.getElementType().getIntOrFloatBitWidth();
  else
    // Booleans are bytes in files.
    bits = element.isInteger(1) ? 8 : element.getIntOrFloatBitWidth();
  out.type = RankedTensorType::get(shape, element);
  out.elements = elements;
  assert(bits > 0 && "a type that was converted has a width");
  out.bytes = (elements * bits + 7) / 8;
  return {};
}

/// The field that has elements says where they are, whatever else is set.
bool hasTypedData(const TensorProto &tensor) {
  return tensor.float_data_size() || tensor.int32_data_size() || tensor.int64_data_size() ||
         tensor.double_data_size() || tensor.uint64_data_size() || tensor.string_data_size();
}

/// Appends `values`, each narrowed to `width` bytes, little endian.
/// The low bytes, as hosts are little endian.
template <typename Values>
static void append(const Values &values, unsigned width, std::vector<char> &out) {
  for (auto value : values) {
    assert(width <= sizeof(value) && "values are narrowed");
    const char *bytes = reinterpret_cast<const char *>(&value);
    out.insert(out.end(), bytes, bytes + width);
  }
}

std::string typedBytes(const TensorProto &tensor, const TensorLayout &layout,
                       std::vector<char> &out) {
  out.clear();
  // Packed types are handled apart.
  unsigned width = layout.elements ? layout.bytes / layout.elements : 0;
  switch (tensor.data_type()) {
  case TensorProto::FLOAT:
  case TensorProto::COMPLEX64:
    append(tensor.float_data(), 4, out);
    break;
  case TensorProto::DOUBLE:
  case TensorProto::COMPLEX128:
    append(tensor.double_data(), 8, out);
    break;
  case TensorProto::INT64:
    append(tensor.int64_data(), 8, out);
    break;
  case TensorProto::UINT32:
  case TensorProto::UINT64:
    append(tensor.uint64_data(), width, out);
    break;
  case TensorProto::INT4:
  case TensorProto::UINT4: // already packed, two elements an entry
    append(tensor.int32_data(), 1, out);
    break;
  // Any number but 0 is true.
  case TensorProto::BOOL:
    for (int32_t value : tensor.int32_data())
      out.push_back(value != 0);
    break;
  // Types of at most 32 bits share a field.
  default:
    append(tensor.int32_data(), width, out);
  }
  // Also a shape that needs more bytes than the field has.
  if (out.size() != layout.bytes)
    return ("its data field holds " + Twine(out.size()) + " bytes, its shape needs " +
            Twine(layout.bytes))
        .str();
  return {};
}

DenseElementsAttr denseFromBytes(const TensorLayout &layout, ArrayRef<char> bytes) {
  assert(bytes.size() == layout.bytes && "sizes of files are checked where they are read");
  Type element = layout.type.getElementType();
  // MLIR packs booleans: bytes are read one by one.
  if (element.isInteger(1)) {
    SmallVector<bool> values;
    for (char byte : bytes)
      values.push_back(byte != 0);
    return DenseElementsAttr::get(layout.type, ArrayRef<bool>(values));
  }
  // Two elements a byte, the low half first.
  if (element.isIntOrFloat() && element.getIntOrFloatBitWidth() == 4) {
    std::vector<char> unpacked;
    for (uint64_t i = 0; i < layout.elements; ++i)
      unpacked.push_back((bytes[i / 2] >> (i % 2 * 4)) & 15);
    return DenseElementsAttr::getFromRawBuffer(layout.type, unpacked);
  }
  // One value repeated is stored (and printed) once.
  size_t width = layout.elements ? bytes.size() / layout.elements : 0;
  // Equal to itself, shifted by one element: all are equal.
  if (layout.elements > 1 && std::equal(bytes.begin() + width, bytes.end(), bytes.begin()))
    bytes = bytes.take_front(width);
  return DenseElementsAttr::getFromRawBuffer(layout.type, bytes);
}

std::string inlineTensor(const TensorProto &tensor, MLIRContext *context, Attribute &out) {
  // Strings have no layout.
  if (tensor.data_type() == TensorProto::STRING) {
    SmallVector<Attribute> strings;
    for (const std::string &text : tensor.string_data())
      strings.push_back(StringAttr::get(context, text));
    out = ArrayAttr::get(context, strings);
    return {};
  }
  TensorLayout layout;
  if (std::string error = tensorLayout(tensor, context, layout); !error.empty())
    return error;
  // Such a tensor is part of the graph.
  if (tensor.data_location() == TensorProto::EXTERNAL)
    return "a tensor inside a node cannot be external data";
  std::vector<char> converted;
  // Typed data win where a file has both.
  ArrayRef<char> bytes(tensor.raw_data().data(), tensor.raw_data().size());
  if (hasTypedData(tensor) || !tensor.has_raw_data()) {
    if (std::string error = typedBytes(tensor, layout, converted); !error.empty())
      return error;
    bytes = converted;
  }
  if (bytes.size() != layout.bytes)
    return ("raw_data holds " + Twine(bytes.size()) + " bytes, its shape needs " +
            Twine(layout.bytes))
        .str();
  out = denseFromBytes(layout, bytes);
  return {};
}

} // namespace trainc::detail
