"""The package as it is installed: its command, its stubs, and the README's example."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import tgemm

ROOT = Path(__file__).resolve().parents[3]
PREFIX = Path(sysconfig.get_path("scripts"))
TUNE = PREFIX / "tune"


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **options)


def test_the_command_is_installed_and_of_the_same_version() -> None:
    assert run(TUNE, "--version", check=True).stdout.split() == ["tune", tgemm.__version__]
    assert importlib.metadata.version("tgemm") == tgemm.__version__


def test_the_command_finds_the_shim_beside_itself(tmp_path: Path) -> None:
    assert (PREFIX.parent / "lib" / "tgemm" / "libtgemm_shim.so").is_file()
    environment = {name: value for name, value in os.environ.items() if name != "TGEMM_SHIM"}
    done = run(TUNE, "record", "-o", tmp_path / "untuned.csv", "--", "sh", "-c", "echo $LD_PRELOAD; exit 7", env=environment)
    assert done.returncode == 7, done.stderr
    assert "libtgemm_shim.so" in done.stdout


def test_a_miss_is_a_file_that_the_command_takes(database: tgemm.Database, tmp_path: Path) -> None:
    database.lookup(tgemm.Problem(5000, 1024, 3072))
    path = tmp_path / "next.csv"
    database.write_misses(path)
    plan = run(TUNE, "sweep", path, "--db", tmp_path / "tuned.sqlite", "--dry-run")
    assert plan.returncode == 0 and "5000x1024x3072" in plan.stdout + plan.stderr, plan.stderr


def test_nothing_imports_torch_unasked() -> None:
    script = "import sys, tgemm; tgemm.Problem(1, 2, 3); tgemm.Device.here(); print('torch' in sys.modules, dir(tgemm) != [])"
    assert run(sys.executable, "-c", script, check=True).stdout.split() == ["False", "True"]
    with pytest.raises(AttributeError, match="no attribute 'mn'"):
        tgemm.mn  # type: ignore[attr-defined]
    assert set(tgemm.__all__) - {"mm", "Linear"} <= set(dir(tgemm))


def example() -> str:
    """The README's Python block that imports tgemm."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if "import tgemm" in block]
    return block


def test_the_readmes_example_runs(tmp_path: Path) -> None:
    block = example()
    assert len(block.splitlines()) <= 12, "a ten-line example"
    environment = {**os.environ, "TGEMM_TUNE": "1", "TGEMM_UNTUNED": str(tmp_path / "untuned.csv")}
    environment.pop("TGEMM_DB", None)
    done = run(sys.executable, "-c", block, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "untuned.csv").is_file()


def test_the_stubs_are_the_module() -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not here")
    done = run(sys.executable, "-m", "mypy.stubtest", "tgemm._native", cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
