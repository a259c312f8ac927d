"""Products of torch tensors: right whatever runs, and by the choice where there is one."""

from __future__ import annotations

import csv
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import tgemm

torch = pytest.importorskip("torch", reason="torch is not here: nothing to multiply")
F = torch.nn.functional

N, K = 96, 64
def write_table(path: Path, rows: list[tuple[tgemm.Problem, str]]) -> None:
    """Choices of CPU libraries for this device, as a sweep might have made them: one thread, plain weights."""
    here = tgemm.Device.here("cpu")
    lines = []
    for p, library in rows:
        version, revision = here.builds.get(library, ("1", ""))
        line = {"gfx": here.arch, "cu_num": here.compute_units, "M": p.m, "N": p.n, "K": p.k, "bias": p.bias is not None}
        line |= {"dtype": f"torch.{NAMES[p.dtype]}", "outdtype": f"torch.{NAMES[p.out_dtype]}", "scaleAB": False}
        line |= {"bpreshuffle": False, "libtype": library, "solidx": 0, "splitK": 0, "us": 1.5, "kernelName": KERNELS.get(library, "")}
        line |= {"err_ratio": 0, "tflops": 1, "bw": 1, "problem": p.key, "vendor": "cpu", "memory_gib": "", "chip_id": ""}
        line |= {"partition": "", "last_level_cache_bytes": 0, "version": version, "revision": revision, "params": "threads=1"}
        line |= {"weight_form": "plain", "workspace_bytes": 0, "numerics": "exact", "deterministic": "", "graph_safe": ""}
        line |= {"ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6, "verdict": "faster", "baselines": ""}
        line |= {"error_over_bound": 0.1, "pack_us": "", "count": 1, "tuned_at": ""}
        lines.append(line)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


KERNELS = {"gemm": "gemm", "matrixmultiply": "sgemm"}
NAMES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}


@pytest.fixture
def tuned(tmp_path: Path) -> tgemm.Database:
    rows = [(tgemm.Problem(m, N, K, "f32"), "gemm") for m in (1, 4, 6, 33)]
    rows += [(tgemm.Problem(m, N, K, "f32", bias="f32"), "matrixmultiply") for m in (1, 4, 6)]
    rows += [(tgemm.Problem(m, N, K, "f16"), "gemm") for m in (1, 4, 6)]
    rows += [(tgemm.Problem(m, N, K, "f32", ldw=K + 16), "gemm") for m in (4,)]
    path = tmp_path / "tuned.csv"
    write_table(path, rows)
    database = tgemm.Database.open(path, device="cpu", levels="exact", strict=True)
    assert len(database) == len(rows), database.report
    return database


