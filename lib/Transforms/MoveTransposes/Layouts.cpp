// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every op that can be computed in another order is a node with one such order, the one in which a
// transpose near it vanishes. Which of them move is a cut of the graph: what it costs are the bytes
// of values that are read in orders in which they are not.

#include "lib/Transforms/MoveTransposes/Layouts.h"

#include "trainc/Analysis/GuessedBytes.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

static Order inMemory(Value value, ArrayRef<int64_t> order) {
  return memoryOrder(getDims(value), order);
}

/// Whether elements stay in their places.
static bool isPlain(Value value, ArrayRef<int64_t> order) {
  return llvm::is_sorted(inMemory(value, order));
}

/// A call of a library, or null.
static FusionOpInterface asCall(Operation *op) {
  auto fusion = dyn_cast_if_present<FusionOpInterface>(op);
  return fusion && fusion.getFusionRole() == FusionRole::Library ? fusion : nullptr;
}

/// How a value lies that is stored in an order.
static StridedLayout layoutIn(Value value, ArrayRef<int64_t> order) {
  const SmallVector<DimAttr> dims = getDims(value);
  StridedLayout layout{DimAttr::constant(value.getContext(), 0), dims};
  DimAttr stride = DimAttr::constant(value.getContext(), 1);
  for (int64_t axis : llvm::reverse(order)) {
    layout.strides[axis] = stride;
    stride = stride * dims[axis];
  }
  return layout;
}

/// Of a call that can write its result in this order.
static std::optional<AxisOrders> ordersOfCall(Operation *op, unsigned value,
                                              ArrayRef<int64_t> order) {
  FusionOpInterface call = asCall(op);
  if (!call || value < op->getNumOperands() || op->getNumResults() != 1 ||
      !call.acceptsResultLayout(0, layoutIn(op->getResult(0), order)))
    return std::nullopt;
  return AxisOrders{
      llvm::map_to_vector(op->getOperands(),
                          [](Value operand) { return identityOrder(getRank(operand)); }),
      {Order(order)}};
}

Layouts::Layouts(func::FuncOp function) : function(function) {
  assert(function.getBody().hasOneBlock() && "ops are visited in the order of a block");
  findSources(function.getBody().front());
  // Made of less: constants, repeated vectors, numbers that were narrower.
  for (Operation &op : function.getBody().front()) {
    if (!isa<ReorderOpInterface>(op) || op.getNumResults() != 1)
      continue;
    double made = 0;
    for (Value operand : llvm::SmallPtrSet<Value, 4>(op.operand_begin(), op.operand_end()))
      made += bytesToTranspose(sourceOf(operand).root);
    if (2 * made <= guessBytes(op.getResult(0)))
      ofLess[op.getResult(0)] = made;
  }
  findNodes();
  before = bytesLeft();
}

Source Layouts::sourceOf(Value value) const {
  auto found = sources.find(value);
  return found != sources.end() ? found->second : Source{value, identityOrder(getRank(value))};
}

void Layouts::findSources(Block &block) {
  for (Operation &op : block) {
    if (std::optional<Order> permutation = getPermutation(&op)) {
      const Source from = sourceOf(op.getOperand(0));
      sources[op.getResult(0)] = {from.root, composeOrders(from.order, *permutation)};
      permuted.push_back(op.getResult(0));
      continue;
    }
    auto add = [&](Value value, std::optional<unsigned> operand) {
      if (!isa<RankedTensorType>(value.getType()))
        return;
      Source from = sourceOf(value);
      uses[from.root].push_back({&op, operand, from.order});
    };
    for (OpOperand &operand : op.getOpOperands())
      add(operand.get(), operand.getOperandNumber());
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (inner != &op && operand.getParentBlock() == &block)
          add(operand, std::nullopt);
    });
  }
}

void Layouts::findNodes() {
  // Between ops that do not move on one side first: what else a transpose makes vanish is a guess.
  auto isFixed = [](Operation *op) { return !isa_and_nonnull<ReorderOpInterface>(op); };
  auto isSure = [&](Value value) {
    return isFixed(value.getDefiningOp()->getOperand(0).getDefiningOp()) ||
           llvm::all_of(value.getUsers(), isFixed);
  };
  SmallVector<std::tuple<bool, double, size_t>> seeds;
  for (auto [number, value] : llvm::enumerate(permuted))
    seeds.emplace_back(!isSure(value), -guessBytes(value), number);
  llvm::sort(seeds);
  for (const auto &[guessed, bytes, number] : seeds) {
    const Source from = sourceOf(permuted[number]);
    spread(from.root, from.order);
    spread(from.root, identityOrder(from.order.size()));
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val();
      // A copy: nodes are added.
      const AxisOrders orders = nodes.find(op)->second.orders;
      for (auto [operand, order] : llvm::zip_equal(op->getOperands(), orders.operands)) {
        const Source made = sourceOf(operand);
        spread(made.root, composeOrders(made.order, order));
      }
      for (auto [result, order] : llvm::zip_equal(op->getResults(), orders.results))
        spread(result, order);
    }
  }
}

