// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a plan's steps to what is enqueued.

#include "cuda/commands.h"
#include "core/overlap.h"
#include "core/plan.h"

#include <algorithm>
#include <climits>
#include <cstring>

namespace trainrt::cuda {

static uint64_t padded(uint64_t bytes) {
  return uint64_t(trainrt::padded(int64_t(bytes), cudaPlanAlignment));
}

Status Libraries::blas(Blas *&library) {
  std::lock_guard lock(mutex);
  if (!loadedBlas)
    TRAINRT_TRY(Blas::load(loadedBlas));
  library = loadedBlas.get();
  return {};
}

Status Libraries::dnn(Dnn *&library) {
  std::lock_guard lock(mutex);
  if (!loadedDnn)
    TRAINRT_TRY(Dnn::load(loadedDnn));
  library = loadedDnn.get();
  return {};
}

Status Libraries::segmentAttention(SegmentAttention *&library) {
  std::lock_guard lock(mutex);
  if (!loadedSegmentAttention)
    TRAINRT_TRY(SegmentAttention::load(loadedSegmentAttention));
  library = loadedSegmentAttention.get();
  return {};
}

Status Libraries::adopt(const Tuning &tuning, std::string &machine) {
  if (std::none_of(tuning.begin(), tuning.end(),
                   [](const auto &table) { return table.first.starts_with("matrix products, "); }))
    return {};
  Blas *library = nullptr;
  TRAINRT_TRY(blas(library));
  machine = library->machine();
  auto own = tuning.find(machine);
  return own == tuning.end() ? Status() : library->choose(own->second).as(Code::BadPackage);
}

Status Commands::prepare(Kernels &kernels, Libraries &libraries, ThreadPool &pool) {
  for (const ExecutionPlan::Step &step : plan.steps)
    TRAINRT_TRY(add(step, kernels));
  parameterPointers.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i)
    parameterPointers[i] = &parameters[i];
  return prepareLibraries(libraries, pool);
}

Status Commands::add(const ExecutionPlan::Step &step, Kernels &kernels) {
  const auto &op = step.command->op;
  const int64_t *values = plan.values.data() + step.firstValue;
  Item item;
  item.step = &step;
  item.lane =
      isTransfer(*plan.function, *step.command) ? 2 : plan.aside[size_t(&step - plan.steps.data())];
  if (auto *launch = std::get_if<Launch>(&op)) {
    const int64_t shared = values[2 + launch->dims.size()];
    int64_t work = values[0], block = values[1];
    if (work == 0)
      return {};
    item.kernel = launch->kernel;
    if (!launch->variants.empty()) {
      const uint32_t wanted = kernels.chosen(variantKey(step), launch->kernel);
      const int64_t *own = values + 3 + launch->dims.size();
      for (const Launch::Variant &variant : launch->variants) {
        if (variant.kernel == wanted) {
          item.kernel = wanted;
          work = own[0];
          block = own[1];
        }
        own += 2;
      }
      if (item.kernel != wanted)
        return fail(Code::BadPackage, "entry '", tuningEntry, "': kernel '",
                    program.kernels[wanted].name, "' is none for ", variantKey(step));
    }
    const Kernels::Function &function = kernels.function(item.kernel);
    const std::string &name = program.kernels[item.kernel].name;
    if (work > INT_MAX)
      return fail(Code::Unsupported, "kernel '", name, "' needs ", work,
                  " blocks, more than a GPU can start at once; use a smaller batch");
    if (block > function.maxThreads)
      return fail(Code::BadPackage, "kernel '", name, "' is to run with ", block,
                  " threads a block, but can have ", function.maxThreads);
    TRAINRT_TRY(kernels.allowShared(item.kernel, shared));
    item.function = function.handle;
    item.grid = unsigned(work);
    item.block = unsigned(block);
    item.shared = unsigned(shared);
    item.firstParameter = parameters.size();
    if (!launch->group.empty()) {
      addGroup(*launch, values, item);
      items.push_back(std::move(item));
      return {};
    }
    parameters.resize(parameters.size() + launch->args.size());
    for (size_t i = 0; i < launch->dims.size(); ++i)
      parameters.push_back(uint64_t(values[2 + i]));
    parameters.push_back(0); // the error slot
    item.numParameters = parameters.size() - item.firstParameter;
  } else if (std::holds_alternative<Gemm>(op)) {
    const size_t rank = std::get<Gemm>(op).batch.size();
    if (values[0] == 0 || values[1] == 0 ||
        std::find(values + 9, values + 9 + rank, 0) != values + 9 + rank)
      return {};
  } else if (std::holds_alternative<Attention>(op)) {
    if (std::find(values, values + 7, 0) != values + 7)
      return {};
  } else if (values[0] == 0) {
    return {};
  }
  items.push_back(std::move(item));
  return {};
}

