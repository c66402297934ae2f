// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses the command line with CLI11.
#include "cli/options.h"

#include "cli/conflicts.h"
#include "cli/format.h"
#include "format/edit_distance.h"
#include "format/help.h"
#include "trainrt/trainrt.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <filesystem>
#include <limits>

namespace trainrt::run {

namespace {

constexpr char kHead[] =
    R"(trainc-run: trains with a package that trainc compiled, and evaluates, predicts and exports

Usage: trainc-run PACKAGE.tpk --data FILE [OPTION...]
       trainc-run PACKAGE.tpk --info

Examples:
  trainc-run bert.tpk --data train.npz --epochs 3 --shuffle --eval valid.npz --save checkpoints
  trainc-run bert.tpk --data train.npz --resume checkpoints --save checkpoints
  trainc-run bert.tpk --resume checkpoints --predict test.npz -o logits.safetensors
  trainc-run bert.tpk --resume checkpoints --export trained.onnx
)";

/// Accepts whole numbers from `least` to `most`.
/// Looks at the text before CLI11 converts it, so that all ranges are told in the same words. The
/// text stays as it is.
CLI::Validator integer(int64_t least, int64_t most = std::numeric_limits<int64_t>::max()) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        std::optional<int64_t> value = parseInteger(text);
        if (value && *value >= least && *value <= most)
          return {};
        std::string range = most == std::numeric_limits<int64_t>::max()
                                ? "of at least " + std::to_string(least)
                                : std::to_string(least) + " to " + std::to_string(most);
        return "'" + text + "' is not a whole number " + range;
      },
      "N");
}

CLI::Validator nonNegative() {
  return CLI::Validator(
      [](std::string &text) -> std::string {
        std::optional<double> value = parseNumber(text);
        // What an f32 cannot hold is refused, too. NaN is no number of at least 0.
        if (value && std::isfinite(float(*value)) && *value >= 0)
          return {};
        return "'" + text + "' is not a number of at least 0";
      },
      "F");
}

/// The command line: its options by groups, and what their texts mean.
/// `app` keeps references to members of `o` and to the texts below, so an object stays where it is
/// made, and parses once.
class CommandLine {
public:
  CommandLine();
  ParsedOptions parse(std::vector<std::string> arguments);

private:
  void addData();
  void addSamples();
  void addWeights();
  void addAdapters();
  void addOptimizer();
  void addEvaluation();
  void addLog();
  void addMachine();
  void addRanks();
  void addInspection();

  /// A flag that may have a number behind "=", else the one in braces.
  CLI::Option *numbered(const char *name, int64_t least, const char *description) {
    return app.add_flag(name)
        ->description(description)
        ->check(integer(least))
        ->type_name("[=N]")
        ->group(group);
  }
  /// Names that no option has are answered with the nearest ones; "" if there are none.
  std::string nearest() const;
  /// What of CLI11's values is no option's own type; an error's text, or "".
  std::string convert();

  Options o;
  CLI::App app{"Trains with a package that trainc compiled.", "trainc-run"};
  const char *group = ""; ///< of the options that are being added
  CLI::Option *groupByLength = nullptr, *trim = nullptr, *density = nullptr;
  std::string tail, init, peakFlops, schedule, logFormat = "text", logLevel, logRanks = "0";
};

CommandLine::CommandLine() {
  app.formatter(std::make_shared<HelpFormatter>(kHead));
  app.get_help_ptr()->group("Help");
  app.add_option("PACKAGE", o.package, "the compiled model, a .tpk file")->required();
  // The upper half is the major version, the lower one the minor.
  const std::string version =
      std::to_string(trainrt_version() >> 16) + "." + std::to_string(trainrt_version() & 0xffff);
  app.set_version_flag("--version", "trainc-run, runtime " + version)->group("Help");

  addData();
  addSamples();
  addWeights();
  addAdapters();
  addOptimizer();
  addEvaluation();
  addLog();
  addMachine();
  addRanks();
  addInspection();
}