@pytest.fixture(autouse=True)
def no_gradients() -> object:
    torch.manual_seed(7)
    with torch.no_grad():
        yield


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def applied(database: tgemm.Database) -> int:
    return database.launches()["applied"]


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[got.dtype]
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * K**0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("shape", [(K,), (1, K), (4, K), (2, 3, K), (2, 1, 2, K)])
def test_a_choice_runs_and_is_right(tuned: tgemm.Database, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x, w = rand(*shape, dtype=dtype), rand(N, K, dtype=dtype)
    got = tgemm.mm(x, w, database=tuned)
    assert (got.shape, got.dtype, applied(tuned)) == ((*shape[:-1], N), dtype, 1)
    close(got, F.linear(x, w))


def test_bias_and_out(tuned: tgemm.Database) -> None:
    x, w, bias = rand(4, K), rand(N, K), rand(N)
    close(tgemm.mm(x, w, bias, database=tuned), F.linear(x, w, bias))
    out = torch.full((4, N), torch.nan)
    before = out._version
    assert tgemm.mm(x, w, bias, out=out, database=tuned) is out and out._version > before
    close(out, F.linear(x, w, bias))
    assert applied(tuned) == 2
    for wrong in (torch.empty(4, N + 1), torch.empty(4, N, dtype=torch.float64)):
        with pytest.raises(tgemm.ProblemError, match="out is"):
            tgemm.mm(x, w, out=wrong, database=tuned)


def test_an_output_that_shares_memory_with_an_operand_is_not_written_while_it_is_read(tuned: tgemm.Database) -> None:
    memory = rand(4 * N + 4 * K)
    x, out = memory[: 4 * K].view(4, K), memory[: 4 * N].view(4, N)
    w = rand(N, K)
    want = F.linear(x.clone(), w)
    close(tgemm.mm(x, w, out=out, database=tuned), want)
    assert applied(tuned) == 0


def test_weights_are_taken_as_they_are_at_each_call(tuned: tgemm.Database) -> None:
    x, w = rand(4, K), rand(N, K)
    layer = tgemm.Linear(w, database=tuned)
    for _ in range(3):
        close(tgemm.mm(x, w, database=tuned), F.linear(x, w))
        close(layer(x), F.linear(x, w))
        w.mul_(-1.5)
    # Other weights in the same memory.
    w.copy_(rand(N, K))
    close(layer(x), F.linear(x, w))
    assert applied(tuned) == 7


def test_layouts_that_no_choice_takes_are_torchs(tuned: tgemm.Database) -> None:
    wide, tall = rand(8, 2 * K), rand(N, 2 * K)
    w = rand(N, K)
    for x, weights in [
        (wide[:4, ::2], w),
        (wide[:4, :K], w),
        (rand(K, 4).t(), w),
        (rand(4, K), tall[:, ::2]),
        (rand(4, K), rand(K, N).t()),
        (rand(1, K).expand(4, K), w),
        (torch._neg_view(rand(4, K)), w),
        (rand(4, K), torch._neg_view(w)),
        (torch.view_as_complex(rand(4, K, 2)).conj().imag, w),
        (rand(0, K), w),
        (rand(7, K), w),
    ]:
        close(tgemm.mm(x, weights, database=tuned), F.linear(x, weights))
    assert applied(tuned) == 0


def test_rows_of_weights_that_are_apart_are_another_problem(tuned: tgemm.Database) -> None:
    x, w = rand(4, K), rand(N, K + 16)[:, :K]
    close(tgemm.mm(x, w, database=tuned), F.linear(x, w))
    # There is a choice for it, and no CPU library takes such rows.
    assert applied(tuned) == 0 and tuned.launches()["refused"] == 1


def test_operands_that_are_not_aligned_have_their_own_choice_or_none(tuned: tgemm.Database) -> None:
    x, w = rand(4 * K + 1)[1:].view(4, K), rand(N, K)
    close(tgemm.mm(x, w, database=tuned), F.linear(x, w))
    assert applied(tuned) == 0 and tuned.launches()["not_tuned"] == 1


def test_gradients_are_torchs(tuned: tgemm.Database) -> None:
    with torch.enable_grad():
        x, w = rand(4, K), rand(N, K).requires_grad_()
        tgemm.mm(x, w, database=tuned).sum().backward()
        torch.testing.assert_close(w.grad, x.sum(0).expand(N, K))
        assert applied(tuned) == 0
        # A layer that wants none.
        tgemm.mm(x, w.detach(), database=tuned)
        assert applied(tuned) == 1
    parameter = torch.nn.Parameter(rand(N, K))
    close(tgemm.mm(x, parameter, database=tuned), F.linear(x, parameter))
    assert applied(tuned) == 2


def test_what_torch_does_around_a_product_it_does_around_ours(tuned: tgemm.Database) -> None:
    x, w = rand(4, K), rand(N, K)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert tgemm.mm(x, w, database=tuned).dtype == F.linear(x, w).dtype or tgemm.mm(x, w, database=tuned).dtype == x.dtype
    close(torch.vmap(lambda row: tgemm.mm(row, w, database=tuned))(x), F.linear(x, w))
    traced = torch.jit.trace(lambda a: tgemm.mm(a, w, database=tuned), x, check_trace=False)
    close(traced(2 * x), F.linear(2 * x, w))
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            Seen.calls += 1
            return func(*args, **(kwargs or {}))

    with Seen():
        tgemm.mm(x, w, database=tuned)
    assert Seen.calls > 0 and applied(tuned) == 0
    meta = tgemm.mm(x.to("meta"), w.to("meta"), database=tuned)
    assert meta.shape == (4, N) and meta.device.type == "meta"


def test_bits_that_must_be_the_same_every_time_are_torchs(tuned: tgemm.Database) -> None:
    x, w = rand(4, K), rand(N, K)
    torch.use_deterministic_algorithms(True)
    try:
        close(tgemm.mm(x, w, database=tuned), F.linear(x, w))
        assert applied(tuned) == 0
    finally:
        torch.use_deterministic_algorithms(False)
    tgemm.mm(x, w, database=tuned)
    assert applied(tuned) == 1


def test_a_choice_that_no_graph_may_hold_does_not_run(tmp_path: Path) -> None:
    problem, path = tgemm.Problem(4, N, K, "f32"), tmp_path / "tuned.csv"
    write_table(path, [(problem, "gemm")])
    header, row = path.read_text().splitlines()
    cells = dict(zip(header.split(","), next(csv.reader([row])), strict=True)) | {"graph_safe": "false"}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, cells, lineterminator="\n")
        writer.writeheader()
        writer.writerow(cells)
    database = tgemm.Database.open(path, device="cpu", levels="exact", strict=True)
    x, w = rand(4, K), rand(N, K)
    close(tgemm.mm(x, w, database=database), F.linear(x, w))
    assert len(database) == 1 and applied(database) == 0


