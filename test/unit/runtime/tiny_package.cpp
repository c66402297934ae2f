// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the tiny package: the program with the FlatBuffers builder, the manifest as text.

#include "tiny_package.h"
#include "format/hash.h"
#include "format/zip.h"
#include "program_generated.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

namespace trainrt::test {

namespace {

std::string makeFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "trainrt-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    std::abort();
  return pattern;
}

void require(const Status &status) {
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    std::abort();
  }
}

class ProgramBuilder {
public:
  explicit ProgramBuilder(const TinyOptions &options) : options(options) {}

  std::vector<unsigned char> build() {
    batch = add({fb::ExprKind::symbol, 0, 0, 0});
    three = constant(3);
    const TinyCount count = options.count.value_or(TinyCount());
    if (options.count)
      labelled = add({fb::ExprKind::symbol, 1, 0, 0});
    auto batchBytes = mul(batch, 4);
    auto x = tensor("x", fb::DType::f32, {batch, three});
    auto id = tensor("id", fb::DType::i64, {batch});
    auto y = tensor("y", fb::DType::f32, {count.inInput ? labelled : batch});
    auto w = tensor("w", fb::DType::f32, {three});
    auto tableTensor = tensor("table", fb::DType::f32, {constant(4)});
    std::vector<flatbuffers::Offset<fb::Tensor>> parameters = {w, tableTensor};
    for (const TinyParameter &extra : options.extra) {
      std::vector<uint32_t> shape;
      for (int64_t extent : extra.shape)
        shape.push_back(constant(extent));
      parameters.push_back(tensor(extra.name.c_str(), fb::DType(extra.dtype), shape));
    }
    auto expAvg = tensor("w/exp_avg", fb::DType::f32, {three});
    auto nonfinite = tensor("nonfinite", fb::DType::i32, {});
    auto lr = tensor("lr", fb::DType::f32, {}), scale = tensor("grad_scale", fb::DType::f32, {});
    auto step = tensor("step", fb::DType::i64, {}), seed = tensor("seed", fb::DType::i64, {});
    auto loss = tensor("loss", fb::DType::f32, {}),
         pred = tensor("pred", fb::DType::f32, {count.inOutput ? labelled : batch});
    auto bytes = [&](fb::DType dtype, std::vector<unsigned char> data) {
      return fb::CreateConstant(builder, dtype, 0, builder.CreateVector(data));
    };
    std::vector<flatbuffers::Offset<fb::Constant>> constants = {
        bytes(fb::DType::i64, {4, 0, 0, 0, 0, 0, 0, 0}),
        bytes(fb::DType::f32, std::vector<unsigned char>(12))};
    if (options.offload)
      constants.push_back(bytes(fb::DType::f32, std::vector<unsigned char>(1 << 16, 0xff)));
    std::vector<flatbuffers::Offset<fb::Kernel>> kernels;
    auto kernel = [&](const char *name, uint32_t args, uint32_t dims) {
      kernels.push_back(fb::CreateKernel(builder, builder.CreateString(name), args, dims));
    };
    kernel("forward", 5, 2);
    kernel("loss_and_gradient", 6, 1);
    kernel("loss_only", 3, 1);
    kernel("update", 5, 0);
    if (options.missingKernel)
      kernel("absent", 1, 0);
    if (options.cuda)
      kernel("gradient", 3, 1);
    if (options.cudaVariants) {
      kernel("forward_fast", 5, 2);
      kernel("update_fast", 5, 0);
    }

    // Buffers are numbered alike in "step" and "micro".
    enum {
      X,
      Id,
      Y,
      W,
      Table,
      Loss,
      Nonfinite,
      Scale,
      Lr,
      ExpAvg,
      Zeros,
      Gradient,
      Pred,
      GPred,
      OnHost,
      Other,
      Back,
      Noise
    };
    auto buffers = [&](bool fused, bool otherState = false) {
      std::vector<flatbuffers::Offset<fb::Buffer>> list;
      auto buffer = [&](fb::Space space, int index, uint32_t bytes, int first = 0, int last = 0) {
        const bool arena = space == fb::Space::arena;
        list.push_back(fb::CreateBuffer(builder, space, index, bytes, first, last, 0,
                                        arena ? int8_t(fb::DType::f32) : int8_t(-1)));
      };
      buffer(fb::Space::input, 0, mul(batch, 12));
      buffer(fb::Space::input, 1, mul(batch, 8));
      buffer(fb::Space::input, 2, batchBytes);
      buffer(fb::Space::parameter, 0, constant(12));
      buffer(fb::Space::parameter, 1, constant(16));
      buffer(fb::Space::output, 0, constant(4));
      buffer(fb::Space::state, 1, constant(4));
      buffer(fb::Space::hyper, 1, constant(4));
      buffer(fb::Space::hyper, 0, constant(4));
      buffer(fb::Space::state, otherState ? 1 : 0, constant(otherState ? 4 : 12));
      buffer(fb::Space::constant, 1, constant(12));
      const bool moves = fused && options.offload;
      if (fused)
        buffer(fb::Space::arena, -1, constant(12), moves ? 5 : 2, moves ? 7 : 4);
      else
        buffer(fb::Space::gradient, 0, constant(12));
      buffer(fb::Space::arena, -1, batchBytes, 0, 1);
      buffer(fb::Space::arena, -1, batchBytes, 1, moves ? 2 : fused ? options.lastUse : 2);
      if (moves) {
        buffer(fb::Space::host, -1, batchBytes, 2, 6);
        buffer(fb::Space::arena, -1, constant(1 << 16), 3, 3);
        buffer(fb::Space::arena, -1, batchBytes, 4, 6);
        buffer(fb::Space::constant, 2, constant(1 << 16));
      }
      if (options.count)
        buffer(fb::Space::arena, -1, mul(labelled, 1024));
      return builder.CreateVector(list);
    };
    auto forward = [&] {
      return launch(options.forwardKernel, {X, W, Table, Id, Pred}, {constant(4), constant(0)},
                    batch, 1, 64);
    };
    auto lossAndGradient = [&] {
      return launch(1, {Pred, Y, GPred, Loss, Nonfinite, Scale}, {batch}, constant(1), 1, 0);
    };
    auto gradientGemm = [&](float beta) {    // gradient[3, 1] = x^T gpred
      if (options.cuda && !options.cudaGemm) // needs no library
        return launch(4, {X, GPred, Gradient}, {batch}, constant(1), 1, 0);
      const auto epilogue = fb::GemmEpilogue(options.gemmEpilogue);
      auto gemm = fb::CreateGemm(builder, fb::DType::f32, fb::DType::f32, 1, beta, false, epilogue);
      return command(fb::Op::Gemm, gemm.Union(), {X, GPred, Gradient, Gradient, Gradient},
                     std::string("rr") + (beta != 0 ? "u" : "w") + "--",
                     {three, constant(1), batch, constant(1), three, constant(1), constant(1),
                      constant(1), constant(1)});
    };
    auto copy = [&](uint32_t from, uint32_t to, uint32_t size) {
      return command(fb::Op::Copy, fb::CreateCopy(builder).Union(), {from, to}, "rw", {size});
    };
    auto outputs = [&](std::vector<uint32_t> list) { return builder.CreateVector(list); };
    std::vector<flatbuffers::Offset<fb::Function>> functions;
    auto function = [&](const std::string &name, auto list,
                        const std::vector<flatbuffers::Offset<fb::Command>> &commands,
                        std::vector<uint32_t> written) {
      if (options.inference && name != "eval")
        return;
      int32_t flops = -1;
      std::string base;
      std::vector<flatbuffers::Offset<fb::Condition>> conditions;
      const bool isVariant = name.ends_with(".packed");
      if (options.variant && (isVariant || name == "step" || name == "micro")) {
        const TinyVariant &variant = *options.variant;
        if (const int64_t row = isVariant ? variant.flops : variant.baseFlops; row >= 0)
          flops = int32_t(add({fb::ExprKind::add, int32_t(mul(batch, row)),
                               int32_t(mul(labelled, variant.flopsOfCount)), 0}));
        if (isVariant)
          base = name == "step.packed" ? variant.of : "micro";
        for (const Condition &c : variant.conditions)
          if (isVariant || variant.of.empty())
            conditions.push_back(fb::CreateCondition(builder, fb::ConditionKind(c.kind),
                                                     int32_t(c.mask), c.padding, int32_t(c.input),
                                                     c.shift, c.value, c.index));
      }
      const auto phases = name == "step" && options.phases ? *options.phases : std::pair(-1, -1);
      functions.push_back(fb::CreateFunction(
          builder, builder.CreateString(name), list, builder.CreateVector(commands),
          outputs(written), base.empty() ? 0 : builder.CreateString(base),
          conditions.empty() ? 0 : builder.CreateVector(conditions), flops, phases.first,
          phases.second));
    };
    for (const char *name : {"step", "step.packed"}) {
      if (!options.variant && std::string(name) != "step")
        continue;
      const bool other = options.variant && std::string(name) != "step";
      if (options.offload) {
        const uint32_t read = options.offloadInKernel ? OnHost : Back;
        function(name, buffers(true),
                 {forward(), lossAndGradient(), copy(GPred, OnHost, batchBytes),
                  copy(Noise, Other, constant(1 << 16)), copy(OnHost, Back, batchBytes),
                  copy(Zeros, Gradient, constant(12)),
                  launch(4, {X, read, Gradient}, {batch}, constant(1), 1, 0),
                  launch(3, {W, ExpAvg, Gradient, Nonfinite, Lr}, {}, three, 1, 0)},
                 {0});
        continue;
      }
      function(name, buffers(true, other && options.variant->otherState),
               {forward(), lossAndGradient(), copy(Zeros, Gradient, constant(12)), gradientGemm(1),
                launch(3, {W, ExpAvg, Gradient, Nonfinite, Lr}, {}, three, 1, 0)},
               other && options.variant->otherOutputs ? std::vector<uint32_t>{0, 1}
                                                      : std::vector<uint32_t>{0});
    }
    for (const char *name : {"micro", "micro.packed"})
      if (options.variant || std::string(name) == "micro")
        function(name, buffers(false), {forward(), lossAndGradient(), gradientGemm(1)}, {0});
    {
      std::vector<flatbuffers::Offset<fb::Buffer>> list;
      list.push_back(fb::CreateBuffer(builder, fb::Space::parameter, 0, constant(12)));
      list.push_back(fb::CreateBuffer(builder, fb::Space::state, 0, constant(12)));
      list.push_back(fb::CreateBuffer(builder, fb::Space::gradient, 0, constant(12)));
      list.push_back(fb::CreateBuffer(builder, fb::Space::state, 1, constant(4)));
      list.push_back(fb::CreateBuffer(builder, fb::Space::hyper, 0, constant(4)));
      function("update", builder.CreateVector(list), {launch(3, {0, 1, 2, 3, 4}, {}, three, 1, 0)},
               {});
    }
    {
      std::vector<flatbuffers::Offset<fb::Buffer>> list;
      list.push_back(fb::CreateBuffer(builder, fb::Space::state, 0, constant(12)));
      list.push_back(fb::CreateBuffer(builder, fb::Space::constant, 1, constant(12)));
      function("init", builder.CreateVector(list), {copy(1, 0, constant(12))}, {});
    }
    {
      std::vector<flatbuffers::Offset<fb::Buffer>> list;
      auto buffer = [&](fb::Space space, int index, uint32_t bytes, int first = 0, int last = 0) {
        list.push_back(fb::CreateBuffer(builder, space, index, bytes, first, last));
      };
      buffer(fb::Space::input, 0, mul(batch, 12));
      buffer(fb::Space::parameter, 0, constant(12));
      buffer(fb::Space::parameter, 1, constant(16));
      buffer(fb::Space::input, 1, mul(batch, 8));
      buffer(fb::Space::arena, -1, batchBytes, 0, 2);
      buffer(fb::Space::input, 2, batchBytes);
      buffer(fb::Space::output, 0, constant(4));
      buffer(fb::Space::output, 1, batchBytes);
      if (options.count)
        buffer(fb::Space::arena, -1, mul(labelled, 1024));
      function("eval", builder.CreateVector(list),
               {launch(0, {0, 1, 2, 3, 4}, {constant(4), constant(0)}, batch, 1, 64),
                launch(2, {4, 5, 6}, {batch}, constant(1), 1, 0), copy(4, 7, batchBytes)},
               {0, 1});
    }

    std::vector<flatbuffers::Offset<fb::Symbol>> symbols = {
        fb::CreateSymbol(builder, builder.CreateString("batch"), 1, 1000, 1, 0, 0)};
    if (options.count)
      symbols.push_back(fb::CreateSymbol(builder, builder.CreateString("labelled"), count.min,
                                         count.max, count.divisor, count.input, count.axis, true,
                                         count.differs));
    std::vector<flatbuffers::Offset<fb::ValueRule>> valueRules;
    if (options.valueRule)
      valueRules.push_back(
          fb::CreateValueRule(builder, 1, 0, count.inRule ? labelled : constant(4), true, -100, 0));
    auto sizeRule = fb::CreateSizeRule(builder, batch, 512, 0);
    auto vectorOf = [&](std::vector<flatbuffers::Offset<fb::Tensor>> list) {
      return builder.CreateVector(list);
    };
    auto program = fb::CreateProgram(
        builder, options.programMajor, 1, builder.CreateVector(symbols),
        builder.CreateVectorOfStructs(exprs), builder.CreateVector(parameters),
        vectorOf({expAvg, nonfinite}), vectorOf({x, id, y}), vectorOf({lr, scale, step, seed}),
        vectorOf({loss, pred}), builder.CreateVector(constants), builder.CreateVector(kernels),
        builder.CreateVectorOfStrings({"/model/Gather"}), builder.CreateVector(functions),
        builder.CreateVector(valueRules), builder.CreateVector(&sizeRule, 1),
        options.cuda ? fb::Target::cuda : fb::Target::cpu);
    fb::FinishProgramBuffer(builder, program);
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
  }

private:
  uint32_t add(fb::Expr expr) {
    exprs.push_back(expr);
    return uint32_t(exprs.size() - 1);
  }
  uint32_t constant(int64_t value) { return add({fb::ExprKind::constant, 0, 0, value}); }
  uint32_t zero() { return constant(0); }
  uint32_t mul(uint32_t a, int64_t b) {
    uint32_t factor = constant(b);
    return add({fb::ExprKind::mul, int32_t(a), int32_t(factor), 0});
  }
  flatbuffers::Offset<fb::Tensor> tensor(const char *name, fb::DType dtype,
                                         std::vector<uint32_t> shape) {
    return fb::CreateTensor(builder, builder.CreateString(name), dtype,
                            builder.CreateVector(shape));
  }
  /// `access`: a letter an operand, of "none (-), read, write, update".
  flatbuffers::Offset<fb::Command> command(fb::Op kind, flatbuffers::Offset<void> op,
                                           const std::vector<uint32_t> &buffers,
                                           const std::string &access,
                                           const std::vector<uint32_t> &sizes,
                                           const std::vector<uint32_t> &kernels = {}) {
    std::vector<fb::Operand> operands;
    for (size_t i = 0; i < buffers.size(); ++i)
      operands.emplace_back(buffers[i], zero(),
                            fb::Access(std::string_view("-rwu").find(access[i])));
    auto operandVector = builder.CreateVectorOfStructs(operands);
    return fb::CreateCommand(builder, kind, op, operandVector, builder.CreateVector(sizes),
                             builder.CreateVector(kernels),
                             builder.CreateVector(std::vector<uint32_t>{0}));
  }
  flatbuffers::Offset<fb::Command> launch(uint32_t kernel, std::vector<uint32_t> buffers,
                                          std::vector<uint32_t> dims, uint32_t work, int64_t grain,
                                          int64_t scratch) {
    constexpr const char *access[] = {"rrrrw", "rrwwur", "rrw", "uuuur", "rru"}; // of each kernel
    std::vector<uint32_t> kernels = {kernel}, sizes = {work, constant(grain), constant(scratch)};
    sizes.insert(sizes.end(), dims.begin(), dims.end());
    if (options.cudaVariants && (kernel == 0 || kernel == 3)) {
      kernels.push_back(kernel == 0 ? 5 : 6);
      sizes.insert(sizes.end(), {work, constant(grain)});
    }
    auto op = fb::CreateLaunch(builder);
    const bool fits = kernel < 5 && std::string_view(access[kernel]).size() == buffers.size();
    return command(fb::Op::Launch, op.Union(), buffers, access[fits ? kernel : 0], sizes, kernels);
  }

