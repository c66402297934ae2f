// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which values a step gets.

#include "session/hyper_values.h"

#include <cstring>

namespace trainrt {

HyperValues::HyperValues(const Program &program) : values(program.hypers.size()) {
  // -1: this program has none.
  auto find = [&](const char *name) {
    for (size_t i = 0; i < program.hypers.size(); ++i)
      if (program.hypers[i].name == name)
        return int32_t(i);
    return int32_t(-1);
  };
  index = {find("lr"),   find("weight_decay"), find("clip_norm"),   find("grad_scale"),
           find("step"), find("seed"),         find("micro_batch"), find("rank")};
}

void HyperValues::setMicroBatch(int64_t number, double gradScale) {
  set(index.microBatch, number);
  set(index.gradScale, gradScale);
}

/// f32 and i64 are the types that hypers have.
void HyperValues::set(int32_t at, double value) {
  float single = static_cast<float>(value);
  if (at >= 0)
    std::memcpy(values[size_t(at)].data(), &single, 4);
}

void HyperValues::set(int32_t at, int64_t value) {
  if (at >= 0)
    std::memcpy(values[size_t(at)].data(), &value, 8);
}

Status HyperValues::setStep(const Manifest &manifest, const StepOptions &options, int64_t step,
                            int64_t seed, double &lr) {
  // NaN: what was compiled in.
  auto choose = [](double given, double compiled) { return std::isnan(given) ? compiled : given; };
  lr = choose(options.lr, manifest.lr);
  double decay = choose(options.weightDecay, manifest.weightDecay);
  double clip = choose(options.clipNorm, manifest.clipNorm);
  // Given for nothing: silence would hide a mistake.
  if (!std::isnan(options.clipNorm) && index.clipNorm < 0)
    return fail(
        Code::InvalidArgument,
        "clip_norm is given, but the package was compiled without clipping; compile it with "
        "--clip-norm");
  if (!std::isnan(options.weightDecay) && index.weightDecay < 0)
    return fail(Code::InvalidArgument,
                "weight_decay is given, but the package's optimizer has none");
  struct {
    const char *name;
    int32_t at;
    double value;
  } chosen[] = {{"lr", index.lr, lr},
                {"weight_decay", index.weightDecay, decay},
                {"clip_norm", index.clipNorm, clip}};
  // Values that no kernel reads are not checked either.
  for (auto &[name, at, value] : chosen) {
    if (at < 0)
      continue;
    if (!isHyper(value))
      return fail(Code::InvalidArgument, name, ": ", value,
                  " is no value for it (it must be finite and not negative)");
    set(at, value);
  }
  // Of a single batch; accumulation sets these for each.
  set(index.gradScale, 1.0);
  set(index.step, step);
  set(index.seed, seed);
  set(index.microBatch, int64_t(0));
  set(index.rank, int64_t(0));
  return {};
}

} // namespace trainrt
