// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every fuzz target needs: inputs as files, inputs of several files, and a check that stays in
// release builds.
#ifndef TRAINC_TEST_FUZZ_SCRATCH_H
#define TRAINC_TEST_FUZZ_SCRATCH_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainc::fuzz {

/// A path in the folder of this process, which goes when the process ends.
std::string scratchPath(const std::string &name);
/// Writes a file of that folder and returns its path.
std::string writeScratch(const std::string &name, std::string_view bytes);

/// An input that stands for several files has "\n--part--\n" between them; missing ones are empty.
/// Such a mark survives mutations, which lengths do not.
std::vector<std::string_view> splitParts(std::string_view input, size_t count);

/// Ends the process, with a stack in fuzzing builds, unless `holds`.
void require(bool holds, const char *what);

} // namespace trainc::fuzz

#endif // TRAINC_TEST_FUZZ_SCRATCH_H
