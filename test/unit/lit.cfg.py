# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The GoogleTest programs (names ending in Tests), each case a test.
import lit.formats

config.name = "trainc-unit"
config.test_format = lit.formats.GoogleTest(".", "Tests")
config.suffixes = []
