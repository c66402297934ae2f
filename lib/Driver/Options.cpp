// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line of trainc. The one file of the compiler with exceptions, which CLI11 needs.

#include "dialects/Train/Optimizer.h"
#include "lib/Driver/AdapterOptions.h"
#include "lib/Driver/CudaDevice.h"
#include "lib/Driver/MemoryBudget.h"
#include "lib/Transforms/Recompute/Config.h"
#include "trainc/Codegen.h"
#include "trainc/Driver.h"
#include "trainc/Regex.h"
#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>

using namespace trainc;

namespace {
/// Comma-separated numbers.
std::vector<double> parseNumbers(const std::string &option, const std::string &text, size_t count) {
  std::vector<double> numbers;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, ',')) {
    try {
      size_t used = 0;
      numbers.push_back(std::stod(part, &used));
      if (used != part.size())
        throw std::invalid_argument(part);
    } catch (const std::exception &) {
      throw CLI::ValidationError(option, "'" + part + "' is not a number");
    }
  }
  if (numbers.size() != count)
    throw CLI::ValidationError(option, "expected " + std::to_string(count) + " numbers, got '" +
                                           text + "'");
  return numbers;
}

int64_t parseInteger(const std::string &option, const std::string &text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw CLI::ValidationError(option, "'" + text + "' is not an integer");
  return value;
}

void checkRegex(const std::string &option, const std::string &pattern) {
  Regex regex;
  if (std::string problem = regex.compile(pattern); !problem.empty())
    throw CLI::ValidationError(option, problem);
}

/// Accepts finite numbers of at least 0; without `zero`, above 0.
CLI::Validator number(bool zero) {
  return CLI::Validator(
      [zero](std::string &text) -> std::string {
        const char *start = text.c_str();
        char *end = nullptr;
        double value = std::strtod(start, &end);
        if (end != start && !*end && std::isfinite(value) && (zero ? value >= 0 : value > 0))
          return {};
        return "'" + text + "' is not a number " + (zero ? "of at least 0" : "above 0");
      },
      "F");
}

/// NAME=N or NAME=MIN..MAX
DimBound parseDim(const std::string &text) {
  size_t equal = text.find('=');
  if (equal == std::string::npos || equal == 0)
    throw CLI::ValidationError("--dim", "expected NAME=N or NAME=MIN..MAX, got '" + text + "'");
  DimBound bound;
  bound.name = text.substr(0, equal);
  std::string range = text.substr(equal + 1);
  size_t dots = range.find("..");
  auto parse = [&](const std::string &number) {
    int64_t value = 0;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error == std::errc::result_out_of_range)
      throw CLI::ValidationError("--dim", "'" + text + "': " + number + " is out of range");
    if (error != std::errc() || end != number.data() + number.size())
      throw CLI::ValidationError("--dim", "expected NAME=N or NAME=MIN..MAX, got '" + text +
                                              "': '" + number + "' is not an integer");
    return value;
  };
  bound.min = parse(range.substr(0, dots));
  bound.max = dots == std::string::npos ? bound.min : parse(range.substr(dots + 2));
  if (bound.min < 1 || *bound.max < bound.min)
    throw CLI::ValidationError("--dim", "'" + text + "' is an empty range: sizes are at least 1");
  return bound;
}

/// What the parser would take for something else: an option where another one's value should be, a
/// flag with '=' and nothing behind it, which is as good as without.
void checkValues(const CLI::App &app, int argc, const char *const *argv) {
  auto find = [&](const std::string &text) -> const CLI::Option * {
    return text.rfind("--", 0) == 0 ? app.get_option_no_throw(text.substr(0, text.find('=')))
                                    : nullptr;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const CLI::Option *option = find(argument);
    if (!option)
      continue;
    const bool isFlag = option->get_items_expected_min() == 0;
    const size_t equal = argument.find('=');
    if (isFlag && equal + 1 == argument.size())
      throw CLI::ValidationError(argument.substr(0, equal),
                                 "nothing follows the '='; without it the option has no value");
    if (!isFlag && equal == std::string::npos && i + 1 < argc && find(argv[i + 1]))
      throw CLI::ValidationError(argument, "expected a value, got the option '" +
                                               std::string(argv[i + 1]) + "'");
    // A value that starts with dashes is one nevertheless.
    i += !isFlag && equal == std::string::npos;
  }
}

