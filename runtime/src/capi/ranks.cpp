// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks of the C API.

#include "trainrt/ranks.h"
#include "capi/internal.h"
#include "comm/process_ranks.h"

using namespace trainrt;
using namespace trainrt::capi;

extern "C" {

trainrt_status trainrt_ranks_join(const trainrt_ranks_options *options, trainrt_ranks **ranks,
                                  trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!options || !ranks)
      return nullArgument(options ? "ranks" : "options");
    trainrt_ranks_options given = trainrt_ranks_options_default();
    TRAINRT_TRY(readStruct(options, "options", given));
    if (!given.coordinator)
      return nullArgument("options->coordinator");
    for (auto [value, name] : {std::pair(given.join_seconds, "join_seconds"),
                               {given.silence_seconds, "silence_seconds"},
                               {given.exchange_seconds, "exchange_seconds"}})
      // In whole seconds: 0 would end the run at once.
      if (value < 1)
        return fail(Code::InvalidArgument, "options->", name, ": ", value, " is no time to wait");
    ProcessRank which{given.rank,      given.world, given.coordinator,
                      given.listening, {},          given.vendor_sums != 0};
    which.limits = {std::chrono::seconds(given.join_seconds),
                    std::chrono::seconds(given.silence_seconds),
                    std::chrono::seconds(given.exchange_seconds)};
    // Sessions share what it holds: they may outlive the handle.
    auto result = std::make_unique<trainrt_ranks>();
    TRAINRT_TRY(joinRanks(which, result->impl));
    *ranks = result.release();
    return {};
  });
}

void trainrt_ranks_abort(trainrt_ranks *ranks, const char *why) {
  if (ranks)
    ranks->impl->abort(Status(Code::RankLost, why ? why : "it has failed"));
}

void trainrt_ranks_free(trainrt_ranks *ranks) { delete ranks; }

} // extern "C"
