// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of attributes: enumerations and ranges that ONNX's operators name in words.

#include "Attributes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace trainc::legalize {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Handlers rely on these: none asks again.
struct Rule {
  /// Names, with blanks between them; no operator: all that have such an attribute.
  StringLiteral attributes, ops;
  /// Words or numbers that it may be; "": numbers from `low` to `high`.
  StringLiteral words;
  double low = 0, high = kInfinity;
  bool isLowOut = false;
};
} // namespace

static constexpr Rule oneOf(StringLiteral attributes, StringLiteral ops, StringLiteral words) {
  return {attributes, ops, words};
}
static constexpr Rule within(StringLiteral attributes, StringLiteral ops, double low,
                             double high = kInfinity) {
  return {attributes, ops, "", low, high};
}

static constexpr StringLiteral kRecurrent =
    "RNN GRU LSTM GRUTraining LSTMTraining GRUGrad LSTMGrad";
static constexpr StringLiteral kWindowed = "Conv ConvTranspose MaxPool AveragePool LpPool Col2Im";

// What a value means together with others (an axis and a rank, a group and the channels) is not
// here but in the handlers.
static constexpr Rule kRules[] = {
    // Numbers that say yes or no: other ones would be taken for yes.
    within("align_corners allowzero antialias ceil_mode center_point_box count_include_pad", "", 0,
           1),
    within("detect_negative detect_positive exclude_outside exclusive fmod input_forget", "", 0, 1),
    within("interleaved inverse is_causal is_inner_broadcast isinf_only isnan_only", "", 0, 1),
    within("keepdims largest linear_before_reset new_axis noop_with_empty_axes onesided", "", 0, 1),
    within("output_sequence periodic reverse saturate select_last_index sorted", "", 0, 1),
    within("storage_order training_mode transA transB transBatchA transBatchB upper", "", 0, 1),
    within("scan_input_directions scan_output_directions", "Scan", 0, 1),
    within("layout", kRecurrent, 0, 1),
    oneOf("direction", kRecurrent, "forward reverse bidirectional"),
    oneOf("direction", "BitShift", "LEFT RIGHT"),
    oneOf("auto_pad", "", "NOTSET SAME_UPPER SAME_LOWER VALID"),
    oneOf("mode", "Pad", "constant reflect edge wrap"),
    oneOf("mode", "DepthToSpace", "DCR CRD"),
    oneOf("mode", "Resize Upsample", "nearest linear cubic"),
    // The names changed in opset 20.
    oneOf("mode", "GridSample", "linear bilinear nearest cubic bicubic"),
    oneOf("mode", "TensorScatter", "linear circular"),
    oneOf("mode", "Momentum", "standard nesterov"),
    oneOf("padding_mode", "GridSample", "zeros border reflection"),
    oneOf("nearest_mode", "Resize", "round_prefer_floor round_prefer_ceil floor ceil"),
    oneOf("keep_aspect_ratio_policy", "Resize", "stretch not_larger not_smaller"),
    oneOf("reduction",
          "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss NegativeLogLikelihoodLossInternal "
          "NegativeLogLikelihoodLossInternal2 SoftmaxCrossEntropyLossInternal",
          "none mean sum"),
    oneOf("reduction", "ScatterElements ScatterND", "none add mul max min"),
    oneOf("approximate", "Gelu", "none tanh"),
    oneOf("activation", "CausalConvWithState", "none silu swish"),
    oneOf("round_mode", "Cast CastLike", "up down nearest"),
    // float, float16, double and bfloat16 of ONNX's TensorProto
    oneOf("stash_type", "", "1 10 11 16"),
    oneOf("precision", "QuantizeLinear", "0 1 10 11 16"),
    within("qk_matmul_output_mode", "", 0, 3),
    within("accuracy_level", "MatMulNBits", 0, 4),
    within("group num_groups blocksize num_outputs num_scan_inputs sample_size", "", 1),
    within("strides dilations kernel_shape", "", 1),
    within("pads", kWindowed, 0),
    within("output_padding", "ConvTranspose", 0),
    within("output_shape", "ConvTranspose", 1),
    within("hidden_size", kRecurrent, 1),
    within("size", "LRN", 1),
    within("p", "LpPool GlobalLpPool", 1),
    within("block_size", "QuantizeLinear DequantizeLinear", 0),
    within("num_heads q_num_heads kv_num_heads rotary_embedding_dim", "", 0),
    within("epsilon", "", 0),
    within("softcap", "Attention", 0),
    {"clip", kRecurrent, "", 0, kInfinity, /*isLowOut=*/true},
};

/// These are what elements become, or bounds of them: infinite ones, and NaN, are meant.
static constexpr StringLiteral kElements = "value value_float min max default_float "
                                           "extrapolation_value quant_min quant_max seed";

static bool names(StringRef list, StringRef word) {
  return llvm::is_contained(llvm::split(list, ' '), word);
}

/// "'a', 'b' or 'c'"
static std::string listed(StringRef words, bool isQuoted) {
  std::string text;
  while (!words.empty()) {
    auto [word, rest] = words.split(' ');
    text += text.empty() ? "" : rest.empty() ? " or " : ", ";
    text += isQuoted ? ("'" + word + "'").str() : word.str();
    words = rest;
  }
  return text;
}

static std::string number(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", value);
  return text;
}

/// What the rule allows.
static std::string allowed(const Rule &rule, bool isText) {
  if (!rule.words.empty())
    return listed(rule.words, isText);
  if (rule.high == kInfinity)
    return (rule.isLowOut ? "above " : "at least ") + number(rule.low);
  return rule.low == 0 && rule.high == 1 ? "0 or 1" : number(rule.low) + " to " + number(rule.high);
}

/// Every rule of the attribute has to hold. One value, or one element of a list; `shown`: as the
/// message has it.
static std::string check(StringRef op, StringRef name, std::optional<double> number, StringRef text,
                         const Twine &shown, bool isFloat) {
  for (const Rule &rule : kRules) {
    if (!names(rule.attributes, name) || !(rule.ops.empty() || names(rule.ops, op)))
      continue;
    bool fits = !rule.words.empty() ? names(rule.words, text)
                                    : !number || (*number >= rule.low && *number <= rule.high &&
                                                  !(rule.isLowOut && *number == rule.low));
    if (!fits)
      return ("its attribute '" + name + "' " + shown + "; it has to be " +
              allowed(rule, /*isText=*/!number))
          .str();
  }
  // Also where no rule is about it: NaN would reach every result.
  if (isFloat && !std::isfinite(*number) && !names(kElements, name))
    return ("its attribute '" + name + "' " + shown + "; it has to be finite").str();
  return {};
}

std::string valueProblem(StringRef op, StringRef name, Attribute value) {
  if (auto text = dyn_cast<StringAttr>(value))
    return check(op, name, std::nullopt, text, "is '" + text.getValue() + "'", false);
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return check(op, name, double(integer.getInt()), std::to_string(integer.getInt()),
                 "is " + Twine(integer.getInt()), false);
  if (auto real = dyn_cast<FloatAttr>(value))
    return check(op, name, real.getValueAsDouble(), "", "is " + number(real.getValueAsDouble()),
                 true);
  // Lists of words (activations) and of floats have no rules.
  auto list = dyn_cast<DenseI64ArrayAttr>(value);
  for (auto [i, element] : llvm::enumerate(list ? list.asArrayRef() : ArrayRef<int64_t>()))
    if (std::string problem = check(op, name, double(element), std::to_string(element),
                                    "has " + Twine(element) + " in place " + Twine(i), false);
        !problem.empty())
      return problem;
  return {};
}

} // namespace trainc::legalize