  const TinyOptions &options;
  flatbuffers::FlatBufferBuilder builder;
  std::vector<fb::Expr> exprs;
  uint32_t batch = 0, three = 0, labelled = 0;
};

void replaceAll(std::string &text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

constexpr const char *manifestTemplate = R"({
  "format": {"major": @MAJOR@, "minor": 0}, "producer": "test", "model": "tiny.onnx",
  "kind": "training", "targets": ["@TARGET@"], "loss": "loss", "batch_symbol": "batch",
  "symbols": [{"name": "batch", "min": 1, "max": 1000, "divisor": 1, "input": "x", "axis": 0}],
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 3], "used_in": ["train", "eval"]},
             {"name": "id", "dtype": "i64", "shape": ["batch"], "used_in": ["train", "eval"]},
             {"name": "y", "dtype": "f32", "shape": ["batch"], "used_in": ["train", "eval"]}],
  "outputs": [{"name": "loss", "dtype": "f32", "shape": [], "role": "loss"},
              {"name": "pred", "dtype": "f32", "shape": ["batch"], "role": "output"}],
  "parameters": [{"name": "w", "dtype": "f32", "shape": [3], "trainable": true,
                  "weights": {"file": "@FILE@", "offset": 0, "length": 12, "embedded": @EMBEDDED@}},
                 {"name": "table", "dtype": "f32", "shape": [4], "trainable": false,
                  "weights": {"file": "@FILE@", "offset": 12, "length": 16, "embedded": @EMBEDDED@}}],
  "state": [{"name": "w/exp_avg", "dtype": "f32", "shape": [3]},
            {"name": "nonfinite", "dtype": "i32", "shape": []}],
  "files": [@FILES@],
  "optimizer": {"name": "sgd", "lr": 0.1, "weight_decay": 0.0, "clip_norm": null},
  "options": {},
  "checksums": {"program.fb": "@PROGRAM@", "@ENTRY@": "@KERNELS@",
                "manifest": "0000000000000000"}
})";

} // namespace

