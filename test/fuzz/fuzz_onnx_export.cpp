// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzz target: --export of trainc-run, which rewrites an ONNX file on the wire. The input is the
// model; the package is the tiny one. What is written must be well-formed to its innermost node.

#include "cli/failure.h"
#include "cli/onnx/onnx_export.h"
#include "format/file.h"
#include "scratch.h"
#include "tiny_package.h"
#include "wire_mutator.h"

using namespace trainrt;
using namespace trainrt::run;
using namespace trainc::fuzz;

namespace {

struct Quiet : Reporter {
  void fact(const std::string &, const std::string &) override {}
  void begin(int64_t, int64_t) override {}
  void step(const StepRecord &) override {}
  void eval(const EvalRecord &) override {}
  void summary(const SummaryRecord &) override {}
  void table(const std::string &) override {}
  void memory(const trainrt_memory &) override {}
  void lines(const std::string &) override {}
  void note(const std::string &) override {}
  void notice(const std::string &) override {}
  void debug(const std::string &) override {}
  void warning(const std::string &) override {}
  void end() override {}
  std::string lost() const override { return {}; }
};

struct Fixture {
  Fixture() : package(makePackage()) {
    ErrorSlot error;
    trainrt_session *created = nullptr;
    trainrt_session_options options = trainrt_session_options_default();
    options.threads = 1;
    error.check(trainrt_session_create(package.handle.get(), &options, &created, error));
    session.reset(created);
  }
  static std::string makePackage() {
    test::writeTinyPackage(scratchPath("tiny.tpk"));
    return scratchPath("tiny.tpk");
  }
  run::Package package;
  SessionHandle session;
};

void checkWritten(const std::string &path) {
  std::shared_ptr<const MappedFile> file;
  require(MappedFile::open(path, file).ok(), "the exported file is there");
  eachField({reinterpret_cast<const char *>(file->data()), file->size()}, [](const Field &field) {
    if (!field.is(7, Field::bytes))
      return;
    eachField(field.content, [](const Field &part) {
      if (part.is(1, Field::bytes))
        (void)readOnnxNode(part.content);
    });
  });
}

void exportWith(const OnnxExport::Settings &settings) {
  static Fixture fixture;
  static Quiet quiet;
  const std::string path = scratchPath("out.onnx");
  try {
    OnnxExport exporter(fixture.package, settings, path);
    exporter.write(fixture.session.get(), quiet);
  } catch (const Failure &failure) {
    require(failure.code == exitInput, "a bad model is the input's fault");
    return;
  }
  try {
    checkWritten(path);
  } catch (const MalformedMessage &) {
    require(false, "the exported file is well-formed");
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  OnnxExport::Settings settings;
  settings.model = writeScratch("model.onnx", {reinterpret_cast<const char *>(data), size});
  exportWith(settings);
  settings.mostInline = 8;
  exportWith(settings);
  settings.outputs = {"pred"};
  exportWith(settings);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed) {
  return mutateWire(data, size, limit, seed, {"Dropout", "BatchNormalization", "training_mode"});
}
