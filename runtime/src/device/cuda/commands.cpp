// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a plan's steps to what is enqueued.

#include "device/cuda/commands.h"
#include "device/cuda/commands/collective.h"
#include "device/cuda/commands/loop.h"
#include "format/memory/arena_plan.h"
#include "plan/command_info.h"
#include "plan/overlap.h"

#include <algorithm>
#include <cassert>

namespace trainrt::cuda {

/// The library lives as long as this object, whichever plan asked for it first.
Status Libraries::blas(Blas *&library) {
  // From any thread; loaded with the first plan that needs it.
  std::lock_guard lock(mutex);
  if (!loadedBlas)
    TRAINRT_TRY(Blas::load(loadedBlas));
  library = loadedBlas.get();
  return {};
}

/// As above: a failure is not kept, and the next plan tries again.
Status Libraries::dnn(Dnn *&library) {
  std::lock_guard lock(mutex);
  if (!loadedDnn)
    TRAINRT_TRY(Dnn::load(loadedDnn));
  library = loadedDnn.get();
  return {};
}

Status Libraries::ownAttention(OwnAttention *&library) {
  std::lock_guard lock(mutex);
  if (!loadedOwnAttention)
    TRAINRT_TRY(OwnAttention::load(loadedOwnAttention));
  library = loadedOwnAttention.get();
  return {};
}

Status Libraries::rankKernels(const Context &context, const RankKernels *&kernels) {
  std::lock_guard lock(mutex);
  if (!loadedRankKernels)
    TRAINRT_TRY(RankKernels::load(context.driver(), loadedRankKernels));
  kernels = loadedRankKernels.get();
  return {};
}

/// A package that was tuned nowhere needs no library for it.
Status Libraries::adopt(const Tuning &tuning, std::string &machine) {
  bool isAdopted = true;
  auto adoptOf = [&](const std::string &kind, auto load, auto choose) -> Status {
    if (std::none_of(tuning.begin(), tuning.end(),
                     [&](const auto &table) { return table.first.starts_with(kind); }))
      return {};
    std::string own;
    TRAINRT_TRY(load(own));
    auto table = tuning.find(own);
    if (isAdopted)
      machine = own;
    isAdopted &= table != tuning.end();
    return table == tuning.end() ? Status() : choose(table->second);
  };
  Blas *products = nullptr;
  TRAINRT_TRY(adoptOf(
      "matrix products, ",
      [&](std::string &own) {
        TRAINRT_TRY(blas(products));
        own = products->machine();
        return Status();
      },
      [&](const Choices &choices) { return products->choose(choices).as(Code::BadPackage); }));
  Dnn *convolutions = nullptr;
  return adoptOf(
      "convolutions, ",
      [&](std::string &own) {
        TRAINRT_TRY(dnn(convolutions));
        own = convolutions->machine();
        return Status();
      },
      [&](const Choices &choices) {
        convolutions->choose(choices);
        return Status();
      });
}

/// Once a plan: afterwards only addresses change.
Status Commands::prepare(Kernels &kernels, Libraries &libraries, RankExchange *exchange,
                         ThreadPool &pool) {
  LibraryCalls calls;
  DeviceContext with{context, program, kernels, libraries, calls, tables, exchange};
  TRAINRT_TRY(prepareSteps(0, plan.steps.size(), {}, with));
  return prepareLibraries(calls, libraries, pool);
}

/// Commands without work have no number.
Status Commands::prepareSteps(size_t begin, size_t end, const InLoop &slices, DeviceContext &with) {
  for (size_t i = begin; i < end; ++i) {
    const ExecutionPlan::Step &step = plan.steps[i];
    if (std::holds_alternative<Loop>(step.command->op)) {
      const size_t last = loopEnd(plan.function->commands, i);
      TRAINRT_TRY(prepareLoop(i, last, slices, with));
      i = last;
      continue;
    }
    // The number which a command gets if it has work: library calls are told by it.
    with.number = items.size();
    std::unique_ptr<DeviceCommand> command;
    TRAINRT_TRY(plan.visit(step, [&](const auto &, const auto &view) {
      return prepareOnDevice(view, with, command);
    }));
    // Copies between host and device have a lane of their own.
    // And nothing is beside what ranks do together.
    const bool isCollective = std::holds_alternative<Collective>(step.command->op);
    const unsigned lane = isTransfer(*plan.function, *step.command) ? numLanes - 1
                          : isCollective                            ? 0
                                                                    : plan.aside[i];
    if (command)
      items.push_back({&step, lane, std::move(command), slices});
  }
  return {};
}

/// As the host counts them: the first command once, the last one behind each step.
Status Commands::prepareLoop(size_t begin, size_t end, const InLoop &outer, DeviceContext &with) {
  const ExecutionPlan::Step &step = plan.steps[begin];
  const LoopView view(plan.view(step), std::get<Loop>(step.command->op));
  if (view.isEmpty())
    return {};
  auto mark = [&](const ExecutionPlan::Step &at, int64_t behind) {
    items.push_back({&at, 0, std::make_unique<LoopCommand>(view, context.driver(), behind), outer});
  };
  mark(step, -1);
  for (int64_t i = 0; i < view.steps(); ++i) {
    auto slices = outer ? std::make_shared<Slices>(*outer) : std::make_shared<Slices>();
    for (size_t slice = 0; slice < view.numSlices(); ++slice) {
      if (!LoopCommand::isInPlace(view, slice))
        continue;
      Place part = view.places[view.whole(slice)];
      part.offset += LoopCommand::offset(view, slice, i);
      // A slice of a slice of the loop around this one.
      if (auto whole = outer ? outer->find(part.buffer) : slices->end();
          outer && whole != outer->end())
        part = {whole->second.buffer, whole->second.offset + part.offset};
      (*slices)[view.places[view.slice(slice)].buffer] = part;
    }
    TRAINRT_TRY(prepareSteps(begin + 1, end, slices, with));
    mark(plan.steps[end], i);
  }
  return {};
}

/// Plans of libraries take long to find: all threads share them.
Status Commands::prepareLibraries(LibraryCalls &calls, Libraries &libraries, ThreadPool &pool) {
  auto &gemms = calls.gemms;
  auto &attentions = calls.attentions;
  auto &convolutions = calls.convolutions;
  Blas *blas = nullptr;
  Dnn *dnn = nullptr;
  OwnAttention *own = nullptr;
  // Only what is needed is loaded.
  // Loading costs time and memory of the GPU.
  if (!gemms.empty())
    TRAINRT_TRY(libraries.blas(blas));
  if (std::ranges::any_of(attentions,
                          [](const auto &entry) { return OwnAttention::mayTake(entry.call); }))
    TRAINRT_TRY(libraries.ownAttention(own));
  if (!convolutions.empty() || !std::ranges::all_of(attentions, [&](const auto &entry) {
        return own && own->takes(entry.call);
      }))
    TRAINRT_TRY(libraries.dnn(dnn));
  const size_t count = gemms.size() + attentions.size() + convolutions.size();
  pool.parallelFor(int64_t(count), 1, [&](unsigned, int64_t begin, int64_t end) {
    // Threads of the pool have no context of their own.
    CurrentContext current = context.makeCurrent();
    for (size_t i = size_t(begin); i < size_t(end); ++i)
      if (i < gemms.size()) {
        gemms[i].status = blas->prepare(gemms[i].call, gemms[i].plan);
      } else if (i >= gemms.size() + attentions.size()) {
        auto &entry = convolutions[i - gemms.size() - attentions.size()];
        entry.status = dnn->prepare(entry.call, entry.plan);
      } else {
        auto &entry = attentions[i - gemms.size()];
        entry.status = own && own->takes(entry.call) ? own->prepare(entry.call, entry.plan)
                                                     : dnn->prepare(entry.call, entry.plan);
      }
  });
  // The first command that has no plan is told.
  // By command, so that the message does not depend on which thread was quickest.
  std::vector<const Status *> failed(items.size());
  auto hand = [&](const auto &entries) {
    // Equal calls have one plan.
    for (const auto &entry : entries)
      for (const auto &use : entry.uses) {
        *use.plan = entry.plan;
        failed[use.command] = entry.status.ok() ? nullptr : &entry.status;
      }
  };
  hand(gemms);
  hand(attentions);
  hand(convolutions);
  for (size_t i = 0; i < items.size(); ++i)
    if (failed[i])
      return failed[i]->within(describe(i) + ": ");
  return {};
}

/// Of a command in a loop what the step with the largest needs.
std::vector<int64_t> Commands::workspaces() const {
  std::vector<int64_t> needs(plan.steps.size());
  for (const Item &item : items) {
    int64_t &need = needs[indexOf(item)];
    need = std::max(need, int64_t(item.command->workspaceBytes()));
  }
  return needs;
}

/// After every change of an address.
void Commands::resolve(const BufferAddress &address, const std::vector<DeviceAddress> &workspaces,
                       DeviceAddress errors, DeviceAddress tableAddress) {
  bufferAddresses.assign(plan.bufferBytes.size(), 0);
  Addresses addresses;
  const Item *current = nullptr;
  addresses.of = [&](const Place &place) {
    // An operand that the command does not have.
    if (!place.isPresent())
      return DeviceAddress(0);
    const Place at = resolved(*current, place);
    bufferAddresses[at.buffer] = address(at.buffer);
    assert(bufferAddresses[at.buffer] % cudaPlanAlignment == 0 &&
           "algorithms were chosen for addresses whose low bits are 0");
    return bufferAddresses[at.buffer] + DeviceAddress(at.offset);
  };
  addresses.tables = tableAddress;
  addresses.firstError = errors;
  addresses.tableBytes = tables;
  // The slot of a command is that of its number in the function, whatever is left out here.
  for (Item &item : items) {
    addresses.error = errors + sizeof(ErrorSlot) * DeviceAddress(item.step->command -
                                                                 plan.function->commands.data());
    current = &item;
    item.workspace = {workspaces[indexOf(item)], item.command->workspaceBytes()};
    item.command->resolve(addresses);
  }
}

/// Of a slice the place in its tensor.
Place Commands::resolved(const Item &item, const Place &place) {
  if (item.slices)
    if (auto slice = item.slices->find(place.buffer); slice != item.slices->end())
      return {slice->second.buffer, slice->second.offset + place.offset};
  return place;
}

DeviceAddress Commands::addressOf(const Item &item, const Place &place) const {
  const Place at = resolved(item, place);
  assert(at.buffer < bufferAddresses.size() && "addresses are resolved");
  return bufferAddresses[at.buffer] + DeviceAddress(at.offset);
}

/// Addresses are resolved; the caller has put the lanes in order.
Status Commands::enqueue(size_t index, CUstream stream) const {
  return items[index].command->enqueue(stream, items[index].workspace);
}

bool Commands::hasTransfers(const Part &part) const {
  return std::any_of(items.begin() + int64_t(part.begin), items.begin() + int64_t(part.end),
                     [](const Item &item) { return item.lane == numLanes - 1; });
}

int64_t Commands::stagingBytes() const {
  int64_t most = 0;
  for (size_t i = 0; i < size(); ++i)
    if (const auto *collective = as<CollectiveCommand>(i))
      most = std::max(most, collective->stagingBytes());
  return most;
}

/// The plan's waits count all of its collectives; those without work are no items.
std::vector<Commands::Part> Commands::parts(bool beside) const {
  std::map<const ExecutionPlan::Step *, int32_t> exchanges;
  for (size_t i = 0; i < items.size(); ++i)
    if (as<CollectiveCommand>(i))
      exchanges[items[i].step] = int32_t(i);
  std::vector<int32_t> started = {-1}; // of so many collectives of the plan the last item
  for (const ExecutionPlan::Step &step : plan.steps)
    if (std::holds_alternative<Collective>(step.command->op)) {
      auto found = exchanges.find(&step);
      started.push_back(found != exchanges.end() ? found->second : started.back());
    }
  std::vector<Part> parts;
  int32_t awaited = -1;
  for (size_t item = 0; item < items.size(); ++item) {
    const bool isCollective = as<CollectiveCommand>(item);
    int32_t awaits = -1;
    if (beside && !plan.exchangeWaits.empty() && !isCollective)
      awaits = started[plan.exchangeWaits[indexOf(items[item])]];
    const bool waits = awaits > awaited;
    if (parts.empty() || isCollective || parts.back().isCollective || waits)
      parts.push_back({item, item, isCollective, waits ? awaits : -1});
    awaited = std::max(awaited, awaits);
    parts.back().end = item + 1;
  }
  return parts;
}

/// For each command, of each lane the last one that it has to wait for, or -1.
std::vector<std::array<int32_t, Commands::numLanes>> Commands::dependencies() const {
  std::vector<std::array<int32_t, numLanes>> result(items.size(), {-1, -1, -1});
  MemoryOrder order;
  std::vector<MemoryOrder::Range> reads, writes;
  for (size_t i = 0; i < items.size(); ++i) {
    reads.clear();
    writes.clear();
    if (const auto *loop = as<LoopCommand>(i)) {
      for (const LoopCommand::Copy &copy : loop->slices()) {
        reads.push_back({copy.source, copy.source + uint64_t(copy.bytes)});
        writes.push_back({copy.target, copy.target + uint64_t(copy.bytes)});
      }
    } else {
      for (const Operand &operand : items[i].step->command->operands) {
        if (!operand.isPresent())
          continue;
        // How far a command reaches is not known; no further than its buffer does.
        const DeviceAddress begin = addressOf(items[i], {operand.buffer, 0});
        const MemoryOrder::Range range = {begin,
                                          begin + uint64_t(plan.bufferBytes[operand.buffer])};
        if (operand.isRead())
          reads.push_back(range);
        if (operand.isWritten())
          writes.push_back(range);
      }
    }
    if (const Workspace &workspace = items[i].workspace; workspace.bytes)
      writes.push_back({workspace.address, workspace.address + workspace.bytes});
    // Readers wait for writers, writers for both.
    order.add(reads, writes, [&](int32_t earlier) {
      int32_t &last = result[i][items[size_t(earlier)].lane];
      last = std::max(last, earlier);
    });
  }
  return result;
}

std::string Commands::describe(size_t index) const {
  const ExecutionPlan::Step &step = *items[index].step;
  return plan.visit(step, [&](const auto &op, const StepView &view) {
    return op.describe(program, view) + nodesText(program, *step.command);
  });
}

} // namespace trainrt::cuda
