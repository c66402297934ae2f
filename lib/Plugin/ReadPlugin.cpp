// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The JSON of a plug-in. LLVM's reader keeps no lines: that of a fault is looked for in the text,
// behind the name of the operator that it is in.

#include "Declarations.h"
#include "PtxKernels.h"
#include "SharedLibrary.h"
#include "trainc/Plugin/Plugin.h"
#include "trainc/Support/Nearest.h"
#include "trainrt/plugin.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using llvm::StringRef;
namespace json = llvm::json;

namespace trainc::plugin {

const Tensor *Operator::tensor(StringRef wanted) const {
  for (const std::vector<Tensor> *list : {&inputs, &outputs})
    for (const Tensor &tensor : *list)
      if (tensor.name == wanted)
        return &tensor;
  return nullptr;
}

const Operator *findOperator(const Plugins &plugins, StringRef name) {
  for (const Plugin &plugin : plugins)
    for (const Operator &op : plugin.operators)
      if (op.name == name)
        return &op;
  return nullptr;
}

namespace {

/// A key that says what computes an operator on a target, and whether kernels are launched there.
struct TargetKey {
  StringRef name;
  bool launches;
};
constexpr TargetKey kTargets[] = {{"cpu", false}, {"cuda", true}};

/// Each step returns whether all is well; `fault` says what is not.
/// Each bracket is a call of the parser.
bool isTooDeep(StringRef text) {
  constexpr int most = 64;
  int depth = 0;
  bool isString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"')
      isString = !isString;
    else if (isString)
      i += c == '\\';
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    if (depth > most)
      return true;
  }
  return false;
}

class Reader {
public:
  Reader(StringRef path, const Plugins &others) : path(path), others(others) {}

  std::optional<Fault> run(Plugin &plugin) {
    (void)read(plugin);
    return fault;
  }

private:
  bool fail(const std::string &what, StringRef near = {}) {
    const size_t begin = near.empty() ? scope : text.find(near, scope);
    const size_t at = begin == StringRef::npos ? scope : begin;
    fault = {where(at), what};
    return false;
  }
  /// "scale.json:4"
  std::string where(size_t at) const {
    return path.str() + ":" + std::to_string(1 + text.take_front(at).count('\n'));
  }
  static std::string quoted(StringRef key) { return "\"" + key.str() + "\""; }

  bool readFile(StringRef file, std::unique_ptr<llvm::MemoryBuffer> &buffer) {
    auto read = llvm::MemoryBuffer::getFile(file, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
    if (!read) {
      fault = {file.str(), read.getError().message()};
      return false;
    }
    buffer = std::move(*read);
    return true;
  }

  bool read(Plugin &plugin) {
    std::unique_ptr<llvm::MemoryBuffer> buffer;
    if (!readFile(path, buffer))
      return false;
    text = buffer->getBuffer();
    plugin.name = llvm::sys::path::stem(path).str();
    plugin.files = {path.str()};
    if (plugin.name.empty() ||
        !llvm::all_of(plugin.name, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '-'; }))
      return fail("its name '" + plugin.name +
                  "' is that of the plug-in: letters, digits, _ and -");
    if (llvm::any_of(others, [&](const Plugin &other) { return other.name == plugin.name; }))
      return fail("there is a plug-in '" + plugin.name + "' already; rename one of the two files");
    if (isTooDeep(text))
      return fail("more than 64 brackets are within each other");
    llvm::Expected<json::Value> value = json::parse(text);
    if (!value) {
      // "[4:7, byte=80]: Expected ..."
      const std::string message = llvm::toString(value.takeError());
      auto [place, what] = StringRef(message).split("]: ");
      fault = {path.str() + ":" + place.drop_front().split(':').first.str(), what.str()};
      return false;
    }
    const json::Object *object = value->getAsObject();
    if (!object)
      return fail("a plug-in is a JSON object, {\"plugin\": 1, ...}");
    return readObject(*object, plugin);
  }

