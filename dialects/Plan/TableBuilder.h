// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What commands write the tables of program.fb with.
#ifndef TRAINC_DIALECTS_PLAN_TABLEBUILDER_H
#define TRAINC_DIALECTS_PLAN_TABLEBUILDER_H

#include "dialects/Plan/PlanInterfaces.h"
#include "program_generated.h"

namespace trainc::plan {

struct TableBuilder {
  flatbuffers::FlatBufferBuilder &out;
  /// The number of a plug-in's function.
  llvm::function_ref<uint32_t(llvm::StringRef plugin, llvm::StringRef name)> externalFunction;
  /// The oldest version of program.fb that has what is in the tables.
  uint32_t &version;

  template <typename Table> CommandTable finish(flatbuffers::Offset<Table> table) const {
    return {uint8_t(trainrt::fb::OpTraits<Table>::enum_value), table.o};
  }
};

/// The type of packages for an element type; none where packages do not hold it.
std::optional<trainrt::fb::DType> getDType(mlir::Type elementType);

/// How an operand of a command is used, by the command's effects.
trainrt::fb::Access getAccess(mlir::OpOperand &operand);

} // namespace trainc::plan

#endif // TRAINC_DIALECTS_PLAN_TABLEBUILDER_H
