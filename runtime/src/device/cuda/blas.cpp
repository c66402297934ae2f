// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cuBLASLt: descriptors, heuristics, the cache of choices, and the calls.

#include "device/cuda/blas.h"

#include "device/cuda/blas_layout.h"
#include "device/cuda/cublaslt_api.h"
#include "device/cuda/driver.h"
#include "device/cuda/library_search.h"

#include <algorithm>
#include <cassert>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

namespace trainrt::cuda {

namespace {

/// An algorithm, with the workspace that it asks for.
struct Choice {
  lt::Algo algo = {};
  uint64_t workspaceBytes = 0;
};

lt::Epilogue epilogueOf(GemmEpilogue epilogue) {
  switch (epilogue) {
  case GemmEpilogue::None:
    return lt::Epilogue_Default;
  case GemmEpilogue::Bias:
    return lt::Epilogue_Bias;
  case GemmEpilogue::GeluAux:
    return lt::Epilogue_GeluAux;
  case GemmEpilogue::GeluAuxBias:
    return lt::Epilogue_GeluAuxBias;
  case GemmEpilogue::DGelu:
    return lt::Epilogue_DGelu;
  case GemmEpilogue::DGeluBGrad:
    return lt::Epilogue_DGeluBGrad;
  }
  return lt::Epilogue_Default;
}

/// f32 for all others: `make` refuses what is no float.
lt::DataType dataTypeOf(DType dtype) {
  return dtype == DType::F64    ? lt::R_64F
         : dtype == DType::F16  ? lt::R_16F
         : dtype == DType::BF16 ? lt::R_16BF
                                : lt::R_32F;
}

/// The largest power of two, at most 256, that divides the address and every distance.
uint32_t alignmentOf(DeviceAddress address, std::initializer_list<int64_t> distances) {
  uint64_t bits = address | 256;
  for (int64_t distance : distances)
    bits |= static_cast<uint64_t>(distance);
  // Bits that are set in any of them; the lowest one decides.
  return static_cast<uint32_t>(bits & -bits);
}

/// The beta that the library is given. Where it is 1 its kernels for 16-bit types round the sums
/// to the type first and let the memory system add it to C. The neighbour of 1 adds in f32, and its
/// own error is half a unit of that sum's rounding.
float addedUnrounded(const GemmCall &call) {
  bool narrow = call.resultType == DType::F16 || call.resultType == DType::BF16;
  return narrow && call.beta == 1 ? std::nextafterf(1.0f, 0.0f) : call.beta;
}

std::string describe(const GemmCall &call) {
  std::string text = std::string(nameOf(call.dtype)) + (call.tf32 ? " (TF32)" : "") +
                     (call.resultType != call.dtype ? " to f32" : "") + " m " +
                     std::to_string(call.m) + ", n " + std::to_string(call.n) + ", k " +
                     std::to_string(call.k);
  if (!call.batch.empty())
    text += ", batch " + shapeText(call.batch);
  return text;
}

} // namespace

/// The library and what has been chosen so far; plans keep it alive.
/// The maps are the mutex's; the rest is fixed once loaded.
struct BlasImpl {
  lt::Api api = {};
  const Driver *driver = nullptr;
  lt::Handle handle = nullptr;
  std::string libraryPath;
  /// "cuBLASLt VERSION, DEVICE, N SMs": what tuned choices are valid for.
  std::string identity;
  std::mutex mutex;
  std::map<std::string, Choice> choices, tuned;

  ~BlasImpl() {
    if (handle)
      api.Destroy(handle);
  }

  Status failed(const char *what, lt::Status status) const {
    return fail(Code::DeviceError, "cuBLASLt (", libraryPath, "): ", what, ": ",
                api.GetStatusName(status));
  }
};

/// The library's descriptors of one call.
struct GemmDescriptors {
  const lt::Api &api;
  lt::MatmulDesc op = nullptr;
  lt::MatrixLayout x = nullptr, y = nullptr, d = nullptr;
  lt::Preference preference = nullptr;

