// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `offload` on schedules made at random: what the parameter becomes is the same function
// of the inputs, no more memory is in use at once, and run through one by one no command waits for
// the link.
#include "lib/Schedule/Offload/Offload.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "trainc/Analysis/CommandTime.h"
#include "trainc/Registry/Registry.h"
#include "gtest/gtest.h"
#include <random>

using namespace mlir;
using namespace trainc;

namespace {

constexpr double kRate = 50; // GB/s

class OffloadPassTest : public testing::Test {
protected:
  const TargetTraits &device = findTarget("cuda")->traits;

  OffloadPassTest() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// A forward of `count` products, each of the value before and perhaps another one, then a
  /// backward that reads the values in the opposite order, some of them twice.
  static std::string makeStep(unsigned seed, int count) {
    std::mt19937 random(seed);
    std::string buffers, commands;
    auto product = [&](const std::string &a, const std::string &b, const std::string &c, int rows) {
      commands +=
          "plan.gemm " + a + ", " + b + ", " + c + " batch <> sizes <" + std::to_string(rows) +
          ", 1024, 1024> strides <1024, 1>, <1024, 1>, <1024, 1> offsets <0, 0, 0> : f32 -> f32\n";
    };
    auto declare = [&](const std::string &name, int rows) {
      buffers += name + " = plan.buffer arena : tensor<" + std::to_string(rows) + "x1024xf32>\n";
    };
    std::vector<std::string> values = {"%x"};
    for (int i = 0; i < count; ++i) {
      const int rows = 1 << (8 + random() % 7);
      values.push_back("%v" + std::to_string(i));
      declare(values.back(), rows);
      product(values[values.size() - 2], "%w", values.back(), rows);
      if (random() % 3 == 0)
        commands += "plan.launch \"k\"(" + values[random() % values.size()] + ", " + values.back() +
                    ") inputs 1 dims <> work <1> grain 1 scratch <0>\n";
    }
    std::string gradient = "%x";
    for (int i = count; i-- > 0;) {
      const std::string next = "%g" + std::to_string(i);
      declare(next, 2048);
      product(gradient, values[size_t(i)], next, 2048);
      if (random() % 4 == 0)
        commands += "plan.launch \"r\"(" + values[random() % values.size()] + ", " + next +
                    ") inputs 1 dims <> work <1> grain 1 scratch <0>\n";
      gradient = next;
    }
    return "plan.function @step {\n%x = plan.buffer input \"x\" : tensor<1024x1024xf32>\n"
           "%w = plan.buffer parameter \"w\" : tensor<1024x1024xf32>\n" +
           buffers + commands + "plan.launch \"u\"(" + gradient +
           ", %w) inputs 1 dims <> work <1> grain 1 scratch <0>\n}\n";
  }

  static llvm::hash_code hashOf(Operation *command) {
    if (auto launch = dyn_cast<plan::LaunchOp>(command))
      return llvm::hash_value(launch.getKernel());
    return llvm::hash_value(command->getName().getStringRef());
  }

  /// What the parameter has become: a hash of all that went into it.
  static llvm::hash_code run(const FunctionLifetimes &lifetimes) {
    std::vector<llvm::hash_code> values(lifetimes.buffers.size(), llvm::hash_code(0));
    uint32_t parameter = 0;
    for (auto [i, life] : llvm::enumerate(lifetimes.buffers)) {
      if (life.space != plan::Space::arena && life.space != plan::Space::host)
        values[i] = llvm::hash_value(plan::BufferOp(life.buffer).getName().value_or(""));
      if (life.space == plan::Space::parameter)
        parameter = i;
    }
    for (Operation *command : lifetimes.commands) {
      SmallVector<MemoryEffects::EffectInstance> effects;
      cast<MemoryEffectOpInterface>(command).getEffects(effects);
      llvm::hash_code result = hashOf(command);
      auto copy = dyn_cast<plan::CopyOp>(command);
      for (auto &effect : effects)
        if (isa<MemoryEffects::Read>(effect.getEffect())) {
          const llvm::hash_code read = values[lifetimes.index.lookup(effect.getValue())];
          result = copy ? read : llvm::hash_combine(result, read);
        }
      for (auto &effect : effects)
        if (isa<MemoryEffects::Write>(effect.getEffect())) {
          llvm::hash_code &value = values[lifetimes.index.lookup(effect.getValue())];
          // A launch may change part of it.
          value = isa<plan::LaunchOp>(command) ? llvm::hash_combine(result, value) : result;
        }
    }
    return values[parameter];
  }

  /// Commands one after the other, copies one after the other; the seconds that commands wait for
  /// copies back, with the pass's caution.
  static double waits(const FunctionLifetimes &lifetimes, ArrayRef<int64_t> bytes,
                      ArrayRef<double> seconds) {
    double now = 0, link = 0, waited = 0;
    std::map<uint32_t, double> back;
    for (auto [i, command] : llvm::enumerate(lifetimes.commands)) {
      if (auto copy = dyn_cast<plan::CopyOp>(command); copy && copy.isTransfer()) {
        link = std::max(link, now) +
               double(bytes[lifetimes.index.lookup(copy.getFrom())]) / (kRate * 1e9);
        back[lifetimes.index.lookup(copy.getTo())] = link;
        continue;
      }
      for (Value operand : command->getOperands())
        if (auto it = back.find(lifetimes.index.lookup(operand)); it != back.end()) {
          waited += std::max(0.0, it->second - now);
          now = std::max(now, it->second);
        }
      now += 0.85 * seconds[i];
    }
    return waited;
  }

  MLIRContext context;
};

TEST_F(OffloadPassTest, RandomSchedules) {
  auto noSymbols = [](StringRef) -> std::optional<int64_t> { return std::nullopt; };
  int moved = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::string text = makeStep(seed, 4 + int(seed) % 20);
    auto before = parseSourceString<ModuleOp>(text, &context),
         after = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(before && after) << text;
    OffloadPassOptions options;
    options.rate = kRate;
    options.limit = seed % 3 == 2 ? int64_t(64) << 20 : -1;
    PassManager pm(&context);
    pm.addNestedPass<plan::FunctionOp>(createOffloadPass(options));
    ASSERT_TRUE(succeeded(pm.run(*after)));
    FunctionLifetimes plain(*before->getOps<plan::FunctionOp>().begin()),
        result(*after->getOps<plan::FunctionOp>().begin());
    EXPECT_EQ(run(plain), run(result)) << seed;
    const SmallVector<int64_t, 0> plainBytes = *evaluateBytes(plain, noSymbols),
                                  bytes = *evaluateBytes(result, noSymbols);
    const int64_t peak = getArenaPeak(result, bytes, device.memory).lowerBound,
                  host = getHostPeak(result, bytes, device.memory);
    EXPECT_LE(peak, getArenaPeak(plain, plainBytes, device.memory).lowerBound) << seed;
    if (options.limit >= 0)
      EXPECT_LE(host, options.limit) << seed;
    EXPECT_NEAR(waits(result, bytes, *estimateSeconds(result, bytes, noSymbols, device.speeds)), 0,
                1e-9)
        << seed;
    if (result.commands.size() == plain.commands.size())
      continue;
    ++moved;
    EXPECT_LT(peak, getArenaPeak(plain, plainBytes, device.memory).lowerBound) << seed;
    EXPECT_GT(host, 0) << seed;
  }
  EXPECT_GT(moved, 20);
}

} // namespace
