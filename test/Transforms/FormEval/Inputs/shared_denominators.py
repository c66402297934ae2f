# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints a @forward whose loss has two denominators that are computed alike, each by a chain of y + y."""

ROWS, DOUBLINGS = "tensor<?xf32, #train.dims<batch>>", 48


def quotient(name):
    yield f"%{name}0 = train.abs %mask : {ROWS}"
    for i in range(DOUBLINGS):
        yield f"%{name}{i + 1} = train.add %{name}{i}, %{name}{i} : {ROWS}"
    yield f"%{name}_number = train.reduce sum %{name}{DOUBLINGS} axes = [0] : {ROWS} -> tensor<f32>"
    yield f"%{name}_mean = train.div %total, %{name}_number : tensor<f32>"


ARGUMENTS = ", ".join(f'%{name}: {ROWS} {{train.role = "input", train.name = "{name}"}}' for name in ("x", "mask"))
print(f'func.func @forward({ARGUMENTS}) -> (tensor<f32> {{train.role = "loss", train.name = "loss"}}) {{')
print(f"%total = train.reduce sum %x axes = [0] : {ROWS} -> tensor<f32>")
print(*quotient("a"), *quotient("b"), sep="\n")
print("%loss = train.add %a_mean, %b_mean : tensor<f32>\nreturn %loss : tensor<f32>\n}")