  bool checkKeys(const json::Object &object, llvm::ArrayRef<StringRef> known, StringRef what) {
    std::vector<std::string> names;
    for (StringRef name : known)
      names.push_back(name.str());
    for (const auto &entry : object) {
      StringRef key = entry.first;
      if (!llvm::is_contained(known, key))
        return fail("'" + key.str() + "' is no key of " + what.str() + suggestion(key, names) +
                        "; there are " + llvm::join(known, ", "),
                    quoted(key));
    }
    return true;
  }

  bool readObject(const json::Object &object, Plugin &plugin) {
    const json::Value *version = object.get("plugin");
    if (!version || version->getAsInteger() != std::optional<int64_t>(TRAINRT_PLUGIN_ABI))
      return fail("'plugin' is the version of this description, and has to be " +
                      std::to_string(TRAINRT_PLUGIN_ABI),
                  quoted("plugin"));
    if (!checkKeys(object, {"plugin", "library", "cuda", "operators"}, "a plug-in"))
      return false;
    const json::Array *operators = object.getArray("operators");
    if (!operators || operators->empty())
      return fail("'operators' is a list of operators, one at least", quoted("operators"));
    for (const json::Value &entry : *operators)
      if (!readOperator(entry.getAsObject(), plugin))
        return false;
    scope = 0;
    for (const Operator &op : plugin.operators)
      if (!checkGradient(op, plugin))
        return false;
    scope = 0;
    return readLibraries(object, plugin) && readDeviceCode(object, plugin);
  }

  //===- Operators --------------------------------------------------------===//

  bool strings(const json::Object &object, StringRef key, std::vector<std::string> &list) {
    const json::Value *value = object.get(key);
    if (!value)
      return true;
    const json::Array *array = value->getAsArray();
    if (!array ||
        !llvm::all_of(*array, [](auto &entry) { return entry.getAsString().has_value(); }))
      return fail("'" + key.str() + "' is a list of strings", quoted(key));
    for (const json::Value &entry : *array)
      list.push_back(entry.getAsString()->str());
    return true;
  }

  bool readOperator(const json::Object *object, Plugin &plugin) {
    if (!object)
      return fail("each of 'operators' is an object", quoted("operators"));
    Operator op;
    op.plugin = plugin.name;
    std::optional<StringRef> name = object->getString("name");
    auto [domain, type] = name.value_or("").split("::");
    if (domain.empty() || domain.starts_with("trainc.") || !isName(type))
      return fail("an operator has a 'name', \"DOMAIN::NAME\"; ONNX's own domain is ai.onnx, and "
                  "domains that begin with trainc. are none of a plug-in",
                  name ? quoted(*name) : quoted("operators"));
    const size_t at = text.find(quoted("name"), scope);
    scope = at == StringRef::npos ? scope : at;
    op.name = name->str();
    op.domain = domain.str();
    op.type = type.str();
    op.where = where(std::min(text.find(quoted(*name), scope), text.size()));
    const Operator *other = findOperator(others, op.name);
    for (const Operator &own : plugin.operators)
      if (own.name == op.name)
        other = &own;
    if (other)
      return fail("the operator '" + op.name + "' is described twice, also at " + other->where,
                  quoted(op.name));
    if (!checkKeys(*object,
                   {"name", "inputs", "outputs", "attributes", "cpu", "cuda", "gradient",
                    "no_gradient", "flops"},
                   "an operator") ||
        !readTensors(*object, "inputs", op, op.inputs) ||
        !readTensors(*object, "outputs", op, op.outputs) || !readAttributes(*object, op))
      return false;
    if (op.outputs.empty())
      return fail("'" + op.name + "' has no 'outputs'", quoted(op.name));
    if (!checkNames(op))
      return false;
    for (const TargetKey &target : kTargets)
      if (!readImplementation(*object, target, op))
        return false;
    if (op.implementations.empty())
      return fail("'" + op.name + "' has neither a function 'cpu' nor a 'cuda'", quoted(op.name));
    // A package knows them by their names.
    for (const Operator &other : plugin.operators)
      for (const auto &[target, one] : op.implementations)
        if (auto it = other.implementations.find(target);
            it != other.implementations.end() && it->second.symbol == one.symbol &&
            it->second.launch.has_value() != one.launch.has_value())
          return fail("'" + one.symbol + "' is a kernel and a function in C, of '" + other.name +
                          "' and '" + op.name + "': give one of them another name",
                      quoted(op.name));
    if (const json::Value *gradient = object->get("gradient")) {
      if (!gradient->getAsString())
        return fail("'gradient': it is the name of an operator or of a function, \"domain::name\"",
                    quoted("gradient"));
      op.gradient = gradient->getAsString()->str();
    }
    if (!strings(*object, "no_gradient", op.withoutGradient))
      return false;
    if (const json::Value *flops = object->get("flops")) {
      std::string reason;
      op.flops = parseExpression(flops->getAsString().value_or(""), reason);
      if (!op.flops || !knowsNames(*op.flops, op, reason))
        return fail("'flops': " + reason, quoted("flops"));
    }
    plugin.operators.push_back(std::move(op));
    // What comes behind this operator's name is that of the next ones, too.
    scope = std::min(text.find(quoted("outputs"), scope), text.size());
    return true;
  }

