// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the manifest and the program both say is compared, and what a session relies on is checked:
// it writes where the manifest says that a parameter is trained, and nowhere else.

#include "plan/overlap.h"
#include "plan/package.h"

#include <algorithm>
#include <unordered_map>

namespace trainrt {

namespace {

template <typename... Args> Status badField(const std::string &field, const Args &...what) {
  return fail(Code::BadPackage, "manifest.json: field '", field, "'", what...);
}
template <typename... Args> Status badProgram(const Args &...what) {
  return fail(Code::BadPackage, "program.fb: ", what...);
}

/// Without a name there is nothing to look for.
template <typename List> int32_t indexOf(const List &list, const std::string &wanted) {
  for (size_t i = 0; i < list.size(); ++i)
    if (!wanted.empty() && list[i].name == wanted)
      return int32_t(i);
  return -1;
}

/// The name of input `index`; "" without one.
std::string inputName(const Program &program, int64_t index) {
  return index >= 0 && size_t(index) < program.inputs.size() ? program.inputs[size_t(index)].name
                                                             : "";
}

Status checkTarget(const Program &program, const Manifest &manifest) {
  const std::string kind = traitsOf(program.target).name;
  for (const std::string &target : manifest.targets)
    if (!target.starts_with(kind))
      return badField("targets", ": '", target, "', but program.fb is for ", kind);
  return {};
}

/// A package without the list has had nothing to compare; with it, every number must agree: a user
/// reads the manifest, the runtime the program.
Status checkSymbols(const Program &program, const Manifest &manifest) {
  if (!manifest.symbols)
    return {};
  if (manifest.symbols->size() != program.symbols.size())
    return badField("symbols", " has ", manifest.symbols->size(), " entries, program.fb ",
                    program.symbols.size());
  // In the order of Symbol::What.
  static constexpr const char *counted[] = {"elements", "runs", "longest_run", "sequences",
                                            "longest_sequence"};
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const Manifest::Symbol &said = (*manifest.symbols)[i];
    const Symbol &is = program.symbols[i];
    const std::string field = "symbols[" + std::to_string(i) + "]";
    if (said.name != is.name)
      return badField(field + ".name", " is '", said.name, "', but '", is.name, "' in program.fb");
    const struct {
      const char *key;
      int64_t said, is;
    } numbers[] = {{"min", said.min, is.min},
                   {"max", said.max, is.max},
                   {"divisor", said.divisor, is.divisor},
                   {"axis", said.axis, is.axis},
                   {"differs", said.differs, is.differs}};
    for (const auto &number : numbers)
      if (number.said != number.is)
        return badField(field + "." + number.key, " of '", is.name, "' is ", number.said, ", but ",
                        number.is, " in program.fb");
    if (said.input != inputName(program, is.input))
      return badField(field + ".input", " of '", is.name, "' is '", said.input, "', but '",
                      inputName(program, is.input), "' in program.fb");
    static constexpr const char *runs[] = {"", "world", "rank"};
    if (said.run != runs[size_t(is.run)])
      return badField(field + ".run", " of '", is.name, "' is '", said.run, "', but '",
                      runs[size_t(is.run)], "' in program.fb");
    if (said.counts != is.counts || (is.counts && said.what != counted[size_t(is.what)]))
      return badField(field + ".counts", ": '", is.name, "' counts otherwise in program.fb");
  }
  return {};
}

/// Both describe conditions in full: a variant that runs under other conditions than it says would
/// compute something else.
Status checkFunctions(const Program &program, const Manifest &manifest) {
  if (!manifest.functions)
    return {};
  if (manifest.functions->size() != program.functions.size())
    return badField("functions", " has ", manifest.functions->size(), " entries, program.fb ",
                    program.functions.size());
  static constexpr const char *kinds[] = {
      // In the order of Condition::Kind; the same words as nameOf.
      "binary", "fixed_where_padded", "real_at", "contiguous", "above", "unbroken"};
  for (size_t i = 0; i < program.functions.size(); ++i) {
    const Manifest::Function &said = (*manifest.functions)[i];
    const Function &is = program.functions[i];
    const std::string field = "functions[" + std::to_string(i) + "]";
    if (said.name != is.name)
      return badField(field + ".name", " is '", said.name, "', but '", is.name, "' in program.fb");
    if (said.variantOf != (is.base < 0 ? "" : program.functions[size_t(is.base)].name))
      return badField(field + ".variant_of", " of '", is.name, "' is another in program.fb");
    bool same = said.conditions.size() == is.conditions.size();
    for (size_t j = 0; same && j < is.conditions.size(); ++j) {
      const Manifest::Condition &a = said.conditions[j];
      const Condition &b = is.conditions[j];
      same = a.kind == kinds[size_t(b.kind)] &&
             a.mask == (b.hasMask() ? inputName(program, b.mask) : "") &&
             a.input == (b.hasInput() ? inputName(program, b.input) : "") &&
             a.padding == b.padding && a.shift == b.shift && a.value == b.value &&
             a.index == b.index;
    }
    if (!same)
      return badField(field + ".conditions", " of '", is.name, "' are others in program.fb");
  }
  return {};
}

/// Of the values that the runtime gives, and those it has for them.
/// One scalar each. Those of integers are exact, and count steps beyond 2^24.
Status checkHypers(const Program &program, const Manifest &manifest) {
  for (const TensorDecl &hyper : program.hypers) {
    static constexpr const char *floats[] = {"lr", "weight_decay", "clip_norm", "grad_scale"};
    static constexpr const char *integers[] = {"step", "seed", "micro_batch", "rank"};
    auto among = [&](const auto &names) {
      return std::any_of(std::begin(names), std::end(names),
                         [&](const char *known) { return hyper.name == known; });
    };
    // A value that this runtime does not know cannot be given: the package is newer.
    bool known = (hyper.dtype == DType::F32 && among(floats) && hyper.staticBytes == 4) ||
                 (hyper.dtype == DType::I64 && among(integers) && hyper.staticBytes == 8);
    if (!known)
      return badProgram("hypers: '", hyper.name, "' (", nameOf(hyper.dtype),
                        ") is unknown to this runtime; use a newer one");
  }
  for (auto [name, value] : {std::pair("lr", manifest.lr),
                             {"weight_decay", manifest.weightDecay},
                             {"clip_norm", manifest.clipNorm}})
    // NaN stands for "not in the manifest".
    if (std::isnan(value) && manifest.training && indexOf(program.hypers, name) >= 0)
      return badField(std::string("optimizer.") + name, " is missing, but program.fb takes it");
  if (!std::isnan(manifest.clipNorm) && indexOf(program.hypers, "clip_norm") < 0)
    return badField("optimizer.clip_norm", " is ", manifest.clipNorm,
                    ", but program.fb does not clip");
  return {};
}

/// Whether a function writes, or reads, only what a session has for it.
Status checkAccess(const Program &program, const Package &package, const Function &function) {
  // A variant may do what its function may.
  const Function &role = function.base < 0 ? function : program.functions[size_t(function.base)];
  // Evaluation, initializing, deriving and the loss's weight must leave parameters as they are.
  const bool trains = role.name != "eval" && role.name != "init" && role.name != "derive" &&
                      role.name != "loss_weight";
  auto where = [&] { return "function '" + function.name + "'"; };
  for (const Command &command : function.commands) {
    for (const Operand &operand : command.operands) {
      if (!operand.isWritten())
        continue;
      const Buffer &buffer = function.buffers[operand.buffer];
      if (buffer.space != Space::Parameter)
        continue;
      const Manifest::Tensor &entry = package.parameter(buffer.index);
      if (!trains)
        return badProgram(where(), " writes to parameter '", entry.name, "'");
      if (!entry.trainable && !entry.updated)
        return badField("parameters", ": '", entry.name, "' is neither trainable nor updated, but ",
                        where(), " of program.fb writes to it");
    }
  }
  if (function.usesDerived && !package.derive())
    return badProgram(where(), " uses derived values, but no function 'derive' makes them");
  // Sessions for evaluation have none.
  if (role.name == "eval" && function.usesDerived)
    return badProgram(where(), " uses derived values, which only training keeps");
  // Gradients have memory only for trainable parameters.
  for (const Buffer &buffer : function.buffers) {
    if (buffer.space == Space::Gradient && !package.parameter(buffer.index).trainable)
      return badField("parameters", ": '", package.parameter(buffer.index).name,
                      "' is not trainable, but ", where(), " of program.fb has a gradient of it");
  }
  return {};
}

} // namespace

