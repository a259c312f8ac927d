"""Products on a GPU by choices that were swept on it, here and now: nothing else knows which solutions the libraries have."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import tgemm

torch = pytest.importorskip("torch", reason="torch is not here: nothing to multiply")
F = torch.nn.functional
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use")

N, K = 512, 1024
TOKENS = (1, 16, 100)
# Factors of both; None is a product without.
SCALES = {"none": None, "tensor": "tensor", "token_channel": "token_channel"}


def problems() -> list[tgemm.Problem]:
    plain = [tgemm.Problem(m, N, K, dtype, bias=bias) for m in TOKENS for dtype in ("bf16", "f16") for bias in (None, dtype)]
    scaled = [
        tgemm.Problem(m, N, K, "f8e4m3fn", out_dtype="bf16", scale=scale) for m in TOKENS for scale in SCALES.values() if scale
    ]
    return plain + scaled


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tgemm.Database:
    script = Path(__file__).parents[3] / "tests" / "engines" / "dispatch_cost.py"
    spec = importlib.util.spec_from_file_location("dispatch_cost", script)
    assert spec and spec.loader
    dispatch_cost: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(dispatch_cost)
    table = dispatch_cost.swept(str(tmp_path_factory.mktemp("swept")), "60s", problems())
    return tgemm.Database.open(table, device=dispatch_cost.DEVICE, levels="exact", strict=True)


@pytest.fixture(autouse=True)
def no_gradients() -> Any:
    with torch.no_grad():
        yield


def rand(*size: int, dtype: Any = torch.bfloat16) -> Any:
    return torch.randn(*size, device="cuda").to(dtype)


def close(got: Any, want: Any) -> None:
    """Within what sums of K products in f32, rounded once to 8 bits of fraction, may differ by."""
    error = (got.float() - want.float()).abs().max().item()
    assert error <= 0.01 * want.float().abs().max().item(), error


def by_choice(database: tgemm.Database, call: Any) -> Any:
    """What ``call`` gives, which must have run a choice."""
    before = database.launches()["applied"]
    got = call()
    assert database.launches()["applied"] == before + 1, database.launches()
    return got


@pytest.mark.parametrize("m", TOKENS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_choice_runs_and_is_right(swept: tgemm.Database, m: int, dtype: Any, has_bias: bool) -> None:
    x, w, bias = rand(m, K, dtype=dtype), rand(N, K, dtype=dtype), rand(N, dtype=dtype) if has_bias else None
    want = F.linear(x.double(), w.double(), None if bias is None else bias.double())
    close(by_choice(swept, lambda: tgemm.mm(x, w, bias, database=swept)), want)
    out = torch.full((m, N), torch.nan, device="cuda", dtype=dtype)
    assert by_choice(swept, lambda: tgemm.mm(x, w, bias, out=out, database=swept)) is out
    close(out, want)


@pytest.mark.parametrize("m", TOKENS)
@pytest.mark.parametrize("scale", [scale for scale in SCALES.values() if scale])
def test_eight_bits_with_scales(swept: tgemm.Database, m: int, scale: str) -> None:
    x, w = rand(m, K, dtype=torch.float8_e4m3fn), rand(N, K, dtype=torch.float8_e4m3fn)
    by_tensor = scale == "tensor"
    x_scale = torch.tensor(0.5, device="cuda") if by_tensor else torch.rand(m, 1, device="cuda") + 0.5
    w_scale = torch.tensor(2.0, device="cuda") if by_tensor else torch.rand(N, device="cuda") + 0.5
    want = (x.double() * x_scale) @ (w.double() * w_scale.reshape(-1, 1)).t()
    before = swept.launches()["applied"]
    close(tgemm.mm(x, w, x_scale=x_scale, w_scale=w_scale, database=swept), want)
    ran = swept.launches()["applied"] > before
    known = swept.lookup(tgemm.Problem(m, N, K, "f8e4m3fn", out_dtype="bf16", scale=scale)).kind == "exact"
    assert ran == known, "what has a choice runs by it"
    assert known or not by_tensor, "every library has factors by tensor"


def test_a_graph_holds_the_choice_and_replays_it(swept: tgemm.Database) -> None:
    x, w = rand(16, K), rand(N, K)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        by_choice(swept, lambda: tgemm.mm(x, w, database=swept))
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = by_choice(swept, lambda: tgemm.mm(x, w, database=swept))
    for _ in range(3):
        x.copy_(rand(16, K))
        w.copy_(rand(N, K))
        captured.fill_(torch.nan)
        graph.replay()
        close(captured, x.double() @ w.double().t())


def test_streams_multiply_at_once_each_on_its_own_data(swept: tgemm.Database) -> None:
    w = rand(N, K)
    streams = [torch.cuda.Stream() for _ in range(4)]
    inputs = [rand(m, K) for m in TOKENS for _ in streams]
    torch.cuda.synchronize()
    got = []
    for at, x in enumerate(inputs * 10):
        with torch.cuda.stream(streams[at % len(streams)]):
            got.append((x, tgemm.mm(x, w, database=swept)))
    torch.cuda.synchronize()
    for x, y in got:
        close(y, x.double() @ w.double().t())


def test_weights_that_lie_apart_and_gradients_are_torchs(swept: tgemm.Database) -> None:
    x, wide = rand(16, K), rand(N, K + 8)
    close(tgemm.mm(x, wide[:, :K], database=swept), x.double() @ wide[:, :K].double().t())
    w = rand(N, K).requires_grad_()
    with torch.enable_grad():
        before = swept.launches()["applied"]
        tgemm.mm(x, w, database=swept).float().sum().backward()
    assert swept.launches()["applied"] == before
    close(w.grad, x.double().sum(0).expand(N, K))


def test_another_devices_tensors_are_refused_or_torchs(swept: tgemm.Database) -> None:
    x, w = rand(16, K), rand(N, K)
    with pytest.raises((RuntimeError, tgemm.ProblemError, tgemm.DeviceError)):
        tgemm.mm(x.cpu(), w, database=swept)
    with pytest.raises(tgemm.DeviceError):
        tgemm.mm(x.cpu(), w.cpu(), database=swept)
