// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether files can be read and written is found out by the compilation.

#include "lib/Driver/Options/FileOptions.h"

using namespace trainc;

FileOptions::FileOptions(CLI::App &app, CompileOptions &options) : OptionGroup(app, options) {
  group("Model and package");
  // No file has to exist yet: saved IR has a model, too.
  app.add_option("model", options.model, "MODEL.onnx");
  add("-o,--output", options.output, "FILE", "package to write (default: MODEL.tpk)");
  add("--optimizer-model", options.optimizerModel, "FILE",
      "ONNX Runtime's optimizer_model.onnx for a training_model.onnx");
  add("--checkpoint", options.checkpoint, "FILE",
      "ONNX Runtime's checkpoint with the parameters of a training_model.onnx");
  add("--plugin", options.plugins, "FILE",
      "operators from outside: the JSON of a plug-in, which names its code, or a plug-in in C++, "
      "lib*.so (docs/plugins.md); several times for several")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--embed-weights", options.embedWeights, "copy all weights into the package");
  app.add_flag("--embed-ir", options.embedIR, "keep the IR in the package");
  app.add_flag("!--no-command-line", options.tellCommandLine,
               "the package does not tell this command line");
  add("--sign", options.signKey, "KEY",
      "sign the package with this Ed25519 key (openssl genpkey -algorithm ed25519)")
      // A key that is missing is told before everything else.
      ->check(CLI::ExistingFile);
}
