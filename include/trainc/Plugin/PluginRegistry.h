// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a plug-in in C++ gives the compiler (docs/plugins.md): the one header that it needs beside
// those of MLIR.

#ifndef TRAINC_PLUGIN_PLUGINREGISTRY_H
#define TRAINC_PLUGIN_PLUGINREGISTRY_H

// MLIR knows traits by names that compilers write in different ways.
#ifndef __clang__
#error "plug-ins of trainc are built by clang, as Debian's libMLIR is"
#endif

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/Pass.h"
#include "trainc/Conversion/ONNXToTrain/NodeContext.h"
#include "trainc/Plugin/Abi.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainc::plugin {

/// Filled by a plug-in while it is loaded. What it points to lives as long as the process.
struct PluginRegistry {
  using MakePass = std::function<std::unique_ptr<mlir::Pass>()>;
  struct PhasePass {
    std::string phase;
    MakePass make;
  };

  /// Dialects of its own, and external models of the interfaces in dialects/Train.
  mlir::DialectRegistry dialects;
  /// Handlers of nodes, as the compiler's own (docs/add-an-onnx-op.md): "my::Op" of the domain my,
  /// "Op" of ONNX's own.
  legalize::HandlerTable handlers;
  /// Passes on the module, in this order, at the end of a phase.
  std::vector<PhasePass> passes;
  /// Descriptions of operators with kernels (JSON), beside the shared object.
  std::vector<std::string> descriptions;

  /// `phase`: legalize, graph or schedule; what each leaves behind is in
  /// docs/design/train-dialect.md. The pass has a name by which reproducers find it.
  void addPass(llvm::StringRef phase, MakePass make) {
    passes.push_back({phase.str(), std::move(make)});
  }
};

} // namespace trainc::plugin

/// The function that registers what a plug-in has, once in each: TRAINC_PLUGIN(registry) { ... }
#define TRAINC_PLUGIN(registry)                                                                    \
  extern "C" {                                                                                     \
  extern const char trainc_plugin_abi[];                                                           \
  __attribute__((visibility("default"))) const char trainc_plugin_abi[] = TRAINC_PLUGIN_ABI;       \
  __attribute__((visibility("default"))) void                                                      \
  trainc_plugin_register(::trainc::plugin::PluginRegistry &);                                      \
  }                                                                                                \
  void trainc_plugin_register(::trainc::plugin::PluginRegistry &registry)

#endif // TRAINC_PLUGIN_PLUGINREGISTRY_H