void CommandLine::addData() {
  group = "Data";
  app.add_option("--data", o.data,
                 "arrays named as the graph's inputs, .npz or .safetensors; a folder of `trainc "
                 "data`; or tokens, nanoGPT's or llm.c's .bin")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--batch-size", o.batchSize,
         "rows of a micro-batch (default: the package's, else 16 or as many as fit into the "
         "memory that is free)")
      ->type_name("N")
      ->check(integer(1))
      ->group(group);
  app.add_option("--steps", o.steps, "optimizer steps, from the run's beginning; the data repeats")
      ->type_name("N")
      ->check(integer(1))
      ->group(group);
  app.add_option("--epochs", o.epochs, "passes over the data, from the run's beginning (default 1)")
      ->type_name("N")
      ->check(integer(1))
      ->group(group);
  app.add_option("--seed", o.seed,
                 "key of dropout and other random numbers, --init and --shuffle (default 0)")
      ->type_name("N")
      ->check(integer(std::numeric_limits<int64_t>::min()))
      ->group(group);
  app.add_flag("--shuffle", o.shuffle, "another order of the rows every epoch")->group(group);
  app.add_option("--cut", o.cut,
                 "inputs without the batch's axis of which every row has an equal part: "
                 "they are cut with the rows")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->group(group);
  app.add_option("--whole", o.whole, "inputs that every batch gets as they are")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->group(group);
  app.add_option("--window", o.window,
                 "tokens of a row of a .bin (default: the model's size, if it is fixed)")
      ->type_name("N")
      ->check(integer(1, 1 << 30))
      ->group(group);
  app.add_option(
         "--bin-inputs", o.binInputs,
         "inputs that get the tokens of a .bin (default: input_ids, and labels if the model "
         "has them)")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->group(group);
  app.add_flag("--bin-shift", o.binShift,
               "all of these but the first get the token behind each, for models that do not shift "
               "their labels themselves")
      ->group(group);
  app.add_option("--accumulate", o.accumulate, "micro-batches of a step (default: the package's)")
      ->type_name("N")
      ->check(integer(1, 1 << 20))
      ->group(group);
  app.add_option("--accumulate-by", o.accumulateBy,
                 "rows|tokens|mean: what each micro-batch of a step counts for (default: tokens, "
                 "what its loss is divided by, where that is counted; else the mean)")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"rows", "tokens", "mean"}))
      ->group(group);
}

/// Options of one group may be added by several functions; the help has them in the
/// order of the calls.
void CommandLine::addSamples() {
  group = "Data";
  // In braces is the value of the flag alone; a number comes behind "=" only, so that no argument
  // behind the flag is taken for it.
  groupByLength =
      numbered("--group-by-length{0}", 0,
               "batches of rows of similar length, sorted N rows at a time (default: 50 "
               "batches for each rank)");

  app.add_option("--tokens-per-batch", o.tokensPerBatch,
                 "batches of similar rows, as many as make rows x longest <= N; implies --trim; "
                 "--batch-size is then the most rows")
      ->type_name("N")
      ->check(integer(1))
      ->group(group);
  trim = numbered("--trim{1}", 1,
                  "batches as long as their longest row, rounded up to a multiple of N");

  app.add_option("--complexity", o.complexity,
                 "array of --data with the work of each row, to sort by instead of the length")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--balance", o.balance,
                 "so many batches of about equal work follow each other (default: those of a step "
                 "of several ranks, else 1)")
      ->type_name("N")
      ->check(integer(1, 1 << 20))
      ->group(group);
  app.add_option("--rank", o.rank, "the share of the data that is this process's, from 0")
      ->type_name("N")
      ->check(integer(0, 1 << 20))
      ->group(group);
  app.add_option("--world", o.world, "shares of the data, equal in batches and in work (default 1)")
      ->type_name("N")
      ->check(integer(1, 1 << 20))
      ->group(group);
  app.add_option("--tail", tail,
                 "repeat|drop: rows that cannot be shared evenly (default: repeat; drop where the "
                 "package's batch is static)")
      ->type_name("HOW")
      ->check(CLI::IsMember({"repeat", "drop"}))
      ->group(group);
}

