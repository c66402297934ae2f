// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What commands are for, and what reading and planning them asks of it: the mirror of the
// compiler's lib/Target. The devices themselves: session/create_device.cpp.
#ifndef TRAINRT_FORMAT_TARGET_H
#define TRAINRT_FORMAT_TARGET_H

#include <cstdint>
#include <string_view>

namespace trainrt {

/// In the order of program.fbs.
enum class Target : uint8_t { Cpu, Cuda };

struct TargetTraits {
  /// In the manifest's targets, before the colon.
  const char *name;
  /// Of every buffer, within blocks and by itself.
  int64_t alignment;
  /// Whether the device has memory that is not the host's: parameters and constants are copied to
  /// it, and buffers may be on the host.
  bool isSeparate;
  /// Whether small commands run beside others, for which arenas have some room.
  bool runsBeside;
  /// Whether the device chooses among the kernels of several processors when a session begins,
  /// instead of the package when it is opened.
  bool choosesKernels;
  /// Whether kernels are launched in groups.
  bool groupsKernels;
  /// Whether there are choices that are made by timing: other kernels that may take the place of
  /// one, and ways of libraries.
  bool hasTuning;
  /// Whether steps run while the host prepares the next ones.
  bool runsAhead;
  /// Whether matmuls have epilogues, and other types than f32.
  bool vendorProducts;
  /// Whether attention is of 16-bit types with any mask; else of f32, over segments.
  bool narrowAttention;
  /// Whether convolutions are of 16-bit types, too; else of f32.
  bool narrowConvolutions;
};

/// Of the targets in their order.
extern const TargetTraits targetTraits[];
inline const TargetTraits &traitsOf(Target target) { return targetTraits[uint8_t(target)]; }
/// Of a package that is for `targets`, as its manifest lists them: "cpu:x86-64-v4".
const TargetTraits &traitsOf(std::string_view targets);

} // namespace trainrt

#endif // TRAINRT_FORMAT_TARGET_H
