// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The files of a command line, all of them, and which are the same.
#include "cli/outputs.h"

#include "cli/failure.h"
#include "format/file.h"
#include "trainrt/export.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>
#include <vector>

namespace trainrt::run {

namespace fs = std::filesystem;

namespace {

/// A file and what it is on the command line.
struct Named {
  std::string what, path;
};

/// To make a file there, a process has to write into the folder and to enter it.
void requireWritable(const std::filesystem::path &folder, const std::string &path) {
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw Failure(exitInput, "cannot create '" + path + "': '" + folder.string() +
                                 "': " + std::strerror(errno));
}

/// A file that is there is replaced. Anything else of that name is not: a folder, a device, a pipe.
void checkOutputFile(const std::string &path) {
  std::error_code error;
  std::filesystem::path target(path);
  const auto kind = std::filesystem::status(target, error).type();
  if (kind == std::filesystem::file_type::none)
    throw Failure(exitInput, "cannot create '" + path + "': " + error.message());
  if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular)
    throw Failure(exitInput, "cannot create '" + path + "': it is there and no regular file");
  requireWritable(target.has_parent_path() ? target.parent_path() : ".", path);
}

/// The folder may be made later, with those above it: the nearest one that is there decides.
void checkOutputFolder(const std::string &path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(path, error);
  while (!std::filesystem::exists(folder, error) && !error && folder.has_relative_path())
    folder = folder.parent_path();
  if (error || !std::filesystem::is_directory(folder, error))
    throw Failure(exitInput,
                  "cannot create '" + path + "': '" + folder.string() + "' " +
                      (error ? "cannot be inspected: " + error.message() : "is no folder"));
  requireWritable(folder, path);
}

/// The files that a checkpoint's index names, in quotes.
/// `into` is not empty: the index itself is in it. Taken by its quotes, since a name too many only
/// keeps an output away from that file; the reader of weights checks the form.
void addParts(const std::string &index, std::vector<Named> &into) {
  std::ifstream file(index);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (size_t at = text.find('"'); at != text.npos;) {
    const size_t end = text.find('"', at + 1);
    if (end == text.npos)
      return;
    if (std::string name = text.substr(at + 1, end - at - 1); name.ends_with(".safetensors"))
      if (into.back().path != directoryOf(index) + name)
        into.push_back({"--weights", directoryOf(index) + name});
    at = text.find('"', end + 1);
  }
}

/// All regular files in a folder.
/// A folder that cannot be read adds nothing: whoever reads it says so.
void addFolder(const char *what, const std::string &folder, std::vector<Named> &into) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->is_regular_file(error))
      into.push_back({what, it->path().string()});
}

/// All files that are read at any time of the run: many are mapped, and would change under it.
std::vector<Named> inputsOf(const Options &options, const Package &package) {
  // A tuned package holds all that it is made of: it may take that one's place.
  std::vector<Named> inputs;
  if (!options.tune)
    inputs.push_back({"the package", options.package});
  for (const auto &[what, path] :
       {std::pair("--data", options.data),
        {"--eval", options.eval},
        {"--predict", options.predict},
        {"--weights", options.weights},
        {"--model", options.model},
        {"--verify-key", options.verifyKey},
        {"the package's model", std::string(trainrt_package_model_path(package.handle.get()))}})
    if (std::error_code ignored; fs::is_directory(path, ignored))
      addFolder(what, path, inputs);
    else if (!path.empty())
      inputs.push_back({what, path});
  for (const auto *list : {&package.parameters, &package.state})
    for (const trainrt_tensor_info &tensor : *list)
      if (tensor.weights_file && !(tensor.flags & TRAINRT_FLAG_EMBEDDED))
        if (std::string path = directoryOf(package.path) + tensor.weights_file;
            inputs.back().path != path)
          inputs.push_back({"the weights of the package", std::move(path)});
  std::error_code ignored;
  if (fs::is_directory(options.weights, ignored))
    addFolder("--weights", options.weights, inputs);
  else if (options.weights.ends_with(".json") && fs::is_regular_file(options.weights, ignored))
    addParts(options.weights, inputs);
  if (!options.resume.empty()) {
    addFolder("--resume", options.resume, inputs);
    for (fs::directory_iterator it(options.resume, ignored), end; !ignored && it != end;
         it.increment(ignored))
      if (it->path().filename().string().starts_with("step-"))
        addFolder("--resume", it->path().string(), inputs);
  }
  if (!options.adapter.empty())
    addFolder("--adapter", options.adapter, inputs);
  return inputs;
}

/// All files but those of checkpoints and logs, which have folders of their own.
std::vector<Named> outputsOf(const Options &options) {
  std::vector<Named> outputs;
  if (options.exportsAdapter())
    for (const char *name : {"adapter_config.json", "adapter_model.safetensors"})
      outputs.push_back({"--export", (fs::path(options.exportPath) / name).string()});
  else if (!options.exportPath.empty())
    outputs.push_back({"--export", options.exportPath});
  if (options.exportsOnnx())
    outputs.push_back({"--export", options.exportPath + ".data"});
  for (const auto &[what, path] : {std::pair("-o", options.output),
                                   {"--merge-adapter", options.mergeAdapter},
                                   {"--dump-gradients", options.dumpGradients},
                                   {"--summary", options.summary},
                                   {"--profile", options.profile}})
    if (!path.empty())
      outputs.push_back({what, path});
  if (!options.profile.empty())
    for (const char *more : {".classes.json", ".trace.json"})
      outputs.push_back({"--profile", options.profile + more});
  return outputs;
}

/// Whether both names are one file, which need not be there.
/// By the file where both are there, which sees through links; else by the path.
bool areSame(const std::string &a, const std::string &b) {
  std::error_code error;
  if (fs::equivalent(a, b, error))
    return true;
  const fs::path first = fs::weakly_canonical(a, error);
  return !error && first == fs::weakly_canonical(b, error) && !error;
}

} // namespace

/// Writes nothing. Before the data is read, so that hours of training do not end at a file that
/// cannot be made.
void checkOutputs(const Options &options, const Package &package) {
  const std::vector<Named> inputs = inputsOf(options, package), outputs = outputsOf(options);
  for (const Named &output : outputs) {
    for (const Named &input : inputs)
      if (areSame(output.path, input.path))
        throw Failure(exitInput, output.what + ": '" + output.path + "' is " + input.what +
                                     ", which this run reads: write to another file");
    for (const Named &other : outputs)
      if (&other != &output && areSame(output.path, other.path))
        throw Failure(exitInput, output.what + " and " + other.what + " are both '" + output.path +
                                     "': one would replace the other");
    if (!options.exportsAdapter() || output.what != "--export")
      checkOutputFile(output.path);
  }
  for (const std::string &folder : {options.save, options.logDir,
                                    options.exportsAdapter() ? options.exportPath : std::string()})
    if (!folder.empty())
      checkOutputFolder(folder);
}

} // namespace trainrt::run
