// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks do together, on a GPU: never a part of a graph, as NCCL's calls may not be.
#ifndef TRAINRT_DEVICE_CUDA_COMMANDS_COLLECTIVE_H
#define TRAINRT_DEVICE_CUDA_COMMANDS_COLLECTIVE_H

#include "device/cuda/commands/device_command.h"
#include "device/cuda/ranks/rank_exchange.h"

namespace trainrt::cuda {

class CollectiveCommand final : public DeviceCommand {
public:
  CollectiveCommand(const CollectiveView &step, const Context &context, RankExchange &exchange);
  /// Once, before it is enqueued.
  Status start();

  void resolve(const Addresses &addresses) override;
  /// The next run: all that is enqueued on `stream` is in front of it. Before each `enqueue`, whose
  /// stream comes behind `begun`.
  Status begin(CUstream stream) const;
  Status enqueue(CUstream stream, Workspace workspace) const override;
  /// What it needs beside its tensors.
  int64_t stagingBytes() const {
    return exchange.stagingBytes(step.work(exchange.world(), exchange.shards()));
  }
  /// Whether the GPU has come to it and has not done it.
  bool isRunning() const;
  const Event &begun() const { return runs[turn].begun; }
  /// Recorded behind it, when all of it is enqueued.
  const Event &end() const { return runs[turn].done; }

private:
  const CollectiveView step;
  const Context &context;
  RankExchange &exchange;
  std::vector<RankExchange::Tensor> tensors;
  /// The slots of the commands before it.
  std::pair<DeviceAddress, int64_t> slots;
  /// Around its last runs: while it waits for the others, the step behind may be enqueued.
  struct Around {
    Event begun, done;
  } runs[2];
  mutable size_t turn = 0;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_COMMANDS_COLLECTIVE_H
