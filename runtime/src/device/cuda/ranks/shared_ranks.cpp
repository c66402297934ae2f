// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All ranks meet when their pieces are on their way, and copy what is for them behind the others'
// events; they meet again when the copies are enqueued, so that nobody writes over a piece before
// that. The host waits for threads only, never for the GPU.

#include "device/cuda/ranks/device_ranks.h"

namespace trainrt::cuda {

namespace {

class SharedRanks final : public DeviceRanks {
public:
  SharedRanks(const Context &context, Communicator &ranks)
      : driver(context.driver()), ranks(ranks) {}

  Status start(const Context &context) {
    TRAINRT_TRY(mine.written.create(context, CU_EVENT_DISABLE_TIMING));
    return mine.copied.create(context, CU_EVENT_DISABLE_TIMING);
  }

  Status exchange(std::span<const Piece> sent, std::span<const Piece> received,
                  CUstream stream) override {
    mine.sent = sent;
    TRAINRT_TRY(record(mine.written, stream));
    std::vector<const Table *> tables;
    TRAINRT_TRY(meet(tables));
    // Whatever happens here, the others read this rank's pieces until all meet again.
    Status copied;
    for (int from = 0; from < ranks.world() && copied.ok(); ++from)
      copied = copyFrom(from, *tables[size_t(from)], received, stream);
    if (copied.ok())
      copied = record(mine.copied, stream);
    TRAINRT_TRY(meet(tables));
    TRAINRT_TRY(copied);
    for (const Table *table : tables)
      if (table != &mine)
        TRAINRT_TRY(wait(table->copied, stream));
    return {};
  }

  Status addUp(DType, std::span<const Sum>, CUstream) override {
    return Status(Code::Unsupported,
                  "--reduce nccl is for ranks that are processes: NCCL knows no ranks on one GPU");
  }
  /// All that is enqueued ends by itself.
  Status check() const override { return {}; }
  void abort() override {}

private:
  /// What a rank lets the others see between two meetings.
  struct Table {
    std::span<const Piece> sent;
    Event written, copied;
  };

  Status record(const Event &event, CUstream stream) {
    return driver.check(driver.cuEventRecord(event.get(), stream), "cannot record an event");
  }
  Status wait(const Event &event, CUstream stream) {
    return driver.check(driver.cuStreamWaitEvent(stream, event.get(), 0),
                        "cannot wait for another rank");
  }

  Status meet(std::vector<const Table *> &tables) {
    const Table *own = &mine;
    tables.resize(size_t(ranks.world()));
    const std::vector<Communicator::Sent> sent(tables.size(), {&own, sizeof own});
    std::vector<Communicator::Received> received;
    for (const Table *&table : tables)
      received.push_back({&table, sizeof table});
    return ranks.exchange(sent, received);
  }

  Status copyFrom(int from, const Table &table, std::span<const Piece> received, CUstream stream) {
    TRAINRT_TRY(wait(table.written, stream));
    auto next = table.sent.begin();
    for (const Piece &piece : received) {
      if (piece.rank != from)
        continue;
      while (next != table.sent.end() && next->rank != ranks.rank())
        ++next;
      if (next == table.sent.end() || next->bytes != piece.bytes)
        return fail(Code::RankLost, "rank ", from, " sends other pieces than rank ", ranks.rank(),
                    " waits for");
      TRAINRT_TRY(driver.check(
          driver.cuMemcpyDtoDAsync(piece.address, next->address, size_t(piece.bytes), stream),
          "cannot copy from another rank"));
      ++next;
    }
    return {};
  }

  const Driver &driver;
  Communicator &ranks;
  Table mine;
};

} // namespace

Status createSharedRanks(const Context &context, Communicator &ranks,
                         std::unique_ptr<DeviceRanks> &result) {
  auto made = std::make_unique<SharedRanks>(context, ranks);
  TRAINRT_TRY(made->start(context));
  result = std::move(made);
  return {};
}

} // namespace trainrt::cuda
