// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of a package. Size expressions are written out where they are used, so that a command
// reads as one line: which kernel or matmul, on which buffers, for which nodes of the model.

#include "trainc/Package/DumpPackage.h"

#include "flatbuffers/minireflect.h"
#include "format/commands/command.h"
#include "format/file.h"
#include "format/zip.h"
#include "program_generated.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/Twine.h"
#include <vector>

using namespace mlir;
namespace fb = trainrt::fb;

namespace {

class ProgramPrinter {
public:
  ProgramPrinter(const fb::Program &program, llvm::raw_ostream &out) : program(program), out(out) {}

  /// Tables first, in the order in which functions refer to them.
  void print() {
    // Expressions refer to earlier ones only: one pass is enough.
    writeExpressions();
    out << "program " << program.version_major() << "." << program.version_minor() << "\n";
    for (const fb::Symbol *symbol : list(program.symbols())) {
      out << "symbol " << symbol->name()->str() << " min " << symbol->min();
      // No maximum is written as the largest number.
      if (symbol->max() > 0)
        out << " max " << symbol->max();
      if (symbol->divisor() != 1)
        out << " divisor " << symbol->divisor();
      assert(symbol->name() && "a verified buffer has what the schema requires");
      const fb::Tensor *input = item(program.inputs(), uint32_t(symbol->source_input()));
      if (symbol->run() != fb::RunSymbol::none)
        out << " of the run";
      if (symbol->counts())
        out << " counts "
            << (symbol->what() == fb::CountKind::elements
                    ? ""
                    : std::string(fb::EnumNameCountKind(symbol->what())) + " of ")
            << (input ? input->name()->str() : "?") << " != " << symbol->differs();
      else if (input)
        out << " from axis " << symbol->source_axis() << " of input " << input->name()->str();
      out << "\n";
    }
    tensors("parameter", program.parameters());
    tensors("state", program.state());
    tensors("derived", program.derived());
    tensors("input", program.inputs());
    tensors("hyper", program.hypers());
    tensors("output", program.outputs());
    // Their bytes are not shown: a model may have many.
    for (const fb::Constant *constant : list(program.constants())) {
      out << "constant " << fb::EnumNameDType(constant->dtype());
      shape(constant->shape());
      out << " " << constant->data()->size() << " bytes\n";
    }
    for (const fb::Kernel *kernel : list(program.kernels()))
      out << "kernel " << kernel->name()->str() << " args " << kernel->args() << " dims "
          << kernel->dims() << "\n";
    for (const fb::SizeRule *rule : list(program.size_rules()))
      out << "rule " << expression(rule->value()) << " <= " << rule->max() << node(rule->node())
          << "\n";
    for (const fb::ValueRule *rule : list(program.value_rules())) {
      const fb::Tensor *input = item(program.inputs(), rule->input());
      out << "rule " << rule->min() << " <= " << (input ? input->name()->str() : "?");
      for (size_t axis = 0; rule->begin() && axis < rule->begin()->size(); ++axis)
        out << (axis ? ", " : "[") << expression(rule->begin()->Get(axis)) << ":"
            << expression(rule->end()->Get(axis));
      out << (rule->begin() ? "]" : "") << " < " << expression(rule->max());
      if (rule->has_except())
        out << " or " << rule->except();
      out << node(rule->node()) << "\n";
    }
    for (const fb::Function *function : list(program.functions()))
      print(*function);
  }

private:
  /// The elements of a vector that may be absent.
  /// FlatBuffers leave out what is empty.
  template <typename T>
  static std::vector<const T *> list(const flatbuffers::Vector<flatbuffers::Offset<T>> *vector) {
    std::vector<const T *> result;
    for (unsigned i = 0; vector && i < vector->size(); ++i)
      result.push_back(vector->Get(i));
    return result;
  }
  template <typename T>
  static const T *item(const flatbuffers::Vector<flatbuffers::Offset<T>> *vector, uint32_t index) {
    return vector && index < vector->size() ? vector->Get(index) : nullptr;
  }

  void writeExpressions() {
    auto *exprs = program.exprs();
    for (unsigned i = 0; exprs && i < exprs->size(); ++i) {
      const fb::Expr &e = *exprs->Get(i);
      // Nothing here trusts the file: an index that is wrong is shown as "?".
      auto part = [&](int32_t index) {
        return index >= 0 && unsigned(index) < i ? texts[index] : std::string("?");
      };
      std::string name = fb::EnumNameExprKind(e.kind());
      switch (e.kind()) {
      case fb::ExprKind::constant:
        texts.push_back(std::to_string(e.value()));
        break;
      case fb::ExprKind::symbol: {
        const fb::Symbol *symbol = item(program.symbols(), uint32_t(e.a()));
        texts.push_back(symbol ? symbol->name()->str() : "?");
        break;
      }
      case fb::ExprKind::add:
        texts.push_back("(" + part(e.a()) + " + " + part(e.b()) + ")");
        break;
      case fb::ExprKind::mul:
        texts.push_back(part(e.a()) + "*" + part(e.b()));
        break;
      default:
        texts.push_back(name + "(" + part(e.a()) + ", " + part(e.b()) + ")");
      }
      // Sizes of long sums would hide everything else; the number stands for it.
      if (texts.back().size() > 200)
        texts.back() = "expr" + std::to_string(i);
    }
  }

