// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every value gets a place: a buffer and a layout in it. Kernels read and write whole row-major
// buffers; library calls take any layout; views only compute one.

#include "lib/Conversion/TrainToPlan/TrainToPlan.h"
#include "dialects/Plan/CallEmitter.h"
#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/RowMoves.h"
#include "mlir/IR/Matchers.h"
#include "trainc/Analysis/KernelWork.h"
#include "trainc/Analysis/StridedViews.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// The plan's word for a template.
static plan::KernelForm formOf(codegen::Template form) {
  using codegen::Template;
  static_assert(unsigned(Template::Pointwise) + 1 == unsigned(plan::KernelForm::pointwise) &&
                unsigned(Template::Product) + 1 == unsigned(plan::KernelForm::product));
  return plan::KernelForm(unsigned(form) + 1);
}

namespace {

using plan::Place;

/// One walk in program order. A value's place is known before any reader is converted; commands
/// keep the order of the ops.
class Converter final : private plan::CallEmitter {
public:
  Converter(func::FuncOp function, KernelSource kernels, bool tf32)
      : CallEmitter(ownBuilder, tf32), function(function), kernels(kernels), ownBuilder(function) {}

  /// Arguments have buffers of their own; results are assigned before anything is emitted, so that
  /// their makers write where they are wanted.
  LogicalResult run() {
    auto plan = plan::FunctionOp::create(builder, function.getLoc(), function.getName());
    for (StringRef kept : {train::kVariantOfAttr, train::kConditionsAttr, train::kFlopsAttr})
      if (Attribute value = function->getAttr(kept))
        plan->setAttr(kept, value);
    plan.getBody().emplaceBlock();
    builder.setInsertionPointToEnd(&plan.getBody().front());
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(addArgument(i)))
        return failure();
    if (failed(assignResults()))
      return failure();
    // Results that are arguments.
    for (Value value : function.getArguments())
      finishResults(function, value);
    for (Operation &op : function.getBody().front().without_terminator())
      if (failed(convert(&op)))
        return failure();
    // At the very end: old values are read until then.
    for (auto [from, to, bytes] : lateCopies)
      plan::CopyOp::create(builder, function.getLoc(), from, to, bytes);
    function.erase();
    return success();
  }

private:
  StringRef argument(unsigned index, StringRef name) {
    auto attr = function.getArgAttrOfType<StringAttr>(index, name);
    return attr ? attr.getValue() : StringRef();
  }
  StringRef result(unsigned index, StringRef name) {
    auto attr = function.getResultAttrOfType<StringAttr>(index, name);
    return attr ? attr.getValue() : StringRef();
  }

  Value declare(plan::Space space, StringRef name, Type type, Location loc,
                ElementsAttr value = {}) {
    return plan::BufferOp::create(builder, loc, plan::BufferType::get(builder.getContext()),
                                  plan::SpaceAttr::get(builder.getContext(), space),
                                  name.empty() ? StringAttr() : builder.getStringAttr(name),
                                  TypeAttr::get(type), value);
  }

  LogicalResult addArgument(unsigned index) {
    StringRef role = argument(index, kRoleAttr);
    std::optional<plan::Space> space = plan::symbolizeSpace(role);
    if (!space)
      return function.emitError("argument ") << index << " has no role";
    Value value = function.getArgument(index);
    Value buffer = declare(*space, argument(index, kNameAttr), value.getType(), value.getLoc());
    places[value] = {buffer, contiguousLayout(value.getType())};
    argumentOf[{role, argument(index, kNameAttr)}] = value;
    return success();
  }

  /// The last op of the body that reads `value` or a view of it.
  /// Through views, as they have no buffer of their own. An argument that is a result is copied in
  /// front of all ops (`finishResults`), so that the terminator does not read it.
  Operation *lastReader(Value value) {
    Operation *last = nullptr;
    const bool isCopied = isa<BlockArgument>(value) && !updates.contains(value);
    for (Operation *user : value.getUsers()) {
      if (isCopied && user->hasTrait<OpTrait::IsTerminator>())
        continue;
      Operation *reader = user;
      if (isa<StridedViewOpInterface>(user) && user->getNumResults() == 1)
        if (Operation *inner = lastReader(user->getResult(0)))
          reader = inner;
      if (!last || last->isBeforeInBlock(reader))
        last = reader;
    }
    return last;
  }

