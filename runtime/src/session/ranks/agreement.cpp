// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks of one run have one version and one byte order, which the first message checks by its size.

#include "session/ranks/agreement.h"
#include "format/byte_text.h"

namespace trainrt {

namespace {

/// The order of the members is the format.
void visit(auto &bytes, MessageOf<RankProposal> auto &message) {
  bytes.fields(message.status, message.settings, message.microBatches);
  bytes.list(message.weights, [&](auto &weight) { bytes.fields(weight); });
  bytes.fields(message.hasFactors, message.isLast, message.mayLag, message.count);
}

void visit(auto &bytes, MessageOf<RankOutcome> auto &message) {
  bytes.fields(message.status, message.nonfinite, message.isLeftOut);
  bytes.list(message.numbers, [&](auto &name) { bytes.fields(name); });
  bytes.list(message.losses, [&](auto &loss) { bytes.fields(loss.first, loss.second); });
}

void visit(auto &bytes, MessageOf<RankSave> auto &message) {
  bytes.fields(message.status, message.settings, message.folder);
  for (auto &parts : message.written)
    bytes.list(parts, [&](auto &part) { bytes.fields(part.begin, part.size, part.crc); });
  bytes.fields(message.nonfinite);
}

/// All ranks come to the same status, as they look at the same texts in the same order: first
/// whether all make the same call, then whether all can be read, then for errors, of which that of
/// the lowest rank is told.
template <typename Message>
Status exchangeAll(Communicator &ranks, const Message &mine, std::vector<Message> &all) {
  ByteWriter writer;
  writer.add(std::string(Message::call));
  visit(writer, mine);
  std::vector<std::string> texts, calls;
  TRAINRT_TRY(ranks.gather(writer.bytes, texts));
  auto other = [](size_t rank) {
    return fail(Code::RankLost, "rank ", rank, " runs another version of the runtime");
  };
  std::vector<ByteReader> readers(texts.begin(), texts.end());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    readers[rank].read(calls.emplace_back());
    if (calls[rank].empty())
      return other(rank);
    if (calls[rank] != calls[0])
      return fail(Code::InvalidArgument, "the ranks of a run make the same calls, but rank 0 ",
                  calls[0], ", and rank ", rank, " ", calls[rank]);
  }
  all.clear();
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    visit(readers[rank], all.emplace_back());
    if (!readers[rank].isDone())
      return other(rank);
  }
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].status.ok())
      return all[rank].status.within("rank " + std::to_string(rank) + ": ");
  return {};
}

} // namespace

/// Rank 0 is the measure. All ranks find the same first one that differs. It was started with other
/// files or options, which a person can mend.
Status exchangeProposals(Communicator &ranks, const RankProposal &mine,
                         std::vector<RankProposal> &all) {
  TRAINRT_TRY(exchangeAll(ranks, mine, all));
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].settings != all[0].settings || all[rank].hasFactors != all[0].hasFactors)
      return fail(Code::BadData, "the ranks of a run make the same steps, but rank 0 makes ",
                  all[0].settings, all[0].hasFactors ? ", with weights" : "", ", and rank ", rank,
                  " ", all[rank].settings, all[rank].hasFactors ? ", with weights" : "");
  return {};
}

Status exchangeOutcomes(Communicator &ranks, const RankOutcome &mine,
                        std::vector<RankOutcome> &all) {
  return exchangeAll(ranks, mine, all);
}

Status exchangeSaves(Communicator &ranks, const RankSave &mine, std::vector<RankSave> &all) {
  TRAINRT_TRY(exchangeAll(ranks, mine, all));
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].settings != all[0].settings)
      return fail(Code::BadData, "the ranks of a run save the same step, but rank 0 saves ",
                  all[0].settings, ", and rank ", rank, " ", all[rank].settings);
  return {};
}

} // namespace trainrt
