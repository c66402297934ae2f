// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNX does not say which initializers are parameters. The model's metadata_props["trainable"] does
// if the exporter wrote it; otherwise well-known names of buffers are left out.

#include "Trainable.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace trainc::legalize {

std::string TrainableRule::init(const LegalizeOptions &options, DictionaryAttr metadata) {
  inference = options.inference;
  if (hasPattern = !options.trainable.empty(); hasPattern)
    if (std::string problem = pattern.compile(options.trainable); !problem.empty())
      return "--trainable: " + problem;
  if (hasFreeze = !options.freeze.empty(); hasFreeze)
    if (std::string problem = freeze.compile(options.freeze); !problem.empty())
      return "--freeze: " + problem;
  auto text = metadata ? metadata.getAs<StringAttr>("trainable") : StringAttr();
  if (text && !hasPattern) {
    hasList = true;
    SmallVector<StringRef> lines;
    text.getValue().split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (StringRef line : lines)
      if (StringRef name = line.trim(); !name.empty() && list.insert(name).second)
        listed.push_back(name.str());
  }
  return {};
}

/// `prefix` followed by digits.
static bool isNumbered(StringRef name, StringRef prefix) {
  return name.consume_front(prefix) && !name.empty() && llvm::all_of(name, llvm::isDigit);
}

/// Buffers of the model and constants of the exporter, by the last component of the name.
static bool isBufferName(StringRef name) {
  StringRef last = name.substr(name.find_last_of("./") + 1);
  return last.ends_with("inv_freq") || last.ends_with("_buffer") || last == "embed_scale" ||
         last == "running_mean" || last == "running_var" || last == "num_batches_tracked" ||
         last == "position_ids" || last == "final_logits_bias" || last == "masked_bias" ||
         isNumbered(last, "lifted_tensor_") || isNumbered(last, "val_");
}

std::string TrainableRule::reasonAgainst(StringRef name) {
  seen.insert(name);
  if (inference)
    return "inference";
  if (hasPattern) {
    if (!pattern.search(name))
      return "not matched by --trainable";
  } else if (hasList) {
    if (!list.contains(name))
      return "not in the model's list of trainable initializers";
  } else if (isBufferName(name)) {
    return "a buffer by its name";
  }
  if (hasFreeze && freeze.search(name))
    return "matched by --freeze";
  return {};
}

std::vector<std::string> TrainableRule::unknownNames() const {
  std::vector<std::string> unknown;
  for (const std::string &name : listed)
    if (!seen.contains(name))
      unknown.push_back(name);
  return unknown;
}

} // namespace trainc::legalize