void CommandLine::addWeights() {
  group = "Weights and checkpoints";
  app.add_option(
         "--weights", o.weights,
         "initial parameters by name: .safetensors, .npz or .onnx, the .index.json of several, or "
         "their folder")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--init", init, "random initial parameters: normal:STD")
      ->type_name("KIND")
      ->group(group);
  app.add_option("--resume", o.resume, "continue from the newest valid checkpoint in this folder")
      ->type_name("DIR")
      ->group(group);
  app.add_flag("--any-model", o.anyModel,
               "--resume takes a checkpoint of another model, too, if all names, types and shapes "
               "agree (of the same model exported anew, for example)")
      ->group(group);
  app.add_option("--save", o.save, "write checkpoints into this folder, at least one at the end")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--save-every", o.saveEvery, "also after every N-th step")
      ->type_name("N")
      ->check(integer(1))
      ->group(group);
  app.add_option("--keep", o.keep, "keep only the newest N checkpoints of this run")
      ->type_name("N")
      ->check(integer(1))
      ->group(group);
  app.add_option("--keep-best", o.keepBest,
                 "keep the N checkpoints with the best evaluations, too, in DIR/best")
      ->type_name("N")
      ->check(integer(1))
      ->group(group);
  app.add_flag("--overwrite", o.overwrite,
               "--save into a folder with checkpoints of another run, which are removed once the "
               "first one of this run is whole")
      ->group(group);
}

void CommandLine::addAdapters() {
  group = "Weights and checkpoints";
  app.add_option(
         "--export", o.exportPath,
         "write all parameters to this .safetensors file, the whole model with them to "
         "this .onnx file, in evaluation mode, or the adapter in PEFT's form to this folder")
      ->type_name("PATH")
      ->group(group);
  app.add_option("--adapter", o.adapter, "start with the adapter in this folder, in PEFT's form")
      ->type_name("DIR")
      ->group(group);
  app.add_option(
         "--base-name", o.baseName,
         "the base model's folder or name on the hub, for adapter_config.json (default: as in "
         "--adapter)")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--task-type", o.taskType,
                 "what PEFT calls the model's task, for adapter_config.json: CAUSAL_LM, SEQ_CLS, "
                 "SEQ_2_SEQ_LM, TOKEN_CLS, QUESTION_ANS or FEATURE_EXTRACTION (default: as in "
                 "--adapter)")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"CAUSAL_LM", "SEQ_CLS", "SEQ_2_SEQ_LM", "TOKEN_CLS", "QUESTION_ANS",
                             "FEATURE_EXTRACTION"}))
      ->group(group);
  app.add_option("--merge-adapter", o.mergeAdapter,
                 "write the model without adapters, these added to its weights, to this "
                 ".safetensors file")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--model", o.model,
                 "the .onnx file that the package was compiled from, for --export (default: where "
                 "it was then)")
      ->type_name("FILE")
      ->group(group);
}

void CommandLine::addOptimizer() {
  group = "Optimizer";
  app.add_option("--lr", o.lr, "learning rate (default: the package's)")
      ->type_name("F")
      ->check(nonNegative())
      ->group(group);
  app.add_option("--lr-schedule", schedule,
                 "constant|linear|cosine[,warmup=N][,total=N][,min=F], in steps")
      ->type_name("SCHEDULE")
      ->group(group);
  app.add_option("--weight-decay", o.weightDecay, "default: the package's")
      ->type_name("F")
      ->check(nonNegative())
      ->group(group);
  app.add_option("--clip-norm", o.clipNorm, "default: the package's")
      ->type_name("F")
      ->check(nonNegative())
      ->group(group);
  app.add_flag("--allow-nonfinite", o.allowNonfinite,
               "go on after a loss or gradient that is not finite")
      ->group(group);
  app.add_option("--dump-gradients", o.dumpGradients,
                 "only the gradients of the first batch, to this .safetensors file")
      ->type_name("FILE")
      ->group(group);
}

