# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A language model's folder and a file of rows to a trained model: `trainc finetune`."""
