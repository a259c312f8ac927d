"""Recording: what is counted is in a file that the tuner reads."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tgemm
from conftest import problem


def counts(path: Path) -> dict[str, int]:
    """Counts by key of an untuned CSV, whose lines of one problem are summed."""
    sums: dict[str, int] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            sums[row["problem"]] = sums.get(row["problem"], 0) + int(row["count"])
    return sums


def test_a_recording_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "untuned.csv"
    recorder = tgemm.Recorder(path)
    assert not path.exists() and recorder.path is None
    for m in (4, 4, 4, 64):
        recorder.record(problem(m))
    recorder.record(problem(4), calls=10, captured=True, via="lt_matmul", workspace_bytes_max=1 << 20)
    recorder.flush()
    assert counts(path) == {problem(4).key: 13, problem(64).key: 1}
    assert sorted(recorder.recorded()) == [(problem(4), 3), (problem(4), 10), (problem(64), 1)]
    assert (Path(recorder.path), recorder.dropped) == (path, 0)


def test_memory_alone_is_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recorder = tgemm.Recorder()
    recorder.record(problem(1))
    recorder.flush()
    assert recorder.recorded() == [(problem(1), 1)] and list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_said_and_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    recorder = tgemm.Recorder(tmp_path / "file" / "below.csv")
    recorder.record(problem(1))
    with pytest.raises(tgemm.RecordError):
        recorder.flush()
    assert recorder.recorded() == [(problem(1), 1)]
    with pytest.raises(tgemm.RecordError, match="path is empty"):
        tgemm.Recorder("")
    with pytest.raises(tgemm.ProblemError, match="unknown"):
        recorder.record(problem(1), via="carrier pigeon")  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [True, False])
def test_the_environment_switches_the_processs_recorder_on(tmp_path: Path, asked: bool) -> None:
    path = tmp_path / "untuned.csv"
    environment = {**os.environ, "TGEMM_UNTUNED": str(path), "TGEMM_TUNE": str(int(asked))}
    script = "import tgemm; print([tgemm.record(tgemm.Problem(4, 8, 16), calls=3) for _ in range(5)])"
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str([asked] * 5)
    assert path.exists() == asked
    if asked:
        # Written at the process's end, too.
        assert counts(path) == {tgemm.Problem(4, 8, 16).key: 15}