/// After this a session relies on: tensors by index in the program, by name in the manifest, with
/// `inputEntry`, `parameterEntry` and `stateEntry` between them; which outputs have a role; which
/// functions there are.
Status Package::crossCheck() {
  TRAINRT_TRY(checkTarget(code, description));
  // Manifest and program describe the same tensors.
  auto match = [&](const char *table, const std::vector<TensorDecl> &decls,
                   const std::vector<Manifest::Tensor> &entries,
                   std::vector<size_t> *places) -> Status {
    if (decls.size() != entries.size())
      return badField(table, " has ", entries.size(), " entries, program.fb ", decls.size());
    std::unordered_map<std::string, size_t> byName;
    for (size_t i = 0; i < entries.size(); ++i)
      byName[entries[i].name] = i;
    for (const TensorDecl &decl : decls) {
      auto found = byName.find(decl.name);
      auto bad = [&](const auto &...what) { return badField(table, ": ", what...); };
      if (found == byName.end())
        return bad("no entry for '", decl.name, "' of program.fb");
      const Manifest::Tensor &entry = entries[found->second];
      if (entry.dtype != decl.dtype)
        return bad("'", decl.name, "' is ", nameOf(entry.dtype), ", but ", nameOf(decl.dtype),
                   " in program.fb");
      bool same = entry.shape.size() == decl.shape.size();
      // A constant by its number, a symbol by its name; other expressions have no name in the
      // manifest.
      for (size_t axis = 0; same && axis < decl.shape.size(); ++axis) {
        const Expr &expr = code.exprs[decl.shape[axis]];
        same = expr.kind == Expr::Kind::Constant ? entry.shape[axis] == expr.value
               : expr.kind == Expr::Kind::Symbol ? entry.extents[axis] == code.symbols[expr.a].name
                                                 : entry.shape[axis] < 0;
      }
      if (!same)
        return bad("'", decl.name, "' has another shape than in program.fb");
      if (places)
        places->push_back(found->second);
    }
    return {};
  };
  TRAINRT_TRY(match("inputs", code.inputs, description.inputs, &inputEntry));
  TRAINRT_TRY(match("outputs", code.outputs, description.outputs, nullptr));
  TRAINRT_TRY(match("parameters", code.parameters, description.parameters, &parameterEntry));
  TRAINRT_TRY(match("state", code.state, description.state, &stateEntry));
  auto checkWeights = [&](const char *field, const Manifest::Tensor &entry,
                          const TensorDecl &decl) -> Status {
    if (!entry.hasWeights)
      return {};
    int64_t bytes = decl.staticBytes;
    if (const auto &source = entry.quantized)
      (void)countBytes(source->dtype, source->shape.data(), source->shape.size(), bytes);
    if (entry.length != bytes)
      return fail(Code::BadPackage, "manifest.json: field '", field, "': the weights of '",
                  entry.name, "' have ", entry.length, " bytes, its shape ", bytes);
    if (entry.embedded) {
      const ZipEntry *blob = archive.find(entry.file);
      if (!blob)
        return fail(Code::BadPackage, "entry '", entry.file, "' is missing");
      if (entry.offset > int64_t(blob->size) || entry.length > int64_t(blob->size) - entry.offset)
        return fail(Code::BadPackage, "manifest.json: field '", field, "': the weights of '",
                    entry.name, "' lie outside of entry '", entry.file, "'");
    } else if (std::none_of(description.files.begin(), description.files.end(),
                            [&](const auto &file) { return file.path == entry.file; })) {
      return fail(Code::BadPackage, "manifest.json: field 'files': no entry for '", entry.file,
                  "', which holds the weights of '", entry.name, "'");
    }
    return {};
  };
  for (size_t i = 0; i < code.parameters.size(); ++i)
    TRAINRT_TRY(checkWeights("parameters", parameter(i), code.parameters[i]));
  for (size_t i = 0; i < code.state.size(); ++i)
    TRAINRT_TRY(checkWeights("state", state(i), code.state[i]));
  loss = indexOf(code.outputs, description.loss);
  for (const Manifest::Tensor &output : description.outputs)
    if (output.isWeight)
      weight = indexOf(code.outputs, output.name);
  for (const Manifest::Tensor &output : description.outputs)
    if (output.isGradNorm)
      gradNorm = indexOf(code.outputs, output.name);
  nonfinite = indexOf(code.state, "nonfinite");
  batch = indexOf(code.symbols, description.batchSymbol);
  if (nonfinite >= 0 && (code.state[size_t(nonfinite)].dtype != DType::I32 ||
                         code.state[size_t(nonfinite)].staticBytes != 4))
    return badProgram("state 'nonfinite' is not one i32");
  if (!description.batchSymbol.empty() && batch < 0)
    return fail(Code::BadPackage, "manifest.json: field 'batch_symbol': '", description.batchSymbol,
                "' is no symbol of program.fb");
  if (!description.loss.empty() && loss < 0)
    return badField("loss", ": '", description.loss, "' is no output of program.fb");
  TRAINRT_TRY(checkSymbols(code, description));
  TRAINRT_TRY(checkFunctions(code, description));
  TRAINRT_TRY(checkHypers(code, description));
  for (const Function &function : code.functions)
    TRAINRT_TRY(checkAccess(code, *this, function));
  for (const Function *function : {update(), init(), derive()})
    if (function && !function->batchInputs.empty())
      return badProgram("function '", function->name, "' reads inputs");
  if (const Function *function = lossWeight())
    if (function->outputs != std::vector{uint32_t(weight)} ||
        code.outputs[function->outputs[0]].dtype != DType::F32 ||
        !code.outputs[function->outputs[0]].shape.empty())
      return badProgram("function 'loss_weight' does not compute one f32, what the loss is divided "
                        "by");
  bool canTrain = step() || (micro() && update());
  if (description.training) {
    if (!canTrain)
      return badProgram("functions: a training package needs 'step', or "
                        "'micro' and 'update'");
    for (const Function *function : {step(), micro()})
      if (function && (loss < 0 || std::find(function->outputs.begin(), function->outputs.end(),
                                             uint32_t(loss)) == function->outputs.end()))
        return badProgram("function '", function->name, "' does not compute the loss '",
                          description.loss, "'");
    if (description.accumulate > 1 && !(micro() && update()))
      return badField("optimizer.accumulate", " is ", description.accumulate,
                      ", but program.fb lacks 'micro' and 'update'");
  } else if (!eval()) {
    return badProgram("functions: there is no 'eval'");
  } else if (step() || micro() || update()) {
    return badField("kind", " is inference, but program.fb has functions that train");
  }
  return {};
}

} // namespace trainrt