  bool readTensors(const json::Object &object, StringRef key, const Operator &op,
                   std::vector<Tensor> &tensors) {
    std::vector<std::string> list;
    if (!strings(object, key, list))
      return false;
    for (const std::string &declaration : list) {
      std::string reason;
      std::optional<Tensor> tensor = parseTensor(declaration, reason);
      if (!tensor)
        return fail(reason, quoted(declaration));
      if (op.tensor(tensor->name) ||
          llvm::any_of(tensors, [&](const Tensor &one) { return one.name == tensor->name; }))
        return fail("'" + tensor->name + "' is declared twice", quoted(declaration));
      tensors.push_back(std::move(*tensor));
    }
    return true;
  }

  bool readAttributes(const json::Object &object, Operator &op) {
    std::vector<std::string> list;
    if (!strings(object, "attributes", list))
      return false;
    for (const std::string &declaration : list) {
      std::string reason;
      std::optional<Attribute> attribute = parseAttribute(declaration, reason);
      if (!attribute)
        return fail(reason, quoted(declaration));
      if (op.tensor(attribute->name) ||
          llvm::any_of(op.attributes, [&](auto &one) { return one.name == attribute->name; }))
        return fail("'" + attribute->name + "' is declared twice", quoted(declaration));
      for (const Tensor &input : op.inputs)
        for (const Expression &size : input.shape)
          if (size.kind == Expression::Kind::Name && size.name == attribute->name)
            return fail("'" + attribute->name + "' is an axis of '" + input.name +
                            "' and an attribute; rename the axis",
                        quoted(declaration));
      op.attributes.push_back(std::move(*attribute));
    }
    return true;
  }

  /// Whether the expression has names of axes of inputs, of attributes and of tensors only.
  static bool knowsNames(const Expression &expression, const Operator &op, std::string &reason) {
    expression.forEachName([&](StringRef name, bool isTensor) {
      bool known = false;
      if (isTensor) {
        known = op.tensor(name);
      } else {
        for (const Attribute &attribute : op.attributes)
          known |= attribute.name == name && attribute.kind == Attribute::Kind::Int;
        for (const Tensor &input : op.inputs)
          for (const Expression &size : input.shape)
            known |= size.kind == Expression::Kind::Name && size.name == name;
      }
      if (!known && reason.empty())
        reason = isTensor ? "'" + name.str() + "' is no tensor of the operator"
                          : "'" + name.str() +
                                "' is neither an axis of an input nor an attribute of type int";
    });
    return reason.empty();
  }