TemporaryFolder::TemporaryFolder() : path(makeFolder()) {}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::vector<unsigned char> readBytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void writeBytes(const std::string &path, const std::vector<unsigned char> &bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), std::streamsize(bytes.size()));
}

void sealManifest(std::string &manifest) {
  uint64_t checksum;
  size_t position;
  if (manifestChecksum(manifest, checksum, position))
    manifest.replace(position, 16, hex64(checksum));
}

std::vector<unsigned char> makeTinyProgram(const TinyOptions &options) {
  std::vector<unsigned char> bytes = ProgramBuilder(options).build();
  if (!options.editProgram)
    return bytes;
  fb::ProgramT program;
  fb::GetProgram(bytes.data())->UnPackTo(&program);
  options.editProgram(program);
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishProgramBuffer(builder, fb::CreateProgram(builder, &program));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

void writeTinyPackage(const std::string &path, const TinyOptions &options) {
  std::vector<unsigned char> program = makeTinyProgram(options);
  std::vector<unsigned char> kernels =
      readBytes(options.cuda ? TRAINRT_TEST_CUDA_KERNELS : TRAINRT_TEST_KERNELS);
  const std::string entryName = options.cuda ? options.cudaKernels : options.cpuKernels;
  std::vector<unsigned char> weights(sizeof initialW + sizeof table);
  std::memcpy(weights.data(), initialW, sizeof initialW);
  std::memcpy(weights.data() + sizeof initialW, table, sizeof table);
  std::string hash = hex64(fnv1a64(weights.data(), weights.size()));

  std::string manifest = manifestTemplate;
  replaceAll(manifest, "@TARGET@", options.cuda ? "cuda:sm_90" : "cpu:x86-64");
  replaceAll(manifest, "@ENTRY@", entryName);
  if (options.inference)
    replaceAll(manifest, "\"training\"", "\"inference\"");
  replaceAll(manifest, "@MAJOR@", std::to_string(options.formatMajor));
  replaceAll(manifest, "@FILE@", options.embedded ? "weights.bin" : options.weightsFile);
  replaceAll(manifest, "@EMBEDDED@", options.embedded ? "true" : "false");
  std::string entry = "{\"path\": \"" + options.weightsFile + "\", ";
  entry += options.absent ? "\"absent\": true}"
                          : "\"size\": 28, \"head_fnv1a64\": \"" + hash +
                                "\", \"tail_fnv1a64\": \"" + hash + "\"}";
  replaceAll(manifest, "@FILES@", options.embedded ? "" : entry);
  replaceAll(manifest, "@PROGRAM@", hex64(fnv1a64(program.data(), program.size())));
  replaceAll(manifest, "@KERNELS@", hex64(fnv1a64(kernels.data(), kernels.size())));
  if (options.count) {
    const TinyCount &count = *options.count;
    replaceAll(manifest, "\"axis\": 0}],",
               "\"axis\": 0},\n    {\"name\": \"labelled\", \"min\": " + std::to_string(count.min) +
                   ", \"max\": " + (count.max == INT64_MAX ? "null" : std::to_string(count.max)) +
                   ", \"divisor\": " + std::to_string(count.divisor) +
                   ", \"input\": \"id\", \"differs\": " + std::to_string(count.differs) + "}],");
  }
  const std::string last = "}}],\n  \"state\"";
  std::string entries;
  for (const TinyParameter &extra : options.extra)
    entries += ",\n {\"name\": \"" + extra.name + "\", \"dtype\": \"" + nameOf(extra.dtype) +
               "\", \"shape\": " + shapeText(extra.shape) + extra.fields + "}";
  replaceAll(manifest, last, "}}" + entries + last.substr(2));
  for (const auto &[name, bytes] : options.entries)
    replaceAll(manifest, "\"checksums\": {",
               "\"checksums\": {\"" + name + "\": \"" + hex64(fnv1a64(bytes.data(), bytes.size())) +
                   "\", ");
  for (const auto &[name, bytes] : options.extraFiles) {
    const size_t part = std::min<size_t>(bytes.size(), 1 << 20);
    replaceAll(manifest, "\"files\": [",
               "\"files\": [{\"path\": \"" + name +
                   "\", \"size\": " + std::to_string(bytes.size()) + ", \"head_fnv1a64\": \"" +
                   hex64(fnv1a64(bytes.data(), part)) + "\", \"tail_fnv1a64\": \"" +
                   hex64(fnv1a64(bytes.data() + bytes.size() - part, part)) + "\"}, ");
    writeBytes(directoryOf(path) + name, bytes);
  }
  if (options.editManifest)
    options.editManifest(manifest);
  sealManifest(manifest);

  ZipWriter zip;
  require(zip.create(path));
  require(zip.add("manifest.json", manifest.data(), manifest.size()));
  require(zip.add("program.fb", program.data(), program.size()));
  require(zip.add(entryName, kernels.data(), kernels.size()));
  for (const auto &[name, bytes] : options.entries)
    require(zip.add(name, bytes.data(), bytes.size()));
  if (options.embedded)
    require(zip.add("weights.bin", weights.data(), weights.size()));
  require(zip.finish());
  if (!options.embedded && !options.absent && isRelativePath(options.weightsFile))
    writeBytes(directoryOf(path) + options.weightsFile, weights);
}

static TinyOptions distributed(std::function<void(fb::ProgramT &program)> edit) {
  TinyOptions options;
  options.editManifest = [](std::string &manifest) {
    const std::string begin = "\"optimizer\": {";
    if (manifest.find(begin) == std::string::npos)
      std::abort();
    manifest.replace(manifest.find(begin), begin.size(), begin + "\"distribute\": \"data\", ");
  };
  options.editProgram = std::move(edit);
  return options;
}

static uint32_t addConstant(fb::ProgramT &program, int64_t value) {
  program.exprs.push_back({fb::ExprKind::constant, 0, 0, value});
  return uint32_t(program.exprs.size() - 1);
}

/// Of a buffer with three elements, or of none of them.
static std::unique_ptr<fb::CommandT> makeSum(fb::ProgramT &program, uint32_t buffer,
                                             int64_t elements = 3) {
  auto command = std::make_unique<fb::CommandT>();
  fb::CollectiveT body;
  body.dtype = fb::DType::f32;
  command->op.Set(std::move(body));
  command->operands.push_back({buffer, addConstant(program, 0), fb::Access::update});
  command->sizes = {addConstant(program, elements)};
  return command;
}

TinyOptions distributedTiny() {
  return distributed([](fb::ProgramT &program) {
    for (auto &function : program.functions)
      if (function->name == "update")
        function->commands.insert(function->commands.begin(), makeSum(program, 2));
  });
}

TinyOptions overlappingTiny(bool needed) {
  return distributed([needed](fb::ProgramT &program) {
    auto absent = std::make_unique<fb::FunctionT>();
    absent->name = "absent";
    const uint32_t bytes = addConstant(program, 12);
    auto copy = [&](uint32_t from, uint32_t to) {
      auto command = std::make_unique<fb::CommandT>();
      command->op.Set(fb::CopyT());
      const uint32_t zero = addConstant(program, 0);
      command->operands = {{from, zero, fb::Access::read}, {to, zero, fb::Access::write}};
      command->sizes = {bytes};
      return command;
    };
    for (auto &function : program.functions) {
      if (function->name != "micro")
        continue;
      constexpr uint32_t expAvg = 9, zeros = 10, gradient = 11; // as makeTinyProgram has them
      for (uint32_t buffer : {gradient, expAvg})
        absent->buffers.push_back(std::make_unique<fb::BufferT>(*function->buffers[buffer]));
      auto scratch = std::make_unique<fb::BufferT>();
      scratch->bytes = bytes;
      scratch->first = 5;
      scratch->last = needed ? 7 : 5;
      scratch->dtype = int8_t(fb::DType::f32);
      function->buffers.push_back(std::move(scratch));
      const auto other = uint32_t(function->buffers.size()) - 1;
      function->commands.push_back(makeSum(program, gradient));
      function->commands.push_back(makeSum(program, gradient, 0)); // has no work
      function->commands.push_back(copy(zeros, other));
      if (!needed)
        continue;
      // The update has the sum for a momentum, if it is not read too early.
      function->commands.push_back(copy(gradient, expAvg));
      function->commands.push_back(copy(gradient, other)); // has waited
    }
    absent->commands.push_back(makeSum(program, 0));
    if (needed)
      absent->commands.push_back(copy(0, 1));
    program.functions.push_back(std::move(absent));
  });
}

TinyOptions togetherTiny() {
  TinyOptions options = distributedTiny();
  options.editProgram = [edit = options.editProgram](fb::ProgramT &program) {
    edit(program);
    // As makeTinyProgram has them.
    constexpr uint32_t w = 3, nonfinite = 6, lr = 8, expAvg = 9, zeros = 10, gradient = 11;
    constexpr size_t forward = 0, loss = 1, copy = 2, product = 3, update = 4;
    fb::FunctionT &step = **std::find_if(program.functions.begin(), program.functions.end(),
                                         [](auto &function) { return function->name == "step"; });
    // The flag, whose bits are those of a number above 0.
    auto verdict = [&](uint32_t buffer) {
      auto command = makeSum(program, buffer, 1);
      command->op.AsCollective()->verdict = true;
      return command;
    };
    auto absent = std::make_unique<fb::FunctionT>();
    absent->name = "absent_step";
    std::map<uint32_t, uint32_t> own;
    for (uint32_t buffer : {w, nonfinite, lr, expAvg, zeros, gradient}) {
      own[buffer] = uint32_t(absent->buffers.size());
      absent->buffers.push_back(std::make_unique<fb::BufferT>(*step.buffers[buffer]));
    }
    absent->buffers[own[gradient]]->first = 1;
    absent->buffers[own[gradient]]->last = 3;
    auto like = [&](size_t number) {
      auto command = std::make_unique<fb::CommandT>(*step.commands[number]);
      for (fb::Operand &operand : command->operands)
        operand = {own.at(operand.buffer()), operand.offset(), operand.access()};
      return command;
    };
    absent->commands.push_back(verdict(own[nonfinite]));
    absent->commands.push_back(like(copy));
    absent->commands.push_back(makeSum(program, own[gradient]));
    absent->commands.push_back(like(update));
    // Behind the loss, and behind the product.
    step.commands.insert(step.commands.begin() + product + 1, makeSum(program, gradient));
    step.commands.insert(step.commands.begin() + loss + 1, verdict(nonfinite));
    static_assert(forward < loss && loss < copy, "what is in front of a command counts");
    step.buffers[gradient]->first += 1;
    step.buffers[gradient]->last += 2;
    step.buffers[gradient + 2]->last += 1; // of the prediction, which the product reads
    program.functions.push_back(std::move(absent));
  };
  return options;
}

TinyBatch::TinyBatch(int64_t rows, unsigned seed) : rows(rows) {
  std::mt19937 random(seed);
  auto value = [&] { return float(int(random() % 2001) - 1000) / 1000.0f; };
  for (int64_t i = 0; i < rows; ++i) {
    for (int j = 0; j < 3; ++j)
      x.push_back(value());
    y.push_back(value());
    id.push_back(int64_t(random() % 4));
  }
}

Batch TinyBatch::batch() const {
  return {{"x", {x.data(), DType::F32, {rows, 3}, rows * 12}},
          {"id", {id.data(), DType::I64, {rows}, rows * 8}},
          {"y", {y.data(), DType::F32, {rows}, rows * 4}}};
}

} // namespace trainrt::test
