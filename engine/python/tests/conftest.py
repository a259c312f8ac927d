"""What several tests need: tables of a device that is described, and of this machine's CPU."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import tgemm

DEVICE = tgemm.Device("gfx942", 304, builds={"hipblaslt": "1.0"})

HEADER = ["cu_num", "M", "N", "K", "bias", "dtype", "outdtype", "scaleAB", "bpreshuffle", "libtype", "solidx", "splitK"]
HEADER += ["us", "kernelName", "err_ratio", "tflops", "bw"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """An AITER table of two problems, and a third line that is no row."""
    path = tmp_path / "tuned.csv"
    rows = [
        ["304", str(m), "1024", "3072", "False", "torch.bfloat16", "torch.bfloat16", "False", "False", "hipblaslt"]
        + [str(index), "0", "12.5", "kernel", "0.0", "1.0", "1.0"]
        for m, index in ((4, 77), (64, -5))
    ]
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
        file.write("304,four,1024,3072\n")
    return path


@pytest.fixture
def database(table: Path) -> tgemm.Database:
    return tgemm.Database.open(table, device=DEVICE)


def problem(m: int) -> tgemm.Problem:
    return tgemm.Problem(m, 1024, 3072, "bf16")
