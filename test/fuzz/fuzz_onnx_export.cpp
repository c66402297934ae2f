// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzz target: the export to ONNX, which rewrites a file on the wire. The input is the
// model; the package is the tiny one. What is written must be well-formed to its innermost node.

#include "export/onnx_export.h"
#include "format/file.h"
#include "scratch.h"
#include "tiny_package.h"
#include "wire_mutator.h"

using namespace trainrt;
using namespace trainc::fuzz;

namespace {

struct Fixture {
  Fixture() {
    test::writeTinyPackage(scratchPath("tiny.tpk"));
    require(Package::open(scratchPath("tiny.tpk"), package).ok(), "the tiny package opens");
    SessionOptions options;
    options.threads = 1;
    require(Session::create(package, options, session).ok(), "it has a session");
  }
  std::shared_ptr<const Package> package;
  std::unique_ptr<Session> session;
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
  const std::string path = scratchPath("out.onnx");
  std::unique_ptr<OnnxExport> onnx;
  Status status = OnnxExport::open(*fixture.package, settings, path, onnx);
  if (status.ok())
    status = onnx->write(*fixture.session);
  // A file of external data that the model names may not be there.
  if (!status.ok())
    return require(status.code() == Code::BadData || status.code() == Code::IoError ||
                       status.code() == Code::NotFound,
                   "a bad model is the input's fault");
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