def test_a_compiled_function_calls_it(tuned: tgemm.Database) -> None:
    x, w = rand(4, K), rand(N, K)
    compiled = torch.compile(lambda a: torch.relu(tgemm.mm(a + 1, w, database=tuned)), backend="eager")
    close(compiled(x), torch.relu(F.linear(x + 1, w)))


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "silu"])
def test_other_types_and_activations_are_right(tuned: tgemm.Database, activation: str | None) -> None:
    act = {None: lambda v: v, "relu": F.relu, "gelu": lambda v: F.gelu(v, approximate="tanh"), "silu": F.silu}[activation]
    x, w, bias = rand(4, K, dtype=torch.bfloat16), rand(N, K, dtype=torch.bfloat16), rand(N, dtype=torch.bfloat16)
    want = act(F.linear(x.float(), w.float(), bias.float()))
    for out_dtype in (None, torch.float32, torch.float16):
        got = tgemm.mm(x, w, bias, out_dtype=out_dtype, activation=activation, database=tuned)
        assert got.dtype == (out_dtype or torch.bfloat16)
        torch.testing.assert_close(got.float(), want, rtol=2e-2, atol=2e-1)


@pytest.mark.parametrize("by_tensor", [True, False])
def test_eight_bits_with_scales(by_tensor: bool) -> None:
    x, w = rand(5, K).to(torch.float8_e4m3fn), rand(N, K).to(torch.float8_e4m3fn)
    x_scale = torch.tensor(0.5) if by_tensor else torch.rand(5, 1) + 0.5
    w_scale = torch.tensor([2.0]) if by_tensor else torch.rand(N) + 0.5
    want = (x.float() * x_scale) @ (w.float() * w_scale.reshape(-1, 1)).t()
    got = tgemm.mm(x, w, x_scale=x_scale, w_scale=w_scale)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), want, rtol=1e-2, atol=1e-1)
    with pytest.raises(tgemm.ProblemError, match="go together"):
        tgemm.mm(x, w, x_scale=x_scale)
    with pytest.raises(tgemm.ProblemError, match="one an out feature"):
        tgemm.mm(x, w, x_scale=torch.rand(3), w_scale=torch.rand(N))