/// ID, INPUT=ID or INPUT=MASK
PadToken parsePadToken(const std::string &text) {
  PadToken token;
  size_t equal = text.rfind('=');
  std::string value = equal == std::string::npos ? text : text.substr(equal + 1);
  if (equal != std::string::npos)
    token.input = text.substr(0, equal);
  int64_t id;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), id);
  if (error == std::errc() && end == value.data() + value.size())
    token.id = id;
  else
    token.mask = value;
  if (value.empty() || equal == 0 || (token.input.empty() && !token.id))
    throw CLI::ValidationError("--pad-token",
                               "expected ID, INPUT=ID or INPUT=MASK, got '" + text + "'");
  return token;
}

/// REGEX=F, ... : the factor stands behind the last '='.
std::vector<std::pair<std::string, double>> parseLrScale(const std::string &text) {
  std::vector<std::pair<std::string, double>> scales;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, ',')) {
    size_t equal = part.rfind('=');
    if (equal == std::string::npos)
      throw CLI::ValidationError("--lr-scale", "expected REGEX=FACTOR, got '" + part + "'");
    checkRegex("--lr-scale", part.substr(0, equal));
    scales.emplace_back(part.substr(0, equal),
                        parseNumbers("--lr-scale", part.substr(equal + 1), 1)[0]);
  }
  return scales;
}

void parseTargets(const std::string &text, CompileOptions &options) {
  auto invalid = [&](const std::string &why) {
    return CLI::ValidationError("--target", "'" + text + "': " + why);
  };
  if (text.rfind("cuda", 0) == 0 || text == "auto") {
    std::string device = findCudaDevice();
    options.cuda = text != "auto" || !device.empty();
    if (options.cuda)
      options.targets.clear();
    if (text == "cuda" && device.empty())
      throw invalid("no CUDA device here to take the architecture from; name it: cuda:sm_90");
    if (options.cuda && text.rfind("cuda:", 0) != 0) {
      options.targets = {device};
      return;
    }
  }
  if (text == "auto" || text == "cpu")
    return;
  if (text.rfind("cuda:", 0) == 0) {
    std::stringstream stream(text.substr(5));
    std::string part;
    while (std::getline(stream, part, ',')) {
      int number = part.rfind("sm_", 0) == 0 ? int(parseInteger("--target", part.substr(3))) : 0;
      if (number < 80)
        throw invalid("expected architectures from sm_80 on, such as cuda:sm_80,sm_90");
      options.targets.push_back(part);
    }
    if (!options.targets.empty())
      return;
  }
  if (text == "cpu:native") {
    llvm::StringRef level = codegen::getHostLevel();
    if (level.empty())
      throw invalid("kernels need x86-64-v3 or better, which this machine is not");
    options.targets = {level.str()};
    return;
  }
  for (const char *level : {"x86-64-v3", "x86-64-v4"})
    if (text == std::string("cpu:") + level) {
      options.targets = {level};
      return;
    }
  throw invalid("expected auto, cpu, cpu:x86-64-v3, cpu:x86-64-v4, cpu:native, cuda or "
                "cuda:sm_NN[,sm_NN...]");
}

Precision parsePrecision(const std::string &text, bool cuda) {
  if (text == "fp32")
    return Precision::Graph;
  if (!cuda)
    throw CLI::ValidationError("--precision", "'" + text +
                                                  "' needs --target cuda; on the CPU models train "
                                                  "in the graph's own types");
  return text == "tf32"   ? Precision::TF32
         : text == "bf16" ? Precision::BF16
         : text == "fp16" ? Precision::FP16
                          : Precision::PureBF16;
}
} // namespace

