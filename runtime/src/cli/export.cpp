// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --export and --dump-gradients.
#include "cli/export.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "io/convert.h"

#include <vector>

namespace trainrt::run {

namespace {

using Getter = trainrt_status (*)(const trainrt_session *, const char *, trainrt_tensor *,
                                  trainrt_error **);

void write(const Package &package, trainrt_session *session, const std::string &path, Getter get,
           uint32_t flags, const char *what, Reporter &reporter) {
  std::vector<trainrt_named_tensor> tensors;
  for (const trainrt_tensor_info &parameter : package.parameters) {
    if ((parameter.flags & flags) != flags)
      continue;
    trainrt_tensor tensor;
    ErrorSlot error;
    error.check(get(session, parameter.name, &tensor, error));
    tensors.push_back({parameter.name, tensor});
  }
  ErrorSlot error;
  error.check(trainrt_file_write(path.c_str(), tensors.data(), tensors.size(), error));
  reporter.note("wrote " + grouped(int64_t(tensors.size())) + " " + what + " to " + path);
}

} // namespace

void exportParameters(const Package &package, trainrt_session *session, const std::string &path,
                      Reporter &reporter) {
  write(package, session, path, trainrt_session_parameter, 0, "parameters", reporter);
}

void warnNotFinite(const Package &package, trainrt_session *session, const std::string &path,
                   Reporter &reporter) {
  for (const trainrt_tensor_info &parameter : package.parameters) {
    trainrt_tensor tensor;
    ErrorSlot error;
    error.check(trainrt_session_parameter(session, parameter.name, &tensor, error));
    int64_t count = 1;
    for (int32_t axis = 0; axis < tensor.rank; ++axis)
      count *= tensor.shape[axis];
    if (holdsNoNumber(DType(tensor.dtype), tensor.data, count))
      return reporter.warning("'" + path + "': values of '" + std::string(parameter.name) +
                              "' are not finite");
  }
}

void exportGradients(const Package &package, trainrt_session *session, const std::string &path,
                     Reporter &reporter) {
  write(package, session, path, trainrt_session_gradient, TRAINRT_FLAG_TRAINABLE, "gradients",
        reporter);
}

} // namespace trainrt::run