/// Member and number of every block, then the members' arguments: the dims now, the addresses when
/// they are known.
void Commands::addGroup(const Launch &launch, const int64_t *values, Item &item) {
  const size_t members = launch.group.size(), args = launch.args.size() / members,
               dims = launch.dims.size() / members;
  const int64_t *work = values + 3 + launch.dims.size();
  auto append = [&](const void *data, size_t bytes) {
    auto *from = static_cast<const unsigned char *>(data);
    tables.insert(tables.end(), from, from + bytes);
  };
  item.blocksOffset = tables.size();
  for (size_t member = 0; member < members; ++member)
    for (int64_t block = 0; block < work[member]; ++block) {
      const uint32_t place[2] = {uint32_t(member), uint32_t(block)};
      append(place, sizeof place);
    }
  item.argumentsOffset = tables.size();
  for (size_t member = 0; member < members; ++member) {
    tables.resize(tables.size() + args * 8);
    append(values + 2 + member * dims, dims * 8);
  }
  tables.resize((tables.size() + 255) / 256 * 256);
  item.numParameters = 3;
  parameters.resize(parameters.size() + 3);
}

GemmCall Commands::gemmCall(const ExecutionPlan::Step &step) const {
  const Gemm &op = std::get<Gemm>(step.command->op);
  const int64_t *values = plan.values.data() + step.firstValue;
  const ExecutionPlan::Place *places = plan.places.data() + step.firstPlace;
  GemmCall call;
  call.dtype = op.dtype;
  call.tf32 = op.tf32;
  call.wide = op.wide;
  for (int64_t *value :
       {&call.m, &call.n, &call.k, &call.aM, &call.aK, &call.bK, &call.bN, &call.cM, &call.cN})
    *value = *values++;
  for (auto *list : {&call.batch, &call.aBatch, &call.bBatch, &call.cBatch}) {
    list->assign(values, values + op.batch.size());
    values += op.batch.size();
  }
  call.alpha = op.alpha;
  call.beta = op.beta;
  // Buffers begin at multiples of 256: this is all that is known of addresses for good, and equal
  // products of several layers become equal calls.
  call.a = DeviceAddress(places[0].offset) % 256;
  call.b = DeviceAddress(places[1].offset) % 256;
  call.c = DeviceAddress(places[2].offset) % 256;
  call.bias = DeviceAddress(places[3].offset) % 256;
  call.aux = DeviceAddress(places[4].offset) % 256;
  call.epilogue = op.epilogue;
  return call;
}

AttentionCall Commands::attentionCall(const ExecutionPlan::Step &step) const {
  const Attention &op = std::get<Attention>(step.command->op);
  const int64_t *values = plan.values.data() + step.firstValue;
  AttentionCall call;
  call.backward = op.backward;
  call.dtype = op.dtype;
  for (int64_t *size : {&call.batch, &call.heads, &call.kvHeads, &call.queryRows, &call.keyRows,
                        &call.keyColumns, &call.valueColumns})
    *size = *values++;
  for (auto *strides : {&call.q, &call.k, &call.v, &call.o}) {
    std::copy(values, values + 3, *strides);
    values += 3;
  }
  std::copy(values, values + 4, call.bias);
  values += 4;
  for (auto *strides : {&call.dO, &call.dQ, &call.dK, &call.dV}) {
    std::copy(values, values + 3, *strides);
    values += 3;
  }
  call.hasBias = op.operands[size_t(AttentionOperand::Bias)].present;
  call.biasDtype = op.biasDtype;
  call.scale = op.scale;
  call.dropout = op.dropout;
  call.causal = op.causal;
  call.segments = values[0];
  call.longest = values[1];
  return call;
}

