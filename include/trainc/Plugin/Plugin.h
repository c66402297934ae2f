// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators from outside: what the JSON of a plug-in says of them (docs/plugins.md), and the code
// that goes into the package.

#ifndef TRAINC_PLUGIN_PLUGIN_H
#define TRAINC_PLUGIN_PLUGIN_H

#include "trainc/Plugin/Expression.h"
#include <map>

namespace trainc::plugin {

/// "x: f32|f64[..., n]": a tensor of one of these types.
struct Tensor {
  std::string name;
  /// As packages call element types; none: that of the tensor `like`.
  std::vector<std::string> types;
  std::string like;
  /// Any axes before those of the shape.
  bool hasLeading = false;
  std::vector<Expression> shape;
  /// As it is written.
  std::string text;
};

/// "alpha: float = 1.5": an attribute of the operator.
struct Attribute {
  enum class Kind { Int, Float, Ints, Floats, String };
  std::string name;
  Kind kind = Kind::Int;
  bool isOptional = false;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::string string;
};

/// An argument of a kernel: a tensor, a size, or an attribute as a float of so many bits.
struct Argument {
  enum class Kind { Tensor, Size, Float32, Float64 };
  Kind kind = Kind::Size;
  std::string name;
  Expression size;
};

/// How a kernel for a GPU is launched; sizes along three axes.
struct Launch {
  std::vector<Expression> grid, block;
  Expression shared;
  std::vector<Argument> arguments;
};

/// What computes an operator on a target: a function in C, or with a launch a kernel.
struct Implementation {
  std::string symbol;
  std::optional<Launch> launch;
};

struct Operator {
  /// "domain::Name", and its parts.
  std::string name, domain, type;
  std::vector<Tensor> inputs, outputs;
  std::vector<Attribute> attributes;
  /// By the names of targets.
  std::map<std::string, Implementation> implementations;
  /// Operator or function of the model that computes the gradient; "": none does. And the float
  /// inputs without one.
  std::string gradient;
  std::vector<std::string> withoutGradient;
  std::optional<Expression> flops;
  /// Where it is described, "scale.json:4", and of which plug-in it is.
  std::string where, plugin;

  const Tensor *tensor(llvm::StringRef name) const;
};

/// An entry of the package: "scale.x86-64.so".
struct Code {
  std::string name;
  std::vector<char> bytes;
};

struct Plugin {
  /// The name of the JSON file, without folders and ending.
  std::string name;
  /// The JSON, and the files that it names.
  std::vector<std::string> files;
  std::vector<Operator> operators;
  std::vector<Code> code;
};

using Plugins = std::vector<Plugin>;
/// Of the nodes that the importer makes of them, whose operator is the name with its domain.
inline constexpr llvm::StringLiteral kDomain = "trainc.plugin";
/// Null where there is none of that name, "domain::Name".
const Operator *findOperator(const Plugins &plugins, llvm::StringRef name);

/// Whether a GPU of this architecture, "sm_90", runs the plug-in's kernels: a cubin of its major
/// version from its minor version on, of just that version where it has a letter, or PTX of an
/// older one (CUDA C++ Programming Guide, "Compute Capability" of binary and PTX compatibility).
bool hasKernelsFor(const Plugin &plugin, llvm::StringRef architecture);

/// What is wrong with a plug-in, and where: "scale.json:4", or the file of its code.
struct Fault {
  std::string where, what;
};

/// Reads the JSON at `path` and the code that it names, and adds it to `plugins`; returns what is
/// wrong. Nothing of the code runs.
std::optional<Fault> readPlugin(llvm::StringRef path, Plugins &plugins);

/// Writes NAME.json and NAME.c in `folder`, NAME the operator's in lower case: its description and
/// functions without bodies, with one for its gradient where a tensor is a float. Only names, texts
/// and kinds of `op` count. Returns the fault, for example a file that is there already.
std::optional<Fault> writeStub(const Operator &op, llvm::StringRef folder,
                               std::vector<std::string> &written);

} // namespace trainc::plugin

#endif // TRAINC_PLUGIN_PLUGIN_H
