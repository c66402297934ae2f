# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from ._programs import trainc

trainc()
