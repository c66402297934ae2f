// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inputs that the model names are known only after its import: until then nothing is written.

#include "lib/Driver/Outputs.h"
#include "format/status.h"
#include "lib/Driver/Remarks.h"
#include "lib/Phases/Phases.h"
#include "trainc/Schedule/Recompute/Config.h"
#include "trainc/Support/RegularFile.h"
#include "trainc/Support/TextFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace trainc;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;
using llvm::StringRef;

/// "1-import.mlir"
static std::string fileOf(StringRef phase) {
  const auto *found = llvm::find(kPhases, phase);
  assert(found != std::end(kPhases) && "phases are known by name");
  return std::to_string(found - std::begin(kPhases) + 1) + "-" + phase.str() + ".mlir";
}

std::string Outputs::package() const {
  if (!options.output.empty())
    return options.output;
  // The folder of artifacts may end with a slash.
  llvm::SmallString<256> path(StringRef(options.model).rtrim('/'));
  path::replace_extension(path, "tpk");
  return path.str().str();
}

/// Whether the file is a pipe with a name. Those of the shell are open already.
static bool isPipe(StringRef path) {
  fs::file_status status;
  // Those were opened by whoever started the program.
  return !path.starts_with("/dev/") && !path.starts_with("/proc/") && !fs::status(path, status) &&
         status.type() == fs::file_type::fifo_file;
}

/// Whether the file begins as zip archives do, which packages are.
static bool isArchive(StringRef path) {
  std::string problem;
  std::unique_ptr<llvm::MemoryBuffer> file = readRegularFile(path, problem);
  return file && file->getBuffer().starts_with("PK\x03\x04");
}

/// No output is an input, or another output.
int Outputs::claim(llvm::ArrayRef<Input> read) {
  // From the beginning: it is asked twice, the second time with the model's files.
  roles = FileRoles();
  roles.reads(options.model, "the model");
  roles.reads(options.optimizerModel, "the optimizer's model");
  roles.reads(options.checkpoint, "the checkpoint");
  roles.reads(options.savedIR, "the IR");
  roles.reads(options.replay, "the reproducer");
  roles.reads(options.signKey, "the key of --sign");
  if (!isRecomputeConfig(options.recompute))
    roles.reads(options.recompute, "the file of --recompute");
  for (auto &[path, role] : read)
    roles.reads(path, role);

  // With the option that names each, for messages.
  std::vector<std::pair<std::string, std::string>> written;
  // A package is written, unless something ends it before.
  const bool packs = options.stopAfter.empty() && !options.printPipeline &&
                     (options.replay.empty() || !options.output.empty());
  if (packs)
    written.emplace_back(package(), options.output.empty() ? "the package" : "-o");
  if (!options.report.empty() && options.report != "text")
    written.emplace_back(options.report, "--report");
  if (!options.remarks.empty())
    written.emplace_back(options.remarks, "--remarks");
  if (!options.saveIR.empty())
    for (StringRef phase : kPhases) {
      llvm::SmallString<256> file(options.saveIR);
      path::append(file, fileOf(phase));
      written.emplace_back(file.str(), "--save-ir");
    }
  // A mistake that is made often: the wrong program.
  if (packs && options.output.empty() && package() == options.model && isArchive(options.model)) {
    Log::error(options.model, "this is a package, which trainc-run trains: trainc-run '" +
                                  options.model + "'; trainc compiles ONNX models");
    return ExitInput;
  }
  // Inputs first, then outputs one after the other: two outputs are told, too.
  for (auto &[path, option] : written) {
    if (isPipe(path)) {
      Log::error("trainc", option + " would write to '" + path +
                               "', a pipe, and wait for its reader; name a file");
      return ExitInput;
    }
    if (std::string problem = roles.writes(path, option); !problem.empty()) {
      Log::error("trainc", problem);
      return ExitUsage;
    }
  }
  return ExitSuccess;
}

int Outputs::check() {
  if (int code = claim({}))
    return code;
  std::string output = package();
  StringRef folder = path::parent_path(output);
  // Tried now: a compilation takes long.
  std::error_code code = fs::access(folder.empty() ? "." : folder, fs::AccessMode::Write);
  bool writes = options.stopAfter.empty() && options.replay.empty() && !options.printPipeline;
  if (code && writes)
    return checkWritten(("cannot create '" + output + "': '" + folder + "': " + code.message() +
                         "; -o names another place")
                            .str());
  for (const std::string &wanted : {options.saveIR, options.saveKernels})
    if (!wanted.empty())
      if (int failed = checkWritten(prepareFolder(wanted)))
        return failed;
  return ExitSuccess;
}

int Outputs::open(mlir::MLIRContext &context, llvm::ArrayRef<Input> read) {
  // Once more, with what the import has read.
  if (int code = claim(read))
    return code;
  std::error_code code;
  if (!options.remarks.empty()) {
    remarks = std::make_unique<llvm::raw_fd_ostream>(options.remarks, code);
    if (code)
      return checkWritten("cannot write '" + options.remarks + "': " + code.message());
  }
  // Texts of all decisions come at the end, or one by one.
  if (options.explain == Explain::Summary)
    summary.emplace();
  if (options.explain != Explain::Nothing || remarks)
    enableRemarks(context, options.explain == Explain::All, remarks.get(),
                  summary ? &*summary : nullptr, log);
  return ExitSuccess;
}

int Outputs::close(int code) {
  if (summary) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    // Names in it come from files.
    summary->print(stream);
    llvm::errs() << trainrt::shownLines(text);
  }
  if (!remarks)
    return code;
  std::string problem = closeStream(*remarks);
  if (!problem.empty())
    problem = "cannot write '" + options.remarks + "': " + problem;
  int written = checkWritten(problem);
  // The first failure is the one that is told.
  return code ? code : written;
}

int Outputs::checkWritten(const std::string &problem) const {
  if (problem.empty())
    return ExitSuccess;
  Log::error(options.model, problem);
  return ExitInput;
}

int Outputs::saveIR(StringRef name, llvm::function_ref<void(llvm::raw_ostream &)> print) const {
  if (options.saveIR.empty())
    return ExitSuccess;
  llvm::SmallString<256> file(options.saveIR);
  path::append(file, name);
  return checkWritten(writeTextFile(file, print));
}

int Outputs::savePhase(StringRef phase, llvm::function_ref<void(llvm::raw_ostream &)> print) const {
  // Phases without IR save nothing.
  return llvm::is_contained(kPhases, phase) ? saveIR(fileOf(phase), print) : ExitSuccess;
}
