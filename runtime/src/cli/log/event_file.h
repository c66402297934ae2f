// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// TensorBoard's event files, as far as numbers by step go: records of a length, its checksum, a
// message and its checksum.
#ifndef TRAINRT_CLI_LOG_EVENT_FILE_H
#define TRAINRT_CLI_LOG_EVENT_FILE_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trainrt::run {

/// CRC-32C (Castagnoli) of `text`.
uint32_t crc32c(const std::string &text);

/// `message` as one record.
std::string eventRecord(const std::string &message);

/// The message that begins a file.
std::string versionEvent(double time);
/// What was told of steps from `step` on is no longer so: a run goes on from an earlier one.
std::string restartEvent(double time, int64_t step);
/// Numbers by their names.
std::string scalarEvent(double time, int64_t step,
                        const std::vector<std::pair<std::string, double>> &values);

} // namespace trainrt::run

#endif // TRAINRT_CLI_LOG_EVENT_FILE_H