  explicit GemmDescriptors(const lt::Api &api) : api(api) {}
  // Copies would be destroyed twice.
  GemmDescriptors(const GemmDescriptors &) = delete;
  GemmDescriptors &operator=(const GemmDescriptors &) = delete;
  ~GemmDescriptors() {
    if (op)
      api.MatmulDescDestroy(op);
    for (lt::MatrixLayout layout : {x, y, d})
      if (layout)
        api.MatrixLayoutDestroy(layout);
    if (preference)
      api.MatmulPreferenceDestroy(preference);
  }
};

namespace {

/// Behind `make` nothing changes but an epilogue's addresses, under their mutex: several threads
/// may enqueue it.
class LtPlan final : public GemmPlan {
public:
  LtPlan(std::shared_ptr<BlasImpl> library, const GemmCall &call)
      : library(std::move(library)), descriptors(this->library->api), call(call),
        elementBytes(int64_t(sizeOf(call.dtype))), resultBytes(int64_t(sizeOf(call.resultType))) {}

  Status make();
  uint64_t workspaceBytes() const override { return choice.workspaceBytes; }
  Status enqueue(StreamHandle stream, const GemmOperands &operands,
                 Workspace workspace) const override;

  /// Up to `count` algorithms, the library's favourite first.
  Status candidates(int count, std::vector<Choice> &found) const;
  std::string key() const override { return choiceKey; }
  std::string algorithm() const override;

  Choice choice;

private:
  Status makeDescriptors();
  Status makePreference();
  void makeKey();
  Status fillZero(StreamHandle stream, DeviceAddress c) const;
  template <typename Body> Status forEachLoop(Body body) const;
  Status setAddresses(const GemmOperands &operands) const;

