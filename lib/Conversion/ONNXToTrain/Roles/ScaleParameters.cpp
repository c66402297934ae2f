// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters that are not trained have neither a rate nor a decay.

#include "trainc/Conversion/ONNXToTrain/Roles/ScaleParameters.h"

#include "dialects/Train/TrainDialect.h"
#include "trainc/Support/Regex.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

std::vector<std::string> trainc::scaleParameters(func::FuncOp forward, StringRef noDecay,
                                                 ArrayRef<std::pair<std::string, double>> lrScale) {
  Regex undecayed;
  undecayed.compile(noDecay);
  std::vector<std::pair<Regex, double>> scales;
  for (auto &[pattern, factor] : lrScale) {
    scales.emplace_back(Regex(), factor);
    scales.back().first.compile(pattern);
  }
  Builder builder(forward.getContext());
  std::vector<std::string> names;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto name = forward.getArgAttrOfType<StringAttr>(i, kNameAttr);
    if (!forward.getArgAttr(i, kTrainableAttr) || !name)
      continue;
    names.push_back(name.str());
    if (!noDecay.empty() && undecayed.search(name.getValue()))
      forward.setArgAttr(i, kDecayScaleAttr, builder.getF64FloatAttr(0));
    for (auto &[regex, factor] : scales)
      if (regex.search(name.getValue())) {
        forward.setArgAttr(i, kLrScaleAttr, builder.getF64FloatAttr(factor));
        break;
      }
  }
  return names;
}
