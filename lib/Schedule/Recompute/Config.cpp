// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Patterns are written in names of the train dialect or of ONNX Runtime, whose memory optimizer has
// the same syntax (docs/recompute.md has the table).

#include "trainc/Schedule/Recompute/Config.h"
#include "trainc/Support/RegularFile.h"

#include "format/json_depth.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;
using namespace trainc;

namespace {
struct ForeignName {
  StringLiteral name;
  /// Ours, separated by spaces; "": it only moves elements and is no part of a pattern.
  StringLiteral ours;
};
/// ONNX Runtime's fused ops and ONNX's own, where they are not ours in lower case.
constexpr ForeignName foreignNames[] = {
    {"BiasDropout", "add dropout"},
    {"BiasGelu", "add gelu"},
    {"BiasSoftmax", "add softmax"},
    {"BiasSoftmaxDropout", "add softmax dropout"},
    {"BitmaskBiasDropout", "add dropout"},
    {"BitmaskDropout", "dropout"},
    {"Concat", ""},
    {"ConcatTraining", ""},
    {"Equal", "compare"},
    {"Expand", ""},
    {"FastGelu", "gelu"},
    {"FusedMatMul", "matmul"},
    {"Gather", ""},
    {"Gemm", "matmul add"},
    {"Identity", ""},
    {"LayerNormalization", "layer_norm"},
    {"Less", "compare"},
    {"MatMul", "matmul"},
    {"QuickGelu", "sigmoid mul"},
    {"ReduceMean", "reduce div"},
    {"ReduceSum", "reduce"},
    {"Reshape", ""},
    {"SkipLayerNormalization", "add layer_norm"},
    {"Slice", ""},
    {"Split", ""},
    {"Squeeze", ""},
    {"Tile", ""},
    {"Transpose", ""},
    {"Unsqueeze", ""},
    {"Where", "select"},
};

/// What composites are made of, for patterns that ask for parts.
struct Part {
  StringLiteral part, composites;
};
constexpr Part parts[] = {
    {"softmax", "attention"},
    {"dropout", "attention"},
    {"erf", "gelu"},
    {"tanh", "gelu"},
    {"pow", "gelu, layer_norm"},
    {"sqrt", "layer_norm"},
    {"rsqrt", "layer_norm"},
    {"reduce", "layer_norm, softmax, cross_entropy"},
    {"exp", "softmax, log_softmax, cross_entropy"},
    {"log", "log_softmax, cross_entropy"},
};

/// Positions are counted from 1 in messages.
std::string at(size_t position, const Twine &what) {
  return ("position " + Twine(position + 1) + ": " + what).str();
}

/// Checks and appends one entry of `config`; the text of the problem, "" for none. A later entry of
/// the same ops takes the place of an earlier one.
std::string parseEntry(StringRef text, size_t position, RecomputeConfig &config) {
  RecomputeConfig::Entry entry;
  SmallVector<StringRef, 3> fields;
  text.split(fields, ':');
  if (fields.size() != 3)
    return at(position, "expected PATTERN:TYPE:COUNT, such as gelu+:1:-1, " +
                            Twine(position == 0 ? "or level:N, " : "") + "got '" + text + "'" +
                            (position > 0 && text.starts_with("level:")
                                 ? "; a level is not to be combined with patterns"
                                 : ""));
  entry.text = fields[0].str();
  entry.inLayers = fields[0].starts_with("@");
  if (!fields[0].ends_with("+"))
    return at(position,
              "every op of a pattern is followed by '+', as in add+gelu+, got '" + fields[0] + "'");
  size_t start = position + entry.inLayers;
  SmallVector<StringRef> names;
  fields[0].drop_front(entry.inLayers).drop_back().split(names, '+');
  for (StringRef name : names) {
    // Characters of other kinds would be part of our own syntax.
    if (name.empty() || !all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
      return at(start, "expected the name of an op, got '" + name + "'");
    start += name.size() + 1;
    const auto *foreign =
        find_if(foreignNames, [&](const ForeignName &entry) { return entry.name == name; });
    // "" is a name that is known and stands for no op.
    StringRef ours = foreign == std::end(foreignNames) ? StringRef() : StringRef(foreign->ours);
    if (foreign == std::end(foreignNames)) {
      entry.names.push_back(name.lower());
      continue;
    }
    SmallVector<StringRef> list;
    ours.split(list, ' ', -1, /*KeepEmpty=*/false);
    for (StringRef part : list)
      entry.names.push_back(part.str());
  }
  if (entry.names.empty())
    return at(position, "'" + fields[0] + "' only moves elements, which is never kept");
  size_t type = position + fields[0].size() + 1, count = type + fields[1].size() + 1;
  if (fields[1].getAsInteger(10, entry.type) || entry.type < 0 || entry.type > 2)
    return at(type, "expected the type 0 (nothing), 1 (recompute) or 2 (recompute with "
                    "compromise), got '" +
                        fields[1] + "'");
  if (fields[2].getAsInteger(10, entry.count) || entry.count < -1)
    return at(count, "expected a count of at least 0, or -1 for all, got '" + fields[2] + "'");
  erase_if(config.entries,
           [&](const RecomputeConfig::Entry &other) { return other.names == entry.names; });
  config.entries.push_back(std::move(entry));
  return {};
}
} // namespace

/// A file is named, or it is told here; .json decides.
bool trainc::isRecomputeConfig(StringRef text) {
  return !text.ends_with(".json") && (text.contains(':') || text.contains('+'));
}

/// An entry after the other; the first problem ends it, with its position in the text.
std::string trainc::parseRecomputeConfig(StringRef text, RecomputeConfig &config) {
  config = RecomputeConfig();
  StringRef rest = text;
  if (rest.consume_front("level:")) {
    if (rest.getAsInteger(10, config.level) || config.level < 0 || config.level > 2)
      return at(6, "expected level 0, 1 or 2, got '" + rest + "'" +
                       (rest.contains(',') ? "; a level is not to be combined with patterns" : ""));
    return {};
  }
  while (!rest.empty()) {
    size_t position = text.size() - rest.size();
    // The position is of the whole text, so that a message can be counted off.
    auto [entry, tail] = rest.split(',');
    if (tail.empty() && rest.ends_with(","))
      return at(text.size() - 1, "nothing follows the comma");
    rest = tail;
    if (std::string problem = parseEntry(entry, position, config); !problem.empty())
      return problem;
  }
  if (config.entries.empty())
    return at(0, "expected PATTERN:TYPE:COUNT,..., level:N, list, or a file with patterns");
  return {};
}

/// The text of a file: a JSON array of strings.
/// Checked string by string, so that messages name the one that is wrong; joined it is the text of
/// an option.
static std::string readFile(StringRef path, std::string &text) {
  std::string problem;
  std::unique_ptr<MemoryBuffer> buffer = readRegularFile(path, problem);
  if (!buffer)
    return problem + (path.ends_with(".json")
                          ? ""
                          : "; what is no file is level:N, PATTERN:TYPE:COUNT,... (such "
                            "as gelu+:1:-1) or list");
  // json::parse recurses: depth is bounded first.
  if (trainrt::nestsTooDeep(buffer->getBuffer()))
    return "'" + path.str() + "' nests lists and objects more than " +
           std::to_string(trainrt::maxJsonDepth) + " deep";
  Expected<json::Value> value = json::parse(buffer->getBuffer());
  if (!value)
    return "'" + path.str() + "' is no JSON: " + toString(value.takeError());
  const json::Array *array = value->getAsArray();
  if (!array)
    return "'" + path.str() + "': expected an array of strings, such as [\"gelu+:1:-1\"]";
  for (const auto &[number, item] : enumerate(*array)) {
    std::optional<StringRef> entry = item.getAsString();
    std::string where = "'" + path.str() + "', string " + std::to_string(number + 1);
    RecomputeConfig ignored;
    if (!entry)
      return where + ": is no string";
    if (std::string problem = parseRecomputeConfig(*entry, ignored); !problem.empty())
      return where + ", " + problem;
    if (ignored.entries.empty())
      return where + ": expected patterns, got '" + entry->str() + "'";
    text += (text.empty() ? "" : ",") + entry->str();
  }
  if (text.empty())
    return "'" + path.str() + "' has no patterns";
  return {};
}

/// After it the text is told in full: what is stored in a package names no file.
std::string trainc::resolveRecompute(std::string &config) {
  if (config.empty() || config == "list" || isRecomputeConfig(config))
    return {};
  return readFile(std::exchange(config, {}), config);
}

StringRef trainc::compositesWith(StringRef name) {
  const auto *found = find_if(parts, [&](const Part &entry) { return entry.part == name; });
  return found == std::end(parts) ? StringRef() : StringRef(found->composites);
}
