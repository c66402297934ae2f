// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One function for what the options of a concern exclude and need, in the order in which a person
// is told.
#include "cli/conflicts.h"

#include "cli/format.h"
#include "format/status.h"

namespace trainrt::run {

namespace {

/// Of these functions each returns the first conflict that it finds, "" for none. They look at
/// options alone; what depends on package or data is found later, where these are open.
std::string ofBest(const Options &o) {
  if (o.keepBest && o.save.empty())
    return "--keep-best needs --save DIR";
  for (auto [given, name] :
       {std::pair(o.keepBest.has_value(), "--keep-best"), {o.patience.has_value(), "--patience"}})
    if (given && o.eval.empty())
      return std::string(name) + " needs --eval FILE, whose results it compares";
  // With --epochs each of them ends with an evaluation.
  if (o.patience && o.steps && !o.evalEvery)
    return "--patience needs --eval-every N beside --steps: there is no other evaluation on the "
           "way";
  // Asked by `given`, since the metric has a default.
  if (o.given.count("--metric") && !o.keepBest && !o.patience)
    return "--metric needs --keep-best or --patience, which compare it";
  if (!o.summary.empty() && !o.summary.ends_with(".html"))
    return "--summary writes a page: '" + o.summary + "' does not end in .html";
  return {};
}

/// Options that go together in any run, whatever it reads.
std::string ofRun(const Options &o) {
  if (o.requireSignature && o.verifyKey.empty())
    return "--require-signature needs --verify-key KEY, or TRAINC_VERIFY_KEY";
  if (o.steps && o.epochs)
    return "--steps and --epochs exclude each other";
  if (!o.weights.empty() && o.initStd)
    return "--weights and --init exclude each other";
  if (o.saveEvery && o.save.empty())
    return "--save-every needs --save DIR";
  if (o.keep && o.save.empty())
    return "--keep needs --save DIR";
  if (o.overwrite && o.save.empty())
    return "--overwrite needs --save DIR";
  if (o.evalEvery && o.eval.empty())
    return "--eval-every needs --eval FILE";
  if (std::string conflict = ofBest(o); !conflict.empty())
    return conflict;
  if (!o.predict.empty() && o.output.empty())
    return "--predict needs -o OUT.safetensors";
  if (o.tune && o.output.empty())
    return "--tune needs -o TUNED.tpk";
  // Both that write to -o are asked for before, so here nothing does.
  if (o.predict.empty() && !o.tune && !o.output.empty())
    return "-o needs --predict FILE or --tune SECONDS";
  return {};
}

std::string ofExport(const Options &o) {
  // The three forms are told apart by the path; see exportsAdapter, which may look whether it is a
  // folder.
  if (!o.exportPath.empty() && !o.exportsOnnx() && !o.exportPath.ends_with(".safetensors") &&
      !o.exportsAdapter())
    return "--export writes .onnx and .safetensors files, and adapters to a folder: '" +
           o.exportPath + "' is none of them (a new folder with a '.' in its name ends in '/')";
  if (!o.adapter.empty() && !o.resume.empty())
    return "--adapter and --resume exclude each other: a checkpoint holds its adapter";
  if (o.predict.empty() && !o.exportsOnnx() && !o.outputs.empty())
    return "--outputs needs --predict FILE or --export FILE.onnx";
  if (o.anyModel && o.resume.empty())
    return "--any-model needs --resume DIR";
  for (auto [text, name] : {std::pair(&o.baseName, "--base-name"), {&o.taskType, "--task-type"}})
    if (!text->empty() && !o.exportsAdapter())
      return std::string(name) + " needs --export FOLDER: it is said in adapter_config.json";
  // Found now and not after the training that the export comes behind.
  if (!isUtf8(o.baseName))
    return "--base-name '" + shown(o.baseName) + "' is no UTF-8, which adapter_config.json is";
  if (!o.model.empty() && !o.exportsOnnx())
    return "--model needs --export FILE.onnx";
  if (!o.profile.empty() && o.checkNumerics)
    return "--profile and --check-numerics exclude each other";
  for (auto [text, name] : {std::pair(&o.logDir, "--log-dir"), {&o.summary, "--summary"}})
    if (!o.dumpGradients.empty() && !text->empty())
      return std::string(name) + " and --dump-gradients exclude each other: there are no steps";
  if (!o.dumpGradients.empty() && (!o.save.empty() || !o.eval.empty() || !o.predict.empty() ||
                                   !o.exportPath.empty() || !o.mergeAdapter.empty() || o.density))
    return "--dump-gradients goes with none of --save, --eval, --predict, --export, "
           "--merge-adapter, --density";
  return {};
}

/// Tuning makes one step's batches in the file's order and ends: what asks for more would be
/// ignored in silence.
std::string ofTuning(const Options &o) {
  const std::pair<bool, const char *> notTuned[] = {{o.steps.has_value(), "--steps"},
                                                    {o.epochs.has_value(), "--epochs"},
                                                    {!o.resume.empty(), "--resume"},
                                                    {!o.save.empty(), "--save"},
                                                    {!o.eval.empty(), "--eval"},
                                                    {!o.predict.empty(), "--predict"},
                                                    {!o.exportPath.empty(), "--export"},
                                                    {!o.dumpGradients.empty(), "--dump-gradients"},
                                                    {!o.mergeAdapter.empty(), "--merge-adapter"},
                                                    {!o.profile.empty(), "--profile"},
                                                    {!o.logDir.empty(), "--log-dir"},
                                                    {!o.summary.empty(), "--summary"},
                                                    {o.checkNumerics, "--check-numerics"},
                                                    {o.density.has_value(), "--density"}};
  // The first in this order is told; a second one is found by the next try.
  for (auto [given, name] : notTuned)
    if (o.tune && given)
      return std::string("--tune and ") + name + " exclude each other: --tune does not train";

  const std::pair<bool, const char *> samples[] = {
      {o.groupByLength.has_value(), "--group-by-length"},
      {o.tokensPerBatch.has_value(), "--tokens-per-batch"},
      {o.trim.has_value(), "--trim"},
      {o.world > 1, "--world"}};
  for (auto [given, name] : samples)
    if (o.tune && given)
      return std::string("--tune and ") + name +
             " exclude each other: tune for the --batch-size that matters most";
  return {};
}

/// The ways in which a run has several ranks; it has one of them at most.
std::string ofRanks(const Options &o) {
  const std::pair<bool, const char *> ways[] = {{o.ranks != 0, "--ranks"},
                                                {o.gpus != 0, "--gpus"},
                                                {o.emulateWorld != 0, "--emulate-world"},
                                                {!o.coordinator.empty(), "--coordinator"}};
  const std::pair<bool, const char *> alone[] = {{o.world > 1, "--world"},
                                                 {o.tune.has_value(), "--tune"},
                                                 {!o.dumpGradients.empty(), "--dump-gradients"},
                                                 {o.checkNumerics, "--check-numerics"}};
  // What stands alone in a run of several ranks is excluded by each way.
  std::string way;
  for (auto [given, name] : ways) {
    if (!given)
      continue;
    if (!way.empty())
      return way + " and " + name + " exclude each other";
    way = name;
    for (auto [excluded, other] : alone)
      // --world beside --coordinator is the rank's place. Names are compared as pointers, which is
      // right since both come from the list.
      if (excluded && (way != "--coordinator" || other != alone[0].second))
        return way + " and " + other + " exclude each other";
  }
  if (o.dryRun && (o.data.empty() || o.tune))
    return "--dry-run needs --data FILE to train on, and no --tune";
  if (o.maxRestarts && (!(o.ranks || o.gpus) || o.save.empty()))
    return "--max-restarts needs --ranks N or --gpus N, and --save DIR";
  if (o.gpus && o.given.count("--device"))
    return "--gpus and --device exclude each other: CUDA_VISIBLE_DEVICES says which GPUs";
  if (o.reduce == "nccl" && o.emulateWorld)
    return "--reduce nccl and --emulate-world exclude each other: NCCL knows no ranks on one GPU";
  return {};
}

/// Without --world there is one share, of rank 0.
std::string ofSamples(const Options &o) {
  if (o.rank >= o.world)
    return "--rank " + std::to_string(o.rank) + " is none of --world " + std::to_string(o.world) +
           ": ranks are 0 to " + std::to_string(o.world - 1);
  if (!o.complexity.empty() && !o.groupByLength && !o.tokensPerBatch)
    return "--complexity needs --group-by-length or --tokens-per-batch, which sort by it";
  if (o.balance && !o.groupByLength && !o.tokensPerBatch)
    return "--balance needs --group-by-length or --tokens-per-batch, which know the work of rows";
  return {};
}

/// By the names of the files, which is also how they are told apart when they are opened.
std::string ofWindows(const Options &o) {
  const bool anyStream =
      o.data.ends_with(".bin") || o.eval.ends_with(".bin") || o.predict.ends_with(".bin");
  const std::pair<bool, const char *> ofStreams[] = {{o.window.has_value(), "--window"},
                                                     {!o.binInputs.empty(), "--bin-inputs"},
                                                     {o.binShift, "--bin-shift"}};
  for (auto [given, name] : ofStreams)
    if (given && !anyStream)
      return std::string(name) + " is for tokens in a .bin, and none of --data, --eval and "
                                 "--predict names one";
  return {};
}

std::string ofInfo(const Options &o) {
  const std::pair<bool, const char *> notDescribed[] = {
      {!o.data.empty(), "--data"},
      {!o.eval.empty(), "--eval"},
      {!o.predict.empty(), "--predict"},
      {!o.exportPath.empty(), "--export"},
      {!o.mergeAdapter.empty(), "--merge-adapter"}};
  for (auto [given, name] : notDescribed)
    if (o.info && given)
      return std::string("--info and ") + name + " exclude each other: --info runs nothing";
  return {};
}

/// Says what is missing by what was probably meant: the more special answers come first.
std::string ofMissingData(const Options &o) {
  if (!o.data.empty() || o.info)
    return {};
  if (o.tune)
    return "--tune needs --data FILE: it tunes for the shapes of its first step";
  if (o.package.ends_with(".onnx"))
    return "'" + o.package + "' is no package: it is an ONNX model: compile it first, trainc '" +
           o.package + "' -o model.tpk";
  if (o.predict.empty() && o.exportPath.empty() && o.mergeAdapter.empty() && o.eval.empty())
    return "--data FILE is missing (only --predict, --export, --merge-adapter, --eval and --info "
           "can "
           "do without)";
  const std::pair<bool, const char *> needData[] = {
      {o.steps.has_value(), "--steps"},
      {o.epochs.has_value(), "--epochs"},
      {o.shuffle, "--shuffle"},
      {o.accumulate != 0, "--accumulate"},
      {!o.accumulateBy.empty(), "--accumulate-by"},
      {!o.save.empty(), "--save"},
      {o.lr.has_value(), "--lr"},
      {o.weightDecay.has_value(), "--weight-decay"},
      {o.clipNorm.has_value(), "--clip-norm"},
      {!o.dumpGradients.empty(), "--dump-gradients"},
      {o.evalEvery.has_value(), "--eval-every"},
      {o.patience.has_value(), "--patience"},
      {!o.logDir.empty(), "--log-dir"},
      {!o.summary.empty(), "--summary"},
      {o.peakFlops || o.measurePeak, "--peak-flops"},
      {o.density.has_value(), "--density"},
      {o.groupByLength.has_value(), "--group-by-length"},
      {o.tokensPerBatch.has_value(), "--tokens-per-batch"},
      {o.trim.has_value(), "--trim"},
      {o.world > 1 && o.coordinator.empty(), "--world"},
      {o.balance.has_value(), "--balance"},
      {o.emulateWorld != 0, "--emulate-world"},
      {o.ranks != 0 && o.eval.empty(), "--ranks"},
      {o.gpus != 0 && o.eval.empty(), "--gpus"},
      {!o.coordinator.empty() && o.eval.empty(), "--coordinator"},
      {o.dropTail.has_value(), "--tail"}};
  for (auto [given, name] : needData)
    if (given)
      return std::string(name) + " needs --data FILE";
  return {};
}

} // namespace

/// What excludes each other is told before what is missing: adding it would not help.
std::string findConflict(const Options &options) {
  for (auto *conflict :
       {ofRun, ofExport, ofTuning, ofRanks, ofSamples, ofWindows, ofInfo, ofMissingData})
    if (std::string found = conflict(options); !found.empty())
      return found;
  return {};
}

} // namespace trainrt::run
