// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command line: what is understood, and what is refused with which words.
#include "cli/options.h"

#include <gtest/gtest.h>

using namespace trainrt::run;

namespace {

Options good(std::vector<std::string> arguments) {
  ParsedOptions parsed = parseOptions(std::move(arguments));
  EXPECT_TRUE(parsed.options) << parsed.text;
  return parsed.options.value_or(Options{});
}

void refused(std::vector<std::string> arguments, const std::string &words) {
  ParsedOptions parsed = parseOptions(std::move(arguments));
  EXPECT_FALSE(parsed.options);
  EXPECT_EQ(parsed.exitCode, 2);
  EXPECT_EQ(parsed.text.rfind("trainc-run: error: ", 0), 0u) << parsed.text;
  EXPECT_NE(parsed.text.find(words), std::string::npos) << parsed.text;
}

TEST(Options, Defaults) {
  Options o = good({"m.tpk", "--data", "d.npz"});
  EXPECT_EQ(o.package, "m.tpk");
  EXPECT_EQ(o.data, "d.npz");
  EXPECT_FALSE(o.batchSize || o.steps || o.epochs || o.seed || o.lr || o.threads || o.initStd);
  EXPECT_EQ(o.accumulate, 0);
  EXPECT_FALSE(o.json || o.shuffle || o.allowNonfinite || o.memoryStats);
}

TEST(Options, Everything) {
  Options o = good({"--data",
                    "d.npz",
                    "m.tpk",
                    "--batch-size",
                    "8",
                    "--steps=20",
                    "--seed",
                    "-3",
                    "--shuffle",
                    "--accumulate",
                    "4",
                    "--weights",
                    "w.safetensors",
                    "--resume",
                    "r",
                    "--save",
                    "s",
                    "--save-every",
                    "5",
                    "--keep",
                    "2",
                    "--eval",
                    "e.npz",
                    "--eval-every",
                    "10",
                    "--lr",
                    "1e-3",
                    "--lr-schedule",
                    "cosine,warmup=3",
                    "--weight-decay",
                    "0",
                    "--clip-norm",
                    "1",
                    "--predict",
                    "p.npz",
                    "--outputs",
                    "a,b",
                    "-o",
                    "o.safetensors",
                    "--export",
                    "x.safetensors",
                    "--log-format",
                    "json",
                    "--memory-stats",
                    "--allow-nonfinite",
                    "--threads",
                    "2"});
  EXPECT_EQ(o.batchSize, 8);
  EXPECT_EQ(o.steps, 20);
  EXPECT_EQ(o.seed, -3);
  EXPECT_TRUE(o.shuffle && o.json && o.memoryStats && o.allowNonfinite);
  EXPECT_EQ(o.accumulate, 4);
  EXPECT_EQ(o.saveEvery, 5);
  EXPECT_EQ(o.keep, 2);
  EXPECT_EQ(o.lr, 1e-3);
  EXPECT_EQ(o.schedule.kind, LrSchedule::Kind::cosine);
  EXPECT_EQ(o.schedule.warmup, 3);
  EXPECT_EQ(o.weightDecay, 0.0);
  EXPECT_EQ(o.clipNorm, 1.0);
  EXPECT_EQ(o.outputs, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.output, "o.safetensors");
  EXPECT_EQ(o.threads, 2);
}

TEST(Options, InitialValues) {
  EXPECT_EQ(good({"m", "--data", "d", "--init", "normal:0.02"}).initStd, 0.02);
  refused({"m", "--data", "d", "--init", "normal"}, "normal:STD");
  refused({"m", "--data", "d", "--init", "uniform:1"}, "normal:STD");
  refused({"m", "--data", "d", "--init", "normal:-1"}, "normal:STD");
  refused({"m", "--data", "d", "--init", "normal:1", "--weights", "w"},
          "--weights and --init exclude each other");
}

TEST(Options, DataIsNotAlwaysNeeded) {
  good({"m", "--predict", "p", "-o", "o"});
  good({"m", "--export", "x.safetensors"});
  good({"m", "--eval", "e"});
  refused({"m"}, "--data");
  refused({"m", "--export", "x.safetensors", "--steps", "3"}, "--steps needs --data FILE");
  refused({"m", "--export", "x.safetensors", "--shuffle"}, " needs --data FILE");
}

TEST(Options, Conflicts) {
  refused({"m", "--data", "d", "--steps", "1", "--epochs", "1"}, "--steps and --epochs");
  refused({"m", "--data", "d", "--save-every", "1"}, "--save");
  refused({"m", "--data", "d", "--keep", "1"}, "--keep needs --save DIR");
  refused({"m", "--data", "d", "--overwrite"}, "--overwrite needs --save DIR");
  refused({"m", "--data", "d", "--tune", "1", "-o", "t", "--trim"},
          "--tune and --trim exclude each other: tune for the --batch-size that matters most");
  refused({"m", "--data", "d", "--eval-every", "1"}, "--eval");
  refused({"m", "--predict", "p"}, "-o");
  refused({"m", "--data", "d", "-o", "p"}, "--predict");
  refused({"m", "--data", "d", "--outputs", "p"}, "--predict");
  good({"m", "--export", "x.onnx", "--model", "m.onnx", "--outputs", "logits"});
  refused({"m", "--export", "x.safetensors", "--model", "m.onnx"}, "--model needs");
  refused({"m", "--export", "x.safetensors", "--outputs", "logits"}, "--outputs needs");
  refused({"m", "--export", "x.pt"}, ".safetensors");
  EXPECT_FALSE(good({"m", "--export", "x.safetensors"}).exportsAdapter());
  EXPECT_FALSE(good({"m", "--export", "x.onnx"}).exportsAdapter());
  EXPECT_TRUE(good({"m", "--export", "adapter"}).exportsAdapter());
  EXPECT_TRUE(good({"m", "--export", "adapter.v2/"}).exportsAdapter());
  EXPECT_EQ(good({"m", "--merge-adapter", "x.safetensors"}).mergeAdapter, "x.safetensors");
  refused({"m", "--data", "d", "--adapter", "a", "--resume", "r"}, "--adapter and --resume");
  refused({"m", "--data", "d", "--dump-gradients", "g", "--save", "s"},
          "--dump-gradients goes with none of --save, --eval, --predict, --export, "
          "--merge-adapter, --density");
}

TEST(Options, Tuning) {
  const Options o = good({"m", "--data", "d", "--tune", "2.5", "--accumulate", "2", "-o", "t"});
  EXPECT_EQ(o.tune, 2.5);
  EXPECT_EQ(o.output, "t");
  refused({"m", "--data", "d", "--tune", "1"}, "--tune needs -o");
  refused({"m", "--tune", "1", "-o", "t"}, "--tune needs --data");
  refused({"m", "--data", "d", "--tune", "-1", "-o", "t"}, "at least 0");
  refused({"m", "--data", "d", "--tune", "1", "-o", "t", "--predict", "p"}, "exclude each other");
}

TEST(Options, Debugging) {
  EXPECT_EQ(good({"m", "--data", "d", "--profile", "f"}).profile, "f");
  EXPECT_TRUE(good({"m", "--data", "d", "--check-numerics"}).checkNumerics);
  refused({"m", "--data", "d", "--check-numerics", "--profile", "f"}, "exclude each other");
}

TEST(Options, RowsOfDifferentLengths) {
  const Options o = good({"m", "--data", "d", "--density"});
  EXPECT_EQ(o.density, 1);
  EXPECT_FALSE(o.groupByLength || o.tokensPerBatch || o.trim || o.dropTail);
  EXPECT_TRUE(o.rank == 0 && o.world == 1 && o.complexity.empty());
  const Options all = good({"m", "--data", "d", "--density=100", "--group-by-length=64", "--trim=8",
                            "--tokens-per-batch", "512", "--complexity", "cost", "--rank", "2",
                            "--world", "3", "--tail", "drop"});
  EXPECT_EQ(all.density, 100);
  EXPECT_EQ(all.groupByLength, 64);
  EXPECT_EQ(all.trim, 8);
  EXPECT_EQ(all.tokensPerBatch, 512);
  EXPECT_EQ(all.complexity, "cost");
  EXPECT_TRUE(all.rank == 2 && all.world == 3 && all.dropTail == true);
  const Options bare = good({"--group-by-length", "--trim", "m", "--data", "d", "--tail=repeat"});
  EXPECT_TRUE(bare.groupByLength == 0 && bare.trim == 1 && bare.dropTail == false);
  refused({"m", "--data", "d", "--rank", "1"}, "--rank 1 is none of --world 1");
  refused({"m", "--data", "d", "--complexity", "c"}, "--complexity needs --group-by-length");
  refused({"m", "--data", "d", "--tail", "wrap"}, "--tail");
  refused({"m", "--eval", "e", "--density"}, "--density needs --data");
  refused({"m", "--eval", "e", "--tokens-per-batch", "9"}, "--tokens-per-batch needs --data");
  refused({"m", "--data", "d", "--tune", "1", "-o", "t", "--trim"}, "--tune and --trim exclude");
  refused({"m", "--data", "d", "--dump-gradients", "g", "--density"}, "--dump-gradients");
  for (const char *value : {"--density=0", "--density=x", "--trim=0", "--group-by-length=-1"})
    refused({"m", "--data", "d", value}, std::string(value).substr(0, 6));
}

TEST(Options, Values) {
  for (const char *name : {"--batch-size", "--steps", "--epochs", "--accumulate", "--save-every",
                           "--keep", "--threads", "--eval-every"})
    for (const char *value : {"0", "-1", "x", "1.5", ""})
      refused({"m", "--data", "d", "--save", "s", "--eval", "e", name, value}, name);
  for (const char *name : {"--lr", "--weight-decay", "--clip-norm"})
    for (const char *value : {"-1", "x", "nan", "inf"})
      refused({"m", "--data", "d", name, value}, name);
  refused({"m", "--data", "d", "--seed", "x"}, "--seed");
  refused({"m", "--data", "d", "--log-format", "xml"}, "--log-format");
  refused({"m", "--data", "d", "--lr-schedule", "steps"}, "--lr-schedule");
  refused({"m", "--data", "d", "--learning-speed", "1"}, "--learning-speed");
  refused({"m", "--data"}, "--data");
  refused({"m", "n", "--data", "d"}, "n");
  refused({}, "PACKAGE");
}

TEST(Options, WhatMicroBatchesCountFor) {
  const ParsedOptions parsed = parseOptions({"m", "--data", "d", "--accumulate-by", "tokens"});
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_EQ(parsed.options->accumulateBy, "tokens");
  refused({"m", "--data", "d", "--accumulate-by", "labels"}, "--accumulate-by");
}

TEST(Options, HelpAndVersion) {
  for (const char *flag : {"--help", "-h", "--version"}) {
    ParsedOptions parsed = parseOptions({flag});
    EXPECT_FALSE(parsed.options);
    EXPECT_EQ(parsed.exitCode, 0);
    EXPECT_FALSE(parsed.text.empty());
  }
}

} // namespace
