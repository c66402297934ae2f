// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text that says what is computed again.
#ifndef TRAINC_SCHEDULE_RECOMPUTE_CONFIG_H
#define TRAINC_SCHEDULE_RECOMPUTE_CONFIG_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>
#include <vector>

namespace trainc {

struct RecomputeConfig {
  /// PATTERN:TYPE:COUNT
  struct Entry {
    /// As it was written, and the ops of the train dialect that it stands for.
    std::string text;
    std::vector<std::string> names;
    /// 0 nothing, 1 all of it, 2 from the operand of a widening cast on.
    int type = 1;
    /// The first ones in program order; -1: all.
    int64_t count = -1;
    /// Only those inside layers, whose inputs and outputs are kept.
    bool inLayers = false;
  };
  std::vector<Entry> entries;
  int level = 0;
};

/// Whether `text` is a configuration; else it is a file's name. Patterns and levels have colons,
/// names of files an ending.
bool isRecomputeConfig(llvm::StringRef text);

/// Returns what is wrong, with the position (from 1), or "".
std::string parseRecomputeConfig(llvm::StringRef text, RecomputeConfig &config);

/// Reads the file that `config` names, if it is neither a configuration, nor "list", nor empty,
/// into it: a JSON array of strings, each a comma-separated list of entries. Returns what is wrong,
/// or "".
std::string resolveRecompute(std::string &config);

/// The composites that hold ops of this name inside: "" where none does.
llvm::StringRef compositesWith(llvm::StringRef name);

} // namespace trainc

#endif // TRAINC_SCHEDULE_RECOMPUTE_CONFIG_H
