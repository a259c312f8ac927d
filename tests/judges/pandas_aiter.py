#!/usr/bin/env python3
"""Does AITER's own way of loading a tuned CSV take our export?

AITER reads a table with pandas' default type inference, drops rows that are equal in every column, makes the key columns
the index and turns the rest into a dictionary, which fails if a key stands twice. A lookup then compares numbers, truth
values and text with what the engine has. This script does the same with pandas and says where our file would differ.

    pandas_aiter.py EXPORT [--family bf16] [--like AITER_FILE ...]

With --like, the files that the export was imported from are loaded the same way: every row of theirs that has a time
must be found in ours with the same solution, and ours must hold no other.
"""

import argparse
import math
import sys

import pandas as pd

SOLUTION = ["libtype", "solidx", "kernelId", "splitK", "kernelName"]
NUMBERS = {"cu_num", "B", "M", "N", "K", "b", "m", "n", "k"}
BOOLEANS = {"bias", "scaleAB", "bpreshuffle"}
WEIGHTS = ["gfx", "cu_num", "M", "N", "K", "q_dtype_w"]
BLOCKS = ["gfx", "cu_num", "M", "N", "K"]
BATCHED = ["gfx", "cu_num", "B", "M", "N", "K"]
KEYS = {
    "bf16": ["gfx", "cu_num", "M", "N", "K", "bias", "dtype", "outdtype", "scaleAB", "bpreshuffle"],
    "a8w8": WEIGHTS,
    "a8w8_bpreshuffle": WEIGHTS,
    "a8w8_blockscale": BLOCKS,
    "a8w8_blockscale_bpreshuffle": BLOCKS,
    "a4w4_blockscale": BLOCKS,
    "batched_a8w8": BATCHED,
    "batched_bf16": BATCHED,
    "batched_a8w8_mxscale": ["gfx", "b", "m", "n", "k"],
}


class Refused(Exception):
    """AITER would not take the table, or not find a row of it."""


def load(path, family):
    """The table as AITER holds it: key tuple -> row."""
    frame = pd.read_csv(path)
    keys = KEYS[family]
    missing = [name for name in keys if name not in frame.columns]
    if missing:
        raise Refused(f"{path}: lacks the key columns {missing}")
    frame = frame.drop_duplicates()
    if frame.empty:
        raise Refused(f"{path}: no rows")
    if frame.duplicated(keys).any():
        raise Refused(f"{path}: a key stands twice: {frame[frame.duplicated(keys)].iloc[0][keys].tolist()}")
    return frame, frame.set_index(keys).to_dict("index")


def check_types(path, frame, family):
    """A key that the engine asks with must be able to equal the key that pandas read."""
    for name in KEYS[family]:
        column = frame[name]
        if name in NUMBERS and not pd.api.types.is_integer_dtype(column):
            raise Refused(f"{path}: {name} is read as {column.dtype}, not as whole numbers")
        if name in BOOLEANS and not pd.api.types.is_bool_dtype(column):
            raise Refused(f"{path}: {name} is read as {column.dtype}, not as truth values")
        if name not in NUMBERS | BOOLEANS:
            wrong = [cell for cell in column if not isinstance(cell, str) or cell != cell.strip() or not cell]
            if wrong:
                raise Refused(f"{path}: {name} holds {wrong[0]!r}")
    for name in ("solidx", "kernelId", "splitK"):
        if name in frame.columns and not pd.api.types.is_integer_dtype(frame[name]):
            raise Refused(f"{path}: {name} is read as {frame[name].dtype}")
    bad = [us for us in frame["us"] if not (math.isfinite(us) and us > 0)]
    if bad:
        raise Refused(f"{path}: us is {bad[0]}")


def solution(row):
    """What AITER would run; a missing name is one however it is spelled."""
    told = [row.get(name, "") for name in SOLUTION]
    return ["" if isinstance(cell, float) and math.isnan(cell) or cell in ("Null", "None") else cell for cell in told]


def compare(ours, like, family):
    """Counts rows found in ours; refuses differences."""
    found, untimed, seen = 0, 0, set()
    for path in like:
        _, theirs = load(path, family)
        for key, row in theirs.items():
            if not (math.isfinite(row["us"]) and row["us"] > 0):
                untimed += 1
                continue
            if key not in ours:
                raise Refused(f"{path}: {key} is not in the export")
            if solution(ours[key]) != solution(row) or ours[key]["us"] != row["us"]:
                raise Refused(f"{path}: {key}: {solution(row)} has become {solution(ours[key])}")
            seen.add(key)
            found += 1
    if len(seen) != len(ours):
        raise Refused(f"{len(ours) - len(seen)} rows of the export are in no original")
    return found, untimed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export")
    parser.add_argument("--family", choices=sorted(KEYS), default="bf16")
    parser.add_argument("--like", nargs="*", default=[])
    arguments = parser.parse_args()
    try:
        frame, table = load(arguments.export, arguments.family)
        check_types(arguments.export, frame, arguments.family)
        text = f"{arguments.export}: {len(table)} rows load under pandas {pd.__version__}, every key is unique"
        if arguments.like:
            found, untimed = compare(table, arguments.like, arguments.family)
            text += f"; {found} rows equal the originals', {untimed} originals have no time and are not in it"
        print(text)
    except Refused as refused:
        print(f"refused: {refused}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
