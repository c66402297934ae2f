// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mutations of protobuf messages that leave every length right, so that a fuzzer gets past the
// parser: fields come, go, move and change, at any depth.
#ifndef TRAINC_TEST_FUZZ_WIRE_MUTATOR_H
#define TRAINC_TEST_FUZZ_WIRE_MUTATOR_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainc::fuzz {

/// For LLVMFuzzerCustomMutator: changes the message in `data` and returns its new size. `words` are
/// texts that mean something to the reader of the message.
size_t mutateWire(uint8_t *data, size_t size, size_t limit, unsigned seed,
                  const std::vector<std::string> &words);

} // namespace trainc::fuzz

#endif // TRAINC_TEST_FUZZ_WIRE_MUTATOR_H
