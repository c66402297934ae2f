// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes that only tests run.
#ifndef TRAINC_TEST_LIB_TESTPASSES_H
#define TRAINC_TEST_LIB_TESTPASSES_H

namespace trainc::testdialect {
/// `test-evaluate`: prints what functions return, by the reference evaluator.
void registerTestEvaluatePass();
/// `test-codegen`: makes the kernels of fusions.
void registerTestCodegenPass();
/// `test-group-launches`: makes groups of the launches of plan functions.
void registerTestGroupLaunchesPass();
/// `test-lifetimes`: remarks lifetimes of buffers and the size of the arena.
void registerTestLifetimesPass();
/// `test-train-to-plan`: makes plan functions of functions without kernels.
void registerTestTrainToPlanPass();
/// `test-input-rules`: remarks what the values of inputs must satisfy.
void registerTestInputRulesPass();
/// `test-token-inputs`: remarks which inputs hold tokens or labels.
void registerTestTokenInputsPass();
} // namespace trainc::testdialect

#endif // TRAINC_TEST_LIB_TESTPASSES_H