Status Commands::prepareLibraries(Libraries &libraries, ThreadPool &pool) {
  // One call for all equal ones.
  std::vector<std::pair<GemmCall, std::shared_ptr<const GemmPlan>>> gemms;
  std::vector<std::pair<AttentionCall, std::shared_ptr<const AttentionPlan>>> attentions;
  std::vector<size_t> use(items.size());
  auto find = [](auto &list, auto call) {
    auto at = std::find_if(list.begin(), list.end(),
                           [&](const auto &entry) { return entry.first == call; });
    size_t index = size_t(at - list.begin());
    if (at == list.end())
      list.emplace_back(std::move(call), nullptr);
    return index;
  };
  for (size_t i = 0; i < items.size(); ++i) {
    const auto &op = items[i].step->command->op;
    if (std::holds_alternative<Gemm>(op))
      use[i] = find(gemms, gemmCall(*items[i].step));
    else if (std::holds_alternative<Attention>(op))
      use[i] = find(attentions, attentionCall(*items[i].step));
  }
  Blas *blas = nullptr;
  Dnn *dnn = nullptr;
  SegmentAttention *own = nullptr;
  if (!gemms.empty())
    TRAINRT_TRY(libraries.blas(blas));
  if (std::any_of(attentions.begin(), attentions.end(),
                  [](const auto &entry) { return entry.first.segments > 0; }))
    TRAINRT_TRY(libraries.segmentAttention(own));
  if (!std::all_of(attentions.begin(), attentions.end(),
                   [&](const auto &entry) { return own && own->takes(entry.first); }))
    TRAINRT_TRY(libraries.dnn(dnn));
  auto prepareAttention = [&](auto &entry) {
    return own && own->takes(entry.first) ? own->prepare(entry.first, entry.second)
                                          : dnn->prepare(entry.first, entry.second);
  };
  std::vector<Status> statuses(gemms.size() + attentions.size());
  pool.parallelFor(int64_t(statuses.size()), 1, [&](unsigned, int64_t begin, int64_t end) {
    CurrentContext current = context.makeCurrent();
    for (size_t i = size_t(begin); i < size_t(end); ++i)
      statuses[i] = i < gemms.size() ? blas->prepare(gemms[i].first, gemms[i].second)
                                     : prepareAttention(attentions[i - gemms.size()]);
  });
  for (size_t i = 0; i < items.size(); ++i) {
    const auto &op = items[i].step->command->op;
    const bool isGemm = std::holds_alternative<Gemm>(op);
    if (!isGemm && !std::holds_alternative<Attention>(op))
      continue;
    TRAINRT_TRY(statuses[isGemm ? use[i] : gemms.size() + use[i]].within(describe(i) + ": "));
    if (isGemm)
      items[i].gemm = gemms[use[i]].second;
    else
      items[i].attention = attentions[use[i]].second;
    uint64_t &need = workspaceNeed[items[i].lane];
    need = std::max(need, padded(isGemm ? items[i].gemm->workspaceBytes()
                                        : items[i].attention->workspaceBytes()));
  }
  return {};
}

