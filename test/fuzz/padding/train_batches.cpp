// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles small models in several ways, runs them on batches and compares what they give. Each
// line on standard input is a job, each on standard output what came of one; a job runs in a
// process of its own, forked from this one, so that nothing but the work itself takes time.
//
//   {"model": "m.onnx", "package": "p", "log": "log.txt", "sets": [["-O0"], []],
//    "batches": [["a.npz", "b.npz"]], "whole": false,
//    "runs": [{"set": 0}, {"set": 1, "base": true, "ulps": 3, "batches": 0}]}
//
// `sets`: options of trainc. `runs`: the first is what the others are held against; `base` leaves
// variants out, `ulps` moves the parameters by their last bits, `batches` chooses a list of files.
// Kernels are compiled without optimisation and kept in a folder, TRAIN_BATCHES_CACHE: most of the
// kernels of a random model are those of another one. `whole` compiles everything that a package
// has, as trainc does; otherwise the step is made of gradients and an update. `must_vary` ends a
// job with {"failed": "declined"} where nothing has a variant by the last set.

#include "dialects/Plan/PlanDialect.h"
#include "dialects/Train/TrainDialect.h"
#include "lib/Driver/OptimizerChoice.h"
#include "lib/Target/CPU/Kernels/CpuCodegen.h"
#include "lib/Target/CPU/Kernels/LowerKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "trainc/Codegen/CompileModule.h"
#include "trainc/Codegen/LowerToLLVM.h"
#include "trainc/Conversion/ONNXToTrain/Roles/PadTokens.h"
#include "trainc/Conversion/TrainToPlan/PlanModule.h"
#include "trainc/Driver/Driver.h"
#include "trainc/Import/Import.h"
#include "trainc/Package/Identity.h"
#include "trainc/Package/Package.h"
#include "trainc/Package/ProgramWriter.h"
#include "trainrt/trainrt.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/xxhash.h"
#include <cerrno>
#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace trainc;
namespace json = llvm::json;

namespace {

[[noreturn]] void give(json::Object result) {
  std::string line;
  llvm::raw_string_ostream(line) << json::Value(std::move(result)) << "\n";
  const char *at = line.data();
  for (size_t left = line.size(); left;) {
    ssize_t done = write(STDOUT_FILENO, at, left);
    if (done <= 0)
      break;
    at += done;
    left -= size_t(done);
  }
  // Nothing is worth being destroyed.
  _exit(0);
}

[[noreturn]] void fail(const std::string &stage, const std::string &why) {
  give(json::Object{{"failed", stage}, {"why", why}});
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// Object code as quickly as LLVM makes it.
std::vector<char> compileQuickly(StringRef bitcode, StringRef cpu, std::string &error) {
  const llvm::Triple triple("x86_64-unknown-linux-gnu");
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return {};
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, cpu, "", options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::None));
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = codegen::readModule(bitcode, context, *machine, error);
  if (!module)
    return {};
  llvm::SmallVector<char> object;
  if (!codegen::emitModule(*module, *machine, llvm::CodeGenFileType::ObjectFile, object))
    error = "no emission of code";
  return {object.begin(), object.end()};
}

/// The kernels of all packages of a job in one shared object.
class CachedCodegen final : public codegen::KernelCodegen {
public:
  CachedCodegen(MLIRContext &context, std::string cpu, std::string cache)
      : kernels(context, {cpu}), cpu(std::move(cpu)), cache(std::move(cache)) {}

  FailureOr<codegen::KernelInfo> add(train::FusionOp fusion) override {
    return kernels.add(fusion);
  }
  size_t size() const override { return kernels.size(); }
  bool lacksTools() const override { return false; }
  ModuleOp getModule() override { return kernels.getModule(); }
  FailureOr<std::vector<codegen::KernelListing>> emitListings() override { return failure(); }

