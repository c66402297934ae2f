// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plug-in with the fault that the variable FAULT names.
#include <trainc/Plugin/PluginRegistry.h>

#include <cstdlib>
#include <stdexcept>

using namespace mlir;
using trainc::legalize::NodeContext;

namespace {
std::string fault() { return getenv("FAULT") ? getenv("FAULT") : ""; }

int overflow(volatile int *deep) {
  volatile int here[1000] = {*deep};
  return overflow(here) + here[0];
}

void fail(const std::string &when) {
  volatile int zero = 0;
  if (fault() == when + " crashes")
    *reinterpret_cast<volatile int *>(zero) = 1;
  if (fault() == when + " recurses")
    overflow(&zero);
  if (fault() == when + " throws")
    throw std::runtime_error("there is no licence");
  if (fault() == when + " throws a number")
    throw 42;
  if (fault() == when + " exits")
    exit(0);
}
} // namespace

namespace faulty {
struct FaultyPass : PassWrapper<FaultyPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FaultyPass)
  explicit FaultyPass(StringRef name) : name(name) {}
  StringRef getArgument() const override { return name; }
  void runOnOperation() override { fail("pass"); }
  std::string name;
};

/// Ops of one operand and one result, with what they say of themselves.
template <typename Self, template <typename> class... Traits>
struct UnaryOp : Op<Self, OpTrait::ZeroRegions, OpTrait::OneResult, OpTrait::ZeroSuccessors,
                    OpTrait::OneOperand, Traits...> {
  using Op<Self, OpTrait::ZeroRegions, OpTrait::OneResult, OpTrait::ZeroSuccessors,
           OpTrait::OneOperand, Traits...>::Op;
  static ArrayRef<StringRef> getAttributeNames() { return {}; }
  trainc::train::FusionRole getFusionRole() { return Self::kRole; }
};
struct BareOp : UnaryOp<BareOp> {
  using UnaryOp::UnaryOp;
  static StringRef getOperationName() { return "faulty.bare"; }
};
template <typename Self> using Fuses = trainc::train::FusionOpInterface::Trait<Self>;
struct IdleOp : UnaryOp<IdleOp, Fuses> {
  using UnaryOp::UnaryOp;
  static constexpr auto kRole = trainc::train::FusionRole::None;
  static StringRef getOperationName() { return "faulty.idle"; }
};
struct PointwiseOp : UnaryOp<PointwiseOp, Fuses> {
  using UnaryOp::UnaryOp;
  static constexpr auto kRole = trainc::train::FusionRole::Pointwise;
  static StringRef getOperationName() { return "faulty.pointwise"; }
};
struct ImpureOp : UnaryOp<ImpureOp, trainc::train::DecomposableOpInterface::Trait> {
  using UnaryOp::UnaryOp;
  static StringRef getOperationName() { return "faulty.impure"; }
  void decompose(trainc::train::TrainBuilder &, SmallVectorImpl<Value> &) {}
};
struct NamelessOp : UnaryOp<NamelessOp, trainc::train::DecomposableOpInterface::Trait,
                            MemoryEffectOpInterface::Trait> {
  using UnaryOp::UnaryOp;
  static StringRef getOperationName() { return "faulty.nameless"; }
  void decompose(trainc::train::TrainBuilder &, SmallVectorImpl<Value> &) {}
  void getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &) {}
};
struct WrongOp
    : UnaryOp<WrongOp, trainc::train::AxisMapOpInterface::Trait,
              trainc::train::DecomposableOpInterface::Trait,
              trainc::train::DifferentiableOpInterface::Trait, MemoryEffectOpInterface::Trait> {
  using UnaryOp::UnaryOp;
  static StringRef getOperationName() { return "faulty.wrong"; }
  void getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &) {}
  trainc::train::AxisMap getAxisMap() {
    using trainc::train::LoopKind;
    trainc::train::AxisMap map{{LoopKind::Parallel, LoopKind::Parallel}, {{0, 1}}, {{0, 1}}};
    if (fault() == "wrong map")
      map.operands.front().back() = 2;
    return map;
  }
  void decompose(trainc::train::TrainBuilder &tb, SmallVectorImpl<Value> &results) {
    Value x = getOperation()->getOperand(0);
    if (fault() == "wrong type")
      x = tb.cast(x, tb.b().getF64Type());
    if (fault() == "wrong ops")
      x = tb.mul(x, tb.sum(x, 0));
    if (fault() == "wrong self")
      x = getOperation()->getResult(0);
    if (fault() != "wrong count")
      results.push_back(x);
  }
  void buildVJP(trainc::train::TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool>,
                MutableArrayRef<Value> gradients) {
    gradients[0] = fault() == "wrong gradient" ? tb.sum(cotangents[0], 0) : cotangents[0];
  }
};
struct FaultyDialect : Dialect {
  explicit FaultyDialect(MLIRContext *context)
      : Dialect("faulty", context, TypeID::get<FaultyDialect>()) {
    fail("dialect");
    addOperations<BareOp, IdleOp, PointwiseOp, ImpureOp, NamelessOp, WrongOp>();
  }
  static StringRef getDialectNamespace() { return "faulty"; }
};
/// Of the same name as that of examples/plugins/cpp.
struct OtherDialect : Dialect {
  explicit OtherDialect(MLIRContext *context)
      : Dialect("example", context, TypeID::get<OtherDialect>()) {}
  static StringRef getDialectNamespace() { return "example"; }
};

