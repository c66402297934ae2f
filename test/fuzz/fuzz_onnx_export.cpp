// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzz target: the export to ONNX, which rewrites a file on the wire, and weights from one. The
// input is the model; the package is the tiny one. What is written must be well-formed to its
// innermost node.

#include "export/onnx_export.h"
#include "format/file.h"
#include "io/onnx_weights.h"
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

/// External data may be missing or no file.
bool isInputs(const Status &status) {
  return status.code() == Code::BadData || status.code() == Code::NotFound ||
         status.code() == Code::IoError;
}

/// The same file as the weights of a session.
void readWeights(const std::string &path) {
  OnnxWeights weights;
  Status status = OnnxWeights::open(path, weights);
  for (size_t i = 0; status.ok() && i < weights.entries().size(); ++i) {
    ArrayView array;
    std::shared_ptr<const MappedFile> mapping;
    std::string from;
    status = weights.array(i, false, array, mapping, from);
    volatile unsigned char sum = 0;
    for (int64_t at = 0; status.ok() && at < array.bytes; ++at)
      sum = sum ^ static_cast<const unsigned char *>(array.data)[at];
  }
  require(status.ok() || isInputs(status), "bad weights are the input's fault");
}

void exportWith(const OnnxExport::Settings &settings) {
  static Fixture fixture;
  const std::string path = scratchPath("out.onnx");
  std::unique_ptr<OnnxExport> onnx;
  Status status = OnnxExport::open(*fixture.package, settings, path, onnx);
  if (status.ok())
    status = onnx->write(*fixture.session);
  if (!status.ok())
    return require(isInputs(status), "a bad model is the input's fault");
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
  readWeights(settings.model);
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