void CommandLine::addEvaluation() {
  group = "Evaluation";
  app.add_option(
         "--eval", o.eval,
         "held-out data: its loss before training, after every epoch (but not with --steps), and "
         "at the end")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--eval-every", o.evalEvery, "also after every N-th step")
      ->type_name("N")
      ->check(integer(1))
      ->group(group);
  app.add_option("--metric", o.metric,
                 "loss|perplexity|accuracy: what --keep-best and --patience compare (default loss)")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"loss", "perplexity", "accuracy"}))
      ->group(group);
  app.add_option("--patience", o.patience, "end after N evaluations that are no better")
      ->type_name("N")
      ->check(integer(1))
      ->group(group);
  app.add_option("--predict", o.predict, "write the outputs for this data (after training, if any)")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--outputs", o.outputs,
                 "which outputs --predict writes (default: all but the loss) and "
                 "--export to .onnx leaves in the model (default: all)")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->group(group);
  app.add_option("-o", o.output,
                 "what is written: the .safetensors file of --predict, the package of --tune")
      ->type_name("FILE")
      ->group(group);
}

void CommandLine::addLog() {
  group = "Log and machine";
  app.add_option("--verify-key", o.verifyKey,
                 "refuse packages that are not signed (trainc --sign) with the key of this Ed25519 "
                 "public key, a PEM file; default: $TRAINC_VERIFY_KEY, if set")
      ->envname("TRAINC_VERIFY_KEY")
      ->type_name("KEY")
      ->group(group);
  app.add_flag("--require-signature", o.requireSignature,
               "refuse packages that are not signed: fails where no key to verify with is given")
      ->group(group);
  app.add_option("--log-format", logFormat, "text|json (one object a step on standard output)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"text", "json"}))
      ->group(group);
  app.add_option("--log-level", logLevel,
                 "error|warning|info|debug: what is told on standard error (default: "
                 "TRAINRT_LOG_LEVEL, else info)")
      ->type_name("LEVEL")
      ->group(group);
  app.add_flag("--warnings-as-errors", o.warningsAsErrors, "a warning ends the run")->group(group);
  app.add_flag("--info", o.info,
               "only describe the package: target, inputs, outputs, parameters; with --log-format "
               "json as one object")
      ->group(group);
  app.add_flag(
         "--dry-run", o.dryRun,
         "end before the first step: checks package, data and options, and tells the memory of "
         "a step, with --ranks N or --emulate-world N that of one of them; writes nothing")
      ->group(group);
  density =
      numbered("--density{1}", 1,
               "every N steps, tell how much of the tokens and labels is real, and at the end "
               "of all steps");

  app.add_option("--log-dir", o.logDir,
                 "every step and evaluation as tables (.csv) and for TensorBoard, in this folder")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--summary", o.summary,
                 "a page about the run: losses, memory, and the command that repeats it")
      ->type_name("FILE.html")
      ->group(group);
  app.add_option("--peak-flops", peakFlops,
                 "operations a second that the device can make, or `measure`, to tell each step's "
                 "share of it (default: measured for --log-dir and --summary, by a matmul)")
      ->type_name("F")
      ->group(group);
  app.add_flag("--memory-stats", o.memoryStats,
               "tell the memory of each step by phase, and what is held, by category, at the end")
      ->group(group);
}

void CommandLine::addMachine() {
  group = "Log and machine";
  app.add_option("--threads", o.threads, "default: all cores; results never depend on it")
      ->type_name("N")
      ->check(integer(1, 1024))
      ->group(group);
  app.add_option("--device", o.device, "which GPU, for packages of one (default 0)")
      ->type_name("N")
      ->check(integer(0, 1023))
      ->group(group);
  app.add_flag("--sync", o.synchronous,
               "wait for every GPU kernel, so that an error names the one at fault; slow")
      ->group(group);
}

