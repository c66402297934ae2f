// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of the device test of CUDA's libraries.
#ifndef TRAINC_TEST_GPU_TESTS_H
#define TRAINC_TEST_GPU_TESTS_H

namespace trainrt::cuda::test {

class Device;

void testGemm(Device &device);
void timeGemms(Device &device);
void testAttention(Device &device);
void timeAttentions(Device &device);
void testWindows(Device &device);
void timeWindows(Device &device);
void testWarpgroups(Device &device);
void timeWarpgroups(Device &device);
void testConvolutions(Device &device);
void timeConvolutions(Device &device);
void testSegments(Device &device);
void testSegmentWindows(Device &device);
void timeSegments(Device &device);
void testWorkspaces(Device &device);

} // namespace trainrt::cuda::test

#endif // TRAINC_TEST_GPU_TESTS_H
