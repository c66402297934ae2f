#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is wrong with a plug-in, told before the model is read: `descriptions.py CC SOURCE TRAINC FOLDER`.

Each case replaces a text in a description that is right, and says what the error is, with file and line.
"""

import os
import pathlib
import struct
import subprocess
import sys

CC, SOURCE, TRAINC, FOLDER = sys.argv[1:]
FOLDER = pathlib.Path(FOLDER)
GOOD = """{
  "plugin": 1,
  "library": "good.so",
  "cuda": ["good.ptx", "good.sm_90.cubin"],
  "operators": [
    {
      "name": "my::Op",
      "inputs": ["x: f32|f64[..., n]", "w: x[n, 4]"],
      "outputs": ["y: x[..., n + k]"],
      "attributes": ["k: int = 2", "scale: float"],
      "cpu": "op",
      "cuda": {"kernel": "op", "grid": ["size(x)"], "block": ["256"], "arguments": ["x", "y", "n", "f64(scale)"]},
      "gradient": "my::OpGrad",
      "no_gradient": ["w"],
      "flops": "2 * size(x)"
    },
    {
      "name": "my::OpGrad",
      "inputs": ["x: f32[..., n]", "grad_y: f32[..., m]"],
      "outputs": ["grad_x: f32[..., n]"],
      "cpu": "grad"
    }
  ]
}
"""
NAMES = "there are plugin, library, cuda, operators"
CASES = [
    ('"plugin": 1', '"plugin": 2', 2, "'plugin' is the version of this description, and has to be 1"),
    ('"library"', '"libary"', 3, f"'libary' is no key of a plug-in (is library meant?); {NAMES}"),
    ('"gradient"', '"grad"', 13, "'grad' is no key of an operator"),
    ("]\n}\n", "\n", 24, "Expected , or ] after array element"),
    (GOOD, "[]", 1, 'a plug-in is a JSON object, {"plugin": 1, ...}'),
    (GOOD, "[" * 100 + "]" * 100, 1, "more than 64 brackets are within each other"),
    ('"gradient": "my::OpGrad"', '"gradient": 7', 13, "'gradient': it is the name of an operator or of a function"),
    ('"cpu": "grad"', '"cpu": "grad", "cuda": "op"', 18, "'op' is a kernel and a function in C, of 'my::Op' and 'my::OpGrad'"),
    ('"f64(scale)"', '"f64(scale"', 12, "the argument 'f64(scale': 'f64' is no function"),
    ("x[..., n + k]", f"x[..., {'n + ' * 300}k]", 9, "it has more than 1000 characters"),
    (GOOD, '{"plugin": 1, "operators": []}', 1, "'operators' is a list of operators, one at least"),
    (GOOD, '{"plugin": 1, "operators": [1]}', 1, "each of 'operators' is an object"),
    ('"my::Op"', '"Op"', 7, "an operator has a 'name', \"DOMAIN::NAME\"; ONNX's own domain is ai.onnx, and domains that begin with trainc. are none of a plug-in"),
    ('"my::Op"', '"trainc.my::Op"', 7, "domains that begin with trainc. are none of a plug-in"),
    ('"my::Op"', '"ai.onnx::Relu"', 7, "the operator 'ai.onnx::Relu' is the compiler's own, which plug-ins do not replace"),
    ('"my::Op"', '"com.microsoft::Gelu"', 7, "the operator 'com.microsoft::Gelu' is the compiler's own, which plug-ins do not replace"),
    ("k: int = 2", "n: int = 2", 10, "'n' is an axis of 'x' and an attribute; rename the axis"),
    ('"good.ptx"', '"no.ptx"', 12, "'no.ptx' has no kernel 'op'; of C++ it is extern \"C\""),
    ('"good.ptx"', '"few.ptx"', 12, "the kernel 'op' of 'few.ptx' takes 3 parameters, and 'arguments' are 4"),
    ('"good.ptx"', '"int.ptx"', 12, "parameter 2 of the kernel 'op' of 'int.ptx' has 4 bytes, and its argument 8: a tensor is an address, a size a long long"),
    ('"good.ptx"', '"struct.ptx"', 12, "parameter 3 of the kernel 'op' of 'struct.ptx' has 12 bytes, and its argument 8"),
    ("my::OpGrad", "my::Op", 18, "the operator 'my::Op' is described twice, also at bad.json:7"),
    ('["w"]', '"w"', 14, "'no_gradient' is a list of strings"),
    ('["w"]', '["z"]', 14, "'no_gradient' names 'z', which is no input"),
    ('"outputs": ["y: x[..., n + k]"]', '"outputs": []', 7, "'my::Op' has no 'outputs'"),
    ("w: x[n, 4]", "w x[n, 4]", 8, 'a tensor is declared as "NAME: TYPE[SIZES]"'),
    ("w: x[n, 4]", "w: x", 8, "the sizes of 'w' are missing; they are between [ and ], [] of a single number"),
    ("w: x[n, 4]", "w: f-32[n]", 8, "'f-32' is no type; there are f32, f64, f16, bf16, i8, i16, i32, i64, bool, and names of other tensors"),
    ("w: x[n, 4]", "w: f32|x[n]", 8, "'w' has the type of 'x' and others; it is one or the other"),
    ("w: x[n, 4]", "w: z[n]", 8, "'z' is neither a type nor an input that has one of its own"),
    ("w: x[n, 4]", "x: f32[n]", 8, "'x' is declared twice"),
    ("scale: float", "x: float", 10, "'x' is declared twice"),
    ("x[..., n + k]", "x[..., n +]", 9, "the size 'n +': a number or a name is missing at its end"),
    ("x[..., n + k]", "x[..., n + m]", 9, "'m' is neither an axis of an input nor an attribute of type int"),
    ("x[..., n + k]", "x[..., size(z)]", 9, "'z' is no tensor of the operator"),
    ("x[..., n + k]", "x[..., (n]", 9, "a ')' is missing"),
    ("x[..., n + k]", "x[..., n k]", 9, "the size 'n k': 'k' is left over"),
    ("x[..., n + k]", "x[..., $]", 9, "'$' begins with neither a number nor a name"),
    ("x[..., n + k]", "x[..., 2n]", 9, "'2n' is no number"),
    ("x[..., n + k]", "x[..., log(n)]", 9, "'log' is no function; there are min, max, ceildiv and size"),
    ("x[..., n + k]", "x[..., min(n)]", 9, "min() takes two operands"),
    ("x[..., n + k]", "x[..., size(2)]", 9, "size() takes the name of a tensor"),
    ("x[..., n + k]", f"x[..., {'(' * 70}n{')' * 70}]", 9, "it has too many parentheses"),
    ("f32|f64[..., n]", "f32|f64[n]", 9, "'...' are the axes of an input; none has them"),
    ("y: x[", "y: f32|f64[", 9, "an output has one type, or the name of an input of the same type"),
    ("k: int = 2", "k: integer", 10, 'an attribute is declared as "NAME: TYPE" or "NAME: TYPE = VALUE"'),
    ("k: int = 2", "k: int = two", 10, "'two' is no value of type int"),
    ('"cpu": "op",\n      "cuda": {', '"cuda": 1, "no": {', 11, "'no' is no key"),
    ('"cpu": "grad"', '"flops": "1"', 18, "'my::OpGrad' has neither a function 'cpu' nor a 'cuda'"),
    ('"cpu": "op"', '"cpu": "an op"', 11, "'cpu' is the name of a function in C"),
    ('"kernel": "op", ', "", 12, "'cuda' is the name of a function in C, or a launch with the name of a 'kernel'"),
    ('["size(x)"]', "[]", 12, "'grid' is a list of 1 to 3 sizes"),
    ('["size(x)"]', '["size(q)"]', 12, "the size 'size(q)': 'q' is no tensor of the operator"),
    ('"f64(scale)"', '"alpha"', 12, "the argument 'alpha': 'alpha' is neither an axis of an input nor an attribute of type int"),
    ('"flops": "2 * size(x)"', '"flops": "2 ** 3"', 15, "'flops': "),
    ("grad_y: f32[..., m]", "z: f32[m]", 13, "the gradient 'my::OpGrad' has an input 'z'; its inputs are called as the tensors of 'my::Op' are, or 'grad_' and"),
    ("grad_x: f32[..., n]", "gx: f32[n]", 13, "the gradient 'my::OpGrad' has an output 'gx'; its outputs are called 'grad_' and the name of an input"),
    ('"cpu": "grad"', '"cpu": "grad", "attributes": ["k: float"]', 13, "the gradient 'my::OpGrad' has an attribute 'k', which 'my::Op' does not have"),
    ('"cpu": "grad"', '"cpu": "grad", "gradient": "my::Op"', 13, "the gradient 'my::OpGrad' has a gradient of its own, which is not differentiated"),
    ('"library": "good.so",', "", 7, "'my::Op' has a function in C, but the plug-in no 'library'"),
    ('"cuda": ["good.ptx", "good.sm_90.cubin"],', "", 7, "'my::Op' has a kernel, but the plug-in no files of 'cuda'"),
    ('"good.ptx"', '"good.c"', 4, "'good.c' is named as neither PTX (NAME.ptx) nor the code of an architecture (NAME.sm_90.cubin)"),
    ('"good.ptx"', '"good.sm_90.cubin"', 4, "'good.sm_90.cubin': the plug-in has such a file already"),
    ('"good.ptx"', '"none.ptx"', "none.ptx", "No such file or directory"),
    ('"good.so"', '"good.c"', "good.c", "it is no shared object of ELF (cc -shared -fPIC)"),
    ('"good.so"', '"program"', "program", "it is no shared object of ELF for 64 bits (cc -shared -fPIC)"),
    ('"good.so"', '"other.so"', "other.so", "it is for a processor without packages; they are for x86-64 and aarch64"),
    ('"good.so"', '"old.so"', "old.so", "it is of version 7 of trainrt/plugin.h, and this compiler is of version 1; build it with this header"),
    ('"good.so"', '"plain.so"', "plain.so", "it does not say which version of trainrt/plugin.h it is of; one of its files says TRAINRT_PLUGIN"),
    ('"cpu": "grad"', '"cpu": "hidden"', "good.so", "it has no function 'hidden', which bad.json:18 names; it is TRAINRT_PLUGIN_EXPORT (of C++ without a namespace)"),
    ('"good.so"', '"damaged.so"', "damaged.so", "its symbols are damaged"),
    ('"good.so"', '["good.so", "good.so"]', "good.so", "the plug-in has a library for "),
]  # fmt: skip
PTX = """.visible .entry op2() { ret; }
.visible .entry op(
  .param .u64 .ptr .align 1 op_param_0, .param .u64 op_param_1,
  .param .s64 op_param_2, .param .f64 op_param_3
) { ret; }
"""
CODE = """#include <trainrt/plugin.h>
TRAINRT_PLUGIN
TRAINRT_PLUGIN_EXPORT int op(const trainrt_external_call *call) { return 0; }
TRAINRT_PLUGIN_EXPORT int grad(const trainrt_external_call *call) { return 0; }
"""


def build(name, code, *options):
    (FOLDER / "good.c").write_text(code)
    command = [CC, "-I", f"{SOURCE}/runtime/include", "-fPIC", FOLDER / "good.c", "-o", FOLDER / name, *options]
    subprocess.run(command, check=True)


def told(*plugins):
    command = [TRAINC, "none.onnx", *(f"--plugin={plugin}" for plugin in plugins)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER)
    assert done.returncode == 1, done
    return done.stderr


def main():
    build("program", "int main(void) { return 0; }", "-c")
    build("plain.so", CODE.replace("TRAINRT_PLUGIN\n", ""), "-shared")
    build("old.so", CODE.replace("TRAINRT_PLUGIN\n", "TRAINRT_PLUGIN_EXPORT const uint32_t trainrt_plugin_abi;\nconst uint32_t trainrt_plugin_abi = 7;"), "-shared")
    build("good.so", CODE, "-shared")
    other = bytearray((FOLDER / "good.so").read_bytes())
    other[18] = 8  # of MIPS
    (FOLDER / "other.so").write_bytes(other)
    # Its first symbol has a name that is nowhere.
    damaged = bytearray((FOLDER / "good.so").read_bytes())
    (at,), (size, count) = struct.unpack_from("<Q", damaged, 40), struct.unpack_from("<HH", damaged, 58)
    sections = [struct.unpack_from("<IIQQQQ", damaged, at + i * size) for i in range(count)]
    (symbols,) = (section[4] for section in sections if section[1] == 11)
    struct.pack_into("<I", damaged, symbols + 24, 0x7FFFFFFF)
    (FOLDER / "damaged.so").write_bytes(damaged)
    (FOLDER / "good.sm_90.cubin").write_text("")
    (FOLDER / "good.ptx").write_text(PTX)
    (FOLDER / "int.ptx").write_text(PTX.replace(".param .s64", ".param .u32"))
    (FOLDER / "few.ptx").write_text(PTX.replace(", .param .f64 op_param_3", ""))
    (FOLDER / "struct.ptx").write_text(PTX.replace(".param .f64 op_param_3", ".param .align 4 .b8 op_param_3[12]"))
    (FOLDER / "no.ptx").write_text(PTX.replace("op(", "op2("))
    (FOLDER / "good.json").write_text(GOOD)
    # Nothing is wrong with the plug-in: the model is what is missing.
    assert told("good.json") == "none.onnx: error: no such file\n", told("good.json")
    failed = 0
    for old, new, where, what in CASES:
        text = GOOD.replace(old, new)
        assert text != GOOD, old
        (FOLDER / "bad.json").write_text(text)
        said, wanted = told("bad.json"), f"{f'bad.json:{where}' if isinstance(where, int) else where}: error: "
        if not said.startswith(wanted) or what not in said:
            failed += 1
            print(f"{new!r}: expected {wanted}{what}\n     got {said}")
    (FOLDER / "a folder.json").write_text(GOOD)
    (FOLDER / ".json").write_text(GOOD)
    for plugins, what in (
        (["good.json", "good.json"], "there is a plug-in 'good' already; rename one of the two files"),
        (["good.json", "bad.json"], "the operator 'my::Op' is described twice, also at good.json:7"),
        ([".json"], "its name '' is that of the plug-in"),
        (["a folder.json"], "its name 'a folder' is that of the plug-in: letters, digits, _ and -"),
        (["none.json"], "none.json: error: No such file or directory"),
    ):
        (FOLDER / "bad.json").write_text(GOOD)
        if what not in (said := told(*plugins)):
            failed += 1
            print(f"{plugins}: expected {what}\n     got {said}")
    sys.exit(failed)


if __name__ == "__main__":
    os.environ.pop("TRAINC_LOG_LEVEL", None)
    main()