def test_operands_that_go_together_in_no_product_are_refused(tuned: tgemm.Database) -> None:
    x, w = rand(4, K), rand(N, K)
    for wrong in [(rand(4, K + 1), w), (x, rand(K)), (x, rand(2, N, K)), (torch.tensor(1.0), w), (x, w, rand(N + 1))]:
        with pytest.raises(tgemm.ProblemError):
            tgemm.mm(*wrong, database=tuned)
    with pytest.raises(tgemm.ProblemError, match="unknown activation 'tanh'"):
        tgemm.mm(x, w, activation="tanh", database=tuned)
    with pytest.raises(TypeError, match="x is list"):
        tgemm.mm([1.0], w, database=tuned)  # type: ignore[arg-type]


def test_a_database_of_another_device_is_refused() -> None:
    other = tgemm.Database.open(device=tgemm.Device("gfx942", 304))
    with pytest.raises(tgemm.DeviceError, match="the database was opened for gfx942/304"):
        tgemm.mm(rand(4, K), rand(N, K), database=other)


def test_a_refreshed_table_is_what_runs(tuned: tgemm.Database, tmp_path: Path) -> None:
    x, w = rand(5, K), rand(N, K)
    close(tgemm.mm(x, w, database=tuned), F.linear(x, w))
    assert applied(tuned) == 0
    write_table(tmp_path / "tuned.csv", [(tgemm.Problem(5, N, K, "f32"), "gemm")])
    assert tuned.refresh()
    close(tgemm.mm(x, w, database=tuned), F.linear(x, w))
    assert applied(tuned) == 1


def test_a_choice_that_its_library_does_not_take_is_left(tmp_path: Path) -> None:
    path = tmp_path / "tuned.csv"
    write_table(path, [(tgemm.Problem(4, N, K, "f32"), "no such library"), (tgemm.Problem(300, N, K, "f32"), "gemm")])
    path.write_text(path.read_text().replace(",gemm,0,", ",gemm,9,"))  # no solution of this build
    database = tgemm.Database.open(path, device="cpu")
    for m in (4, 300):
        x, w = rand(m, K), rand(N, K)
        close(tgemm.mm(x, w, database=database), F.linear(x, w))
    # One is not served for want of its library, the other is refused.
    assert len(database) == 1 and database.launches()["refused"] == 1 and applied(database) == 0


def test_threads_multiply_at_once(tuned: tgemm.Database) -> None:
    w = rand(N, K)
    wrong: list[object] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for m in itertools.islice(itertools.cycle((1, 4, 6, 33, 7)), 200):
                x = torch.randn(m, K, generator=generator)
                got = tgemm.mm(x, w, database=tuned)
                if not torch.allclose(got, F.linear(x, w), rtol=1e-4, atol=1e-4):
                    wrong.append((seed, m))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and applied(tuned) == 4 * 160


def test_the_child_of_a_fork_multiplies(tuned: tgemm.Database) -> None:
    x, w = rand(4, K), rand(N, K)
    want = tgemm.mm(x, w, database=tuned)
    ran = applied(tuned)
    child = os.fork()
    if child == 0:
        # Nothing of pytest's may run in here, and torch's own threads are the parent's.
        torch.set_num_threads(1)
        right = torch.allclose(tgemm.mm(x, w, database=tuned), want, rtol=1e-4, atol=1e-4)
        os._exit(0 if right and applied(tuned) == ran else 1)
    deadline = time.monotonic() + 60
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if done == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done == (child, 0)


def test_what_a_choice_could_serve_is_recorded(tmp_path: Path) -> None:
    script = """
import torch, tgemm
x, w = torch.randn(4, 64), torch.randn(96, 64)
with torch.no_grad():
    for _ in range(3):
        tgemm.mm(x, w)
    tgemm.mm(x, w, torch.randn(96))
tgemm.mm(x, w.requires_grad_())  # torch's own, whatever is tuned
"""
    path = tmp_path / "untuned.csv"
    environment = {**os.environ, "TGEMM_TUNE": "1", "TGEMM_UNTUNED": str(path), "TGEMM_DB": ""}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    sums: dict[str, int] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            sums[row["problem"]] = sums.get(row["problem"], 0) + int(row["count"])
    assert sums == {tgemm.Problem(4, N, K, "f32").key: 3, tgemm.Problem(4, N, K, "f32", bias="f32").key: 1}
