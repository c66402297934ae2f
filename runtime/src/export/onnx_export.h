// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model that a package was compiled from, with a session's parameters as its initializers;
// adapters that it does not have are added to its weights. The
// runtime knows no protobuf and no ONNX ops: everything else in the file is copied byte for byte,
// but for what makes it a model in evaluation mode.
#ifndef TRAINRT_EXPORT_ONNX_EXPORT_H
#define TRAINRT_EXPORT_ONNX_EXPORT_H

#include "export/onnx_nodes.h"
#include "io/tensor_proto.h"
#include "session/adapter/lora_merge.h"
#include "session/session.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace trainrt {

/// Where the package says that its model is: weights lie in the model or, external data, beside it.
std::string findModel(const Package &package);

class OnnxExport {
public:
  struct Settings {
    std::string model; ///< the original; "": where the package says
    /// Which outputs stay; the nodes, inputs and initializers that only others need go. Empty: all.
    std::vector<std::string> outputs;
    /// More bytes of initializers than this make those of at least 1 KiB external data.
    uint64_t mostInline = uint64_t(3) << 29;
  };

  /// Reads the original and compares it with the package, so that what does not fit is known before
  /// hours of training.
  static Status open(const Package &package, const Settings &settings, const std::string &path,
                     std::unique_ptr<OnnxExport> &result);

  Status write(Session &session) const;
  /// Whether there is a second file, PATH.data.
  bool hasData() const { return usesData; }

private:
  struct Initializer {
    TensorProto tensor;
    std::string_view content;
    uint64_t inlineBytes = 0; ///< of its values, where the model holds them
    bool external = false;    ///< becomes external data
    int64_t parameter = -1;   ///< of the package
  };
  class DataWriter;

  OnnxExport(const Package &package, const Settings &settings, const std::string &path);
  void read();
  void match(Initializer &initializer) const;
  /// Parameters that the model has none for: of adapters that trainc has added, and of how
  /// quantized weights are stored.
  std::set<std::string> findAdded(const std::set<std::string_view> &names) const;
  void findDropped();
  void chooseOutputs();
  void checkTargets() const;
  /// Whether a value, or what makes or declares it, stays.
  bool keeps(std::string_view value) const;
  bool keeps(const Field &field) const;
  /// Without a session: only what can be wrong with the original is found.
  Message build(Session *session, DataWriter *data, Scraps &scraps) const;
  Message graphWith(Session *session, DataWriter *data, Scraps &scraps) const;
  Status valueOf(Session &session, size_t index, OwnedArray &held, ArrayView &array) const;
  void addInitializer(Message &graph, const Initializer &initializer, Session *session,
                      DataWriter *data, Scraps &scraps) const;
  void writeFiles(Session &session) const;
  void requireSize(const Message &model) const;
  [[noreturn]] void refuse(const std::string &what) const;

  const Package &package;
  const Settings settings;
  const std::string path, dataPath;
  std::string modelPath;
  std::shared_ptr<const MappedFile> file;
  std::string_view graph;
  std::vector<Initializer> initializers;
  /// With Settings::outputs: every value that is needed.
  std::set<std::string_view> needed;
  /// Values that only evaluation mode makes superfluous.
  std::set<std::string_view> dropped;
  bool hasAdapters = false; ///< the package's adapters are the model's own
  bool usesData = false;    ///< some initializers become external data
};

} // namespace trainrt

#endif // TRAINRT_EXPORT_ONNX_EXPORT_H
