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
  Status enqueue(CUstream stream, Workspace workspace) const override;
  /// What others' pieces need (ExchangeWork::deviceStaging).
  int64_t stagingBytes() const { return staging; }
  /// Whether the GPU has come to it and has not done it.
  bool isRunning() const;
  /// Recorded behind it, when all of it is enqueued.
  const Event &end() const { return done; }

private:
  const CollectiveView step;
  const Context &context;
  RankExchange &exchange;
  const int64_t staging;
  std::vector<RankExchange::Tensor> tensors;
  /// Around its last run.
  Event begun, done;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_COMMANDS_COLLECTIVE_H
