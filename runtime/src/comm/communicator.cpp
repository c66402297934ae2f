// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What any communicator can do.

#include "comm/communicator.h"

#include <algorithm>
#include <cstring>

namespace trainrt {

namespace {
/// A text with its size, as far as it goes: most are short, and take one exchange.
struct Begin {
  int64_t size = 0;
  char bytes[504] = {};
};
} // namespace

/// One exchange, or two: that is decided on the sizes, which all ranks have got by then, so all
/// decide alike. A size out of bounds is seen by all of them, too.
Status Communicator::gather(const std::string &mine, std::vector<std::string> &all) {
  const size_t ranks = size_t(world());
  Begin begin;
  begin.size = int64_t(mine.size());
  std::memcpy(begin.bytes, mine.data(), std::min(mine.size(), sizeof begin.bytes));
  std::vector<Begin> begins(ranks);
  std::vector<Sent> sent(ranks, Sent{&begin, sizeof begin});
  std::vector<Received> received(ranks);
  for (size_t i = 0; i < ranks; ++i)
    received[i] = {&begins[i], sizeof begins[i]};
  TRAINRT_TRY(exchange(sent, received));
  all.resize(ranks);
  constexpr int64_t first = sizeof begin.bytes;
  bool isMore = false;
  for (size_t i = 0; i < ranks; ++i) {
    const int64_t size = begins[i].size;
    // What a rank says of itself is a few hundred bytes; anything else is no rank of this run.
    if (size < 0 || size > (int64_t(1) << 30))
      return fail(Code::RankLost, "rank ", i, " announces a message of ", size, " bytes");
    all[i].assign(size_t(size), '\0');
    std::memcpy(all[i].data(), begins[i].bytes, size_t(std::min(size, first)));
    // No string changes its size from here on: the second exchange writes into them.
    received[i] = {all[i].data() + std::min(size, first), std::max<int64_t>(0, size - first)};
    isMore |= size > first;
  }
  if (!isMore)
    return {};
  // To all of them alike, and to this rank as well.
  const int64_t rest = std::max<int64_t>(0, begin.size - first);
  sent.assign(ranks, Sent{rest ? mine.data() + first : nullptr, rest});
  return exchange(sent, received);
}

} // namespace trainrt
