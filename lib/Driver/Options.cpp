// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line of trainc: its options, by what they are about, and what does not go together.

#include "dialects/Train/Optimizer.h"
#include "format/help.h"
#include "lib/Driver/AdapterOptions.h"
#include "lib/Driver/OptionValues.h"
#include "lib/Phases/Phases.h"
#include "lib/Schedule/Memory/MemoryBudget.h"
#include "lib/Schedule/Recompute/Config.h"
#include "lib/Support/Nearest.h"
#include "trainc/Regex.h"
#include <iostream>

using namespace trainc;

namespace {

constexpr char kHead[] =
    R"(trainc: compiles the training step of an ONNX model into a package

Usage: trainc MODEL.onnx [-o MODEL.tpk] [OPTION...]
       trainc FOLDER                      training artifacts of ONNX Runtime

Examples:
  trainc bert.onnx --optimizer adamw --lr 2e-5 --clip-norm 1.0 --no-decay 'bias|LayerNorm'
  trainc gpt2.onnx --target cuda:sm_90 --precision bf16 -o gpt2.tpk
  trainc llama.onnx --lora r=16,alpha=32 --quantize nf4:double
  trainc model.onnx --dim batch=1..64 --dim seq=1..512 --report --stop-after codegen
)";

/// An option and its opposite.
struct Switch {
  bool on = false, off = false;
  /// What is said last has no say: both at once are refused.
  bool value(bool otherwise) const { return on || (otherwise && !off); }
};

/// What is wrong with the name of a phase; "" if nothing is.
std::string checkPhase(const std::string &name, llvm::ArrayRef<llvm::StringLiteral> phases) {
  if (llvm::is_contained(phases, llvm::StringRef(name)))
    return "";
  return "expected " + llvm::join(phases.drop_back(), ", ") + " or " + phases.back().str() +
         ", got '" + name + "'" + suggestion(name, {phases.begin(), phases.end()});
}

bool lowersPrecision(const TargetTraits &target) { return target.lowersPrecision; }
bool hasVariants(const TargetTraits &target) { return target.kernelVariants; }
bool hasMemory(const TargetTraits &target) { return target.memory.isSeparate; }

class CommandLine {
public:
  explicit CommandLine(CompileOptions &options) : options(options) {
    app.set_version_flag("--version", "trainc " TRAINC_VERSION)->group("Help");
    app.get_help_ptr()->group("Help");
    app.formatter(std::make_shared<trainrt::run::HelpFormatter>(kHead));
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    options.graph.optimizer.clear();
    options.lr = options.weightDecay = NAN;
    addFiles();
    addTraining();
    addModel();
    addAdapters();
    addTarget();
    addMemory();
    addPasses();
    addInspection();
    addRefused();
    excludeFromInference();
  }

  std::optional<int> parse(int argc, const char *const *argv) {
    try {
      checkValues(argc, argv);
      app.parse(argc, argv);
      check();
      readValues();
    } catch (const CLI::Success &done) {
      return app.exit(done, std::cout, std::cerr);
    } catch (const CLI::ExtrasError &) {
      return fail(unexpected());
    } catch (const CLI::ParseError &error) {
      return fail(error.what());
    }
    apply();
    options.arguments.assign(argv + 1, argv + argc);
    return std::nullopt;
  }

private:
  //===--------------------------------------------------------------------===//
  // Options
  //===--------------------------------------------------------------------===//

  void group(const std::string &name) { app.option_defaults()->group(name); }
  CLI::Option *add(const std::string &name, auto &value, const std::string &type,
                   const std::string &text) {
    return app.add_option(name, value, text)->type_name(type);
  }
  void addSwitch(const std::string &name, Switch &value, const std::string &text) {
    CLI::Option *on = app.add_flag("--" + name, value.on, text);
    app.add_flag("--no-" + name, value.off, "")->excludes(on);
  }

