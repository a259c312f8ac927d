"""AITER's way to look a bf16 GEMM up, without PyTorch and pandas: a dictionary by the ten key columns, asked by a function
that builds the tuple, and by the same function behind lru_cache. Rows come as CSV on standard input; nanoseconds a call go
to standard output, the median and the least of many batches."""

import csv
import functools
import sys
import time

KEY = ["gfx", "cu_num", "M", "N", "K", "bias", "dtype", "outdtype", "scaleAB", "bpreshuffle"]
NUMBERS = {"cu_num", "M", "N", "K"}
FLAGS = {"bias", "scaleAB", "bpreshuffle"}
BATCHES, CALLS = 201, 1000


def value(column, text):
    return int(text) if column in NUMBERS else text == "True" if column in FLAGS else text


rows = list(csv.DictReader(sys.stdin))
table = {tuple(value(column, row[column]) for column in KEY): row for row in rows}
keys = list(table)


def padded(m, n, k, level):
    if level == 0:
        grid = 16 if m <= 256 else 32 if m <= 1024 else 64 if m <= 4096 else 128
        return (m + grid - 1) // grid * grid
    return 8192 if m > 8192 and n > 4096 else 1 << max(m - 1, 0).bit_length()


def config(m, n, k, bias, dtype, outdtype, scale_ab, bpreshuffle):
    for tried in (m, padded(m, n, k, 0), padded(m, n, k, 1)):
        found = table.get(("gfx950", 256, tried, n, k, bias, dtype, outdtype, scale_ab, bpreshuffle))
        if found is not None:
            return found
    return None


cached = functools.lru_cache(maxsize=4096)(config)


def cost(name, call, arguments):
    spent = []
    for batch in range(BATCHES):
        chosen = [arguments[(batch * CALLS + i) % len(arguments)] for i in range(CALLS)]
        began = time.perf_counter_ns()
        for each in chosen:
            call(*each)
        spent.append((time.perf_counter_ns() - began) / CALLS)
    spent.sort()
    print(f"{name:<44} {spent[len(spent) // 2]:>8.1f} {spent[0]:>8.1f}")


IN_TURN = [keys[i * 7919 % len(keys)] for i in range(4096)]
asked = [key[2:] for key in IN_TURN]
missing = [(77, 77, *key[2:]) for key in asked]
cost("Python dict, AITER's key ready, hot", table.get, [(keys[17],)])
cost("Python dict, AITER's key ready, in turn", table.get, [(key,) for key in IN_TURN])
cost("Python dict, AITER's function, hot", config, asked[17:18])
cost("Python dict, AITER's function, in turn", config, asked)
cost("Python dict, AITER's function, miss", config, missing[17:18])
cost("Python lru_cache of it, hot", cached, asked[17:18])