  bool checkNames(const Operator &op) {
    bool hasLeading = false;
    for (const std::vector<Tensor> *list : {&op.inputs, &op.outputs})
      for (const Tensor &tensor : *list) {
        std::string reason;
        for (const Expression &size : tensor.shape)
          (void)knowsNames(size, op, reason);
        auto isInput = [&](const Tensor &input) {
          return input.name == tensor.like && &input != &tensor && input.like.empty();
        };
        if (!tensor.like.empty() && !llvm::any_of(op.inputs, isInput))
          reason = "'" + tensor.like + "' is neither a type nor an input that has one of its own";
        if (list == &op.outputs && tensor.types.size() > 1)
          reason = "an output has one type, or the name of an input of the same type";
        if (list == &op.outputs && tensor.hasLeading && !hasLeading)
          reason = "'...' are the axes of an input; none has them";
        if (!reason.empty())
          return fail(reason, quoted(tensor.text));
        hasLeading |= tensor.hasLeading;
      }
    return true;
  }

  bool readSizes(const json::Object &object, StringRef key, const Operator &op, size_t atLeast,
                 size_t atMost, std::vector<Expression> &sizes) {
    std::vector<std::string> list;
    if (!strings(object, key, list))
      return false;
    if (list.size() < atLeast || list.size() > atMost)
      return fail("'" + key.str() + "' is a list of " + std::to_string(atLeast) + " to " +
                      std::to_string(atMost) + " sizes",
                  quoted(key));
    for (const std::string &size : list) {
      std::string reason;
      std::optional<Expression> parsed = parseExpression(size, reason);
      if (!parsed || !knowsNames(*parsed, op, reason))
        return fail("the size '" + size + "': " + reason, quoted(size));
      sizes.push_back(std::move(*parsed));
    }
    return true;
  }

  /// A function's name, or a launch.
  bool readImplementation(const json::Object &object, const TargetKey &target, Operator &op) {
    const StringRef key = target.name;
    const json::Value *value = object.get(key);
    if (!value)
      return true;
    Implementation &result = op.implementations[key.str()];
    if (std::optional<StringRef> name = value->getAsString()) {
      result.symbol = name->str();
    } else if (const json::Object *launch = target.launches ? value->getAsObject() : nullptr) {
      if (!checkKeys(*launch, {"kernel", "grid", "block", "shared", "arguments"}, "a launch"))
        return false;
      result.symbol = launch->getString("kernel").value_or("").str();
      Launch &to = result.launch.emplace();
      std::vector<Expression> shared;
      std::vector<std::string> arguments;
      if (!readSizes(*launch, "grid", op, 1, 3, to.grid) ||
          !readSizes(*launch, "block", op, 1, 3, to.block) ||
          !readSizes(*launch, "shared", op, 0, 1, shared) ||
          !strings(*launch, "arguments", arguments))
        return false;
      if (!shared.empty())
        to.shared = std::move(shared.front());
      for (const std::string &argument : arguments) {
        std::string reason;
        std::optional<Argument> parsed = parseArgument(argument, op, reason);
        if (parsed && parsed->kind == Argument::Kind::Size)
          (void)knowsNames(parsed->size, op, reason);
        if (!parsed || !reason.empty())
          return fail("the argument '" + argument + "': " + reason, quoted(argument));
        to.arguments.push_back(std::move(*parsed));
      }
    }
    if (!isName(result.symbol))
      return fail("'" + key.str() + "' is the name of a function in C" +
                      (target.launches ? ", or a launch with the name of a 'kernel'" : ""),
                  quoted(key));
    return true;
  }