void CommandLine::addRanks() {
  group = "Several ranks (packages of trainc --distribute)";
  app.add_option("--ranks", o.ranks,
                 "start N processes on this machine, which train together; each gets its share of "
                 "the threads")
      ->type_name("N")
      ->check(integer(1, 1024))
      ->group(group);
  app.add_option("--gpus", o.gpus,
                 "the same for packages of a GPU: each process has one, the first N of "
                 "CUDA_VISIBLE_DEVICES")
      ->type_name("N")
      ->check(integer(1, 1024))
      ->group(group);
  app.add_option("--local-rank", o.localRank,
                 "beside --coordinator: the GPU of this process (default: as torchrun, mpirun or "
                 "srun say, else --device)")
      ->type_name("N")
      ->check(integer(0, 1023))
      ->group(group);
  app.add_option("--reduce", o.reduce,
                 "rank-order: gradients are added up in the order of ranks, with the bits of one "
                 "process (default); nccl: as NCCL does, on GPUs")
      ->type_name("HOW")
      ->check(CLI::IsMember({"rank-order", "nccl"}))
      ->group(group);
  app.add_option("--coordinator", o.coordinator,
                 "where rank 0 listens and all others call: this process is --rank R of --world N "
                 "(default: as torchrun, mpirun or srun say)")
      ->type_name("HOST:PORT")
      ->group(group);
  app.add_option("--emulate-world", o.emulateWorld,
                 "N ranks in this process, with the bits of N processes")
      ->type_name("N")
      ->check(integer(1, 64))
      ->group(group);
  app.add_option("--ranks-per-node", o.ranksPerNode,
                 "of each machine N neighbours: on CPUs gradients are added up within a machine, "
                 "then from one to the next (default: as launchers and hosts say)")
      ->type_name("N")
      ->check(integer(1, 1024))
      ->group(group);
  app.add_option(
         "--shard-within", o.shardWithin,
         "packages of --distribute zero1 to zero3: N neighbours share a replica of what is in "
         "shards, and each other N have one, too (default: all share one)")
      ->type_name("N")
      ->check(integer(1, 1024))
      ->group(group);
  app.add_option("--max-restarts", o.maxRestarts,
                 "of --ranks and --gpus: begin again from the last checkpoint of --save where a "
                 "rank is lost")
      ->type_name("N")
      ->check(integer(0, 1000))
      ->group(group);
  app.add_option("--log-ranks", logRanks,
                 "0|all: the other ranks, too, tell what they do, behind \"[rank R]\" (default 0)")
      ->type_name("WHICH")
      ->check(CLI::IsMember({"0", "all"}))
      ->group(group);
  app.add_option("--join-timeout", o.joinTimeout,
                 "seconds that ranks are waited for at the beginning (default 60)")
      ->type_name("S")
      ->check(integer(1, 1 << 20))
      ->group(group);
  app.add_option(
         "--collective-timeout", o.exchangeTimeout,
         "seconds that an exchange may take, the slowest rank's step included (default 120)")
      ->type_name("S")
      ->check(integer(1, 1 << 20))
      ->group(group);
}

void CommandLine::addInspection() {
  group = "Log and machine";
  app.add_option("--profile", o.profile,
                 "time every command of the steps: tables by command and by class, a JSON object a "
                 "command in this file, a class in FILE.classes.json, and FILE.trace.json for "
                 "Chrome's trace viewer; steps are slower")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--tune", o.tune,
                 "GPU: for so long, compare algorithms for the steps that --data and --batch-size "
                 "make, and write a package that uses the quickest, with -o; does not train")
      ->type_name("SECONDS")
      ->check(nonNegative())
      ->group(group);
  app.add_option_function<std::string>(
         "--variant", [this](const std::string &value) { o.variants = value == "auto"; },
         "auto|base: whether batches that allow it are run by quicker variants of a function "
         "(default auto)")
      ->type_name("WHICH")
      ->check(CLI::IsMember({"auto", "base"}))
      ->group(group);
  app.add_flag("--check-numerics", o.checkNumerics,
               "look at all that commands write, and name the first one that made a NaN or an "
               "infinity where the loss or a gradient is not finite; very slow")
      ->group(group);
}

/// Asked after CLI11 has failed: `remaining` is then what nothing has taken.
std::string CommandLine::nearest() const {
  std::string text;
  for (const std::string &argument : app.remaining()) {
    if (!argument.starts_with("--"))
      continue;
    const std::string name = argument.substr(2, argument.find('=') - 2);
    std::string best;
    // Where more than half of the letters differ nobody has meant that name.
    size_t least = name.size() / 2 + 1;
    for (const CLI::Option *option : app.get_options())
      for (const std::string &other : option->get_lnames())
        if (const size_t distance = editDistance(name, other); distance < least) {
          least = distance;
          best = other;
        }
    text += (text.empty() ? "" : "; ") + std::string("there is no option --") + name +
            (best.empty() ? "" : "; did you mean --" + best + "?");
  }
  return text;
}