  void addFiles() {
    group("Model and package");
    app.add_option("model", options.model, "MODEL.onnx");
    output = add("-o,--output", options.output, "FILE", "package to write (default: MODEL.tpk)");
    add("--optimizer-model", options.optimizerModel, "FILE",
        "ONNX Runtime's optimizer_model.onnx for a training_model.onnx");
    add("--checkpoint", options.checkpoint, "FILE",
        "ONNX Runtime's checkpoint with the parameters of a training_model.onnx");
    app.add_flag("--embed-weights", options.embedWeights, "copy all weights into the package");
    app.add_flag("--embed-ir", options.embedIR, "keep the IR in the package");
    app.add_flag("!--no-command-line", options.tellCommandLine,
                 "the package does not tell this command line");
    add("--sign", options.signKey, "KEY",
        "sign the package with this Ed25519 key (openssl genpkey -algorithm ed25519)")
        ->check(CLI::ExistingFile);
  }

  void addTraining() {
    group("Training");
    app.add_flag("--inference", options.legalize.inference, "no loss: predictions only");
    add("--loss", options.legalize.loss, "NAME",
        "output that is minimised (default: 'loss', else the only scalar float output)");
    std::vector<std::string> optimizers;
    for (const train::OptimizerSpec &optimizer : train::getOptimizers())
      optimizers.push_back(optimizer.name.str());
    add("--optimizer", options.graph.optimizer, "NAME",
        "sgd|adam|adamw|adamw-hf|lamb (default adamw)")
        ->check(CLI::IsMember(optimizers));
    add("--lr", options.lr, "F", "learning rate (default 0.001)")->check(number(/*zero=*/true));
    add("--betas", betas, "F,F", "(default 0.9,0.999)");
    add("--eps", options.graph.epsilon, "F", "(default 1e-8; lamb: 1e-6)")
        ->check(number(/*zero=*/true));
    add("--weight-decay", options.weightDecay, "F", "(default: adamw 0.01, others 0)")
        ->check(number(/*zero=*/true));
    add("--momentum", options.graph.momentum, "F", "of sgd (default 0)")
        ->check(number(/*zero=*/true));
    app.add_flag("--nesterov", options.graph.nesterov, "Nesterov momentum (sgd)");
    add("--optimizer-state", options.graph.optimizerState, "TYPE",
        "fp32|bf16|int8: what the optimizer's averages are stored in (default: as the parameters)")
        ->check(CLI::IsMember({"fp32", "bf16", "int8"}));
    add("--clip-norm", options.clipNorm, "F", "clip the global gradient norm")
        ->check(number(/*zero=*/false));
    add("--accumulate", options.accumulate, "N",
        "micro-batches a step unless trainc-run says otherwise")
        ->check(CLI::Range(1, 1 << 20));
    group("Which parameters (a REGEX is ECMAScript and matches anywhere in a name)");
    add("--trainable", options.legalize.trainable, "REGEX", "parameters to train");
    add("--freeze", options.legalize.freeze, "REGEX", "parameters to leave alone");
    add("--no-decay", options.noDecay, "REGEX", "parameters without weight decay");
    add("--lr-scale", lrScale, "REGEX=F,...",
        "factors of the learning rate; the first match counts");
  }

  void addModel() {
    group("Sizes and forms of the model");
    add("--dim", dims, "NAME=N", "a size, or NAME=MIN..MAX; of several for a NAME the last counts")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    add("--dropout", dropout, "WHEN", "on|off (default: as the graph says)")
        ->check(CLI::IsMember({"on", "off"}));
    add("--batchnorm", batchNorm, "HOW",
        "train|frozen: statistics of the batch, or the running ones, fixed")
        ->check(CLI::IsMember({"train", "frozen"}));
    add("--pad-token", padTokens, "TOKEN",
        "ID, INPUT=ID or INPUT=MASK: the token id that pads, or the input that is 0 there "
        "(default: an input attention_mask)")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }

  void addAdapters() {
    group("Low-rank adapters and quantized weights");
    loraOption = add(
        "--lora", lora, "SETTING,...",
        "train low-rank branches beside the weights that match, and nothing else: r=N, alpha=F, "
        "dropout=F, targets=REGEX|all-linear, rslora, dora, save=REGEX, bias=none|all|lora_only, "
        "r[REGEX]=N, alpha[REGEX]=F; or those that the model has: existing, with rslora, "
        "save=REGEX, bias=KIND");
    fuseLoraOption = add("--fuse-lora", fuseLora, "KIND,...",
                         "kinds of projections whose low-rank branches share products with each "
                         "other and with the base (default mlp,qkv,o)")
                         ->needs(loraOption);
    app.add_flag("--no-fuse-lora", noFuseLora, "every low-rank branch has products of its own")
        ->needs(loraOption)
        ->excludes(fuseLoraOption);
    quantizeOption = add(
        "--quantize", quantize, "FORMAT",
        "nf4|fp4|int8[:double][:block=N][:absmax=f32|bf16|f16][:skip=REGEX]: store weights that "
        "are not trained in 4 or 8 bits");
  }

  void addTarget() {
    group("Target");
    add("--target", target, "TARGET", describeTargets());
    add("--precision", precision, "TYPE",
        "fp32|tf32|bf16|fp16|pure-bf16 (default: the graph's own types); all but fp32: " +
            namesOfTargets(lowersPrecision))
        ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16", "pure-bf16"}));
    add("--cuda-path", options.toolkit, "DIR", "the CUDA toolkit (default: looked for)");
    cache = add("--cache", options.cache, "DIR",
                "keep compiled kernels in this folder, 2 GiB at most, and take them from there "
                "(default: TRAINC_CACHE, else none)")
                ->envname("TRAINC_CACHE");
    app.add_flag("--tune-variants", options.variants,
                 namesOfTargets(hasVariants) +
                     ": kernels in a few ways each, for `trainc-run --tune` to choose from; takes "
                     "several times as long");
  }

  void addMemory() {
    group("Memory");
    add("--recompute", options.recompute, "WHAT",
        "what the backward pass computes again instead of keeping it: level:1 (all within "
        "layers), level:2, PATTERN:TYPE:COUNT,..., a JSON file of these, or list")
        ->check([](const std::string &text) {
          RecomputeConfig config;
          if (text.empty())
            return std::string("expected level:N, PATTERN:TYPE:COUNT,..., a file or list");
          return text == "list" || !isRecomputeConfig(text) ? ""
                                                            : parseRecomputeConfig(text, config);
        });
    add("--memory-budget", options.memoryBudget, "SIZE",
        "choose what is computed again so that a step fits: SIZE (40GB) of all memory, a fraction "
        "(0.5) of activations and temporaries, or fit[:SIZE] to find the batch")
        ->excludes("--recompute")
        ->check([](const std::string &text) {
          MemoryBudget budget;
          return parseMemoryBudget(text, budget);
        });
    offload = app.add_flag("--offload{all}", offloadLimit,
                           "move activations to page-locked memory of the host, at most SIZE "
                           "(8GB), while nothing needs them and where copying hides behind other "
                           "work (" +
                               namesOfTargets(hasMemory) + ")")
                  ->type_name("[=SIZE]");
    add("--offload-rate", options.offload.rate, "F",
        "GB/s that the link to the host carries each way (default 50: PCIe 5 x16)")
        ->needs(offload)
        ->check(number(/*zero=*/false));
    report = app.add_flag("--report{text}", options.report,
                          "print how much memory a step will need, by category and over time; "
                          "and write it to FILE: .json for programs, .html as a page, else text")
                 ->type_name("[=FILE]");
    add("--density", options.density, "F",
        "share of tokens that are not padding, and of rows that have a label, for which --report, "
        "--memory-budget and --offload have their numbers (default 1: all)")
        ->check(number(/*zero=*/false))
        ->check(CLI::Range(0., 1.));
  }

