// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is read decides on what may be written: no output is a file of the model.

#include "dialects/ONNX/ONNXDialect.h"
#include "format/signature.h"
#include "lib/Driver/OptimizerChoice.h"
#include "lib/Driver/Phases/Phases.h"
#include "trainc/Conversion/ONNXToTrain/OwnHandlers.h"
#include "trainc/Conversion/ONNXToTrain/Roles/Initialization.h"
#include "trainc/Package/Identity.h"
#include "trainc/Plugin/LoadedPlugins.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace trainc;

/// What the import has read, and what the package will refer to.
static std::vector<Outputs::Input>
inputFiles(const ImportedModel &model, const ArtifactFiles &files, const plugin::Plugins &plugins) {
  std::vector<Outputs::Input> read = {{files.trainingModel, "the model"},
                                      {files.optimizerModel, "the optimizer's model"},
                                      {files.checkpoint, "the checkpoint"}};
  auto add = [&](StringRef file) {
    // Weights lie in the model's folder.
    llvm::SmallString<256> path(model.folder);
    llvm::sys::path::append(path, file);
    read.emplace_back(path.str(), "a file of the model's weights");
  };
  for (const std::string &file : model.weightFiles)
    add(file);
  for (const StateBytes &state : model.optimizerState)
    add(state.file);
  for (const plugin::Plugin &plugin : plugins)
    for (const std::string &file : plugin.files)
      read.emplace_back(file, "a file of a plug-in");
  for (const plugin::LoadedPlugin &plugin : plugin::getLoadedPlugins())
    read.emplace_back(plugin.path, "a plug-in");
  return read;
}

/// Which files make up the model. Returns what is wrong, or "".
static std::string findFiles(const CompileOptions &options, ArtifactFiles &files) {
  // Cheap checks first: an import takes long.
  if (!llvm::sys::fs::exists(options.model))
    return "no such file";
  if (!options.signKey.empty())
    if (trainrt::Status status = trainrt::checkPrivateKey(options.signKey); !status.ok())
      return "--sign: " + status.message();
  files = {options.model, options.optimizerModel, options.checkpoint};
  // A folder stands for its files.
  if (llvm::sys::fs::is_directory(options.model))
    if (std::string problem = findArtifacts(options.model, files); !problem.empty())
      return problem;
  if (!files.optimizerModel.empty() && files.checkpoint.empty())
    return "--optimizer-model is for a training model of ONNX Runtime, which also needs "
           "--checkpoint";
  return {};
}

/// The descriptions that plug-ins in C++ come with, and those of the command line.
static std::vector<std::string> findDescriptions(const CompileOptions &options) {
  std::vector<std::string> files;
  for (const plugin::LoadedPlugin &plugin : plugin::getLoadedPlugins())
    for (const std::string &description : plugin.registry.descriptions) {
      llvm::SmallString<256> path(llvm::sys::path::parent_path(plugin.path));
      llvm::sys::path::append(path, description);
      files.push_back(path.str().str());
    }
  llvm::copy_if(options.plugins, std::back_inserter(files),
                [](const std::string &file) { return !plugin::isSharedObject(file); });
  return files;
}

static std::optional<plugin::Fault> readDescription(StringRef file, plugin::Plugins &plugins) {
  if (std::optional<plugin::Fault> fault = plugin::readPlugin(file, plugins))
    return fault;
  legalize::HandlerTable own;
  legalize::registerAll(own);
  for (const plugin::Operator &op : plugins.back().operators) {
    // Handlers have operators of ONNX's own domain without it.
    const std::string &name = op.domain == "ai.onnx" ? op.type : op.name;
    if (own.entries.contains(name))
      return plugin::Fault{op.where, "the operator '" + op.name +
                                         "' is the compiler's own, which plug-ins do not replace; "
                                         "give the nodes another domain or name"};
    if (const plugin::LoadedPlugin *other = plugin::findPluginOfOperator(name))
      return plugin::Fault{op.where, "the operator '" + op.name + "' is also one of '" +
                                         other->path + "'; leave one of the two plug-ins out"};
  }
  return std::nullopt;
}

/// What is in them belongs to the package; legalization knows their operators.
static int readPlugins(Compilation &c) {
  auto plugins = std::make_shared<plugin::Plugins>();
  for (const std::string &file : findDescriptions(c.options))
    if (std::optional<plugin::Fault> fault = readDescription(file, *plugins)) {
      Log::error(fault->where, fault->what);
      return ExitInput;
    }
  c.options.legalize.plugins = std::move(plugins);
  c.options.legalize.target = c.options.target->name().str();
  return ExitSuccess;
}

int trainc::importModel(Compilation &c) {
  if (int code = readPlugins(c))
    return code;
  ArtifactFiles files;
  if (std::string problem = findFiles(c.options, files); !problem.empty()) {
    Log::error(c.options.model, problem);
    return ExitInput;
  }
  ArtifactOptimizer optimizer;
  // A checkpoint makes it a training model of ONNX Runtime.
  if (!files.checkpoint.empty())
    c.module = importArtifacts(files, c.context, c.model, optimizer);
  else
    c.module = importONNX(c.options.model, c.context, c.model,
                          c.options.graph.optimizer.empty() && !c.options.legalize.inference,
                          *c.options.legalize.plugins);
  if (!c.module)
    return ExitInput;
  onnx::GraphOp graph = *c.module->getOps<onnx::GraphOp>().begin();
  if (failed(checkOptimizer(graph, c.options)) ||
      (c.model.initialization && failed(runInitialization(*c.module, c.model))))
    return ExitInput;
  // Before anything changes the graph.
  c.contents.identity = identityOf(graph);
  // The importer may know what the command line has left open.
  chooseOptimizer(c.options, optimizer);
  if (int code = runPlainPasses(c, "import"))
    return code;
  return c.outputs.open(c.context, inputFiles(c.model, files, *c.options.legalize.plugins));
}
