// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
module trainrt/examples/go

go 1.19