void Commands::resolve(const BufferAddress &address, DeviceAddress errors, Workspace space,
                       DeviceAddress tableAddress) {
  workspaces[0] = {space.address, workspaceNeed[0]};
  workspaces[1] = {space.address + workspaceNeed[0], workspaceNeed[1]};
  bufferAddresses.assign(plan.bufferBytes.size(), 0);
  for (Item &item : items) {
    const ExecutionPlan::Place *places = plan.places.data() + item.step->firstPlace;
    auto resolved = [&](size_t i) {
      if (places[i].buffer == ExecutionPlan::Place::none)
        return DeviceAddress(0);
      return (bufferAddresses[places[i].buffer] = address(places[i].buffer)) +
             DeviceAddress(places[i].offset);
    };
    const auto &op = item.step->command->op;
    const DeviceAddress error =
        errors +
        sizeof(ErrorSlot) * DeviceAddress(item.step->command - plan.function->commands.data());
    if (auto *launch = std::get_if<Launch>(&op)) {
      if (const size_t members = launch->group.size()) {
        const size_t args = launch->args.size() / members, dims = launch->dims.size() / members;
        for (size_t i = 0; i < launch->args.size(); ++i) {
          const DeviceAddress place = resolved(i);
          std::memcpy(tables.data() + item.argumentsOffset +
                          (i / args * (args + dims) + i % args) * 8,
                      &place, sizeof place);
        }
        parameters[item.firstParameter] = tableAddress + item.blocksOffset;
        parameters[item.firstParameter + 1] = tableAddress + item.argumentsOffset;
        parameters[item.firstParameter + 2] = error;
        continue;
      }
      for (size_t i = 0; i < launch->args.size(); ++i)
        parameters[item.firstParameter + i] = resolved(i);
      parameters[item.firstParameter + item.numParameters - 1] = error;
    } else if (std::holds_alternative<Attention>(op)) {
      AttentionOperands &o = item.operands;
      size_t i = 0;
      for (DeviceAddress *operand : {&o.q, &o.k, &o.v, &o.o, &o.stats, &o.bias, &o.seed, &o.dO,
                                     &o.dQ, &o.dK, &o.dV, &o.segments})
        *operand = resolved(i++);
    } else if (std::holds_alternative<Gemm>(op)) {
      item.gemmOperands = {resolved(0), resolved(1), resolved(2), resolved(3), resolved(4)};
    } else {
      for (size_t i = 0; i < (std::holds_alternative<Copy>(op) ? 2 : 1); ++i)
        item.places[i] = resolved(i);
    }
  }
}

Status Commands::enqueue(size_t index, CUstream stream) const {
  const Item &item = items[index];
  const Driver &driver = context.driver();
  const int64_t *values = plan.values.data() + item.step->firstValue;
  CUresult result = CUDA_SUCCESS;
  if (item.function)
    result = driver.cuLaunchKernel(item.function, item.grid, 1, 1, item.block, 1, 1, item.shared,
                                   stream, parameterPointers.data() + item.firstParameter, nullptr);
  else if (item.gemm)
    return item.gemm->enqueue(stream, item.gemmOperands, workspaces[item.lane]);
  else if (item.attention)
    return item.attention->enqueue(stream, item.operands, workspaces[item.lane]);
  else if (auto *fill = std::get_if<Fill>(&item.step->command->op))
    result = driver.cuMemsetD8Async(item.places[0], fill->value, size_t(values[0]), stream);
  else if (item.lane == 2)
    result = isToHost(item)
                 ? driver.cuMemcpyDtoHAsync(reinterpret_cast<void *>(item.places[1]),
                                            item.places[0], size_t(values[0]), stream)
                 : driver.cuMemcpyHtoDAsync(item.places[1],
                                            reinterpret_cast<const void *>(item.places[0]),
                                            size_t(values[0]), stream);
  else if (item.places[0] != item.places[1])
    result = driver.cuMemcpyDtoDAsync(item.places[1], item.places[0], size_t(values[0]), stream);
  return driver.check(result, "cannot be started");
}

bool Commands::isToHost(const Item &item) const {
  const Copy &copy = std::get<Copy>(item.step->command->op);
  return plan.function->buffers[copy.to.buffer].space == Space::Host;
}

bool Commands::hasTransfers() const {
  return std::any_of(items.begin(), items.end(),
                     [](const Item &item) { return item.lane == numLanes - 1; });
}

