// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What somebody who has a kernel begins with.

#include "trainc/Plugin/Plugin.h"
#include "trainc/Support/TextFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using llvm::raw_ostream;
using llvm::StringRef;

namespace trainc::plugin {
namespace {

class Stub {
public:
  explicit Stub(const Operator &op)
      : op(op), name(identifier(op.type)), function(identifier(op.name)) {
    for (const Tensor &input : op.inputs)
      if (isFloat(input))
        gradients.push_back("grad_" + input.text);
  }

  void printJSON(raw_ostream &out) const {
    out << "{\n  \"plugin\": 1,\n  \"library\": \"" << name << ".so\",\n  \"operators\": [\n";
    std::vector<std::string> inputs = texts(op.inputs), outputs = texts(op.outputs);
    printOperator(out, op.name, function, inputs, outputs, hasGradient());
    if (hasGradient()) {
      out << ",\n";
      // All that a gradient may ask for; what it does not need can go.
      llvm::append_range(inputs, outputs);
      for (const Tensor &output : op.outputs)
        if (isFloat(output))
          inputs.push_back("grad_" + output.text);
      printOperator(out, op.name + "Grad", function + "_grad", inputs, gradients, false);
    }
    out << "\n  ]\n}\n";
  }

  void printC(raw_ostream &out) const {
    out << "/* " << op.name
        << " for trainc (docs/plugins.md). Build it, once the dots are filled:\n"
        << "     cc -O3 -shared -fPIC " << name << ".c -o " << name
        << ".so $(pkg-config --cflags trainrt) -lm\n"
        << "   The types and sizes in " << name
        << ".json are a guess where the model does not tell them. */\n"
        << "#include <trainrt/plugin.h>\n\nTRAINRT_PLUGIN\n";
    printFunction(out, function, op.inputs, op.outputs, "");
    if (!hasGradient())
      return;
    std::vector<Tensor> inputs = op.inputs, results;
    llvm::append_range(inputs, op.outputs);
    for (const Tensor &output : op.outputs)
      if (isFloat(output))
        inputs.push_back(gradientOf(output));
    for (const Tensor &input : op.inputs)
      if (isFloat(input))
        results.push_back(gradientOf(input));
    printFunction(out, function + "_grad", inputs, results, " of the gradient");
  }

  const std::string &file() const { return name; }

private:
  /// "my::Round" as a name of C: with the domain it is none of C's own, as round and double are.
  static std::string identifier(StringRef text) {
    std::string made;
    for (char c : text)
      if (llvm::isAlnum(c))
        made += llvm::toLower(c);
      else if (!made.empty() && made.back() != '_')
        made += '_';
    return made.empty() || llvm::isDigit(made.front()) ? "op_" + made : made;
  }
  bool hasGradient() const { return !gradients.empty() && llvm::any_of(op.outputs, isFloat); }
  static bool isFloat(const Tensor &tensor) {
    return StringRef(tensor.types.front()).contains('f'); // f32, bf16, ...
  }
  static Tensor gradientOf(Tensor tensor) {
    tensor.name = "grad_" + tensor.name;
    return tensor;
  }
  static std::vector<std::string> texts(const std::vector<Tensor> &tensors) {
    std::vector<std::string> list;
    for (const Tensor &tensor : tensors)
      list.push_back(tensor.text);
    return list;
  }

  static void printList(raw_ostream &out, StringRef key, llvm::ArrayRef<std::string> list) {
    out << "      \"" << key << "\": [";
    llvm::interleaveComma(list, out, [&](const std::string &text) { out << '"' << text << '"'; });
    out << "],\n";
  }

  void printOperator(raw_ostream &out, StringRef called, StringRef function,
                     llvm::ArrayRef<std::string> inputs, llvm::ArrayRef<std::string> outputs,
                     bool withGradient) const {
    out << "    {\n      \"name\": \"" << called << "\",\n";
    printList(out, "inputs", inputs);
    printList(out, "outputs", outputs);
    std::vector<std::string> attributes;
    static constexpr StringRef kinds[] = {"int", "float", "ints", "floats", "string"};
    for (const Attribute &attribute : op.attributes)
      attributes.push_back(attribute.name + ": " + kinds[size_t(attribute.kind)].str());
    if (!attributes.empty())
      printList(out, "attributes", attributes);
    if (withGradient)
      out << "      \"gradient\": \"" << op.name << "Grad\",\n";
    out << "      \"cpu\": \"" << function << "\"\n    }";
  }

  void printFunction(raw_ostream &out, StringRef function, llvm::ArrayRef<Tensor> inputs,
                     llvm::ArrayRef<Tensor> outputs, StringRef what) const {
    out << "\nTRAINRT_PLUGIN_EXPORT int " << function << "(const trainrt_external_call *call) {\n";
    auto declare = [&](const Tensor &tensor, StringRef list, size_t number, StringRef qualifier) {
      static constexpr std::pair<StringRef, StringRef> types[] = {
          {"f32", "float"},     {"f64", "double"},  {"f16", "uint16_t"},
          {"bf16", "uint16_t"}, {"i8", "int8_t"},   {"i16", "int16_t"},
          {"i32", "int32_t"},   {"i64", "int64_t"}, {"bool", "uint8_t"}};
      auto *type = llvm::find_if(
          types, [&](const auto &known) { return known.first == tensor.types.front(); });
      out << "  " << qualifier << type->second << " *" << tensor.name << " = call->" << list << "["
          << number << "].data; /* " << tensor.text << " */\n";
    };
    for (auto [i, input] : llvm::enumerate(inputs))
      declare(input, "inputs", i, "const ");
    for (auto [i, output] : llvm::enumerate(outputs))
      declare(output, "outputs", i, "");
    for (auto [i, attribute] : llvm::enumerate(sortedAttributes())) {
      static constexpr StringRef fields[] = {"ints[0]", "floats[0]", "ints", "floats", "text"};
      out << "  /* " << attribute->name << ": call->attributes[" << i << "]."
          << fields[size_t(attribute->kind)] << " */\n";
    }
    for (llvm::ArrayRef<Tensor> list : {inputs, outputs})
      for (const Tensor &tensor : list)
        out << "  (void)" << tensor.name << ";\n";
    out << "  /* ... */\n  return 1; /* 0, when all" << what << " is computed */\n}\n";
  }

  /// As calls have them.
  std::vector<const Attribute *> sortedAttributes() const {
    std::vector<const Attribute *> sorted;
    for (const Attribute &attribute : op.attributes)
      sorted.push_back(&attribute);
    llvm::sort(sorted, [](auto *a, auto *b) { return a->name < b->name; });
    return sorted;
  }

  const Operator &op;
  const std::string name, function;
  std::vector<std::string> gradients;
};
} // namespace

std::optional<Fault> writeStub(const Operator &op, StringRef folder,
                               std::vector<std::string> &written) {
  const Stub stub(op);
  const std::pair<StringRef, void (Stub::*)(raw_ostream &) const> files[] = {
      {".json", &Stub::printJSON}, {".c", &Stub::printC}};
  for (auto [ending, print] : files) {
    llvm::SmallString<256> path(folder);
    llvm::sys::path::append(path, stub.file() + ending);
    written.push_back(path.str().str());
    if (llvm::sys::fs::exists(path))
      return Fault{written.back(), "it is there already; move it away, or write elsewhere (-o)"};
  }
  for (auto [file, path] : llvm::zip_equal(files, written))
    if (std::string problem =
            writeTextFile(path, [&](raw_ostream &out) { (stub.*file.second)(out); });
        !problem.empty())
      return Fault{path, problem};
  return std::nullopt;
}

} // namespace trainc::plugin
