// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening and closing other ranks' memory.

#include "device/cuda/ranks/peer_memory.h"

#include <cassert>
#include <iterator>

namespace trainrt::cuda {

namespace {
/// Asked to close all.
constexpr uint64_t allBlocks = ~uint64_t(0);
/// How often a rank looks whether others ask for something.
constexpr auto serviceInterval = std::chrono::milliseconds(2);
} // namespace

PeerMemory::PeerMemory(const Context &context, Communicator &ranks, PeerBoard &board)
    : driver(context.driver()), context(context), ranks(ranks), board(board),
      opened(size_t(ranks.world())) {}

/// Behind `leave`, or nobody has opened anything.
PeerMemory::~PeerMemory() {
  isEnding = true;
  if (server.joinable())
    server.join();
  closeAll();
}

void PeerMemory::closeAll() {
  for (size_t rank = 0; rank < opened.size(); ++rank)
    close(rank, allBlocks);
}

Status PeerMemory::awaitIdle() const {
  for (CUstream stream : streams) {
    Event end;
    TRAINRT_TRY(end.create(context, CU_EVENT_DISABLE_TIMING));
    TRAINRT_TRY(driver.check(driver.cuEventRecord(end.get(), stream), "cannot record an event"));
    TRAINRT_TRY(end.awaitWhile([&] { return ranks.failure(); }));
  }
  return ranks.failure();
}

PeerMemory::Blocks::const_iterator PeerMemory::find(DeviceAddress address) const {
  auto found = own.upper_bound(address);
  if (found == own.begin())
    return own.end();
  --found;
  return address - found->first < found->second.bytes ? found : own.end();
}

bool PeerMemory::isOpen(int rank, const PeerPlace &place) {
  std::lock_guard lock(mutex);
  return opened[size_t(rank)].contains(place.block);
}

/// Asked of the driver once for a block.
Status PeerMemory::place(DeviceAddress address, PeerPlace &place) {
  auto found = find(address);
  if (found == own.end()) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    TRAINRT_TRY(driver.check(driver.cuMemGetAddressRange(&base, &bytes, address),
                             "cannot ask for a block of the GPU's memory"));
    Block block{bytes, {++lastBlock, 0, {}}};
    TRAINRT_TRY(driver.check(driver.cuIpcGetMemHandle(&block.begin.handle, base),
                             "cannot let other processes use the GPU's memory"));
    found = own.insert_or_assign(base, block).first;
  }
  place = found->second.begin;
  place.offset = address - found->first;
  return {};
}

Status PeerMemory::address(int rank, const PeerPlace &place, DeviceAddress &address) {
  assert(rank != ranks.rank());
  std::lock_guard lock(mutex);
  CUdeviceptr &base = opened[size_t(rank)][place.block];
  if (!base)
    TRAINRT_TRY(driver.check(
        driver.cuIpcOpenMemHandle(&base, place.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        "its GPU does not reach another one's memory"));
  address = base + place.offset;
  return {};
}

void PeerMemory::close(size_t rank, uint64_t block) {
  std::lock_guard lock(mutex);
  auto &blocks = opened[rank];
  auto begin = blocks.begin(), end = blocks.end();
  if (block != allBlocks) {
    begin = blocks.find(block);
    end = begin == blocks.end() ? begin : std::next(begin);
  }
  for (auto at = begin; at != end; ++at)
    if (at->second)
      driver.cuIpcCloseMemHandle(at->second);
  blocks.erase(begin, end);
}

/// Whoever asks has come behind all that ranks do together, so what is on this rank's streams needs
/// nothing more from anybody. Where a rank is lost nobody waits for an answer.
void PeerMemory::serve() {
  server = std::thread([this] {
    CurrentContext current = context.makeCurrent();
    while (!isEnding) {
      for (int rank = 0; rank < ranks.world(); ++rank)
        if (const uint64_t block = rank == ranks.rank() ? 0 : board.question(rank)) {
          const auto held = starting();
          if (!awaitIdle().ok())
            continue;
          close(size_t(rank), block);
          board.answer(rank);
        }
      std::this_thread::sleep_for(serviceInterval);
    }
  });
}

bool PeerMemory::isGivenBack(uint64_t number) {
  if (!ranks.failure().ok())
    return false;
  board.ask(number);
  return board.awaitAnswers().ok();
}

void PeerMemory::release(DeviceAddress block) {
  auto found = own.find(block);
  if (found == own.end())
    return;
  if (!isGivenBack(found->second.begin.block))
    context.leave(block);
  own.erase(found);
}

void PeerMemory::leave(bool isLost) {
  const bool isFree = !isLost && isGivenBack(allBlocks);
  for (auto &[block, what] : own)
    if (!isFree)
      context.leave(block);
  own.clear();
  closeAll();
  board.leave();
}

} // namespace trainrt::cuda