  void addPasses() {
    group("Passes");
    add("-O", level, "N",
        "-O0: the exact baseline, no pass that changes what is computed but "
        "those asked for")
        ->check(CLI::IsMember({"0", "1"}));
    addSwitch("hoist-slices", hoistSlices, "compute only what a later selection keeps (default)");
    addSwitch("exploit-label-sparsity", labelSparsity,
              "compute only the rows of the loss that have a label (default)");
    addSwitch("eliminate-padding", eliminatePadding,
              "compute tokens only, in batches where padding has no influence (default)");
    addSwitch("chunk-loss", chunkLoss,
              "compute the loss of a large vocabulary, with its gradient, for some rows at a time, "
              "where the projection to it is not trained (default)");
    addSwitch("schedule-updates", scheduleUpdates,
              "update a parameter as soon as its gradient is there, and free that (default)");
    add("--token-bucket", options.graph.tokenBucket, "N",
        "numbers of tokens and labelled rows are rounded up to multiples of this (default 8)")
        ->check(CLI::PositiveNumber);
  }

  void addInspection() {
    group("Looking inside");
    log = add("--log-level", logLevel, "LEVEL",
              "error|warning|info|debug: what is told on standard error (default: "
              "TRAINC_LOG_LEVEL, else info)");
    asErrors = app.add_flag("--warnings-as-errors", options.warningsAsErrors,
                            "a warning ends the compilation");
    explain = app.add_flag("--explain{summary}", explainKind,
                           "say what the passes did and why not: a summary by pass; all: every "
                           "decision with its node")
                  ->type_name("[=all]")
                  ->check(CLI::IsMember({"summary", "all"}));
    remarks = add("--remarks", options.remarks, "FILE",
                  "every decision of the passes, a JSON object a line");
    saveIR = add("--save-ir", options.saveIR, "DIR", "the IR after each phase");
    saveKernels = add("--save-kernels", options.saveKernels, "DIR",
                      "the code of each kernel: MLIR, LLVM IR, assembly or PTX");
    stopAfter =
        add("--stop-after", options.stopAfter, "PHASE", "import|legalize|graph|schedule|codegen")
            ->check([](const std::string &text) { return checkPhase(text, kPhases); });
    startFrom = add("--start-from", options.startFrom, "PHASE",
                    "import|legalize|graph|schedule: the model is a file of --save-ir, the IR "
                    "after this phase; goes on from there, with the command line in it")
                    ->check([](const std::string &text) {
                      return checkPhase(text, llvm::ArrayRef(kPhases).drop_back());
                    });
    app.add_flag(
        "--print-pipeline", options.printPipeline,
        "print the passes of the phases graph, schedule and codegen for this model, a line "
        "each, and stop before them");
    timing = app.add_flag("--timing", options.timing,
                          "on standard error, the time that each phase and each pass takes");
    replay = add("--replay", options.replay, "FILE",
                 "run the phase of a reproducer (MODEL.repro.mlir, written when the compiler "
                 "fails) again");
  }

  /// Options of the interface that this version lacks: refused by name, and not in the help.
  void addRefused() {
    for (const char *name :
         {"--fetch", "--attention-dropout", "--tune", "--tuning-file", "--cache-dir"}) {
      auto note = [this, name](const std::vector<std::string> &) {
        refused = name;
        return true;
      };
      app.add_option(name, CLI::callback_t(note))->group("")->expected(0, 1);
    }
  }

  /// --inference has no loss and no optimizer.
  void excludeFromInference() {
    for (const char *name : {"--loss", "--optimizer", "--lr", "--betas", "--eps", "--weight-decay",
                             "--momentum", "--nesterov", "--optimizer-state", "--clip-norm",
                             "--no-decay", "--lr-scale", "--accumulate", "--trainable", "--freeze",
                             "--recompute", "--memory-budget", "--offload", "--lora"})
      app.get_option("--inference")->excludes(app.get_option(name));
  }

  //===--------------------------------------------------------------------===//
  // Checks
  //===--------------------------------------------------------------------===//

  static int fail(const std::string &problem) {
    std::cerr << "trainc: error: " << problem << "\nRun 'trainc --help' for the options.\n";
    return ExitUsage;
  }

  /// What is said of an argument that is no option and no value.
  std::string unexpected() const {
    const std::vector<std::string> rest = app.remaining();
    auto named = llvm::find_if(rest, [](const std::string &text) { return text[0] == '-'; });
    if (named == rest.end())
      return "'" + rest.front() + "' is one argument too many: the model is '" + options.model +
             "'";
    const std::string name = named->substr(0, named->find('='));
    std::vector<std::string> names;
    for (const CLI::Option *option : app.get_options())
      for (const std::string &known : option->get_lnames())
        if (!option->get_group().empty())
          names.push_back("--" + known);
    return "there is no option " + name + suggestion(name, std::move(names));
  }

