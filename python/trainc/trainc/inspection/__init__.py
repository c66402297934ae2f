# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc inspect`: one page on what became of a model."""
