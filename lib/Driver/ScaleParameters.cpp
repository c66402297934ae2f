// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Factors of parameters whose names match.

#include "lib/Driver/ScaleParameters.h"

#include "dialects/Train/TrainDialect.h"
#include "trainc/Regex.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

void trainc::scaleParameters(func::FuncOp forward, const CompileOptions &options) {
  Regex noDecay;
  noDecay.compile(options.noDecay);
  std::vector<std::pair<Regex, double>> scales;
  for (auto &[pattern, factor] : options.lrScale) {
    scales.emplace_back(Regex(), factor);
    scales.back().first.compile(pattern);
  }
  Builder builder(forward.getContext());
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto name = forward.getArgAttrOfType<StringAttr>(i, kNameAttr);
    if (!forward.getArgAttr(i, kTrainableAttr) || !name)
      continue;
    if (!options.noDecay.empty() && noDecay.search(name.getValue()))
      forward.setArgAttr(i, kDecayScaleAttr, builder.getF64FloatAttr(0));
    for (auto &[regex, factor] : scales)
      if (regex.search(name.getValue())) {
        forward.setArgAttr(i, kLrScaleAttr, builder.getF64FloatAttr(factor));
        break;
      }
  }
}
