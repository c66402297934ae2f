// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/external_call.h"
#include "plan/running_external.h"

#include <cstring>
#include <exception>

namespace trainrt {

ExternalArguments::ExternalArguments(const ExternalView &step) : step(step) {
  for (size_t i = 0; i < step.tensors(); ++i) {
    const std::span<const int64_t> extents = step.extents(i);
    (step.operands[i].isWritten() ? outputs : inputs)
        .push_back({nullptr, static_cast<trainrt_dtype>(step.op.dtypes[i]), int32_t(extents.size()),
                    extents.data(), step.elements(i)});
  }
  for (const External::Setting &setting : step.op.settings)
    attributes.push_back({setting.name.c_str(),
                          int64_t(setting.integers.size() + setting.reals.size()),
                          setting.integers.empty() ? nullptr : setting.integers.data(),
                          setting.reals.empty() ? nullptr : setting.reals.data(),
                          setting.isText ? setting.text.c_str() : nullptr});
}

Status ExternalArguments::call(ExternalCall function,
                               const std::function<void *(const Place &)> &address,
                               trainrt_external_call rest, const char *what) {
  size_t input = 0, output = 0;
  for (size_t i = 0; i < step.tensors(); ++i)
    (step.operands[i].isWritten() ? outputs[output++] : inputs[input++]).data =
        address(step.places[i]);
  char message[512] = "";
  rest.num_inputs = uint32_t(inputs.size());
  rest.num_outputs = uint32_t(outputs.size());
  rest.num_attributes = uint32_t(attributes.size());
  rest.inputs = inputs.data();
  rest.outputs = outputs.data();
  rest.attributes = attributes.data();
  rest.message = message;
  rest.message_size = sizeof message;
  int result = 0;
  const RunningExternal running(what);
  try {
    result = function(&rest);
  } catch (const std::exception &thrown) {
    return fail(Code::BadData, "it has thrown an exception of C++: ", thrown.what());
  } catch (...) {
    return fail(Code::BadData, "it has thrown an exception of C++");
  }
  if (!result)
    return {};
  const std::string_view told(message, strnlen(message, sizeof message));
  return fail(Code::BadData, "it has returned the error ", result, told.empty() ? "" : ": ", told);
}

} // namespace trainrt