void Layouts::spread(Value root, ArrayRef<int64_t> order) {
  if (auto result = dyn_cast<OpResult>(root))
    propose(result.getOwner(), result.getOwner()->getNumOperands() + result.getResultNumber(),
            order);
  auto found = uses.find(root);
  if (found == uses.end())
    return;
  for (const Use &use : found->second)
    if (use.operand)
      propose(use.reader, *use.operand, composeOrders(inverseOrder(use.path), order));
}

void Layouts::propose(Operation *op, unsigned value, ArrayRef<int64_t> order) {
  auto reorder = dyn_cast<ReorderOpInterface>(op);
  const unsigned operands = op->getNumOperands();
  Value at = value < operands ? op->getOperand(value) : op->getResult(value - operands);
  if (nodes.contains(op) || isPlain(at, order))
    return;
  std::optional<AxisOrders> orders =
      reorder ? reorder.getOrders(value, order) : ordersOfCall(op, value, order);
  if (!orders)
    return;
  nodes[op].orders = std::move(*orders);
  worklist.push_back(op);
}

const AxisOrders *Layouts::ordersOf(Operation *op) const {
  const auto *found = nodes.find(op);
  return found != nodes.end() && found->second.isMoved ? &found->second.orders : nullptr;
}

bool Layouts::isMadeOfLess(Value root) const { return ofLess.contains(root); }

double Layouts::bytesToTranspose(Value root) const {
  auto found = ofLess.find(root);
  return found != ofLess.end() ? found->second : guessBytes(root);
}

Order Layouts::orderOf(Value root) const {
  auto result = dyn_cast<OpResult>(root);
  const AxisOrders *orders = result ? ordersOf(result.getOwner()) : nullptr;
  return orders ? orders->results[result.getResultNumber()] : identityOrder(getRank(root));
}

Order Layouts::movedOrderOf(Value root) const {
  auto result = dyn_cast<OpResult>(root);
  auto node = result ? nodes.find(result.getOwner()) : nodes.end();
  return node != nodes.end() ? node->second.orders.results[result.getResultNumber()]
                             : identityOrder(getRank(root));
}

bool Layouts::isReadAnyway(const Use &use, Value root, ArrayRef<int64_t> order) {
  FusionOpInterface call = use.operand ? asCall(use.reader) : nullptr;
  if (!call)
    return false;
  StridedLayout layout = layoutIn(root, order);
  layout.strides = inOrder(layout.strides, use.path);
  return call.acceptsOperandLayout(*use.operand, layout);
}

SmallVector<LeftTranspose> Layouts::findLeft() const {
  SmallVector<LeftTranspose> left;
  for (const auto &[root, readers] : uses) {
    const double bytes = bytesToTranspose(root);
    const Order order = orderOf(root);
    SmallVector<Order> known = {inMemory(root, order)};
    for (const Use &use : readers) {
      if (isReadAnyway(use, root, order))
        continue;
      const AxisOrders *orders = use.operand ? ordersOf(use.reader) : nullptr;
      Order read = inMemory(root, orders ? composeOrders(use.path, orders->operands[*use.operand])
                                         : use.path);
      if (bytes == 0 || llvm::is_contained(known, read))
        continue;
      known.push_back(read);
      left.push_back({root, use.reader, bytes});
    }
  }
  return left;
}

double Layouts::bytesLeft() const {
  double bytes = 0;
  for (const LeftTranspose &transpose : findLeft())
    bytes += transpose.bytes;
  return bytes;
}

/// Of a reader that does not move both are the same.
std::pair<Order, Order> Layouts::ordersRead(const Use &use, Value root) const {
  Order kept = inMemory(root, use.path), moved = kept;
  auto node = use.operand ? nodes.find(use.reader) : nodes.end();
  if (node != nodes.end())
    moved = inMemory(root, composeOrders(use.path, node->second.orders.operands[*use.operand]));
  return {std::move(kept), std::move(moved)};
}

/// A call of a library may take its operand through strides, whichever order the maker has.
bool Layouts::isReadInEither(const Use &use, Value root) const {
  return isReadAnyway(use, root, identityOrder(getRank(root))) &&
         isReadAnyway(use, root, movedOrderOf(root));
}

