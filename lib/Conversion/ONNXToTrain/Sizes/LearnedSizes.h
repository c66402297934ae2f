// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a run over the graph tells the next one: nodes demand of sizes what other nodes before them
// could have used.
#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_LEARNEDSIZES_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_LEARNEDSIZES_H

#include "trainc/Conversion/Legalize.h"
#include "trainc/Conversion/ONNXToTrain/Bounds.h"
#include "llvm/ADT/StringMap.h"
#include <map>

namespace trainc::legalize {

struct LearnedSizes {
  /// Of symbols, by name: upper bounds that slices of static tables imply, lower ones that windows
  /// do.
  llvm::StringMap<DimBound> bounds;
  /// Of axes, by name, as joins of their halves demand; n is the symbol that `symbolOf` names.
  std::map<std::string, SizeForm> forms;

  /// Adds what a run demanded. Whether anything is new: sizes have to be compared again then.
  /// `lacking`: some node has failed, for which a larger lower bound is news, too.
  bool learn(const Bounds &demanded, bool lacking);
  std::string symbolOf(llvm::StringRef axis) const;
};

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_LEARNEDSIZES_H