  /// What the parser would take for something else: an option where another one's value should be,
  /// a flag with '=' and nothing behind it, which is as good as without.
  void checkValues(int argc, const char *const *argv) {
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

  /// What does not go together.
  void check() {
    if (!refused.empty())
      throw CLI::ValidationError(refused, "is not available in this version");
    // "$FOLDER" where nothing has set it: as if the option was not there.
    for (const CLI::Option *option : app.get_options())
      if (llvm::is_contained(option->results(), std::string()))
        throw CLI::ValidationError(option->get_name(), "its value is empty");
    std::string problem;
    if (auto chosen = trainrt::run::chooseLogLevel(logLevel, "TRAINC_LOG_LEVEL", problem))
      options.logLevel = *chosen;
    else
      throw CLI::ParseError(problem, ExitUsage);
    if (*startFrom)
      checkResumed();
    if (*replay)
      for (CLI::Option *option : app.get_options())
        if (*option && !llvm::is_contained({log, asErrors, cache, explain, remarks, saveIR,
                                            saveKernels, timing, replay, output},
                                           option))
          throw CLI::ParseError(option->get_name() + " does not go with --replay, which takes the "
                                                     "command line from the file",
                                ExitUsage);
    if (options.model.empty() && !*replay)
      throw CLI::RequiredError("model");
    if (*report && !options.stopAfter.empty() && options.stopAfter != "codegen")
      throw CLI::ValidationError("--report", "there is no schedule yet after " + options.stopAfter);
    if (*saveKernels && !options.stopAfter.empty() && options.stopAfter != "codegen")
      throw CLI::ValidationError("--save-kernels", "there are none yet after " + options.stopAfter);
    for (const char *name : {"--trainable", "--freeze"})
      if (*loraOption && *app.get_option(name))
        throw CLI::ValidationError(name,
                                   "with --lora the branches are trained, and nothing else; "
                                   "its setting save=REGEX names parameters to train in full");
  }

  /// What goes with --start-from.
  void checkResumed() {
    for (CLI::Option *option : app.get_options())
      if (*option &&
          !llvm::is_contained({app.get_option("model"), log, asErrors, cache, explain, remarks,
                               saveIR, saveKernels, timing, stopAfter, startFrom, output},
                              option))
        throw CLI::ParseError(option->get_name() + " does not go with --start-from, which takes "
                                                   "the command line from the IR",
                              ExitUsage);
    if (*stopAfter &&
        llvm::find(kPhases, options.stopAfter) <= llvm::find(kPhases, options.startFrom))
      throw CLI::ValidationError("--stop-after", options.stopAfter + " is over: --start-from " +
                                                     options.startFrom +
                                                     " goes on with the phase behind that");
  }

  void readValues() {
    readTarget();
    readAdapters();
    options.graph.precision = parsePrecision(precision, options.target->traits);
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
    readOptimizer();
  }

  void readTarget() {
    TargetChoice choice;
    if (std::string problem = parseTarget(target, choice); !problem.empty())
      throw CLI::ValidationError("--target", problem);
    setTarget(options, choice);
    const TargetTraits &traits = choice.target->traits;
    if (options.variants)
      checkTarget("--tune-variants", traits, hasVariants,
                  traits.phrase.str() + "'s kernels have no variants");
    options.offload.enabled = bool(*offload);
    if (options.offload.enabled)
      checkTarget("--offload", traits, hasMemory,
                  "on " + traits.phrase.str() +
                      " activations are in the host's memory already; --recompute and "
                      "--memory-budget need less of it");
    if (options.offload.enabled && offloadLimit != "all") {
      std::optional<int64_t> bytes = parseByteSize(offloadLimit);
      if (!bytes)
        throw CLI::ValidationError("--offload", "expected a size such as 8GB or 512MiB, got '" +
                                                    offloadLimit + "'");
      options.offload.limit = *bytes;
    }
  }

  void readAdapters() {
    auto read = [](const char *name, const std::string &problem) {
      if (!problem.empty())
        throw CLI::ValidationError(name, problem);
    };
    if (*loraOption)
      read("--lora", parseLoraOptions(lora, options.graph.lora.emplace()));
    if (noFuseLora)
      options.graph.lora->fuse.clear();
    if (*fuseLoraOption)
      read("--fuse-lora", parseFusedKinds(fuseLora, options.graph.lora->fuse));
    if (*quantizeOption)
      read("--quantize", parseQuantizeOptions(quantize, options.graph.quantize.emplace()));
  }

  void readOptimizer() {
    GraphOptions &graph = options.graph;
    if (!betas.empty())
      graph.betas = parseNumbers("--betas", betas, 2);
    for (double beta : graph.betas)
      if (!(beta >= 0 && beta < 1))
        throw CLI::ValidationError("--betas", "expected numbers in [0, 1)");
    if ((graph.momentum != 0 || graph.nesterov) && graph.optimizer != "sgd")
      throw CLI::ValidationError("--momentum",
                                 "is for --optimizer sgd; " +
                                     (graph.optimizer.empty() ? "adamw" : graph.optimizer) +
                                     " takes --betas");
    if (!graph.optimizerState.empty() && graph.optimizer == "sgd" && graph.momentum == 0)
      throw CLI::ValidationError("--optimizer-state", "sgd without --momentum has none");
    if (graph.nesterov && graph.momentum == 0)
      throw CLI::ValidationError("--nesterov", "needs --momentum above 0");
  }

  void apply() {
    const bool optimise = level != "0";
    if (!dropout.empty())
      options.legalize.dropout = dropout == "on" ? DropoutMode::On : DropoutMode::Off;
    if (!batchNorm.empty())
      options.legalize.batchNorm =
          batchNorm == "train" ? BatchNormMode::Train : BatchNormMode::Frozen;
    options.explain = explainKind.empty()    ? Explain::Nothing
                      : explainKind == "all" ? Explain::All
                                             : Explain::Summary;
    options.graph.inference = options.legalize.inference;
    options.graph.hoistSlices = hoistSlices.value(optimise);
    options.graph.eliminatePadding = eliminatePadding.value(optimise);
    options.graph.labelSparsity = labelSparsity.value(optimise);
    options.graph.chunkLoss =
        chunkLoss.value(optimise) && options.graph.precision != Precision::FP16;
    options.schedule.scheduleUpdates = scheduleUpdates.value(true);
    options.schedule.fuseEpilogues = optimise;
    for (const DimBound &dim : options.legalize.dims)
      if (dim.max)
        options.schedule.largestSizes.emplace_back(dim.name, *dim.max);
  }

  CLI::App app{"trainc"};
  CompileOptions &options;
  std::string target = "auto", precision = "fp32", level = "1";
  std::string betas, lrScale, dropout, batchNorm, logLevel, explainKind;
  std::string lora, fuseLora, quantize, offloadLimit;
  std::vector<std::string> dims, padTokens;
  bool noFuseLora = false;
  Switch hoistSlices, labelSparsity, eliminatePadding, chunkLoss, scheduleUpdates;
  CLI::Option *output, *loraOption, *fuseLoraOption, *quantizeOption, *offload, *report, *log,
      *asErrors, *cache, *explain, *remarks, *saveIR, *saveKernels, *timing, *replay, *stopAfter,
      *startFrom;
  /// The first of the options that this version lacks.
  std::string refused;
};

} // namespace

void trainc::setTarget(CompileOptions &options, const TargetChoice &choice) {
  options.target = choice.target;
  options.processors = choice.processors;
  options.graph.fusedAttention = choice.target->traits.fusedAttention;
  options.schedule.target = choice.target->traits.schedule;
}

std::optional<int> trainc::parseCommandLine(int argc, const char *const *argv,
                                            CompileOptions &options) {
  return CommandLine(options).parse(argc, argv);
}
