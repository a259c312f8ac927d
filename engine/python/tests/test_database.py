"""Databases: what serves, what is said of the rest, what a lookup answers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tgemm
from conftest import DEVICE, problem


def test_an_exact_row_answers_with_all_that_is_known(database: tgemm.Database) -> None:
    hit = database.lookup(problem(4))
    assert hit and (hit.kind, hit.library, hit.index, hit.tuned_m, hit.time_us) == ("exact", "hipblaslt", 77, 4, 12.5)
    assert hit.tuned == problem(4) and hit.weight_form == "plain" and not hit.is_baseline
    assert "hipblaslt" in hit.solution and "12.500 us" in repr(hit)
    assert database.lookup(problem(64)).index == -5
    assert len(database) == 2 and sorted(row.m for row in database.problems()) == [4, 64]


def test_what_was_not_tuned_is_left_to_the_engine(database: tgemm.Database) -> None:
    hit = database.lookup(problem(5000))
    assert not hit and hit.kind == "default" and hit.is_baseline
    assert (hit.library, hit.index, hit.params, hit.ratio, hit.tuned, hit.graph_safe) == (None, None, {}, None, None, None)


def test_levels_say_how_far_an_answer_may_go(table: Path) -> None:
    kinds = {}
    for levels in ("default", "exact", "aiter", "all", [], ["exact", "padded"]):
        kinds[str(levels)] = tgemm.Database.open(table, device=DEVICE, levels=levels).lookup(problem(3)).kind
    assert kinds == {
        "default": "padded", "exact": "default", "aiter": "padded", "all": "padded", "[]": "default",
        "['exact', 'padded']": "padded",
    }  # fmt: skip
    for unknown in ("best", ["padded", "guess"]):
        with pytest.raises(tgemm.DatabaseError, match="known: .*padded"):
            tgemm.Database.open(table, device=DEVICE, levels=unknown)


def test_constraints_keep_a_choice_from_answering(database: tgemm.Database) -> None:
    for constraints in (
        tgemm.Constraints(libraries=["onednn"]),
        tgemm.Constraints(weight_forms=["prepacked"]),
        tgemm.Constraints(deterministic=True),
    ):
        assert not database.lookup(problem(4), constraints)
        assert "may not run" in database.explain(problem(4), constraints)
    loose = tgemm.Constraints(libraries=["hipblaslt"], workspace_bytes_max=0, numerics="partial16")
    assert database.lookup(problem(4), loose)
    assert loose == tgemm.Constraints(libraries=["hipblaslt"], workspace_bytes_max=0, numerics="partial16") != tgemm.Constraints()
    assert hash(loose) != hash(tgemm.Constraints()) and "workspace_bytes_max=0" in repr(loose)
    with pytest.raises(tgemm.ProblemError, match="unknown numerics class"):
        tgemm.Constraints(numerics="roughly")  # type: ignore[arg-type]


def test_the_report_names_line_and_reason(database: tgemm.Database, table: Path) -> None:
    (report,) = database.report
    assert (report.path, report.kept, report.rejected, report.error, report.is_clean) == (str(table), 2, 1, None, False)
    assert report.rejections[0].startswith(f"{table}:4: ") and "too short" in report.rejections[0]
    assert f"{table}: 2 rows serve here, 1 rejected" in str(report)


def test_strict_wants_all_of_every_file(table: Path, tmp_path: Path) -> None:
    with pytest.raises(tgemm.DatabaseError, match="1 rejected"):
        tgemm.Database.open(table, device=DEVICE, strict=True)
    absent = tmp_path / "absent.csv"
    database = tgemm.Database.open(str(absent), table, device=DEVICE)
    assert len(database) == 2 and "absent.csv" in database.report[0].error
    with pytest.raises(OSError):
        tgemm.Database.open(absent, device=DEVICE, strict=True)


def test_rows_of_other_devices_and_builds_do_not_serve(table: Path) -> None:
    other = tgemm.Database.open(table, device=tgemm.Device("gfx942", 80))
    assert len(other) == 0 and other.report[0].other_device == 2
    assert "compute units was 304 when tuned, is 80 here" in other.explain(problem(4))


def test_an_explanation_walks_the_levels(database: tgemm.Database) -> None:
    text = database.explain(problem(5000))
    assert "exact" in text and "not tuned" in text and "gfx942" in text


def test_lookups_are_counted_and_misses_are_what_to_tune_next(database: tgemm.Database, tmp_path: Path) -> None:
    for m in (4, 4, 64, 5000, 5000, 6000):
        database.lookup(problem(m))
    tally = database.tally()
    assert (tally["exact"], tally["default"]) == (3, 3)
    assert database.misses() == [(problem(5000), 2), (problem(6000), 1)]
    path = tmp_path / "next.csv"
    database.write_misses(path)
    assert problem(5000).key in path.read_text()
    with pytest.raises(tgemm.DatabaseError):
        database.write_misses(tmp_path / "no" / "folder.csv")
    with pytest.raises(tgemm.DatabaseError, match="misses_max"):
        tgemm.Database.open(misses_max=2**40, device=DEVICE)


def test_a_file_that_changes_is_read_again(database: tgemm.Database, table: Path) -> None:
    # Until a file is old enough for one more change to show in its time, it is read at each refresh.
    os.utime(table, (1, 1))
    database.refresh()
    assert not database.refresh() and database.lookup(problem(4)).index == 77
    text = table.read_text()
    table.write_text(text.replace(",77,", ",78,"))
    assert database.refresh() and database.lookup(problem(4)).index == 78
    table.unlink()
    with pytest.raises(tgemm.DatabaseError, match="serves on"):
        database.refresh()
    assert database.lookup(problem(4)).index == 78


def test_threads_ask_one_database(database: tgemm.Database) -> None:
    def ask() -> None:
        for m in range(1, 200):
            database.lookup(problem(m))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(database.tally().values()) == 4 * 199


def test_devices_are_described_or_found() -> None:
    here = tgemm.Device.here("cpu")
    assert here == tgemm.Device.here() and here.vendor == "cpu" and here.compute_units > 0 and here.memory_gib
    assert here.builds and all(version or revision for version, revision in here.builds.values())
    told = tgemm.Device("gfx942", 304, memory_gib=192, chip_id=0x74A1, partition="SPX/NPS1", builds={"a": ("1", "r")})
    assert (told.vendor, told.arch, told.builds, told.partition) == ("amd", "gfx942", {"a": ("1", "r")}, "SPX/NPS1")
    assert told != tgemm.Device("gfx942", 304) and "gfx942/304/192GiB" in repr(told)
    for unknown in ("tpu", "cuda:x", "", "cuda:-1"):
        with pytest.raises(tgemm.DeviceError, match="no device is called"):
            tgemm.Device.here(unknown)
    with pytest.raises((tgemm.DeviceError, RuntimeError)):
        tgemm.Database.open(device="cuda:63")


def test_the_default_database_is_what_the_environment_names(table: Path) -> None:
    script = (
        "import tgemm; p = tgemm.Problem(4, 1024, 3072); "
        "print(tgemm.lookup(p).kind, len(tgemm.default_database()), tgemm.default_database().report[0].path); "
        "print(tgemm.explain(p))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "TGEMM_DB": str(table)}, capture_output=True, text=True, check=True
    )
    # A table of another device: it is read, and nothing of it serves here.
    assert run.stdout.startswith(f"default 0 {table}\n") and "gfx942" in run.stdout
