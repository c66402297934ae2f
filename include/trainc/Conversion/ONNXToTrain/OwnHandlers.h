// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operators that the compiler itself has handlers for.
#ifndef TRAINC_CONVERSION_ONNXTOTRAIN_OWNHANDLERS_H
#define TRAINC_CONVERSION_ONNXTOTRAIN_OWNHANDLERS_H

namespace trainc::legalize {

struct HandlerTable;

/// Fills the table with them; those of plug-ins are not among them.
void registerAll(HandlerTable &table);

} // namespace trainc::legalize

#endif // TRAINC_CONVERSION_ONNXTOTRAIN_OWNHANDLERS_H