/// CLI11 has taken all arguments. Only values of types that it does not know are read here; the
/// first one that is wrong ends it.
std::string CommandLine::convert() {
  if (!init.empty()) {
    std::optional<double> std;
    if (init.rfind("normal:", 0) == 0)
      std = parseNumber(std::string_view(init).substr(7));
    if (!std || !std::isfinite(*std) || *std < 0)
      return "--init '" + init + "' is not normal:STD, for instance normal:0.02";
    o.initStd = std;
  }
  if (!schedule.empty()) {
    std::string error;
    std::optional<LrSchedule> parsed = LrSchedule::parse(schedule, error);
    if (!parsed)
      return "--lr-schedule " + schedule + ": " + error;
    o.schedule = *parsed;
  }
  if (!peakFlops.empty()) {
    const std::optional<double> value = parseNumber(peakFlops);
    // Measuring needs a device: the number comes later.
    o.measurePeak = peakFlops == "measure";
    if (!o.measurePeak && (!value || !std::isfinite(*value) || *value <= 0))
      return "--peak-flops '" + peakFlops + "' is neither a number above 0 nor `measure`";
    o.peakFlops = o.measurePeak ? std::nullopt : value;
  }
  auto number = [](CLI::Option *flag) {
    return flag->count() ? parseInteger(flag->results().back()) : std::nullopt;
  };
  o.groupByLength = number(groupByLength);
  o.trim = number(trim);
  o.density = number(density);
  if (!tail.empty())
    o.dropTail = tail == "drop";
  o.json = logFormat == "json";
  o.allRanksSpeak = logRanks == "all";
  std::string problem;
  std::optional<LogLevel> level = chooseLogLevel(logLevel, "TRAINRT_LOG_LEVEL", problem);
  if (!level)
    return problem;
  o.logLevel = *level;
  return {};
}

/// Either options, or a text with the exit code: 0 for help and version, 2 for what is wrong. Once
/// for each object, as `o` is given away.
ParsedOptions CommandLine::parse(std::vector<std::string> arguments) {
  auto usage = [](const std::string &text) {
    return ParsedOptions{std::nullopt, "trainc-run: error: " + text + "\ntry trainc-run --help\n",
                         2};
  };
  // As given: ranks are started with them, checkpoints add what they have saved, and pages show
  // them.
  o.arguments = arguments;
  try {
    std::reverse(arguments.begin(), arguments.end()); // CLI11 takes them from the back
    app.parse(arguments);
  } catch (const CLI::CallForHelp &) {
    return {std::nullopt, app.help(), 0};
  } catch (const CLI::CallForVersion &call) {
    return {std::nullopt, std::string(call.what()) + "\n", 0};
  } catch (const CLI::ParseError &error) {
    // What is wrong with it also leaves arguments over: the option's value, and PACKAGE.
    if (const std::string text = nearest(); !text.empty())
      return usage(text);
    return usage(error.what());
  }
  for (const CLI::Option *option : app.get_options()) {
    if (option->count() && !option->get_lnames().empty())
      // PACKAGE has no long name. Conflicts ask for these, so they come first.
      o.given.insert("--" + option->get_lnames().front());
    // "$FOLDER" where nothing has set it: as if the option was not there.
    for (const std::string &value : option->results())
      if (value.empty())
        return usage(option->get_name() + ": its value is empty");
  }
  if (std::string problem = convert(); !problem.empty())
    return usage(problem);
  if (std::string conflict = findConflict(o); !conflict.empty())
    return usage(conflict);
  return {std::move(o), {}, 0};
}

} // namespace

/// Called again by a run that continues, with more arguments: nothing stays of an earlier call.
ParsedOptions parseOptions(std::vector<std::string> arguments) {
  return CommandLine().parse(std::move(arguments));
}

/// What has an extension is a file that is not known, unless it is a folder already. A slash at the
/// end leaves no extension.
bool Options::exportsAdapter() const {
  const std::filesystem::path path(exportPath);
  std::error_code ignored;
  return !exportPath.empty() && !exportsOnnx() && !exportPath.ends_with(".safetensors") &&
         (!path.has_extension() || std::filesystem::is_directory(path, ignored));
}

} // namespace trainrt::run
