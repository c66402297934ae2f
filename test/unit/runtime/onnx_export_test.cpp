// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The wire-format rewrite behind --export: messages, nodes in evaluation mode, and damaged bytes,
// which end in an error and never in a crash.
#include "export/onnx_nodes.h"

#include <gtest/gtest.h>

#include <random>

using namespace trainrt;

namespace {

std::string text(const Message &message) {
  std::string result;
  for (std::string_view piece : message.pieces())
    result += piece;
  EXPECT_EQ(result.size(), message.size());
  return result;
}

/// A message made by `fill(message)`, as text.
template <typename Fill> std::string make(Fill fill) {
  Scraps scraps;
  Message message(scraps);
  fill(message);
  return text(message);
}

std::string nodeOf(const std::string &op, const std::vector<std::string> &inputs,
                   const std::string &attributes = {}, const std::string &domain = {}) {
  return make([&](Message &node) {
    for (const std::string &input : inputs)
      node.addBytes(1, input);
    node.addText(2, "out");
    node.addText(4, op);
    if (!attributes.empty())
      node.addBytes(5, attributes);
    if (!domain.empty())
      node.addBytes(7, domain);
  });
}

/// An If whose branch holds `node` and gives back the outer value "outer".
std::string ifWith(const std::string &node) {
  const std::string graph = make([&](Message &graph) {
    graph.addBytes(1, node);
    graph.addText(2, "branch");
    graph.addText(12, make([](Message &value) { value.addText(1, "outer"); }));
  });
  return nodeOf("If", {"condition"}, make([&](Message &attribute) {
                  attribute.addText(1, "then_branch");
                  attribute.addBytes(6, graph);
                }));
}

std::string evaluated(const std::string &node) {
  return make([&](Message &graph) {
    Scraps scraps;
    Message copy(scraps);
    addForEvaluation(copy, 1, node, scraps);
    eachField(text(copy),
              [&](const Field &field) { graph.addText(1, std::string(field.content)); });
  });
}

/// The only field of `message`.
std::string content(const std::string &message) {
  std::string result;
  eachField(message, [&](const Field &field) { result = field.content; });
  return result;
}

} // namespace

TEST(Protobuf, FieldsAreCopiedByteForByte) {
  const std::string inner = make([](Message &message) { message.addVarint(3, 300); });
  const std::string whole = make([&](Message &message) {
    message.addVarint(1, UINT64_MAX);
    message.addBytes(2, inner);
    message.addText(1 << 20, std::string(200, 'x'));
  });
  const std::string fixed = whole + std::string("\x25"
                                                "abcd"
                                                "\x29"
                                                "12345678",
                                                14);
  std::vector<uint64_t> numbers;
  const std::string copy = make([&](Message &message) {
    eachField(fixed, [&](const Field &field) {
      numbers.push_back(field.number);
      message.add(field);
      if (field.number == 1)
        EXPECT_EQ(field.value, UINT64_MAX);
      if (field.number == 2)
        EXPECT_EQ(field.content, inner);
    });
  });
  EXPECT_EQ(copy, fixed);
  EXPECT_EQ(numbers, (std::vector<uint64_t>{1, 2, 1 << 20, 4, 5}));
  EXPECT_EQ(packedVarints(std::string_view("\x05\xac\x02", 3)), (std::vector<uint64_t>{5, 300}));
}

TEST(Protobuf, DamageIsAnError) {
  const std::string good = ifWith(nodeOf("Dropout", {"x", "ratio", "mode"}));
  // Every end within a field, and fields that are none.
  for (const std::string &bad :
       {std::string("\x0a"),
        std::string("\x0a\x05"
                    "abc"),
        std::string("\x08"), std::string("\x08\xff"),
        std::string("\x25"
                    "ab"),
        std::string("\x03\x00", 2), std::string("\x00\x01", 2), std::string("\x07"),
        std::string(11, '\xff'), std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")})
    EXPECT_THROW(eachField(bad, [](const Field &) {}), MalformedMessage) << bad;
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string broken = good.substr(0, random() % (good.size() + 1));
    for (unsigned flips = random() % 4; flips && !broken.empty(); --flips)
      broken[random() % broken.size()] = char(random());
    try {
      Scraps scraps;
      Message copy(scraps);
      addForEvaluation(copy, 1, broken, scraps);
      EXPECT_LE(copy.size(), broken.size() + 64);
      readOnnxNode(broken);
    } catch (const MalformedMessage &) {
    }
  }
}

TEST(OnnxNodes, DropoutLosesItsTrainingMode) {
  const std::string active = nodeOf("Dropout", {"x", "ratio", "mode"});
  EXPECT_EQ(content(evaluated(active)), nodeOf("Dropout", {"x", "ratio"}));
  const OnnxNode node = readOnnxNode(active);
  EXPECT_EQ(node.uses, (std::vector<std::string_view>{"x", "ratio"}));
  EXPECT_EQ(node.dropped, "mode");
  // Of another domain, or without the input: as they are.
  const std::string foreign = nodeOf("Dropout", {"x", "ratio", "mode"}, {}, "com.example");
  EXPECT_EQ(content(evaluated(foreign)), foreign);
  EXPECT_EQ(readOnnxNode(foreign).uses.size(), 3u);
  const std::string plain = nodeOf("Dropout", {"x"});
  EXPECT_EQ(content(evaluated(plain)), plain);
}

TEST(OnnxNodes, Subgraphs) {
  const std::string node = ifWith(ifWith(nodeOf("Dropout", {"x", "ratio", "mode"})));
  EXPECT_EQ(content(evaluated(node)), ifWith(ifWith(nodeOf("Dropout", {"x", "ratio"}))));
  const OnnxNode read = readOnnxNode(node);
  for (const char *name : {"condition", "x", "ratio", "outer"})
    EXPECT_NE(std::find(read.uses.begin(), read.uses.end(), name), read.uses.end()) << name;
  EXPECT_EQ(read.inputs, (std::vector<std::string_view>{"condition"}));
  std::string deep = node;
  for (int i = 0; i < 40; ++i)
    deep = ifWith(deep);
  EXPECT_THROW(readOnnxNode(deep), MalformedMessage);
}

TEST(OnnxNodes, BatchNormalizationInTrainingMode) {
  const std::vector<std::string> inputs = {"x", "s", "b", "m", "v"};
  const std::string mode = make([](Message &attribute) {
    attribute.addText(1, "training_mode");
    attribute.addVarint(3, 1);
  });
  const std::string statistics =
      make([](Message &node) { node.addText(2, "mean"), node.addText(2, "variance"); });
  const std::string training = nodeOf("BatchNormalization", inputs, mode) + statistics;
  EXPECT_EQ(content(evaluated(training)), nodeOf("BatchNormalization", inputs));
  EXPECT_EQ(readOnnxNode(training).lost, (std::vector<std::string_view>{"mean", "variance"}));
  EXPECT_TRUE(readOnnxNode(nodeOf("BatchNormalization", inputs)).lost.empty());
}
