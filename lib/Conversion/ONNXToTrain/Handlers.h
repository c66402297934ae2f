// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's own handlers, a function for the operators of a file each.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_HANDLERS_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_HANDLERS_H

#include "trainc/Conversion/Legalize.h"
#include "trainc/Conversion/ONNXToTrain/NodeContext.h"

namespace trainc::legalize {

void registerMath(HandlerTable &table);
void registerUnary(HandlerTable &table);
void registerShape(HandlerTable &table);
void registerPad(HandlerTable &table);
void registerRearrange(HandlerTable &table);
void registerScatter(HandlerTable &table);
void registerOrder(HandlerTable &table);
void registerSignal(HandlerTable &table);
void registerControlFlow(HandlerTable &table);
void registerCustomGradient(HandlerTable &table);
void registerIndex(HandlerTable &table);
void registerSelection(HandlerTable &table);
void registerSequence(HandlerTable &table);
void registerLinear(HandlerTable &table);
void registerNorm(HandlerTable &table);
void registerGroupNorm(HandlerTable &table);
void registerAttention(HandlerTable &table);
void registerReduce(HandlerTable &table);
void registerLoss(HandlerTable &table);
void registerRandom(HandlerTable &table);
void registerBatchNorm(HandlerTable &table);
void registerConv(HandlerTable &table);
void registerPool(HandlerTable &table);
void registerResize(HandlerTable &table);
void registerGridSample(HandlerTable &table);
void registerRecurrent(HandlerTable &table);
void registerRecurrentGrad(HandlerTable &table);
void registerQuantization(HandlerTable &table);
void registerMicrosoft(HandlerTable &table);
void registerGradients(HandlerTable &table);
void registerTraining(HandlerTable &table);
/// Of plug-ins in C++, and of those that are described, if any.
void registerPlugins(HandlerTable &table, const plugin::Plugins *described);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_HANDLERS_H
