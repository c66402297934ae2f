// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNX does not say which initializers are parameters. The model's metadata_props["trainable"] does
// if the exporter wrote it; otherwise well-known names of buffers are left out.

#include "lib/Conversion/ONNXToTrain/Roles/Trainable.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace trainc::legalize {

/// Lines such as "p_fc_weight: PARAMETER target='fc.weight'" and "b_mean: BUFFER target='mean'
/// persistent=True" of torch.export's signature.
/// Whatever does not look like such a line is passed over.
static void readSignature(StringRef text,
                          llvm::function_ref<void(StringRef kind, StringRef target)> visit) {
  SmallVector<StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines) {
    auto [kind, rest] = line.split(": ").second.split(' ');
    if (rest.consume_front("target='"))
      visit(kind, rest.take_until([](char c) { return c == '\''; }));
  }
}

std::string TrainableRule::init(const LegalizeOptions &options, DictionaryAttr metadata) {
  inference = options.inference;
  // Compiled once; the first problem is the answer.
  if (hasPattern = !options.trainable.empty(); hasPattern)
    if (std::string problem = pattern.compile(options.trainable); !problem.empty())
      return "--trainable: " + problem;
  for (const std::string &expression : options.freeze)
    if (std::string problem = freeze.emplace_back().compile(expression); !problem.empty())
      return "--freeze: " + problem;
  // The exporter's own list.
  auto text = metadata ? metadata.getAs<StringAttr>("trainable") : StringAttr();
  if (text) {
    modelHasList = true;
    // A pattern from the user goes over it.
    hasList = !hasPattern;
    SmallVector<StringRef> lines;
    text.getValue().split(lines, '\n', -1, /*KeepEmpty=*/false);
    // In the file's order, without repeats.
    for (StringRef line : lines)
      if (StringRef name = line.trim(); !name.empty() && list.insert(name).second && hasList)
        listed.push_back(name.str());
  }
  if (auto signature =
          metadata ? metadata.getAs<StringAttr>("pkg.torch.export.ExportedProgram.graph_signature")
                   : StringAttr())
    readSignature(signature, [&](StringRef kind, StringRef target) {
      if (kind == "PARAMETER" && isParameter.insert(target).second)
        parameters.push_back(target.str());
      else if (kind == "BUFFER")
        isBuffer.insert(target);
    });
  return {};
}

/// `prefix` followed by digits.
/// What exporters count.
static bool isNumbered(StringRef name, StringRef prefix) {
  return name.consume_front(prefix) && !name.empty() && llvm::all_of(name, llvm::isDigit);
}

bool TrainableRule::isValueName(StringRef name) { return isNumbered(name, "val_"); }

/// Buffers of the model and constants of the exporter, by the last component of the name.
static bool isBufferName(StringRef name) {
  // Components are separated by dots or slashes.
  StringRef last = name.substr(name.find_last_of("./") + 1);
  return last.ends_with("inv_freq") || last.ends_with("_buffer") || last == "embed_scale" ||
         last == "running_mean" || last == "running_var" || last == "num_batches_tracked" ||
         last == "position_ids" || last == "final_logits_bias" || last == "masked_bias" ||
         isNumbered(last, "lifted_tensor_") || isNumbered(last, "val_");
}

bool TrainableRule::isParameterOfModel(StringRef name, int64_t elements) const {
  // Evidence that it is one, whatever its name is.
  if (isParameter.contains(name) || gradients.contains(name) || list.contains(name))
    return true;
  // Without a list single numbers are rather constants than weights.
  return !modelHasList && elements > 1 && !isBuffer.contains(name) && !isBufferName(name);
}

std::string TrainableRule::reasonAgainst(StringRef name) {
  // Asked about every initializer of the graph: what was never asked about does not exist.
  seen.insert(name);
  if (inference)
    return "inference";
  // The user's pattern, the model's list, then what is known of buffers.
  if (hasPattern) {
    if (!pattern.search(name))
      return "not matched by --trainable";
  } else if (hasList) {
    if (!list.contains(name))
      return "not in the model's list of trainable initializers";
  } else if (isBuffer.contains(name)) {
    return "a buffer of the exported model";
  } else if (isBufferName(name) && !isParameter.contains(name) && !gradients.contains(name)) {
    return "a buffer by its name";
  }
  // On top of everything.
  if (llvm::any_of(freeze, [&](const Regex &expression) { return expression.search(name); }))
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

std::vector<std::string> TrainableRule::lostParameters() const {
  std::vector<std::string> lost;
  for (const std::string &name : parameters)
    if (!seen.contains(name))
      lost.push_back(name);
  return lost;
}

} // namespace trainc::legalize