  /// Of an operator: a function of the model is looked for where there is a model.
  bool checkGradient(const Operator &op, const Plugin &plugin) {
    scope = std::min(text.find(quoted(op.name)), text.size());
    for (const std::string &name : op.withoutGradient)
      if (llvm::none_of(op.inputs, [&](const Tensor &input) { return input.name == name; }))
        return fail("'no_gradient' names '" + name + "', which is no input", quoted("no_gradient"));
    auto gradient = llvm::find_if(plugin.operators,
                                  [&](const Operator &other) { return other.name == op.gradient; });
    if (gradient == plugin.operators.end())
      return true;
    if (!gradient->gradient.empty())
      return fail("the gradient '" + op.gradient +
                      "' has a gradient of its own, which is not "
                      "differentiated",
                  quoted("gradient"));
    for (const Tensor &input : gradient->inputs) {
      StringRef name = input.name;
      const bool isGradient = name.consume_front("grad_");
      const bool known = isGradient
                             ? llvm::any_of(op.outputs, [&](auto &one) { return one.name == name; })
                             : op.tensor(name) != nullptr;
      if (!known)
        return fail("the gradient '" + op.gradient + "' has an input '" + input.name +
                        "'; its inputs are called as the tensors of '" + op.name +
                        "' are, or 'grad_' and the name of an output",
                    quoted(gradient->name));
    }
    for (const Tensor &output : gradient->outputs) {
      StringRef name = output.name;
      if (!name.consume_front("grad_") ||
          llvm::none_of(op.inputs, [&](auto &one) { return one.name == name; }))
        return fail("the gradient '" + op.gradient + "' has an output '" + output.name +
                        "'; its outputs are called 'grad_' and the name of an input of '" +
                        op.name + "'",
                    quoted(gradient->name));
    }
    for (const Attribute &attribute : gradient->attributes)
      if (llvm::none_of(op.attributes, [&](auto &one) {
            return one.name == attribute.name && one.kind == attribute.kind;
          }))
        return fail("the gradient '" + op.gradient + "' has an attribute '" + attribute.name +
                        "', which '" + op.name + "' does not have",
                    quoted(gradient->name));
    return true;
  }

  //===- Code -------------------------------------------------------------===//

  std::string besideThis(StringRef file) {
    llvm::SmallString<256> full(file);
    if (!llvm::sys::path::is_absolute(file)) {
      full = llvm::sys::path::parent_path(path);
      llvm::sys::path::append(full, file);
    }
    return full.str().str();
  }

  bool readLibraries(const json::Object &object, Plugin &plugin) {
    std::vector<std::string> files;
    if (std::optional<StringRef> one = object.getString("library"))
      files.push_back(one->str());
    else if (!strings(object, "library", files))
      return false;
    for (const std::string &file : files)
      if (!readLibrary(file, plugin))
        return false;
    for (const Operator &op : plugin.operators)
      for (const auto &[target, one] : op.implementations)
        if (files.empty() && !one.launch)
          return fail("'" + op.name + "' has a function in C, but the plug-in no 'library'",
                      quoted(op.name));
    return true;
  }

  bool readLibrary(const std::string &file, Plugin &plugin) {
    std::unique_ptr<llvm::MemoryBuffer> buffer;
    const std::string full = besideThis(file);
    if (!readFile(full, buffer))
      return false;
    SharedLibrary library;
    auto bad = [&](const std::string &what) {
      fault = {full, what};
      return false;
    };
    if (std::string what = readSharedLibrary(buffer->getBuffer(), library); !what.empty())
      return bad(what);
    if (library.abi != std::optional<uint32_t>(TRAINRT_PLUGIN_ABI))
      return bad(library.abi
                     ? "it is of version " + std::to_string(*library.abi) +
                           " of trainrt/plugin.h, and this compiler is of version " +
                           std::to_string(TRAINRT_PLUGIN_ABI) + "; build it with this header"
                     : std::string("it does not say which version of trainrt/plugin.h it is of; "
                                   "one of its files says TRAINRT_PLUGIN"));
    for (const Operator &op : plugin.operators)
      for (const auto &[target, one] : op.implementations)
        if (!one.launch && !library.functions.contains(one.symbol))
          return bad("it has no function '" + one.symbol + "', which " + op.where +
                     " names; it is TRAINRT_PLUGIN_EXPORT (of C++ without a namespace)");
    Code code{plugin.name + "." + library.processor + ".so", {}};
    if (llvm::any_of(plugin.code, [&](const Code &other) { return other.name == code.name; }))
      return bad("the plug-in has a library for " + library.processor + " already");
    code.bytes.assign(buffer->getBufferStart(), buffer->getBufferEnd());
    plugin.code.push_back(std::move(code));
    plugin.files.push_back(full);
    return true;
  }