  std::string expression(uint32_t index) const { return index < texts.size() ? texts[index] : "?"; }
  std::string node(uint32_t index) const {
    auto *nodes = program.nodes();
    return nodes && index < nodes->size() ? "  # " + nodes->Get(index)->str() : "";
  }
  /// As in types: sizes in brackets.
  void shape(const flatbuffers::Vector<uint32_t> *dims) {
    out << "[";
    for (unsigned i = 0; dims && i < dims->size(); ++i)
      out << (i ? ", " : "") << expression(dims->Get(i));
    out << "]";
  }
  void tensors(const char *what,
               const flatbuffers::Vector<flatbuffers::Offset<fb::Tensor>> *vector) {
    for (const fb::Tensor *tensor : list(vector)) {
      out << what << " " << tensor->name()->str() << " " << fb::EnumNameDType(tensor->dtype());
      shape(tensor->shape());
      out << "\n";
    }
  }
  /// What a buffer of a space other than the arena stands for.
  std::string target(const fb::Buffer &buffer) const {
    // The buffer's index is a row of the table of its space.
    auto named = [&](const flatbuffers::Vector<flatbuffers::Offset<fb::Tensor>> *vector) {
      const fb::Tensor *tensor = item(vector, uint32_t(buffer.index()));
      return tensor ? " " + tensor->name()->str() : "";
    };
    switch (buffer.space()) {
    // A gradient has its parameter's row.
    case fb::Space::parameter:
    case fb::Space::gradient:
      return named(program.parameters());
    case fb::Space::state:
      return named(program.state());
    case fb::Space::derived:
      return named(program.derived());
    case fb::Space::input:
      return named(program.inputs());
    case fb::Space::hyper:
      return named(program.hypers());
    case fb::Space::output:
      return named(program.outputs());
    case fb::Space::constant:
      return " " + std::to_string(buffer.index());
    default:
      return "";
    }
  }
  /// "b3", or "b3+offset" where it does not begin with its buffer.
  std::string place(const fb::Operand &operand) const {
    std::string offset = expression(operand.offset());
    return "b" + std::to_string(operand.buffer()) + (offset == "0" ? "" : "+" + offset);
  }

  void print(const fb::Condition &condition) {
    auto name = [&](int32_t index) {
      const fb::Tensor *input = item(program.inputs(), uint32_t(index));
      return input ? input->name()->str() : "?";
    };
    out << "  condition " << fb::EnumNameConditionKind(condition.kind());
    // Each kind of condition has its own fields.
    if (condition.input() >= 0)
      out << " input " << name(condition.input());
    if (condition.mask() >= 0)
      out << " mask " << name(condition.mask()) << " padding " << condition.padding();
    if (condition.kind() == fb::ConditionKind::fixed_where_padded)
      out << " shift " << condition.shift() << " value " << condition.value();
    if (condition.kind() == fb::ConditionKind::real_at)
      out << " index " << condition.index();
    out << "\n";
  }
  void print(const fb::Function &function) {
    out << "function " << function.name()->str();
    if (function.variant_of())
      out << " variant of " << function.variant_of()->str();
    // Without a number of operations nothing is known.
    if (function.flops() >= 0)
      out << " flops " << expression(uint32_t(function.flops()));
    if (function.forward_end() >= 0)
      out << " forward " << function.forward_end() << " backward " << function.backward_end();
    out << "\n";
    for (const fb::Condition *condition : list(function.conditions()))
      print(*condition);
    unsigned index = 0;
    for (const fb::Buffer *buffer : list(function.buffers())) {
      out << "  b" << index++ << ": " << fb::EnumNameSpace(buffer->space()) << target(*buffer)
          << " " << expression(buffer->bytes()) << " bytes";
      // Others are there all the time.
      if (buffer->space() == fb::Space::arena || buffer->space() == fb::Space::host)
        out << " live " << buffer->first() << ".." << buffer->last();
      if (buffer->label())
        out << " '" << buffer->label()->str() << "'";
      out << "\n";
    }
    index = 0;
    for (const fb::Command *command : list(function.commands())) {
      out << "  " << index++ << ": ";
      print(*command);
      // Behind each command, the nodes of the model that it computes.
      auto *nodes = command->nodes();
      for (unsigned i = 0; nodes && i < nodes->size(); ++i)
        out << (i ? ", " : "  # ")
            << (program.nodes() && nodes->Get(i) < program.nodes()->size()
                    ? program.nodes()->Get(nodes->Get(i))->str()
                    : "?");
      out << "\n";
    }
  }

