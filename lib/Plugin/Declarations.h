// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The declarations in a plug-in's JSON, each a string.

#ifndef TRAINC_LIB_PLUGIN_DECLARATIONS_H
#define TRAINC_LIB_PLUGIN_DECLARATIONS_H

#include "trainc/Plugin/Plugin.h"
#include "llvm/ADT/ArrayRef.h"

namespace trainc::plugin {

/// The element types that tensors of plug-ins have.
llvm::ArrayRef<llvm::StringLiteral> elementTypes();

/// Parses "NAME: TYPES[SIZES]"; null with what is wrong with it.
std::optional<Tensor> parseTensor(llvm::StringRef text, std::string &problem);
/// Parses "NAME: int|float|ints|floats|string [= VALUE]".
std::optional<Attribute> parseAttribute(llvm::StringRef text, std::string &problem);
/// Parses an argument of a kernel of `op`.
std::optional<Argument> parseArgument(llvm::StringRef text, const Operator &op,
                                      std::string &problem);

} // namespace trainc::plugin

#endif // TRAINC_LIB_PLUGIN_DECLARATIONS_H
