# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of tokens for tests of what labels count for: as columns that make_data_folder.write takes."""

from make_data_folder import random_columns

ROWS = 24


def few_labels():
    """Of rows 3 to 5, a micro-batch of three, all labels but four are padding."""
    columns = random_columns(ROWS, 30, 101, 1)
    labels = columns["labels"][0]
    for row in range(3, 6):
        labels[row][1:] = -100
    labels[5][-1] = 7
    return columns


def without_labels(columns, rows):
    """The same, where nothing counts in the first `rows` rows."""
    labels = [row.copy() for row in columns["labels"][0]]
    for row in labels[:rows]:
        row[:] = -100
    return columns | {"labels": (labels, {"pad": -100})}


def with_token(columns, row, token):
    """The same, with another first token of a row."""
    ids = [values.copy() for values in columns["input_ids"][0]]
    ids[row][0] = token
    return columns | {"input_ids": (ids, columns["input_ids"][1])}