std::optional<int> trainc::parseCommandLine(int argc, const char *const *argv,
                                            CompileOptions &options) {
  CLI::App app{"trainc: compiles the training step of an ONNX model into a package"};
  app.set_version_flag("--version", "trainc " TRAINC_VERSION);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::string target = "auto", betas, dropout, batchNorm, lrScale;
  std::vector<std::string> dims;
  std::string level = "1", precision = "fp32";
  bool hoist = false, noHoist = false, labelSparsity = false, noLabelSparsity = false;
  bool chunk = false, noChunk = false;
  bool padding = false, noPadding = false, updates = true, noUpdates = false;
  options.graph.optimizer.clear();
  options.lr = options.weightDecay = NAN;
  app.add_option("model", options.model, "MODEL.onnx");
  CLI::Option *output =
      app.add_option("-o,--output", options.output, "package to write (default: MODEL.tpk)");
  app.add_option("--target", target,
                 "auto|cpu[:x86-64-v3|x86-64-v4|native]|cuda[:sm_NN,...] (auto: cuda where there "
                 "is a device, else cpu)");
  app.add_option("--cuda-path", options.cudaPath,
                 "folder of the CUDA toolkit (default: looked for)");
  app.add_flag("--tune-variants", options.variants,
               "cuda: kernels in a few ways each, for `trainc-run --tune` to choose from; takes "
               "several times as long");
  app.add_flag("--inference", options.legalize.inference, "no loss: predictions only");
  app.add_option("--loss", options.legalize.loss,
                 "output that is minimised (default: 'loss', else the only scalar float output)");
  std::vector<std::string> optimizerNames;
  for (const train::OptimizerSpec &optimizer : train::getOptimizers())
    optimizerNames.push_back(optimizer.name.str());
  app.add_option("--optimizer-model", options.optimizerModel,
                 "ONNX Runtime's optimizer_model.onnx for a training_model.onnx");
  app.add_option("--checkpoint", options.checkpoint,
                 "ONNX Runtime's checkpoint with the parameters of a training_model.onnx");
  app.add_option("--optimizer", options.graph.optimizer,
                 "sgd|adam|adamw|adamw-hf|lamb (default adamw)")
      ->check(CLI::IsMember(optimizerNames));
  app.add_option("--lr", options.lr, "learning rate (default 0.001)")->check(number(/*zero=*/true));
  app.add_option("--betas", betas, "F,F (default 0.9,0.999)");
  app.add_option("--eps", options.graph.epsilon, "default 1e-8 (lamb: 1e-6)")
      ->check(number(/*zero=*/true));
  app.add_option("--weight-decay", options.weightDecay, "default: adamw 0.01, others 0")
      ->check(number(/*zero=*/true));
  app.add_option("--momentum", options.graph.momentum, "of sgd (default 0)")
      ->check(number(/*zero=*/true));
  app.add_flag("--nesterov", options.graph.nesterov, "Nesterov momentum (sgd)");
  app.add_option("--optimizer-state", options.graph.optimizerState,
                 "fp32|bf16|int8: what the optimizer's averages are stored in (default: as the "
                 "parameters)")
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}));
  app.add_option("--clip-norm", options.clipNorm, "clip the global gradient norm")
      ->check(number(/*zero=*/false));
  app.add_option("--no-decay", options.noDecay, "REGEX of parameters without weight decay");
  app.add_option("--lr-scale", lrScale, "REGEX=FACTOR,... of the learning rate");
  app.add_option("--accumulate", options.accumulate,
                 "micro-batches a step unless trainc-run says otherwise")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--trainable", options.legalize.trainable, "REGEX of parameters to train");
  app.add_option("--freeze", options.legalize.freeze, "REGEX of parameters to leave alone");
  app.add_option("--dim", dims, "NAME=N or NAME=MIN..MAX; of several for a NAME the last counts")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--dropout", dropout, "on|off (default: as the graph says)")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--batchnorm", batchNorm,
                 "train|frozen: statistics of the batch, or the running ones, fixed")
      ->check(CLI::IsMember({"train", "frozen"}));
  app.add_option(
         "--precision", precision,
         "fp32|tf32|bf16|fp16|pure-bf16 (default: the graph's own types); all but fp32: cuda")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16", "pure-bf16"}));
  std::vector<std::string> padTokens;
  app.add_option("--pad-token", padTokens,
                 "ID, INPUT=ID or INPUT=MASK: the token id that pads, or the input that is 0 there "
                 "(default: an input attention_mask)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  CLI::Option *hoistOption =
      app.add_flag("--hoist-slices", hoist, "compute only what a later selection keeps (default)");
  app.add_flag("--no-hoist-slices", noHoist, "")->excludes(hoistOption);
  CLI::Option *labelOption =
      app.add_flag("--exploit-label-sparsity", labelSparsity,
                   "compute only the rows of the loss that have a label (default)");
  app.add_flag("--no-exploit-label-sparsity", noLabelSparsity, "")->excludes(labelOption);
  CLI::Option *paddingOption =
      app.add_flag("--eliminate-padding", padding,
                   "compute tokens only, in batches where padding has no influence (default)");
  app.add_flag("--no-eliminate-padding", noPadding, "")->excludes(paddingOption);
  CLI::Option *chunkOption =
      app.add_flag("--chunk-loss", chunk,
                   "compute the loss of a large vocabulary, with its gradient, for some rows at a "
                   "time, where the projection to it is not trained (default)");
  app.add_flag("--no-chunk-loss", noChunk, "")->excludes(chunkOption);
  CLI::Option *updatesOption =
      app.add_flag("--schedule-updates", updates,
                   "update a parameter as soon as its gradient is there, and free that (default)");
  app.add_flag("--no-schedule-updates", noUpdates, "")->excludes(updatesOption);
  app.add_option(
         "--token-bucket", options.graph.tokenBucket,
         "numbers of tokens and labelled rows are rounded up to multiples of this (default 8)")
      ->check(CLI::PositiveNumber);
  app.add_option("--recompute", options.recompute,
                 "what the backward pass computes again instead of keeping it: level:1 (all within "
                 "layers), level:2, PATTERN:TYPE:COUNT,..., a JSON file of these, or list")
      ->check([](const std::string &text) {
        RecomputeConfig config;
        if (text.empty())
          return std::string("expected level:N, PATTERN:TYPE:COUNT,..., a file or list");
        return text == "list" || !isRecomputeConfig(text) ? "" : parseRecomputeConfig(text, config);
      });
  app.add_option("--memory-budget", options.memoryBudget,
                 "choose what is computed again so that a step fits: SIZE (40GB) of all memory, "
                 "FRACTION (0.5) of activations and temporaries, or fit[:SIZE] to find the batch")
      ->excludes("--recompute")
      ->check([](const std::string &text) {
        MemoryBudget budget;
        return parseMemoryBudget(text, budget);
      });
  std::string lora, quantize;
  CLI::Option *loraOption = app.add_option(
      "--lora", lora,
      "r=N,alpha=F[,dropout=F][,targets=REGEX|all-linear][,rslora][,dora][,save=REGEX][,bias=none|"
      "all|lora_only][,r[REGEX]=N][,alpha[REGEX]=F]: train low-rank branches beside the weights "
      "that match, and nothing else; existing[,rslora][,save=REGEX][,bias=KIND]: those that the "
      "model has");
  std::string fuseLora;
  CLI::Option *fuseLoraOption =
      app.add_option(
             "--fuse-lora", fuseLora,
             "kinds of projections whose low-rank branches share products with each other and "
             "with the base (default mlp,qkv,o)")
          ->needs(loraOption);
  bool noFuseLora = false;
  app.add_flag("--no-fuse-lora", noFuseLora, "every low-rank branch has products of its own")
      ->needs(loraOption)
      ->excludes(fuseLoraOption);
  CLI::Option *quantizeOption = app.add_option(
      "--quantize", quantize,
      "nf4|fp4|int8[:double][:block=N][:absmax=f32|bf16|f16][:skip=REGEX]: store weights that are "
      "not trained in 4 or 8 bits");
  app.add_option("--density", options.density,
                 "share of tokens that are not padding, and of rows that have a label, for which "
                 "--report, --memory-budget and --offload have their numbers (default 1: all)")
      ->check(number(/*zero=*/false))
      ->check(CLI::Range(0., 1.));
  std::string offloadLimit;
  CLI::Option *offload = app.add_flag(
      "--offload{all}", offloadLimit,
      "[=SIZE]: move activations to page-locked memory of the host, at most SIZE (8GB), while "
      "nothing needs them and where copying hides behind other work (cuda)");
  app.add_option("--offload-rate", options.offload.rate,
                 "GB/s that the link to the host carries each way "
                 "(default 50: PCIe 5 x16)")
      ->needs(offload)
      ->check(number(/*zero=*/false));
  app.add_option(
         "-O", level,
         "-O0: the exact baseline, no pass that changes what is computed but those asked for")
      ->check(CLI::IsMember({"0", "1"}));
  std::string logLevel;
  CLI::Option *log = app.add_option("--log-level", logLevel,
                                    "error|warning|info|debug: what is told on standard error "
                                    "(default: TRAINC_LOG_LEVEL, else info)");
  CLI::Option *asErrors = app.add_flag("--warnings-as-errors", options.warningsAsErrors,
                                       "a warning ends the compilation");
  CLI::Option *explain =
      app.add_flag("--explain", options.explain, "say what each pass did, and why not");
  CLI::Option *remarks = app.add_option("--remarks", options.remarks,
                                        "file for what --explain says, a JSON object a line");
  CLI::Option *saveIR =
      app.add_option("--save-ir", options.saveIR, "folder for the IR after each phase");
  CLI::Option *saveKernels =
      app.add_option("--save-kernels", options.saveKernels,
                     "folder for the code of each kernel: MLIR, LLVM IR, assembly or PTX");
  CLI::Option *report =
      app.add_flag("--report{text}", options.report,
                   "[=FILE.html]: print how much memory a step will need, by category and over "
                   "time; and write it as a page");
  app.add_option("--stop-after", options.stopAfter, "import|legalize|graph|schedule|codegen")
      ->check(CLI::IsMember({"import", "legalize", "graph", "schedule", "codegen"}));
  app.add_flag("--print-pipeline", options.printPipeline,
               "print the passes of the phases graph and schedule for this model, a line each, and "
               "stop before them");
  CLI::Option *replay = app.add_option(
      "--replay", options.replay,
      "run the phase of a reproducer (MODEL.repro.mlir, written when the compiler fails) again");
  app.add_flag("--embed-ir", options.embedIR, "keep the IR in the package");
  app.add_flag("--embed-weights", options.embedWeights, "copy all weights into the package");
  // Options of the interface that this version lacks: refused by name, and not in the help.
  std::string refused;
  for (const char *name :
       {"--fetch", "--attention-dropout", "--tune", "--tuning-file", "--cache-dir"}) {
    auto note = [&refused, name](const std::vector<std::string> &) {
      refused = name;
      return true;
    };
    app.add_option(name, CLI::callback_t(note))->group("")->expected(0, 1);
  }
  // --inference has no loss and no optimizer.
  for (const char *name : {"--loss", "--optimizer", "--lr", "--betas", "--eps", "--weight-decay",
                           "--momentum", "--nesterov", "--optimizer-state", "--clip-norm",
                           "--no-decay", "--lr-scale", "--accumulate", "--trainable", "--freeze",
                           "--recompute", "--memory-budget", "--offload", "--lora"})
    app.get_option("--inference")->excludes(app.get_option(name));
  try {
    checkValues(app, argc, argv);
    app.parse(argc, argv);
    if (!refused.empty())
      throw CLI::ValidationError(refused, "is not available in this version");
    std::string problem;
    if (auto chosen = trainrt::run::chooseLogLevel(logLevel, "TRAINC_LOG_LEVEL", problem))
      options.logLevel = *chosen;
    else
      throw CLI::ParseError(problem, ExitUsage);
    if (*replay)
      for (CLI::Option *option : app.get_options())
        if (*option &&
            !llvm::is_contained(
                {log, asErrors, explain, remarks, saveIR, saveKernels, replay, output}, option))
          throw CLI::ParseError(option->get_name() + " does not go with --replay, which takes the "
                                                     "command line from the file",
                                ExitUsage);
    if (options.model.empty() && !*replay)
      throw CLI::RequiredError("model");
    if (*report && !options.stopAfter.empty() && options.stopAfter != "codegen")
      throw CLI::ValidationError("--report", "there is no schedule yet after " + options.stopAfter);
    if (*saveKernels && !options.stopAfter.empty() && options.stopAfter != "codegen")
      throw CLI::ValidationError("--save-kernels", "there are none yet after " + options.stopAfter);
    parseTargets(target, options);
    if (options.variants && !options.cuda)
      throw CLI::ValidationError("--tune-variants", "is for --target cuda: the CPU's kernels have "
                                                    "no variants");
    options.offload.enabled = bool(*offload);
    if (options.offload.enabled && !options.cuda)
      throw CLI::ValidationError("--offload",
                                 "is for --target cuda: on the CPU activations are in the host's "
                                 "memory already; --recompute and --memory-budget need less of it");
    if (options.offload.enabled && offloadLimit != "all") {
      std::optional<int64_t> bytes = parseByteSize(offloadLimit);
      if (!bytes)
        throw CLI::ValidationError("--offload", "expected a size such as 8GB or 512MiB, got '" +
                                                    offloadLimit + "'");
      options.offload.limit = *bytes;
    }
    if (*loraOption)
      if (std::string problem = parseLoraOptions(lora, options.graph.lora.emplace());
          !problem.empty())
        throw CLI::ValidationError("--lora", problem);
    for (const char *name : {"--trainable", "--freeze"})
      if (*loraOption && *app.get_option(name))
        throw CLI::ValidationError(name,
                                   "with --lora the branches are trained, and nothing else; "
                                   "its setting save=REGEX names parameters to train in full");
    if (noFuseLora)
      options.graph.lora->fuse.clear();
    if (*fuseLoraOption)
      if (std::string problem = parseFusedKinds(fuseLora, options.graph.lora->fuse);
          !problem.empty())
        throw CLI::ValidationError("--fuse-lora", problem);
    if (*quantizeOption)
      if (std::string problem = parseQuantizeOptions(quantize, options.graph.quantize.emplace());
          !problem.empty())
        throw CLI::ValidationError("--quantize", problem);
    options.graph.precision = parsePrecision(precision, options.cuda);
    if (!betas.empty())
      options.graph.betas = parseNumbers("--betas", betas, 2);
    for (double beta : options.graph.betas)
      if (!(beta >= 0 && beta < 1))
        throw CLI::ValidationError("--betas", "expected numbers in [0, 1)");
    for (const std::string &dim : dims)
      options.legalize.dims.push_back(parseDim(dim));
    for (const std::string &token : padTokens)
      options.padTokens.push_back(parsePadToken(token));
    for (auto &[name, pattern] :
         {std::pair<std::string, std::string>("--trainable", options.legalize.trainable),
          {"--freeze", options.legalize.freeze},
          {"--no-decay", options.noDecay}})
      checkRegex(name, pattern);
    if (!lrScale.empty())
      options.lrScale = parseLrScale(lrScale);
    if ((options.graph.momentum != 0 || options.graph.nesterov) && options.graph.optimizer != "sgd")
      throw CLI::ValidationError(
          "--momentum", "is for --optimizer sgd; " +
                            (options.graph.optimizer.empty() ? "adamw" : options.graph.optimizer) +
                            " takes --betas");
    if (!options.graph.optimizerState.empty() && options.graph.optimizer == "sgd" &&
        options.graph.momentum == 0)
      throw CLI::ValidationError("--optimizer-state", "sgd without --momentum has none");
    if (options.graph.nesterov && options.graph.momentum == 0)
      throw CLI::ValidationError("--nesterov", "needs --momentum above 0");
  } catch (const CLI::Success &done) {
    return app.exit(done, std::cout, std::cerr);
  } catch (const CLI::ParseError &error) {
    std::cerr << "trainc: error: " << error.what() << "\nRun 'trainc --help' for the options.\n";
    return ExitUsage;
  }
  if (dropout == "on")
    options.legalize.dropout = DropoutMode::On;
  else if (dropout == "off")
    options.legalize.dropout = DropoutMode::Off;
  if (batchNorm == "train")
    options.legalize.batchNorm = BatchNormMode::Train;
  else if (batchNorm == "frozen")
    options.legalize.batchNorm = BatchNormMode::Frozen;
  options.graph.inference = options.legalize.inference;
  options.graph.hoistSlices = hoist || (!noHoist && level != "0");
  options.graph.eliminatePadding = padding || (!noPadding && level != "0");
  options.graph.labelSparsity = labelSparsity || (!noLabelSparsity && level != "0");
  options.graph.chunkLoss =
      (chunk || (!noChunk && level != "0")) && options.graph.precision != Precision::FP16;
  options.graph.fusedAttention = options.cuda;
  options.schedule.scheduleUpdates = updates && !noUpdates;
  options.schedule.cuda = options.cuda;
  options.schedule.fuseEpilogues = level != "0";
  for (const DimBound &dim : options.legalize.dims)
    if (dim.max)
      options.schedule.largestSizes.emplace_back(dim.name, *dim.max);
  options.arguments.assign(argv + 1, argv + argc);
  return std::nullopt;
}
