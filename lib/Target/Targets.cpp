// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of targets, and --target.

#include "lib/Target/CPU/CpuTarget.h"
#include "lib/Target/CUDA/CudaTarget.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace trainc;

llvm::ArrayRef<const Target *> trainc::getTargets() {
  // A new target is one entry here.
  static const Target *const targets[] = {&getCpuTarget(), &getCudaTarget()};
  return targets;
}

const Target *trainc::findTarget(llvm::StringRef name) {
  for (const Target *target : getTargets())
    if (target->name() == name)
      return target;
  return nullptr;
}

/// The first one is the host's.
const Target &trainc::getHostTarget() { return *getTargets().front(); }

std::string trainc::namesOfTargets(llvm::function_ref<bool(const TargetTraits &)> holds) {
  std::vector<llvm::StringRef> names;
  for (const Target *target : getTargets())
    if (holds(target->traits))
      names.push_back(target->name());
  return llvm::join(names, " or ");
}

/// In the order of Precision.
static constexpr llvm::StringLiteral kPrecisions[] = {"fp32", "tf32", "bf16", "fp16", "pure-bf16"};

llvm::StringRef trainc::nameOf(Precision precision) { return kPrecisions[int(precision)]; }

const ProcessorSpeed &ProcessorSpeeds::of(Precision precision) const {
  switch (precision) {
  case Precision::Graph:
    return f32;
  case Precision::TF32:
    return tf32;
  case Precision::BF16:
  case Precision::FP16:
  case Precision::PureBF16:
    return low;
  }
  llvm_unreachable("a precision");
}

/// "a, b or c"
static std::string listOf(llvm::ArrayRef<std::string> names) {
  std::string text = llvm::join(names.drop_back(), ", ");
  return text + (text.empty() ? "" : " or ") + names.back();
}

/// In reverse, so that "auto" takes a device before the host. No processors after `parse` stand for
/// a list that is unknown.
std::string trainc::parseTarget(llvm::StringRef text, TargetChoice &choice) {
  const bool isAuto = text == "auto";
  for (const Target *target : llvm::reverse(getTargets())) {
    choice.target = target;
    const size_t colon = text.find(':');
    std::string problem;
    if (isAuto) {
      choice.processors = target->getProcessorsHere();
    } else if (text == target->name()) {
      choice.processors = target->getDefaultProcessors();
    } else if (text.take_front(colon) == target->name()) {
      choice.processors.clear();
      problem = target->parse(text.drop_front(colon + 1), choice.processors);
    } else {
      continue;
    }
    if (!problem.empty())
      return "'" + text.str() + "': " + problem;
    if (!choice.processors.empty())
      return {};
  }
  std::vector<std::string> spellings = {"auto"};
  for (const Target *target : getTargets())
    llvm::append_range(spellings, target->getSpellings());
  return "'" + text.str() + "': expected " + listOf(spellings);
}

std::string trainc::describeTargets() {
  std::string values = "auto", order;
  for (const Target *target : getTargets())
    values += "|" + target->getUsage();
  for (const Target *target : llvm::reverse(getTargets().drop_front()))
    order += target->name().str() + " where there is a device, else ";
  return values + " (auto: " + order + getHostTarget().name().str() + ")";
}