/// What a maker and its reader cost is a cut's where it costs most if they are on different sides.
/// So ops that agree are put on one side, those of most bytes first.
void Layouts::chooseSides() {
  struct Pair {
    Operation *maker, *reader;
    bool agree;
    double bytes;
    size_t number;
  };
  SmallVector<Pair> pairs;
  for (const auto &[root, readers] : uses) {
    auto maker = nodes.find(root.getDefiningOp());
    const double bytes = bytesToTranspose(root);
    if (maker == nodes.end() || bytes == 0)
      continue;
    const Order kept = inMemory(root, identityOrder(getRank(root))),
                moved = inMemory(root, movedOrderOf(root));
    for (const Use &use : readers) {
      if (!use.operand || !nodes.contains(use.reader) || isReadInEither(use, root))
        continue;
      const auto [readKept, readMoved] = ordersRead(use, root);
      // Transposes that these two need: both as they are or both moved, and one of them moved
      // alone. Where that is the same number, the sides do not matter.
      const int together = int(readKept != kept) + int(readMoved != moved),
                apart = int(readMoved != kept) + int(readKept != moved);
      if (together != apart)
        pairs.push_back({maker->first, use.reader, together < apart, bytes, pairs.size()});
    }
  }
  llvm::sort(pairs, [](const Pair &a, const Pair &b) {
    return std::tie(b.bytes, a.number) < std::tie(a.bytes, b.number);
  });
  // Groups of ops whose sides are known relative to each other.
  DenseMap<Operation *, SmallVector<Operation *>> members;
  DenseMap<Operation *, Operation *> groupOf;
  for (const auto &[op, node] : nodes) {
    members[op] = {op};
    groupOf[op] = op;
  }
  for (const Pair &pair : pairs) {
    // Within one group the sides are settled: what such a pair costs is then taken too high.
    Operation *into = groupOf[pair.maker], *from = groupOf[pair.reader];
    if (into == from)
      continue;
    const bool areOnOneSide = nodes[pair.maker].isFlipped == nodes[pair.reader].isFlipped;
    // The smaller group changes sides as a whole.
    if (members[into].size() < members[from].size())
      std::swap(into, from);
    for (Operation *op : members[from]) {
      nodes[op].isFlipped ^= areOnOneSide != pair.agree;
      groupOf[op] = into;
    }
    llvm::append_range(members[into], members[from]);
  }
}

SmallVector<Layouts::Demand> Layouts::demandsOf(Value root) const {
  SmallVector<Demand> demands;
  for (const Use &use : uses.find(root)->second) {
    if (isReadInEither(use, root))
      continue;
    const auto [kept, moved] = ordersRead(use, root);
    if (moved == kept) {
      demands.push_back({kept, std::nullopt});
      continue;
    }
    const Node &node = nodes.find(use.reader)->second;
    demands.push_back({kept, node.inCut, node.isFlipped});
    demands.push_back({moved, node.inCut, !node.isFlipped});
  }
  return demands;
}

/// Where what a maker and a reader cost is no cut's, more is taken: what it costs whichever side
/// one of them is on.
void Layouts::addCost(MinCut &cut, ArrayRef<Demand> demands, std::optional<MinCut::Node> maker,
                      bool isSoOnSink, bool isSoOnSource, double bytes) const {
  if (isSoOnSink && isSoOnSource)
    return;
  const bool never = !isSoOnSink && !isSoOnSource;
  if (llvm::any_of(demands, [](const Demand &demand) { return !demand.reader; })) {
    if (!never)
      isSoOnSink ? cut.addCost(*maker, MinCut::kSink, bytes)
                 : cut.addCost(MinCut::kSource, *maker, bytes);
    return;
  }
  // One transpose for all that read it so.
  std::optional<MinCut::Node> anyOnSink, anyOnSource;
  for (const Demand &demand : demands) {
    if (demand.onSource) {
      if (!anyOnSource) {
        anyOnSource = cut.addNode();
        cut.addCost(*anyOnSource, never || isSoOnSink ? MinCut::kSink : *maker, bytes);
      }
      cut.addCost(*demand.reader, *anyOnSource, MinCut::kNever);
    } else if (isSoOnSource) {
      cut.addCost(MinCut::kSource, *maker, bytes);
    } else {
      if (!anyOnSink) {
        anyOnSink = cut.addNode();
        cut.addCost(never ? MinCut::kSource : *maker, *anyOnSink, bytes);
      }
      cut.addCost(*anyOnSink, *demand.reader, MinCut::kNever);
    }
  }
}

void Layouts::addCosts(MinCut &cut, Value root) const {
  const double bytes = bytesToTranspose(root);
  if (bytes == 0)
    return;
  // By sides of the cut from here on: a flipped node stays on the source's side.
  Order onSink = inMemory(root, identityOrder(getRank(root))),
        onSource = inMemory(root, movedOrderOf(root));
  std::optional<MinCut::Node> maker;
  if (auto node = nodes.find(root.getDefiningOp()); node != nodes.end()) {
    maker = node->second.inCut;
    if (node->second.isFlipped)
      std::swap(onSink, onSource);
  }
  SmallVector<Demand> demands = demandsOf(root);
  while (!demands.empty()) {
    const Order order = demands.front().order;
    auto isSame = [&](const Demand &demand) { return demand.order == order; };
    addCost(cut, llvm::filter_to_vector(demands, isSame), maker, order == onSink, order == onSource,
            bytes);
    llvm::erase_if(demands, isSame);
  }
}

bool Layouts::choose() {
  if (nodes.empty())
    return false;
  MinCut cut;
  // Sides first: edges are made for them.
  chooseSides();
  for (auto &[op, node] : nodes)
    node.inCut = cut.addNode();
  for (const auto &[root, readers] : uses)
    addCosts(cut, root);
  const std::vector<bool> moves = cut.solve();
  for (auto &[op, node] : nodes)
    node.isMoved = moves[node.inCut] != node.isFlipped;
  if (bytesLeft() < before)
    return true;
  for (auto &[op, node] : nodes)
    node.isMoved = false;
  return false;
}