LogicalResult handle(NodeContext &c) {
  fail("handler");
  if (fault() == "null result")
    return c.set(Value());
  for (StringRef name : {"bare", "idle", "pointwise", "impure", "nameless", "wrong"})
    if (StringRef(fault()).split(' ').first == name) {
      Type type = c.tensor(0).getType();
      if (fault() == "nameless")
        type = RankedTensorType::get({ShapedType::kDynamic}, c.tb.b().getF32Type());
      OperationState state(c.tb.loc(), ("faulty." + name).str(), c.tensor(0), type);
      Value made = c.tb.b().create(state)->getResult(0);
      return c.set(made);
    }
  if (fault() == "reason")
    return c.fail("its x is not to its liking");
  // The kernel of a description that it comes with.
  if (fault() == "kernel") {
    trainc::onnx::NodeOp node =
        c.state.makeNode("trainc.plugin::faulty::Kernel", {&c.in(0)}, {}, c.tb.loc());
    NodeContext call(node, c.state, c.tb.b());
    if (failed(c.state.legalizeWith(node.getOpType(), call)))
      return c.fail(call.reason);
    return c.set(c.state.tensorOf(c.state.valueOf(node.getOutputs()[0])));
  }
  return c.set(c.tensor(0));
}
} // namespace faulty

using namespace faulty;

TRAINC_PLUGIN(registry) {
  fail("registration");
  registry.handlers.addExact("faulty::Op", handle, 1, 1);
  registry.dialects.insert<FaultyDialect>();
  if (fault() == "operator of another")
    registry.handlers.addExact("example::Squareplus", handle, 1, 1);
  if (fault() == "operator of the compiler")
    registry.handlers.addExact("com.microsoft::Gelu", handle, 1, 1);
  if (fault() == "operator of a domain")
    registry.handlers.addExact("ai.onnx::Thing", handle, 1, 1);
  if (fault() == "no handler")
    registry.handlers.addExact("faulty::Other", nullptr, 1, 1);
  if (fault() == "dialect of another")
    registry.dialects.insert<OtherDialect>();
  if (fault() == "dialect of the compiler")
    registry.dialects.insert<trainc::train::TrainDialect>();
  if (fault() == "no phase")
    registry.addPass("codegen", [] { return std::make_unique<FaultyPass>("faulty"); });
  if (fault() == "no pass")
    registry.addPass("graph", [] { return nullptr; });
  if (fault() == "pass of the compiler")
    registry.addPass("graph", [] { return std::make_unique<FaultyPass>("autodiff"); });
  for (const char *phase : {"legalize", "graph", "schedule"})
    registry.addPass(phase, [] { return std::make_unique<FaultyPass>("faulty"); });
  if (fault() == "kernel")
    registry.descriptions.push_back("kernel.json");
}
