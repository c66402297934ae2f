// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --dropout off, of dropout that a graph writes out with random numbers: it goes as Dropout nodes
// do.

#include "Legalizer.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Formulas/DrawnMasks.h"

using namespace mlir;

namespace trainc::legalize {

void Legalizer::dropDrawnMasks() {
  if (options->dropout != DropoutMode::Off || options->initialization)
    return;
  SmallVector<DrawnMask> masks = findDrawnMasks(function);
  for (const DrawnMask &mask : masks)
    remark::passed(mask.value.getLoc(), remark::RemarkOpts::name("DrawnMask")
                                            .category("legalize-onnx")
                                            .function(function.getName()))
        << remark::add("--dropout off leaves out the drawn mask that keeps {0} and scales by its "
                       "inverse",
                       mask.keep);
  dropMasks(function, masks);
  if (SmallVector<Operation *> draws = findDraws(function); !draws.empty())
    warnings.emplace_back(draws[0]->getLoc(),
                          "--dropout off leaves " + std::to_string(draws.size()) +
                              " draws of random numbers as they are (this is the first): no mask "
                              "that is scaled by the inverse of what it keeps is made of them; "
                              "if they are a dropout, export the model in evaluation mode there");
}

} // namespace trainc::legalize