  /// PTX, and cubins of architectures: "scale.ptx", "scale.sm_90.cubin".
  bool readDeviceCode(const json::Object &object, Plugin &plugin) {
    std::vector<std::string> files;
    if (!strings(object, "cuda", files))
      return false;
    for (const std::string &file : files) {
      std::unique_ptr<llvm::MemoryBuffer> buffer;
      const std::string full = besideThis(file);
      if (!readFile(full, buffer))
        return false;
      StringRef name = llvm::sys::path::filename(file), ending = name.rsplit('.').second;
      const std::string architecture =
          ending == "ptx" ? "" : name.drop_back(ending.size() + 1).rsplit('.').second.str();
      if (ending != "ptx" && !(ending == "cubin" && StringRef(architecture).starts_with("sm_")))
        return fail("'" + file +
                        "' is named as neither PTX (NAME.ptx) nor the code of an "
                        "architecture (NAME.sm_90.cubin)",
                    quoted(file));
      Code code{plugin.name + (architecture.empty() ? "" : "." + architecture) + "." + ending.str(),
                {}};
      if (llvm::any_of(plugin.code, [&](const Code &other) { return other.name == code.name; }))
        return fail("'" + file + "': the plug-in has such a file already", quoted(file));
      if (architecture.empty())
        for (const Operator &op : plugin.operators)
          for (const auto &[target, one] : op.implementations)
            if (one.launch && !checkKernel(op, one, buffer->getBuffer(), file))
              return false;
      code.bytes.assign(buffer->getBufferStart(), buffer->getBufferEnd());
      plugin.code.push_back(std::move(code));
      plugin.files.push_back(full);
    }
    for (const Operator &op : plugin.operators)
      for (const auto &[target, one] : op.implementations)
        if (files.empty() && one.launch)
          return fail("'" + op.name + "' has a kernel, but the plug-in no files of 'cuda'",
                      quoted(op.name));
    return true;
  }

  /// Whether a launch gives a kernel what its PTX says that it takes.
  bool checkKernel(const Operator &op, const Implementation &launched, StringRef ptx,
                   StringRef file) {
    std::optional<std::vector<uint64_t>> parameters = readPtxParameters(ptx, launched.symbol);
    scope = std::min(text.find(quoted(op.name)), text.size());
    const std::string kernel = "the kernel '" + launched.symbol + "' of '" + file.str() + "'";
    if (!parameters)
      return fail("'" + file.str() + "' has no kernel '" + launched.symbol +
                      "'; of C++ it is extern \"C\"",
                  quoted("kernel"));
    const std::vector<Argument> &arguments = launched.launch->arguments;
    if (parameters->size() != arguments.size())
      return fail(kernel + " takes " + std::to_string(parameters->size()) +
                      " parameters, and 'arguments' are " + std::to_string(arguments.size()),
                  quoted("kernel"));
    for (auto [i, bytes] : llvm::enumerate(*parameters))
      if (const uint64_t given = arguments[i].kind == Argument::Kind::Float32 ? 4 : 8;
          bytes && bytes != given)
        return fail("parameter " + std::to_string(i) + " of " + kernel + " has " +
                        std::to_string(bytes) + " bytes, and its argument " +
                        std::to_string(given) +
                        ": a tensor is an address, a size a long long, an attribute a float, and "
                        "f64(NAME) a double",
                    quoted("kernel"));
    return true;
  }

  const StringRef path;
  const Plugins &others;
  StringRef text;
  /// Where in the text faults are looked for.
  size_t scope = 0;
  std::optional<Fault> fault;
};

} // namespace

std::optional<Fault> readPlugin(StringRef path, Plugins &plugins) {
  Plugin plugin;
  std::optional<Fault> fault = Reader(path, plugins).run(plugin);
  if (!fault)
    plugins.push_back(std::move(plugin));
  return fault;
}

} // namespace trainc::plugin