  std::shared_ptr<BlasImpl> library;
  GemmDescriptors descriptors;
  GemmCall call;
  GemmLayout layout;
  int64_t elementBytes, resultBytes;
  uint32_t alignX = 0, alignY = 0, alignD = 0;
  std::string choiceKey;
  /// An epilogue's addresses are in the descriptor while a matmul is enqueued.
  mutable std::mutex addresses;
};

Status LtPlan::makeDescriptors() {
  const lt::Api &api = library->api;
  bool isDouble = call.dtype == DType::F64;
  // TF32 only where the package asks for it: f32 products keep their bits otherwise.
  int compute = isDouble                                ? lt::Compute_64F
                : call.dtype == DType::F32 && call.tf32 ? lt::Compute_32F_FastTF32
                                                        : lt::Compute_32F;
  lt::Status status = lt::statusSuccess;
  // The first failure is kept; calls after it are skipped.
  auto check = [&](lt::Status next) {
    if (status == lt::statusSuccess)
      status = next;
    return status == lt::statusSuccess;
  };
  auto describeMatrix = [&](lt::MatrixLayout &matrix, DType dtype, int64_t rows, int64_t columns,
                            int64_t ld, int64_t stride) {
    check(
        api.MatrixLayoutCreate(&matrix, dataTypeOf(dtype), uint64_t(rows), uint64_t(columns), ld));
    if (status != lt::statusSuccess || layout.batch.extent == 1)
      return;
    // Strides count elements, from one matrix of the batch to the next.
    int32_t count = int32_t(layout.batch.extent);
    check(api.MatrixLayoutSetAttribute(matrix, lt::Layout_BatchCount, &count, sizeof count));
    check(api.MatrixLayoutSetAttribute(matrix, lt::Layout_StridedBatchOffset, &stride,
                                       sizeof stride));
  };
  // The library computes column-major D = X Y: with `swapped` these are B and A.
  bool tx = layout.transposeX, ty = layout.transposeY;
  int64_t rows = layout.rows, columns = layout.columns, k = layout.k;
  int64_t batchX = layout.swapped ? layout.batch.b : layout.batch.a;
  int64_t batchY = layout.swapped ? layout.batch.a : layout.batch.b;
  describeMatrix(descriptors.x, call.dtype, tx ? k : rows, tx ? rows : k, layout.ldX, batchX);
  describeMatrix(descriptors.y, call.dtype, ty ? columns : k, ty ? k : columns, layout.ldY, batchY);
  describeMatrix(descriptors.d, call.resultType, rows, columns, layout.ldD, layout.batch.c);

  // Factors are f64 for f64, else f32.
  if (!check(api.MatmulDescCreate(&descriptors.op, compute, isDouble ? lt::R_64F : lt::R_32F)))
    return library->failed("a descriptor", status);
  auto set = [&](int attribute, auto value) {
    check(api.MatmulDescSetAttribute(descriptors.op, attribute, &value, sizeof value));
  };
  set(lt::Desc_TransA, tx ? lt::Op_T : lt::Op_N);
  set(lt::Desc_TransB, ty ? lt::Op_T : lt::Op_N);
  if (call.epilogue != GemmEpilogue::None) {
    set(lt::Desc_Epilogue, epilogueOf(call.epilogue));
    if (hasAux(call.epilogue)) {
      // The auxiliary matrix has the result's shape and layout.
      set(lt::Desc_AuxLd, layout.ldD);
      if (layout.batch.extent > 1)
        set(lt::Desc_AuxBatchStride, layout.batch.c);
    }
  }
  if (status != lt::statusSuccess)
    return library->failed("a descriptor", status);
  // The choice of an algorithm looks at how far they are aligned, and may refuse null.
  return setAddresses(
      {call.a, call.b, call.c, call.bias ? call.bias : 256, call.aux ? call.aux : 256});
}

Status LtPlan::setAddresses(const GemmOperands &operands) const {
  lt::Status status = lt::statusSuccess;
  auto set = [&](int attribute, DeviceAddress address) {
    if (status == lt::statusSuccess)
      status =
          library->api.MatmulDescSetAttribute(descriptors.op, attribute, &address, sizeof address);
  };
  if (hasBias(call.epilogue))
    set(lt::Desc_BiasPointer, operands.bias);
  if (hasAux(call.epilogue))
    set(lt::Desc_AuxPointer, operands.aux);
  return status == lt::statusSuccess ? Status() : library->failed("a descriptor", status);
}

Status LtPlan::makePreference() {
  assert(descriptors.op && "descriptors come first");
  const lt::Api &api = library->api;
  lt::Status status = api.MatmulPreferenceCreate(&descriptors.preference);
  auto set = [&](int attribute, auto value) {
    if (status == lt::statusSuccess)
      status =
          api.MatmulPreferenceSetAttribute(descriptors.preference, attribute, &value, sizeof value);
  };
  set(lt::Pref_MaxWorkspaceBytes, gemmWorkspaceLimit);
  // Other schemes would add partial sums in the result's type, or in no fixed order.
  set(lt::Pref_ReductionSchemeMask, uint32_t(lt::Reduction_ComputeType));
  // What addresses are multiples of for good: larger ones of a moment say nothing.
  set(lt::Pref_MinAlignmentA, alignX);
  set(lt::Pref_MinAlignmentB, alignY);
  set(lt::Pref_MinAlignmentC, alignD);
  set(lt::Pref_MinAlignmentD, alignD);
  return status == lt::statusSuccess ? Status() : library->failed("a preference", status);
}

void LtPlan::makeKey() {
  // An algorithm is picked once for all of the calls that the loops make.
  // The distance of any loop, as bits: the least aligned decides.
  auto distances = [&](auto member, DeviceAddress address, int64_t bytes) {
    uint64_t bits = 0;
    for (const BatchAxis &axis : layout.loops)
      bits |= uint64_t(axis.*member * bytes);
    return alignmentOf(address, {int64_t(bits), layout.batch.*member * bytes});
  };
  alignX = distances(&BatchAxis::a, call.a, elementBytes);
  alignY = distances(&BatchAxis::b, call.b, elementBytes);
  if (layout.swapped)
    std::swap(alignX, alignY);
  alignD = distances(&BatchAxis::c, call.c, resultBytes);
  // As in the descriptors.
  int64_t batchX = layout.swapped ? layout.batch.b : layout.batch.a;
  int64_t batchY = layout.swapped ? layout.batch.a : layout.batch.b;
  uint32_t alignEpilogue = alignmentOf(call.bias | call.aux, {});
  char text[400];
  std::snprintf(
      text, sizeof text,
      "%s%s%s %c%c %" PRId64 "x%" PRId64 "x%" PRId64 " ld %" PRId64 ",%" PRId64 ",%" PRId64
      " batch %" PRId64 ":%" PRId64 ",%" PRId64 ",%" PRId64 " align %u,%u,%u epilogue %d:%u",
      nameOf(call.dtype), call.tf32 ? "-tf32" : "", call.resultType != call.dtype ? "-f32" : "",
      layout.transposeX ? 'T' : 'N', layout.transposeY ? 'T' : 'N', layout.rows, layout.columns,
      layout.k, layout.ldX, layout.ldY, layout.ldD, layout.batch.extent, batchX, batchY,
      layout.batch.c, alignX, alignY, alignD, int(call.epilogue), alignEpilogue);
  choiceKey = text;
  // What follows decides nothing, but makes calls with equal keys equal but for their factors.
  if (layout.swapped)
    choiceKey += " swapped";
  for (const BatchAxis &axis : layout.loops) {
    std::snprintf(text, sizeof text, " loop %" PRId64 ":%" PRId64 ",%" PRId64 ",%" PRId64,
                  axis.extent, axis.a, axis.b, axis.c);
    choiceKey += text;
  }
}

Status LtPlan::candidates(int count, std::vector<Choice> &found) const {
  std::vector<lt::HeuristicResult> results(static_cast<size_t>(count));
  int returned = 0;
  lt::Status status = library->api.MatmulAlgoGetHeuristic(
      library->handle, descriptors.op, descriptors.x, descriptors.y, descriptors.d, descriptors.d,
      descriptors.preference, count, results.data(), &returned);
  // Not supported is an empty list here.
  if (status != lt::statusSuccess && status != lt::statusNotSupported)
    return library->failed("the heuristic", status);
  for (int i = 0; i < returned; ++i) {
    const lt::HeuristicResult &result = results[size_t(i)];
    uint32_t reduction = lt::Reduction_None;
    size_t written = 0;
    // The mask has kept the others out already; this does not depend on the library for it.
    lt::Status known = library->api.MatmulAlgoConfigGetAttribute(
        &result.algo, lt::Config_ReductionScheme, &reduction, sizeof reduction, &written);
    if (result.state == lt::statusSuccess && known == lt::statusSuccess &&
        (reduction == lt::Reduction_None || reduction == lt::Reduction_ComputeType) &&
        result.workspaceSize <= gemmWorkspaceLimit)
      found.push_back({result.algo, result.workspaceSize});
  }
  if (found.empty())
    return fail(Code::Unsupported, "cuBLASLt has no algorithm for a matmul of ", describe(call),
                call.epilogue == GemmEpilogue::None ? "" : " with this epilogue",
                "; compile with another precision");
  return {};
}

/// All that does not depend on addresses. A choice for its key, once made, is every later plan's
/// until `choose` brings another.
Status LtPlan::make() {
  // Asked before the library, whose message would say less.
  if (!isFloat(call.dtype))
    return fail(Code::Unsupported, "matmuls of ", nameOf(call.dtype), " on CUDA");
  if (call.resultType != call.dtype &&
      (sizeOf(call.dtype) != 2 || call.epilogue != GemmEpilogue::None))
    return fail(Code::Unsupported, "a matmul of ", describe(call),
                " with an epilogue, or not of 16 bits");
  TRAINRT_TRY(layoutGemm(call, layout));
  if (call.k == 0) {
    // Without anything to sum C stays or becomes zero.
    if (call.epilogue != GemmEpilogue::None || (call.beta != 0 && call.beta != 1))
      return fail(Code::Unsupported, "a matmul with k = 0 that scales C or has an epilogue");
    return {};
  }
  // The auxiliary matrix has one batch axis, the sum of DGeluBGrad none.
  if (hasAux(call.epilogue) &&
      (!layout.loops.empty() ||
       (call.epilogue == GemmEpilogue::DGeluBGrad && layout.batch.extent > 1)))
    return fail(Code::Unsupported, "a matmul of ", describe(call),
                " with this epilogue: its batch is not one axis");
  makeKey();
  TRAINRT_TRY(makeDescriptors());
  TRAINRT_TRY(makePreference());
  // Equal keys get equal algorithms, in whatever order plans are made.
  std::lock_guard<std::mutex> lock(library->mutex);
  auto known = library->choices.find(choiceKey);
  if (known != library->choices.end()) {
    choice = known->second;
    return {};
  }
  auto tuned = library->tuned.find(choiceKey);
  if (tuned != library->tuned.end()) {
    // Of another version of the library it may not be one.
    lt::HeuristicResult result = {};
    lt::Status status =
        library->api.MatmulAlgoCheck(library->handle, descriptors.op, descriptors.x, descriptors.y,
                                     descriptors.d, descriptors.d, &tuned->second.algo, &result);
    if (status != lt::statusSuccess)
      return library->failed("a tuned choice cannot be used here, tune again", status);
    choice = {tuned->second.algo, result.workspaceSize};
  } else {
    std::vector<Choice> found;
    TRAINRT_TRY(candidates(8, found));
    choice = found.front();
  }
  library->choices[choiceKey] = choice;
  return {};
}

/// The library's own words, as digits: they are only stored and compared.
std::string LtPlan::algorithm() const {
  std::string text;
  for (uint64_t word : choice.algo.data) {
    char hex[20];
    std::snprintf(hex, sizeof hex, "%s%016" PRIx64, text.empty() ? "" : " ", word);
    text += hex;
  }
  return text;
}

/// Calls `body(a, b, c)` with the offsets in bytes of each combination of the loops.
template <typename Body> Status LtPlan::forEachLoop(Body body) const {
  std::vector<int64_t> index(layout.loops.size(), 0);
  for (;;) {
    int64_t a = 0, b = 0, c = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      a += index[i] * layout.loops[i].a;
      b += index[i] * layout.loops[i].b;
      c += index[i] * layout.loops[i].c;
    }
    assert(index.size() == layout.loops.size() && "one number a loop");
    TRAINRT_TRY(body(a * elementBytes, b * elementBytes, c * resultBytes));
    size_t axis = index.size();
    // The next combination, the last loop fastest.
    while (axis > 0 && ++index[axis - 1] == layout.loops[axis - 1].extent)
      index[--axis] = 0;
    if (axis == 0)
      return {};
  }
}

/// C without the gaps between its columns, which may be another tensor's.
Status LtPlan::fillZero(StreamHandle stream, DeviceAddress c) const {
  return forEachLoop([&](int64_t, int64_t, int64_t loop) {
    // Dense columns are one fill.
    bool dense = layout.ldD == layout.rows;
    int64_t fills = dense ? 1 : layout.columns;
    int64_t elements = dense ? layout.rows * layout.columns : layout.rows;
    for (int64_t i = 0; i < layout.batch.extent; ++i)
      for (int64_t j = 0; j < fills; ++j)
        TRAINRT_TRY(library->driver->check(
            library->driver->cuMemsetD8Async(
                c + uint64_t(loop + (i * layout.batch.c + j * layout.ldD) * resultBytes), 0,
                size_t(elements * resultBytes), static_cast<CUstream>(stream)),
            "cannot fill a matrix with zeros"));
    return Status();
  });
}

Status LtPlan::enqueue(StreamHandle stream, const GemmOperands &operands,
                       Workspace workspace) const {
  assert(call.k >= 0 && "checked when it was planned");
  if (call.k == 0)
    return call.beta == 0 ? fillZero(stream, operands.c) : Status();
  // Checked in every build: a library would write behind it.
  if (workspace.bytes < choice.workspaceBytes)
    return fail(Code::Internal, "a matmul needs ", choice.workspaceBytes,
                " bytes of workspace and got ", workspace.bytes);
  double alphaDouble = call.alpha, betaDouble = call.beta;
  float betaFloat = addedUnrounded(call);
  bool isDouble = call.dtype == DType::F64;
  const void *alpha = isDouble ? static_cast<const void *>(&alphaDouble) : &call.alpha;
  const void *beta = isDouble ? static_cast<const void *>(&betaDouble) : &betaFloat;
  auto pointer = [](DeviceAddress base, int64_t offset) {
    return reinterpret_cast<void *>(base + uint64_t(offset));
  };
  // Without an epilogue the descriptor has no addresses: calls may go in parallel.
  std::unique_lock<std::mutex> lock(addresses, std::defer_lock);
  if (call.epilogue != GemmEpilogue::None) {
    lock.lock();
    TRAINRT_TRY(setAddresses(operands));
  }
  // The same algorithm for each combination of the loops, in one order on one stream.
  return forEachLoop([&](int64_t offsetA, int64_t offsetB, int64_t offsetC) {
    void *first = pointer(operands.a, offsetA), *second = pointer(operands.b, offsetB),
         *to = pointer(operands.c, offsetC);
    if (layout.swapped)
      std::swap(first, second);
    lt::Status status =
        library->api.Matmul(library->handle, descriptors.op, alpha, first, descriptors.x, second,
                            descriptors.y, beta, to, descriptors.d, to, descriptors.d, &choice.algo,
                            pointer(workspace.address, 0), choice.workspaceBytes, stream);
    return status == lt::statusSuccess ? Status() : library->failed(describe(call).c_str(), status);
  });
}

} // namespace