  FailureOr<std::vector<codegen::KernelObject>> emitObjects() override {
    if (size() == 0)
      return std::vector<codegen::KernelObject>();
    auto linker = llvm::sys::findProgramByName("ld.lld", {"/usr/lib/llvm-22/bin"});
    if (!linker)
      linker = llvm::sys::findProgramByName("ld.lld");
    if (!linker)
      fail("link", "no ld.lld");
    std::string object = cache + "/kernels-" + std::to_string(getpid()) + ".so";
    std::vector<std::string> arguments = {*linker,       "-shared", "-nostdlib", "-zmuldefs",
                                          "--threads=1", "-o",      object};
    // By the names of the functions, those under which they are known.
    llvm::StringMap<std::string> known;
    llvm::StringMap<std::string> missing;
    for (auto kernel : getModule().getOps<LLVM::LLVMFuncOp>()) {
      if (kernel.isExternal())
        continue;
      std::string name = kernel.getName().str(), text;
      llvm::raw_string_ostream out(text);
      out << cpu;
      kernel.setName("kernel");
      kernel->print(out, OpPrintingFlags().useLocalScope());
      kernel.setName(name);
      llvm::XXH128_hash_t hash = llvm::xxh3_128bits(
          llvm::ArrayRef(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
      known[name] = "k" + llvm::utohexstr(hash.high64) + "_" + llvm::utohexstr(hash.low64);
      if (!llvm::sys::fs::exists(cache + "/" + known[name]))
        missing[name] = known[name];
    }
    if (!missing.empty() && failed(compileMissing(missing)))
      return failure();
    // A link a kernel to the object that it is in.
    llvm::StringSet<> objects;
    for (auto &[name, symbol] : known) {
      llvm::SmallString<256> target;
      if (llvm::sys::fs::real_path(cache + "/" + symbol, target))
        return failure();
      if (objects.insert(target).second)
        arguments.push_back(target.str().str());
      arguments.push_back(("--defsym=" + name + "=" + symbol).str());
    }
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_t child = vfork();
    if (child == 0) {
      execv(argv[0], argv.data());
      _exit(127);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0)
      return failure();
    auto bytes = llvm::MemoryBuffer::getFile(object, false, false);
    unlink(object.c_str());
    if (!bytes)
      return failure();
    std::vector<codegen::KernelObject> result;
    result.push_back(
        {"cpu-" + cpu + ".so", {(*bytes)->getBufferStart(), (*bytes)->getBufferEnd()}});
    return result;
  }

  unsigned made = 0;

private:
  /// Compiles kernels into one object, under other names.
  LogicalResult compileMissing(const llvm::StringMap<std::string> &missing) {
    OwningOpRef<ModuleOp> module = getModule().clone();
    for (auto kernel : llvm::make_early_inc_range(module->getOps<LLVM::LLVMFuncOp>())) {
      auto it = missing.find(kernel.getName());
      if (it != missing.end())
        kernel.setName(it->second);
      else if (!kernel.isExternal())
        kernel.erase();
    }
    made += missing.size();
    if (failed(codegen::lowerToLLVMDialect(*module, "")))
      return failure();
    FailureOr<std::string> bitcode = codegen::translateToBitcode(*module);
    if (failed(bitcode))
      return failure();
    // Only 512 bits are read by masks without the pass that compileBitcode has for it.
    std::string error;
    const std::vector<char> object = cpu == "x86-64-v4"
                                         ? compileQuickly(*bitcode, cpu, error)
                                         : codegen::compileBitcode(*bitcode, cpu, error);
    // Processes that miss the same kernels at the same time keep their objects apart.
    std::string file = cache + "/objects-" + std::to_string(getpid()) + missing.begin()->second;
    std::error_code code;
    llvm::raw_fd_ostream out(file, code);
    out.write(object.data(), object.size());
    out.close();
    if (!error.empty() || code || out.has_error()) {
      llvm::errs() << error << code.message() << "\n";
      return failure();
    }
    for (auto &entry : missing) // Another process may have been quicker.
      if (symlink(file.c_str(), (cache + "/" + entry.second).c_str()) && errno != EEXIST)
        return failure();
    return success();
  }

  codegen::CpuCodegen kernels;
  std::string cpu, cache;
};

struct Compiled {
  CompileOptions options;
  ImportedModel model;
  LegalizeResult legalized;
  OwningOpRef<ModuleOp> module;
  PackageInterface interface;
  PackageContents contents;
  /// Whether some function has a variant, and the job is not done where none has.
  bool varies = false, mustVary = false;
};

void compileTo(Compiled &c, MLIRContext &context, CachedCodegen &codegen, bool whole) {
  c.module = importONNX(c.options.model, context, c.model);
  if (!c.module)
    fail("import", "");
  c.contents.identity = identityOf(*c.module->getOps<onnx::GraphOp>().begin());
  chooseOptimizer(c.options, ArtifactOptimizer());
  if (failed(legalizeONNX(*c.module, c.options.legalize, c.legalized)))
    fail("legalize", "");
  (void)setPadTokens(c.module->lookupSymbol<func::FuncOp>("forward"), c.options.padTokens,
                     c.model.paddingIds);
  PassManager graph(&context), schedule(&context);
  buildGraphPipeline(graph, c.options.graph);
  graph.enableVerifier(false);
  if (failed(graph.run(*c.module)))
    fail("graph", "");
  if (failed(verify(*c.module)))
    fail("graph", "invalid IR");
  c.varies = c.module->lookupSymbol("micro.packed") != nullptr;
  if (!c.varies && c.mustVary)
    give(json::Object{{"failed", "declined"}, {"why", ""}});
  if (!whole)
    for (StringRef name : {"step.packed", "eval.packed", "step", "eval", "loss_weight"})
      if (Operation *function = c.module->lookupSymbol(name))
        function->erase();
  FailureOr<PackageInterface> interface = collectInterface(*c.module);
  if (failed(interface))
    fail("interface", "");
  c.interface = std::move(*interface);
  buildSchedulePipeline(schedule, c.options.schedule);
  schedule.enableVerifier(false);
  if (failed(schedule.run(*c.module)))
    fail("schedule", "");
  if (failed(verify(*c.module)))
    fail("schedule", "invalid IR");
  if (failed(planModule(*c.module, codegen)))
    fail("codegen", "");
}

void packageAt(Compiled &c, ArrayRef<codegen::KernelObject> kernels, const std::string &path) {
  FailureOr<std::vector<char>> program =
      writeProgram(*c.module, c.interface, c.options.target->name());
  if (failed(program))
    fail("program", "");
  c.contents.program = std::move(*program);
  c.contents.kernels = kernels;
  c.contents.targets = {(c.options.target->name() + ":" + c.options.processors.front()).str()};
  c.contents.kind = "training";
  c.contents.loss = c.legalized.loss;
  c.contents.optimizer = json::Object{{"name", c.options.graph.optimizer},
                                      {"lr", c.options.lr},
                                      {"weight_decay", c.options.weightDecay},
                                      {"clip_norm", nullptr},
                                      {"accumulate", 1}};
  if (failed(writePackage(*c.module, c.interface, c.model, c.contents, path)))
    fail("package", "");
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// The error of one call.
struct Call {
  trainrt_error *error = nullptr;
  ~Call() { trainrt_error_free(error); }
  operator trainrt_error **() { return &error; }
  void check(trainrt_status status, const char *stage) {
    if (status != TRAINRT_OK)
      fail(stage, error ? trainrt_error_message(error) : trainrt_status_name(status));
  }
};

struct Batch {
  explicit Batch(const std::string &path) {
    Call call;
    call.check(trainrt_file_open(path.c_str(), &file, call), "batch");
    for (size_t i = 0; i < trainrt_file_count(file); ++i) {
      trainrt_tensor tensor{};
      Call read;
      read.check(trainrt_file_tensor(file, i, &tensor, read), "batch");
      tensors.push_back({trainrt_file_name(file, i), tensor});
    }
  }
  trainrt_batch view() const { return {tensors.data(), tensors.size()}; }
  trainrt_file *file = nullptr;
  std::vector<trainrt_named_tensor> tensors;
};

using Numbers = std::vector<double>;
Numbers numbersOf(const trainrt_tensor &tensor) {
  Numbers numbers(size_t(trainrt_tensor_elements(&tensor)));
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = tensor.dtype == TRAINRT_F64 ? static_cast<const double *>(tensor.data)[i]
                                             : static_cast<const float *>(tensor.data)[i];
  return numbers;
}

/// What a batch, or the steps at the end, have given.
struct Outcome {
  trainrt_status status = TRAINRT_OK;
  std::string message, declined;
  double loss = 0;
  bool packed = false;
  /// Gradients, or how far parameters have moved, with what they are then.
  std::vector<Numbers> values;
  double size = 0;
};

class Run {
public:
  Run(trainrt_package *package, bool base, int64_t ulps) {
    trainrt_session_options options = trainrt_session_options_default();
    options.threads = 1;
    options.no_variants = base;
    Call call;
    call.check(trainrt_session_create(package, &options, &session, call), "session");
    for (size_t i = 0; i < trainrt_package_tensor_count(package, TRAINRT_PARAMETER); ++i) {
      trainrt_tensor_info info = trainrt_tensor_info_default();
      Call read;
      read.check(trainrt_package_tensor(package, TRAINRT_PARAMETER, i, &info, read), "parameters");
      if (info.flags & TRAINRT_FLAG_TRAINABLE)
        names.push_back(info.name);
    }
    llvm::sort(names);
    if (ulps)
      perturb(ulps);
  }

  /// Loss and gradients of a batch, and the loss of an evaluation where there is one.
  Outcome gradients(const Batch &batch, bool evaluates) {
    Outcome outcome;
    trainrt_plan_info before = plans();
    trainrt_batch view = batch.view();
    trainrt_step_options options = trainrt_step_options_default();
    options.flags = TRAINRT_STEP_ALLOW_NONFINITE;
    trainrt_step_result result = trainrt_step_result_default();
    Call call;
    outcome.status = trainrt_gradients(session, &view, 1, &options, &result, call);
    if (call.error)
      outcome.message = trainrt_error_message(call.error);
    outcome.loss = result.loss;
    trainrt_plan_info after = plans();
    outcome.packed = after.variant_batches > before.variant_batches;
    outcome.declined = after.declined ? after.declined : "";
    if (outcome.status == TRAINRT_OK || outcome.status == TRAINRT_NONFINITE)
      for (const std::string &name : names) {
        trainrt_tensor tensor{};
        Call read;
        read.check(trainrt_session_gradient(session, name.c_str(), &tensor, read), "gradient");
        outcome.values.push_back(numbersOf(tensor));
      }
    if (evaluates) {
      trainrt_eval_result evaluated = trainrt_eval_result_default();
      Call call;
      if (trainrt_eval(session, &view, nullptr, &evaluated, call) == TRAINRT_OK)
        outcome.values.push_back({evaluated.loss});
    }
    return outcome;
  }

  /// How far two steps move the parameters: of one batch each, or of all batches together.
  Outcome steps(llvm::ArrayRef<Batch> batches, bool whole) {
    Outcome outcome;
    std::vector<Numbers> before = parameters();
    for (int i = 0; i < 2; ++i) {
      std::vector<trainrt_batch> views;
      for (const Batch &batch : whole ? batches.slice(i % batches.size(), 1) : batches)
        views.push_back(batch.view());
      // One micro-batch alone would be a fused step.
      if (!whole && views.size() == 1)
        views.push_back(views.front());
      trainrt_step_result result = trainrt_step_result_default();
      Call call;
      outcome.status = trainrt_step(session, views.data(), views.size(), nullptr, &result, call);
      if (call.error)
        outcome.message = trainrt_error_message(call.error);
      outcome.loss = result.loss;
      if (outcome.status != TRAINRT_OK)
        return outcome;
    }
    outcome.packed = plans().variant_batches > 0;
    outcome.values = parameters();
    for (auto [now, then] : llvm::zip_equal(outcome.values, before))
      for (auto [a, b] : llvm::zip_equal(now, then)) {
        outcome.size = std::max(outcome.size, std::fabs(b));
        a -= b;
      }
    return outcome;
  }

private:
  trainrt_plan_info plans() {
    trainrt_plan_info info = trainrt_plan_info_default();
    Call call;
    call.check(trainrt_session_plans(session, &info, call), "plans");
    return info;
  }
  std::vector<Numbers> parameters() {
    std::vector<Numbers> result;
    for (const std::string &name : names) {
      trainrt_tensor tensor{};
      Call call;
      call.check(trainrt_session_parameter(session, name.c_str(), &tensor, call), "parameter");
      result.push_back(numbersOf(tensor));
    }
    return result;
  }
  /// Half of the parameters get their next number.
  void perturb(int64_t seed) {
    std::mt19937_64 random(seed);
    for (const std::string &name : names) {
      trainrt_tensor tensor{};
      Call read, write;
      read.check(trainrt_session_parameter(session, name.c_str(), &tensor, read), "parameter");
      const int64_t count = trainrt_tensor_elements(&tensor);
      std::vector<char> bytes(size_t(count) * trainrt_dtype_size(tensor.dtype));
      memcpy(bytes.data(), tensor.data, bytes.size());
      for (int64_t i = 0; i < count; ++i) {
        if (random() & 1)
          continue;
        if (tensor.dtype == TRAINRT_F64) {
          auto *value = reinterpret_cast<double *>(bytes.data()) + i;
          *value = std::nextafter(*value, INFINITY);
        } else {
          auto *value = reinterpret_cast<float *>(bytes.data()) + i;
          *value = std::nextafterf(*value, INFINITY);
        }
      }
      tensor.data = bytes.data();
      write.check(trainrt_session_set_parameter(session, name.c_str(), &tensor, write),
                  "parameter");
    }
  }

  trainrt_session *session = nullptr;
  std::vector<std::string> names;
};

double normOf(const Numbers &numbers) {
  double norm = 0;
  for (double x : numbers)
    norm = std::hypot(norm, x);
  // JSON has no infinity.
  return std::min(norm, std::numeric_limits<double>::max());
}

json::Value finiteOr(double x) {
  return std::isfinite(x) ? json::Value(x)
                          : json::Value(std::isnan(x) ? "nan"
                                        : x > 0       ? "inf"
                                                      : "-inf");
}

/// An outcome beside that of the first run: [norm of the first's, of the difference, elements that
/// are finite there and not here, elements that are not finite there] for each tensor.
json::Value compare(const Outcome &first, const Outcome &other) {
  json::Array tensors;
  if (first.values.size() == other.values.size())
    for (auto [a, b] : llvm::zip_equal(first.values, other.values)) {
      Numbers finite, difference;
      int64_t lost = 0, absent = 0;
      for (auto [x, y] : llvm::zip_equal(a, b)) {
        if (!std::isfinite(x)) {
          ++absent;
        } else if (!std::isfinite(y)) {
          ++lost;
        } else {
          finite.push_back(x);
          difference.push_back(y - x);
        }
      }
      tensors.push_back(json::Array{normOf(finite), normOf(difference), lost, absent});
    }
  return json::Object{{"loss", finiteOr(other.loss)}, {"status", trainrt_status_name(other.status)},
                      {"message", other.message},     {"packed", other.packed},
                      {"declined", other.declined},   {"size", other.size},
                      {"tensors", std::move(tensors)}};
}

std::vector<std::string> textsOf(const json::Value &value) {
  std::vector<std::string> result;
  for (const json::Value &text : *value.getAsArray())
    result.push_back(text.getAsString()->str());
  return result;
}

void runJob(const json::Object &job) {
  const char *cache = getenv("TRAIN_BATCHES_CACHE");
  const std::string package = job.getString("package")->str();
  const bool whole = job.getBoolean("whole").value_or(false);
  // What trainc says goes to the job's log.
  if (!freopen(job.getString("log")->str().c_str(), "w", stderr))
    _exit(1);
  dup2(fileno(stderr), STDERR_FILENO);

  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  context.loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect, onnx::ONNXDialect,
                      train::TrainDialect, plan::PlanDialect>();
  std::string level = codegen::getHostLevel().str();
  CachedCodegen codegen(context, level, cache ? cache : ".");
  const json::Array &settings = *job.getArray("sets");
  std::vector<std::unique_ptr<Compiled>> sets(settings.size());
  // The last one first: it may end the job.
  for (size_t i = settings.size(); i-- > 0;) {
    std::vector<std::string> arguments = textsOf(settings[i]);
    std::string target = "cpu:" + level, model = job.getString("model")->str();
    std::vector<const char *> argv = {"trainc", model.c_str(), "--target", target.c_str()};
    for (const std::string &argument : arguments)
      argv.push_back(argument.c_str());
    sets[i] = std::make_unique<Compiled>();
    sets[i]->mustVary = i + 1 == settings.size() && job.getBoolean("must_vary").value_or(false);
    if (parseCommandLine(int(argv.size()), argv.data(), sets[i]->options))
      fail("options", "");
    compileTo(*sets[i], context, codegen, whole);
  }
  FailureOr<std::vector<codegen::KernelObject>> kernels = codegen.emitObjects();
  if (failed(kernels))
    fail("kernels", "");
  std::vector<trainrt_package *> packages;
  for (auto [i, compiled] : llvm::enumerate(sets)) {
    std::string path = package + std::to_string(i) + ".tpk";
    packageAt(*compiled, *kernels, path);
    Call call;
    packages.emplace_back();
    call.check(trainrt_package_open(path.c_str(), &packages.back(), call), "open");
  }

  std::vector<std::vector<Batch>> batches;
  for (const json::Value &list : *job.getArray("batches")) {
    batches.emplace_back();
    for (const std::string &path : textsOf(list))
      batches.back().emplace_back(path);
  }
  json::Array varies, runs;
  for (auto &compiled : sets)
    varies.push_back(compiled->varies);
  std::vector<Outcome> first;
  for (const json::Value &value : *job.getArray("runs")) {
    const json::Object &settings = *value.getAsObject();
    Run run(packages[size_t(*settings.getInteger("set"))],
            settings.getBoolean("base").value_or(false), settings.getInteger("ulps").value_or(0));
    const std::vector<Batch> &data = batches[size_t(settings.getInteger("batches").value_or(0))];
    std::vector<Outcome> outcomes;
    for (const Batch &batch : data)
      outcomes.push_back(run.gradients(batch, whole));
    outcomes.push_back(run.steps(data, whole));
    if (first.empty())
      first = outcomes;
    json::Array list;
    for (auto [reference, outcome] : llvm::zip_equal(first, outcomes))
      list.push_back(compare(reference, outcome));
    runs.push_back(std::move(list));
  }
  give(json::Object{{"runs", std::move(runs)},
                    {"varies", std::move(varies)},
                    {"kernels", int64_t(codegen.size())},
                    {"compiled", int64_t(codegen.made)}});
}

} // namespace

int main() {
  // Once, and not in each job.
  std::string none;
  (void)codegen::compileBitcode("", codegen::getHostLevel(), none);
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    llvm::Expected<json::Value> parsed = json::parse(line);
    if (!parsed || !parsed->getAsObject()) {
      llvm::errs() << "train-batches: not a job: " << line << "\n";
      return 2;
    }
    pid_t child = fork();
    if (child == 0) {
      alarm(120);
      runJob(*parsed->getAsObject());
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
      return 3;
    if (status == 0)
      continue;
    std::string end = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                          : "exit " + std::to_string(WEXITSTATUS(status));
    std::cout << "{\"failed\": \"crash\", \"why\": \"" << end << "\"}" << std::endl;
  }
  return 0;
}