std::vector<std::array<int32_t, Commands::numLanes>> Commands::dependencies() const {
  std::vector<std::array<int32_t, numLanes>> result(items.size(), {-1, -1, -1});
  MemoryOrder order;
  std::vector<MemoryOrder::Range> ranges[2];
  for (size_t i = 0; i < items.size(); ++i) {
    const ExecutionPlan::Place *places = plan.places.data() + items[i].step->firstPlace;
    const Accesses accesses = accessesOf(*items[i].step->command);
    for (bool writes : {false, true}) {
      ranges[writes].clear();
      for (uint32_t place : writes ? accesses.writes : accesses.reads) {
        const uint32_t buffer = places[place].buffer;
        if (buffer == ExecutionPlan::Place::none)
          continue;
        // How far a command reaches is not known; no further than its buffer does.
        const DeviceAddress begin = bufferAddresses[buffer];
        ranges[writes].push_back({begin, begin + uint64_t(plan.bufferBytes[buffer])});
      }
    }
    order.add(ranges[0], ranges[1], [&](int32_t earlier) {
      int32_t &last = result[i][items[size_t(earlier)].lane];
      last = std::max(last, earlier);
    });
  }
  return result;
}

std::string Commands::variantKey(const ExecutionPlan::Step &step) const {
  const Launch &launch = std::get<Launch>(step.command->op);
  const int64_t *values = plan.values.data() + step.firstValue;
  std::string text = program.kernels[launch.kernel].name + " " + std::to_string(values[0]) +
                     " blocks of " + std::to_string(values[1]) + " dims";
  for (size_t i = 0; i < launch.dims.size(); ++i)
    text += " " + std::to_string(values[2 + i]);
  return text;
}

bool Commands::hasVariants(size_t index) const {
  auto *launch = std::get_if<Launch>(&command(index).op);
  // Without the number of inputs it is not known what is written.
  return launch && !launch->variants.empty() && launch->numInputs >= 0;
}

std::vector<LaunchVariant> Commands::variants(size_t index) const {
  const Item &item = items[index];
  const Launch &launch = std::get<Launch>(item.step->command->op);
  const int64_t *values = plan.values.data() + item.step->firstValue;
  std::vector<LaunchVariant> all = {{item.kernel, item.grid, item.block}};
  auto add = [&](uint32_t kernel, int64_t work, int64_t block) {
    if (kernel != item.kernel && work <= INT_MAX)
      all.push_back({kernel, unsigned(work), unsigned(block)});
  };
  add(launch.kernel, values[0], values[1]);
  const int64_t *own = values + 3 + launch.dims.size();
  for (const Launch::Variant &variant : launch.variants) {
    add(variant.kernel, own[0], own[1]);
    own += 2;
  }
  return all;
}

std::vector<uint64_t> Commands::launchParameters(size_t index) const {
  const Item &item = items[index];
  auto first = parameters.begin() + std::ptrdiff_t(item.firstParameter);
  return {first, first + std::ptrdiff_t(item.numParameters)};
}

const GemmPlan *Commands::product(size_t index, GemmCall &call, GemmOperands &operands) const {
  const Item &item = items[index];
  if (!item.gemm || item.gemm->key().empty())
    return nullptr;
  call = gemmCall(*item.step);
  operands = item.gemmOperands;
  return item.gemm.get();
}

std::string Commands::describe(size_t index) const {
  const Command &what = command(index);
  std::string text = "a fill";
  if (auto *launch = std::get_if<Launch>(&what.op))
    text = "kernel '" + program.kernels[launch->kernel].name + "'";
  else if (std::holds_alternative<Gemm>(what.op))
    text = "a matrix product";
  else if (std::holds_alternative<Attention>(what.op))
    text = std::get<Attention>(what.op).backward ? "an attention's backward" : "an attention";
  else if (std::holds_alternative<Copy>(what.op))
    text = items[index].lane != 2   ? "a copy"
           : isToHost(items[index]) ? "a copy to the host"
                                    : "a copy from the host";
  for (size_t i = 0; i < what.nodes.size(); ++i) {
    text += i ? ", " : what.nodes.size() == 1 ? " (node " : " (nodes ";
    if (i == 4) {
      text += "and " + std::to_string(what.nodes.size() - i) + " more";
      break;
    }
    text += "'" + program.nodes[what.nodes[i]] + "'";
  }
  return what.nodes.empty() ? text : text + ")";
}

} // namespace trainrt::cuda
