// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line of trainc: groups of options, each with what its values are, and what is no
// option or none here.

#include "format/help.h"
#include "lib/Driver/Options/AdapterOptions.h"
#include "lib/Driver/Options/FileOptions.h"
#include "lib/Driver/Options/InspectionOptions.h"
#include "lib/Driver/Options/MemoryOptions.h"
#include "lib/Driver/Options/ModelOptions.h"
#include "lib/Driver/Options/PassOptions.h"
#include "lib/Driver/Options/TargetOptions.h"
#include "lib/Driver/Options/TrainingOptions.h"
#include "trainc/Support/Nearest.h"
#include "llvm/Support/FormatVariadic.h"
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

Commands of the Python package (trainc COMMAND --help; a model of that name is ./COMMAND):
)";

struct PythonCommand {
  const char *name, *what;
};

/// The package's own `trainc` takes these (python/trainc/trainc/commands.py), and gives all else to
/// this program.
constexpr PythonCommand kPythonCommands[] = {
#include "PythonCommands.inc"
};

std::string helpHead() {
  std::string head = kHead;
  for (const PythonCommand &command : kPythonCommands)
    head += "  " + llvm::formatv("{0,-10}{1}\n", command.name, command.what).str();
  return head;
}

class CommandLine {
public:
  explicit CommandLine(CompileOptions &options) : options(options) {
    addRefused();
    training.excludeFromInference();
  }

  std::optional<int> parse(int argc, const char *const *argv) {
    // Its options are none of these.
    if (argc > 1 && llvm::any_of(kPythonCommands, [&](const PythonCommand &command) {
          return llvm::StringRef(command.name) == argv[1];
        }))
      return fail("'" + std::string(argv[1]) +
                  "' is a command of trainc's Python package, and this is the compiler by itself: "
                  "in a clone scripts/wheels makes the package, and pip install dist/*.whl puts "
                  "its trainc on the path (docs/python.md); a model of that name is ./" +
                  argv[1]);
    try {
      // Before the parser, which would take one for the other.
      checkValues(argc, argv);
      app.parse(argc, argv);
      check();
      read();
      // Help and version.
    } catch (const CLI::Success &done) {
      return app.exit(done, std::cout, std::cerr);
    } catch (const CLI::ExtrasError &) {
      return fail(unexpected());
    } catch (const CLI::ParseError &error) {
      return fail(error.what());
    }
    if (options.checkOptions)
      return ExitSuccess;
    // As they were given, for the package and saved IR.
    options.arguments.assign(argv + 1, argv + argc);
    return std::nullopt;
  }

private:
  /// An empty command line, in the form that its help has.
  struct App : CLI::App {
    App() : CLI::App("trainc") {
      set_version_flag("--version", "trainc " TRAINC_VERSION)->group("Help");
      get_help_ptr()->group("Help");
      formatter(std::make_shared<trainrt::run::HelpFormatter>(helpHead()));
      // Options are repeated by scripts: the last one counts.
      option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  };

  /// Options of the interface that this version lacks: refused by name, and not in the help.
  void addRefused() {
    for (const char *name :
         // Whatever follows: the name is enough to refuse it.
         {"--fetch", "--attention-dropout", "--tune", "--tuning-file", "--cache-dir"}) {
      auto note = [this, name](const std::vector<std::string> &) {
        refused = name;
        return true;
      };
      app.add_option(name, CLI::callback_t(note))->group("")->expected(0, 1);
    }
  }

  static int fail(const std::string &problem) {
    std::cerr << "trainc: error: " << problem << "\nRun 'trainc --help' for the options.\n";
    return ExitUsage;
  }

  /// What is said of an argument that is no option and no value.
  std::string unexpected() const {
    const std::vector<std::string> rest = app.remaining();
    // An option that is unknown explains what remains of its value, too.
    auto named = llvm::find_if(rest, [](const std::string &text) { return text[0] == '-'; });
    if (named == rest.end())
      return "'" + rest.front() + "' is one argument too many: the model is '" + options.model +
             "'";
    const std::string name = named->substr(0, named->find('='));
    // Hidden options are not suggested.
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
      // Values and files.
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

  /// What is not there, and what does not go together.
  void check() {
    if (!refused.empty())
      throw CLI::ValidationError(refused, "is not available in this version");
    // "$FOLDER" where nothing has set it: as if the option was not there.
    for (const CLI::Option *option : app.get_options())
      if (llvm::is_contained(option->results(), std::string()))
        throw CLI::ValidationError(option->get_name(), "its value is empty");
    inspection.check();
    memory.check();
    adapters.check();
  }

  /// The target first, which others ask.
  void read() {
    target.read();
    memory.read();
    adapters.read();
    model.read();
    training.read();
    passes.read();
    inspection.read();
  }

  CompileOptions &options;
  App app;
  /// In the order of the help.
  FileOptions files{app, options};
  TrainingOptions training{app, options};
  ModelOptions model{app, options};
  AdapterOptions adapters{app, options};
  TargetOptions target{app, options};
  MemoryOptions memory{app, options};
  PassOptions passes{app, options};
  InspectionOptions inspection{app, options};
  /// The first of the options that this version lacks.
  std::string refused;
};

} // namespace

/// What a target is able to do decides on options that nobody gave.
void trainc::setTarget(CompileOptions &options, const TargetChoice &choice) {
  options.target = choice.target;
  options.processors = choice.processors;
  options.graph.fusedAttention = choice.target->traits.fusedAttention;
  options.graph.fusedBiasGradient = choice.target->hasFusedBiasGradient(choice.processors);
  options.graph.lowersProductsOnly = choice.target->traits.lowersProductsOnly;
  options.graph.matmulUnits = choice.target->traits.matmulUnits;
  options.graph.matmulSpeed = choice.target->traits.speeds.low;
  options.schedule.target = choice.target->traits.schedule;
}

void trainc::setPrecision(CompileOptions &options, Precision precision) {
  options.graph.precision = precision;
  options.schedule.lowProducts = precision == Precision::BF16;
}

std::optional<int> trainc::parseCommandLine(int argc, const char *const *argv,
                                            CompileOptions &options) {
  return CommandLine(options).parse(argc, argv);
}
