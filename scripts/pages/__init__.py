# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of the site, made of the sources: each module's pages(root, build) gives {name: Markdown}."""