CublasLt::CublasLt(std::shared_ptr<BlasImpl> impl) : impl(std::move(impl)) {}
CublasLt::~CublasLt() = default;

Status Blas::load(std::unique_ptr<Blas> &blas) {
  std::unique_ptr<CublasLt> loaded;
  TRAINRT_TRY(CublasLt::load(loaded));
  blas = std::move(loaded);
  return {};
}

/// All functions or none: a library of another version is refused as a whole.
Status CublasLt::load(std::unique_ptr<CublasLt> &blas) {
  auto impl = std::make_shared<BlasImpl>();
  SharedLibrary library;
  TRAINRT_TRY(Driver::load(impl->driver));
  // The version of the runtime's own CUDA does not matter to the library: only the driver's.
  // The newer one first.
  TRAINRT_TRY(loadLibrary({"libcublasLt.so.13", "libcublasLt.so.12"},
                          "it is part of the CUDA toolkit and of the wheel nvidia-cublas", library)
                  .as(Code::DeviceError));
  impl->libraryPath = library.path;
  // The first that is missing is named.
  const char *missing = nullptr;
  auto resolve = [&](auto &function, const char *name) {
    if (!library.resolve(function, name) && !missing)
      missing = name;
  };
  lt::Api &api = impl->api;
  resolve(api.GetVersion, "cublasLtGetVersion");
  resolve(api.GetStatusName, "cublasLtGetStatusName");
  resolve(api.Create, "cublasLtCreate");
  resolve(api.Destroy, "cublasLtDestroy");
  resolve(api.MatmulDescCreate, "cublasLtMatmulDescCreate");
  resolve(api.MatmulDescDestroy, "cublasLtMatmulDescDestroy");
  resolve(api.MatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
  resolve(api.MatrixLayoutCreate, "cublasLtMatrixLayoutCreate");
  resolve(api.MatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
  resolve(api.MatrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute");
  resolve(api.MatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate");
  resolve(api.MatmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy");
  resolve(api.MatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
  resolve(api.MatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
  resolve(api.MatmulAlgoCheck, "cublasLtMatmulAlgoCheck");
  resolve(api.MatmulAlgoConfigGetAttribute, "cublasLtMatmulAlgoConfigGetAttribute");
  resolve(api.Matmul, "cublasLtMatmul");
  if (missing)
    return fail(Code::DeviceError, library.path, " has no function ", missing,
                ": CUDA 12 or newer is needed");
  lt::Status status = api.Create(&impl->handle);
  if (status != lt::statusSuccess)
    return impl->failed("cublasLtCreate", status);
  // A handle belongs to the device that is current.
  std::string device;
  TRAINRT_TRY(deviceIdentity(*impl->driver, device));
  impl->identity = "cuBLASLt " + std::to_string(api.GetVersion()) + ", " + device;
  blas.reset(new CublasLt(std::move(impl)));
  return {};
}

/// A plan of its own for each call; algorithms are shared by key.
Status CublasLt::prepare(const GemmCall &call, std::shared_ptr<const GemmPlan> &plan) {
  auto made = std::make_shared<LtPlan>(impl, call);
  TRAINRT_TRY(made->make());
  plan = std::move(made);
  return {};
}

/// The preferred plan first: it is what runs without tuning. `count` bounds them all.
Status CublasLt::alternatives(const GemmCall &call, size_t count,
                              std::vector<std::shared_ptr<const GemmPlan>> &plans) {
  plans.clear();
  std::shared_ptr<const GemmPlan> preferred;
  TRAINRT_TRY(prepare(call, preferred));
  // k = 0 has nothing to choose from.
  if (preferred->key().empty() || count == 0)
    return {};
  std::vector<Choice> found;
  TRAINRT_TRY(static_cast<const LtPlan &>(*preferred).candidates(int(count), found));
  plans.push_back(preferred);
  // Plans with the same key and other algorithms; the preferred one is there already.
  for (const Choice &choice : found) {
    auto plan = std::make_shared<LtPlan>(impl, call);
    TRAINRT_TRY(plan->make());
    plan->choice = choice;
    if (plans.size() < count && plan->algorithm() != preferred->algorithm())
      plans.push_back(std::move(plan));
  }
  return {};
}

std::string CublasLt::machine() const { return "matrix products, " + impl->identity; }

/// Plans that were made before keep their algorithms.
Status CublasLt::choose(const Choices &choices) {
  // Read into a table of its own: a damaged one changes nothing.
  std::map<std::string, Choice> read;
  // All of it is read before any of it counts.
  for (const auto &[key, text] : choices) {
    Choice choice;
    const char *at = text.c_str();
    for (uint64_t &word : choice.algo.data) {
      int length = 0;
      if (std::sscanf(at, "%16" SCNx64 "%n", &word, &length) != 1)
        return fail(Code::BadData, "the tuned algorithm of '", key, "' is damaged");
      at += length;
    }
    if (*at)
      return fail(Code::BadData, "the tuned algorithm of '", key, "' is damaged");
    read[key] = choice;
  }
  // Algorithms that were chosen before are chosen again with the next plan.
  std::lock_guard<std::mutex> lock(impl->mutex);
  for (auto &[key, choice] : read) {
    impl->choices.erase(key);
    impl->tuned[key] = choice;
  }
  return {};
}

} // namespace trainrt::cuda
