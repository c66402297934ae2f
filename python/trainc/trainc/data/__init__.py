# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of text as shards of tokens: `trainc data`."""