  /// The names of a kind's operands and sizes; none of what is of an unknown kind.
  struct KindNames {
    const char *kind = "unknown command";
    llvm::ArrayRef<const char *> operands, sizes;
  };
  /// The alternatives of the variant are in the order of the schema's kinds.
  template <size_t... number>
  static KindNames namesOf(fb::Op kind, std::index_sequence<number...>) {
    KindNames names;
    auto look = [&]<typename Kind>(size_t index, const Kind *) {
      if (size_t(kind) == index + 1) // behind "none"
        names = {Kind::kindName, Kind::operandNames, Kind::sizeNames};
    };
    (look(number, static_cast<std::variant_alternative_t<number, trainrt::CommandOp> *>(nullptr)),
     ...);
    return names;
  }

  /// KIND {ATTRIBUTES} KERNEL or KERNEL operands (what is written in parentheses) sizes costs;
  /// names stand before operands and sizes that have one.
  void print(const fb::Command &command) {
    const KindNames names = namesOf(
        command.op_type(), std::make_index_sequence<std::variant_size_v<trainrt::CommandOp>>());
    out << names.kind;
    // Attributes as the schema has them; newer kinds than this program knows have none to show.
    if (command.op() && size_t(command.op_type()) < fb::OpTypeTable()->num_elems) {
      flatbuffers::ToStringVisitor attributes(" ");
      const auto *type = fb::OpTypeTable()->type_refs[size_t(command.op_type()) - 1]();
      flatbuffers::IterateObject(static_cast<const uint8_t *>(command.op()), type, &attributes);
      if (llvm::StringRef(attributes.s).trim("{} ").size())
        out << " " << attributes.s;
    }
    for (unsigned i = 0; command.kernels() && i < command.kernels()->size(); ++i) {
      const fb::Kernel *kernel = item(program.kernels(), command.kernels()->Get(i));
      out << (i ? " or " : " ") << (kernel ? kernel->name()->str() : "?");
    }
    for (unsigned i = 0; command.operands() && i < command.operands()->size(); ++i) {
      const fb::Operand &operand = *command.operands()->Get(i);
      // An operand that the kind has, and the command does not use.
      if (operand.access() == fb::Access::none)
        continue;
      const bool isWritten =
          operand.access() == fb::Access::write || operand.access() == fb::Access::update;
      out << " " << (i < names.operands.size() ? std::string(names.operands[i]) + " " : "")
          << (isWritten ? "(" + place(operand) + ")" : place(operand));
    }
    for (unsigned i = 0; command.sizes() && i < command.sizes()->size(); ++i)
      out << " " << (i < names.sizes.size() ? std::string(names.sizes[i]) + " " : "")
          << expression(command.sizes()->Get(i));
    static constexpr const char *costs[] = {" moves ", " flops "};
    for (unsigned i = 0; command.costs() && i < command.costs()->size() && i < 2; ++i)
      out << costs[i] << expression(command.costs()->Get(i));
  }

  const fb::Program &program;
  llvm::raw_ostream &out;
  std::vector<std::string> texts;
};

} // namespace

LogicalResult trainc::dumpPackage(llvm::StringRef path, llvm::raw_ostream &out,
                                  llvm::raw_ostream &errors) {
  auto fail = [&](const llvm::Twine &why) {
    errors << path << ": error: " << why << "\n";
    return failure();
  };
  // The reader of the runtime: what it refuses is no package.
  std::shared_ptr<const trainrt::MappedFile> file;
  trainrt::ZipReader zip;
  trainrt::Status status = trainrt::MappedFile::open(path.str(), file);
  if (status.ok())
    status = trainrt::ZipReader::open(file, zip);
  if (!status.ok())
    return fail(status.message());
  // Whoever made the package chose its names.
  std::string lines;
  llvm::raw_string_ostream stream(lines);
  // On every way out: what was printed until an error is shown, too.
  auto flush = llvm::make_scope_exit([&] { out << trainrt::shownLines(lines); });
  for (const trainrt::ZipEntry &entry : zip.entries())
    stream << "entry " << entry.name << " " << entry.size << " bytes at " << entry.offset << "\n";
  const trainrt::ZipEntry *manifest = zip.find("manifest.json");
  const trainrt::ZipEntry *program = zip.find("program.fb");
  // Stored, so that they can be read where they lie.
  if (!manifest || !program || manifest->method || program->method)
    return fail("this is not a package: it has no stored manifest.json and program.fb");
  auto text = [&](const trainrt::ZipEntry &entry) {
    return llvm::StringRef(reinterpret_cast<const char *>(zip.data(entry)), entry.size);
  };
  stream << text(*manifest) << "\n";
  llvm::StringRef bytes = text(*program);
  // What follows relies on the verifier.
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  if (!fb::VerifyProgramBuffer(verifier))
    return fail("program.fb is damaged");
  ProgramPrinter(*fb::GetProgram(bytes.data()), stream).print();
  return success();
}