  /// Decides where results go before any command is emitted.
  LogicalResult assignResults() {
    Operation *terminator = function.getBody().front().getTerminator();
    for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
      StringRef role = result(index, kRoleAttr), name = result(index, kNameAttr);
      if (role == "update") {
        Value target = argumentOf.lookup({result(index, kUpdatesAttr), name});
        if (!target)
          return function.emitError("result ") << index << " updates an unknown argument";
        // An argument that updates itself is left as it is.
        if (target != value)
          updates[computedValue(value)].push_back(target);
        continue;
      }
      plan::Space space = role == "gradient" ? plan::Space::gradient : plan::Space::output;
      Value buffer = declare(space, name, value.getType(), value.getLoc());
      // Two results cannot be one buffer: the second is a copy.
      if (!canOwn(value) || wanted.contains(value))
        copies[value].push_back(buffer);
      else
        wanted[value] = buffer;
    }
    return success();
  }
  /// What a kernel has computed, where `value` is that in another shape.
  /// A reshape has the same elements in the same order.
  static Value computedValue(Value value) {
    Operation *def = value.getDefiningOp();
    return isReshape(def) && def->getOperand(0).getDefiningOp<train::FusionOp>()
               ? def->getOperand(0)
               : value;
  }
  /// Whether the op that makes `value` can write it anywhere.
  /// Views and arguments already lie somewhere.
  bool canOwn(Value value) {
    Operation *def = value.getDefiningOp();
    return def && (isa<train::FusionOp>(def) || getFusionRole(def) == FusionRole::Library ||
                   isJoinedInPlace(def));
  }

  /// In the arena, unless it is wanted elsewhere.
  Value newBuffer(Value value) {
    if (Value buffer = wanted.lookup(value))
      return buffer;
    return declare(plan::Space::arena, "", value.getType(), value.getLoc());
  }

  /// Buffer of a value that is read row major.
  FailureOr<Value> contiguous(Operation *reader, Value value) {
    const Place &place = places[value];
    assert(place.buffer && "what makes a value is converted before what reads it");
    if (!isContiguous(place.layout, value.getType()))
      return reader->emitError("reads ") << value.getType() << " through strides";
    return place.buffer;
  }

  /// By the op's role alone: nothing here knows ops by name.
  LogicalResult convert(Operation *op) {
    LogicalResult done = success();
    switch (getFusionRole(op)) {
    case FusionRole::Library:
      done = convertLibrary(op);
      break;
    case FusionRole::View:
    case FusionRole::Access:
      done = convertView(op);
      break;
    default:
      if (auto fusion = dyn_cast<train::FusionOp>(op))
        done = convertFusion(fusion);
      else
        return op->emitError("op '") << op->getName() << "' has no place in a plan";
    }
    if (failed(done))
      return failure();
    for (Value value : op->getResults())
      finishResults(op, value);
    return success();
  }

  /// Copies results that could not be written where they are wanted.
  /// Copies of outputs at once, of updates at the end.
  void finishResults(Operation *op, Value value) {
    if (auto it = copies.find(value); it != copies.end())
      for (Value to : it->second)
        plan::CopyOp::create(builder, op->getLoc(), places[value].buffer, to,
                             train::getBytes(value.getType()));
    if (auto it = updates.find(value); it != updates.end())
      for (Value target : it->second)
        if (places[value].buffer != places[target].buffer)
          lateCopies.push_back(
              {places[value].buffer, places[target].buffer, train::getBytes(value.getType())});
  }

  /// No command: the place follows from the operand's.
  LogicalResult convertView(Operation *op) {
    Value value = op->getResult(0);
    // Its operands have been written there.
    if (Value buffer = joins.lookup(op)) {
      places[value] = {buffer, contiguousLayout(value.getType())};
      return success();
    }
    if (auto view = dyn_cast<StridedViewOpInterface>(op)) {
      const Place operand = placeOf(op->getOperand(0));
      std::optional<StridedLayout> layout = view.getStridedView(operand.layout);
      if (!layout)
        return op->emitError("cannot be a view of its operand");
      places[value] = {operand.buffer, *layout};
      return success();
    }
    ElementsAttr data;
    // Constants are the only data without an operand.
    if (!matchPattern(op, m_Constant(&data)))
      return op->emitError("op '") << op->getName() << "' has no place in a plan";
    Value buffer = declare(plan::Space::constant, "", value.getType(), op->getLoc(), data);
    places[value] = {buffer, contiguousLayout(value.getType())};
    return success();
  }

  /// Inputs first, then results, then temporary memory: the kernel's arguments.
  LogicalResult convertFusion(train::FusionOp fusion) {
    FailureOr<codegen::KernelInfo> kernel = kernels(fusion);
    if (failed(kernel))
      return failure();
    SmallVector<Value> buffers;
    for (Value input : fusion.getInputs()) {
      FailureOr<Value> buffer = contiguous(fusion, input);
      if (failed(buffer))
        return failure();
      buffers.push_back(*buffer);
    }
    // The best place first: the argument that is updated, an input that is free, a buffer of its
    // own.
    for (auto [index, value] : llvm::enumerate(fusion.getResults())) {
      Value buffer = updateInPlace(fusion, *kernel, index, value);
      if (!buffer)
        buffer = overwriteInput(fusion, *kernel, index, value);
      if (!buffer)
        buffer = newBuffer(value);
      places[value] = {buffer, contiguousLayout(value.getType())};
      buffers.push_back(buffer);
    }
    MLIRContext *context = builder.getContext();
    // Memory between the stages, for as long as their launches.
    if (kernel->temporaryBytes) {
      Type bytes = getTensorType({kernel->temporaryBytes}, builder.getI8Type());
      buffers.push_back(declare(plan::Space::arena, "", bytes, fusion.getLoc()));
    }
    // The first of the stages moves what the kernel must; the others finish what it has left.
    KernelWork cost = getKernelWork(fusion);
    const plan::KernelForm form = formOf(kernel->form);
    for (const codegen::KernelStage &stage : kernel->stages) {
      // Of these sizes the stages before it have done all.
      if (&stage != kernel->stages.begin() && stage.work.isConstant(0))
        continue;
      ArrayAttr names;
      DimsAttr work;
      DenseI64ArrayAttr grains;
      if (!stage.variants.empty()) {
        SmallVector<StringRef> list;
        SmallVector<DimAttr> workList;
        SmallVector<int64_t> grainList;
        for (const codegen::KernelStage &variant : stage.variants) {
          list.push_back(variant.name);
          workList.push_back(variant.work);
          grainList.push_back(variant.grain);
        }
        names = builder.getStrArrayAttr(list);
        work = DimsAttr::get(context, workList);
        grains = builder.getDenseI64ArrayAttr(grainList);
      }
      plan::LaunchOp::create(builder, fusion.getLoc(), builder.getStringAttr(stage.name), buffers,
                             builder.getI64IntegerAttr(fusion.getInputs().size()),
                             DimsAttr::get(context, kernel->dims), stage.work,
                             builder.getI64IntegerAttr(stage.grain), stage.scratchBytes, DimsAttr(),
                             names, work, grains, plan::KernelFormAttr::get(context, form),
                             cost.bytes, cost.flops);
      cost.bytes = cost.flops = DimAttr::constant(context, 0);
    }
    return success();
  }

  /// The argument's buffer where this result updates it and nothing reads the old value afterwards.
  Value updateInPlace(train::FusionOp fusion, const codegen::KernelInfo &kernel, unsigned index,
                      Value value) {
    // Anything that reads the old value behind the kernel would see the new one.
    auto updated = updates.find(value);
    if (updated == updates.end()) {
      // What becomes the new value in its place; a reshape has the same elements.
      Operation *user = value.hasOneUse() ? *value.user_begin() : nullptr;
      updated = updates.find(
          train::getSumOverRanks(user && isReshape(user) ? user->getResult(0) : value));
    }
    if (updated == updates.end())
      return {};
    for (Value target : updated->second) {
      Operation *last = lastReader(target);
      if (last && fusion->isBeforeInBlock(last))
        continue;
      // Every input in the same buffer must allow it: the kernel reads these, too.
      bool allowed = true;
      for (auto [input, operand] : llvm::enumerate(fusion.getInputs()))
        if (places[operand].buffer == places[target].buffer)
          allowed = allowed &&
                    llvm::is_contained(kernel.inPlace, std::pair<unsigned, unsigned>(input, index));
      // Each argument can be one result's only.
      if (allowed && claimed.insert(target).second)
        return places[target].buffer;
    }
    return {};
  }

  /// Whether `op` is the last to read an operand and may write over it.
  /// `op` must be the only reader left, read it once, and the buffer be the arena's own.
  bool isFree(Value operand, Operation *op) {
    Value buffer = places[operand].buffer;
    Operation *def = operand.getDefiningOp();
    auto declared = buffer.getDefiningOp<plan::BufferOp>();
    // A view's buffer has other readers; a new value waits in its own for the end of the function.
    return def && !isa<StridedViewOpInterface>(def) && declared &&
           declared.getSpace() == plan::Space::arena && lastReader(operand) == op &&
           llvm::count_if(op->getOperands(),
                          [&](Value other) { return places.lookup(other).buffer == buffer; }) ==
               1 &&
           !updates.contains(operand);
  }

  /// The buffer of an input that nothing reads any more, where the kernel may write this result
  /// over it.
  /// Pairs of the kernel are tried in order; a buffer that another result has taken is left.
  Value overwriteInput(train::FusionOp fusion, const codegen::KernelInfo &kernel, unsigned index,
                       Value value) {
    if (wanted.contains(value))
      return {};
    for (auto [from, result] : kernel.inPlace) {
      Value input = fusion.getInputs()[from], buffer = places[input].buffer;
      if (result != index || !isFree(input, fusion) ||
          llvm::any_of(fusion.getResults(),
                       [&](Value other) { return places.lookup(other).buffer == buffer; }))
        continue;
      return buffer;
    }
    return {};
  }

  /// The call says where its results lie by asking for places: none may be left without.
  LogicalResult convertLibrary(Operation *op) {
    auto call = dyn_cast<plan::LibraryCallOpInterface>(op);
    if (!call)
      return op->emitError("op '") << op->getName() << "' is a library call that nothing emits";
    if (failed(call.emitCall(*this)))
      return failure();
    for (OpResult value : op->getResults())
      if (!value.use_empty() && !places.lookup(value).buffer)
        return op->emitError("op '")
               << op->getName() << "' gives result " << value.getResultNumber() << " no place";
    return success();
  }

  /// The buffer of an argument that this result of a library call replaces. No call writes what it
  /// reads, so that all that read the old value must stand in front of it.
  Value replaceArgument(Value value) {
    auto updated = updates.find(value);
    if (updated == updates.end() || wanted.contains(value))
      return {};
    for (Value target : updated->second) {
      Operation *last = lastReader(target);
      if ((!last || last->isBeforeInBlock(value.getDefiningOp())) && claimed.insert(target).second)
        return places[target].buffer;
    }
    return {};
  }

  /// The place of a library call's result: a permuted reader may decide the layout, or what joins
  /// it with others, or what it replaces.
  Place placeResult(Value value) override {
    Place place;
    if (std::optional<JoinedPart> part = getJoinedPart(value)) {
      Value &buffer = joins[part->join];
      if (!buffer)
        buffer = newBuffer(part->join->getResult(0));
      place = {buffer, part->layout};
    } else if (Operation *reader = getAbsorbedView(value))
      place = {newBuffer(reader->getResult(0)), *layoutForContiguousResult(reader)};
    else if (Value replaced = replaceArgument(value))
      place = {replaced, contiguousLayout(value.getType())};
    else
      place = {newBuffer(value), contiguousLayout(value.getType())};
    return places[value] = place;
  }

  Value placeUpdate(Operation *op, Value result) override {
    if (auto updated = updates.find(result); updated != updates.end())
      for (Value target : updated->second) {
        Operation *last = lastReader(target);
        if ((last && op->isBeforeInBlock(last)) || !claimed.insert(target).second)
          continue;
        places[result] = {places[target].buffer, contiguousLayout(result.getType())};
        return places[target].buffer;
      }
    return placeResult(result).buffer;
  }

  Place placeOf(Value value) override {
    assert(places.contains(value) && "what makes a value is converted before what reads it");
    return places[value];
  }

  /// What is added to lies where the sum will: in its own buffer, if nothing else needs that.
  /// Otherwise a copy of the addend, which is then added to in place.
  Place placeSum(Operation *op, Value addend, Value sum) override {
    Place place = places[addend];
    if (wanted.contains(sum) || !isFree(addend, op)) {
      place = {newBuffer(sum), contiguousLayout(sum.getType())};
      plan::CopyOp::create(builder, op->getLoc(), places[addend].buffer, place.buffer,
                           train::getBytes(sum.getType()));
    }
    return places[sum] = place;
  }

  /// Over the operand, where nothing reads that behind `op`; else over a copy. Runtimes clear the
  /// accumulators of gradients behind the function that takes them.
  Value placeOver(Operation *op, Value operand, Value result) override {
    auto argumentOfFunction = dyn_cast<BlockArgument>(operand);
    const bool isAccumulator =
        argumentOfFunction &&
        argument(argumentOfFunction.getArgNumber(), kRoleAttr) == "gradient" &&
        lastReader(operand) == op;
    Place place = places[operand];
    // As updateInPlace has it.
    auto updated = updates.find(result);
    const bool isThere = updated != updates.end() && llvm::any_of(updated->second, [&](Value to) {
                           return places[to].buffer == place.buffer;
                         });
    if (wanted.contains(result) || !(isAccumulator || isThere || isFree(operand, op)) ||
        !isContiguous(place.layout, operand.getType())) {
      place = {newBuffer(result), contiguousLayout(result.getType())};
      plan::CopyOp::create(builder, op->getLoc(), places[operand].buffer, place.buffer,
                           train::getBytes(result.getType()));
    }
    places[result] = place;
    return place.buffer;
  }

  /// What is carried is an update of its argument: in place where nothing reads the old value
  /// any more, else copied at the end.
  LogicalResult emitBlock(Block &block, ValueRange arguments, ValueRange results) override {
    for (auto [argument, buffer] : llvm::zip_equal(block.getArguments(), arguments))
      places[argument] = {buffer, contiguousLayout(argument.getType())};
    auto outerCopies = std::exchange(lateCopies, {});
    OperandRange values = block.getTerminator()->getOperands();
    const size_t carried = values.size() - results.size();
    for (auto [target, value] : llvm::zip(block.getArguments(), values.take_front(carried))) {
      Value made = value;
      while (isReshape(made.getDefiningOp()))
        made = made.getDefiningOp()->getOperand(0);
      if (!isa<BlockArgument>(made)) {
        updates[computedValue(value)].push_back(target);
      } else if (made != target) {
        // That argument may be written over before it is copied.
        Value copy = declare(plan::Space::arena, "", value.getType(), value.getLoc());
        DimAttr bytes = train::getBytes(value.getType());
        plan::CopyOp::create(builder, value.getLoc(), places[made].buffer, copy, bytes);
        lateCopies.push_back({copy, places[target].buffer, bytes});
      }
    }
    for (auto [value, buffer] : llvm::zip_equal(values.drop_front(carried), results))
      if (!canOwn(value) || wanted.contains(value) || updates.contains(value))
        copies[value].push_back(buffer);
      else
        wanted[value] = buffer;
    for (Value argument : block.getArguments())
      finishResults(block.getTerminator(), argument);
    for (Operation &op : block.without_terminator())
      if (failed(convert(&op)))
        return failure();
    for (auto [from, to, bytes] : lateCopies)
      plan::CopyOp::create(builder, block.getTerminator()->getLoc(), from, to, bytes);
    lateCopies = std::move(outerCopies);
    return success();
  }

  func::FuncOp function;
  KernelSource kernels;
  OpBuilder ownBuilder;
  DenseMap<Value, Place> places;
  DenseMap<std::pair<StringRef, StringRef>, Value> argumentOf;
  /// Buffers of what is joined in place, from the first part on.
  DenseMap<Operation *, Value> joins;
  /// Buffers that are not in the arena and that a value's maker writes directly.
  DenseMap<Value, Value> wanted;
  DenseMap<Value, SmallVector<Value, 1>> copies;
  /// By new value the arguments that it replaces.
  DenseMap<Value, SmallVector<Value, 1>> updates;
  llvm::DenseSet<Value> claimed;
  SmallVector<std::tuple<Value, Value, DimAttr>> lateCopies;
};
} // namespace

LogicalResult trainc::convertTrainToPlan(func::FuncOp function, KernelSource kernels, bool tf32) {
  return Converter(function, kernels, tf32).run();
}
