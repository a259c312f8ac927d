"""Products of torch tensors by their tuned choices.

What decides whether a choice may run is looked at on every call, and as little as will do: a plan is kept for each layout
of operands, and plans hold no address. Whatever a plan cannot do, and whatever torch has to see (autograd, autocast,
tracing, functorch, dispatch modes), goes to torch's own product.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import torch
from torch.nn import functional

from . import default_database
from ._native import Database, Plan, Problem, is_recording
from .errors import ProblemError

_OURS = (torch.Tensor, torch.nn.Parameter)
_GPU_TYPE = "cuda"  # torch's name for AMD's too
_GPU = "hip" if torch.version.hip else "cuda"
_ACTIVATIONS: dict[str, Any] = {
    "relu": functional.relu,
    # As the libraries' epilogues compute it.
    "gelu": lambda v: functional.gelu(v, approximate="tanh"),
    "silu": functional.silu,
}
_is_grad_enabled = torch.is_grad_enabled
_is_autocast_enabled = getattr(torch._C, "_is_any_autocast_enabled", torch.is_autocast_enabled)
_dispatch_modes = torch._C._len_torch_dispatch_stack
_functorch = torch._C._functorch.peek_interpreter_stack
_tracing = torch._C._get_tracing_state
_must_be_deterministic = torch._C._get_deterministic_algorithms
# What compiled code of torch's own allocates by, at half of the cost of torch.empty; GPU memory is on the current device.
_guards: Any = torch._C._dynamo.guards
_empty_cpu = getattr(_guards, "_empty_strided_cpu", lambda size, _, dtype: torch.empty(size, dtype=dtype, device="cpu"))
_empty_gpu = getattr(_guards, "_empty_strided_cuda", lambda size, _, dtype: torch.empty(size, dtype=dtype, device="cuda"))
_current_device = getattr(torch._C, "_cuda_getDevice", None)
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

# What is known of a layout of operands: its key, the plan (None where torch's own product runs), is it on a GPU, N, K, the
# output's type, and the most scratch memory that a launch wanted, bytes, in a list of one. Bounded, as layouts are the
# caller's.
_Found = tuple[tuple[Any, ...], Plan | None, bool, int, int, torch.dtype, list[int]]
_plans: dict[tuple[Any, ...], _Found] = {}
_PLANS_MAX = 4096
# The same by the address of the weight's Python object, under which another weight may come later: a guess to compare with.
_recent: dict[int, _Found] = {}
_RECENT_MAX = 65536
_making = threading.Lock()
# Scratch memory by device and stream: launches of one stream do not overlap, so they share it. No graph holds any of it.
_workspaces: dict[tuple[int, int], torch.Tensor] = {}
_WORKSPACES_MAX = 64


# Is this the child of a process in which a plan was made, by a fork? The threads and the device's state of the parent's
# libraries are not here, so nothing runs by them.
_is_orphan = False


def _after_fork() -> None:
    global _is_orphan, _making
    _is_orphan = _is_orphan or any(found[1] is not None for found in _plans.values())
    # Another thread may have held it.
    _making = threading.Lock()
    _plans.clear()
    _recent.clear()


os.register_at_fork(after_in_child=_after_fork)


def mm(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    x_scale: torch.Tensor | None = None,
    w_scale: torch.Tensor | None = None,
    activation: str | None = None,
    database: Database | None = None,
) -> torch.Tensor:
    """``activation(x @ w.T * x_scale * w_scale + bias)`` by its tuned choice, else by torch; right either way.

    - ``x`` [..., K] and ``w`` [N, K] give [..., N]; ``bias`` has N elements. ``out`` [..., N] takes the result, and may
      overlap no operand.
    - ``out_dtype``: element type of the output; that of ``x``, or bfloat16 for 8-bit floats, where it is not said.
    - ``x_scale``, ``w_scale`` (f32, for 8-bit floats): what operands are multiplied with: one element each, or one a token
      ([M] or [M, 1]) and one an out feature ([N] or [N, 1]).
    - ``activation``: "relu", "gelu" (the tanh form) or "silu".
    - ``database``: whose choices; without it, those of the tables that ``TGEMM_DB`` names.

    A choice runs on the CPU and on CUDA and HIP devices, on torch's current stream, with the weights as they lie. Where
    there is none, where gradients are wanted, or under autocast, tracing and the like, this is
    ``torch.nn.functional.linear``. A choice that was not ready before a CUDA graph is captured is not in the graph: call
    once with the same shapes before the capture. Where ``TGEMM_TUNE=1`` asks for it, what a choice could serve is recorded.
    In the child of a fork torch's product runs if the parent had a plan, and wherever
    ``torch.use_deterministic_algorithms`` asks for the same bits every time.

    Raises :class:`tgemm.ProblemError` for operands that go together in no product, :class:`tgemm.DeviceError` where
    ``database`` is another device's, :class:`tgemm.LaunchError` where a product may have run in part.
    """
    # An operand that is no plain tensor, or a call that torch has to see.
    if (
        type(x) not in _OURS
        or type(w) not in _OURS
        or (_is_grad_enabled() and (x.requires_grad or w.requires_grad or (bias is not None and bias.requires_grad)))
        or _dispatch_modes()
        or _functorch() is not None
        or _tracing() is not None
        or _must_be_deterministic()
    ):
        return _by_torch(x, w, bias, out, out_dtype, x_scale, w_scale, activation)
    try:
        stride, is_packed = w.stride(), x.is_contiguous()
    except RuntimeError:
        # Sparse and opaque layouts have none.
        return _by_torch(x, w, bias, out, out_dtype, x_scale, w_scale, activation)
    key = (
        x.dtype, w.dtype, x.device, w.device, w.shape, stride, None if bias is None else bias.dtype,
        out_dtype, activation, None if w_scale is None else w_scale.numel(), database,
    )  # fmt: skip
    # Comparing a key costs less than hashing it, and a weight mostly has the one.
    found = _recent.get(id(w))
    if found is None or found[0] != key:
        found = _find(key, id(w))
    _, plan, is_gpu, n, k, dtype, wanted = found
    shape = x.shape
    if plan is None or not is_packed or not shape or shape[-1] != k or x.is_neg() or w.is_neg() or _is_autocast_enabled():
        return _by_torch(x, w, bias, out, out_dtype, x_scale, w_scale, activation)
    m = shape[0] if len(shape) == 2 else x.numel() // k
    if bias is None and out is None and w_scale is None and x_scale is None:
        bias_at = x_scale_at = w_scale_at = 0
    else:
        others = _others(x, w, bias, out, dtype, x_scale, w_scale, m, n)
        if others is None:
            return _by_torch(x, w, bias, out, out_dtype, x_scale, w_scale, activation)
        bias_at, x_scale_at, w_scale_at = others
    stream = 0
    if is_gpu:
        index = x.get_device()
        if index != _current_device():  # type: ignore[misc]
            return _by_torch(x, w, bias, out, out_dtype, x_scale, w_scale, activation)
        stream = _raw_stream(index)  # type: ignore[misc]
    if out is not None:
        result = out
    elif len(shape) == 2:
        result = (_empty_gpu if is_gpu else _empty_cpu)((m, n), (n, 1), dtype)
    else:
        result = x.new_empty((*shape[:-1], n), dtype=dtype)
    x_at, w_at, out_at = x.data_ptr(), w.data_ptr(), result.data_ptr()
    # The tensor lives until the launch is enqueued; on a CPU, until it is over.
    scratch = _workspace(x.device, stream, wanted[0], is_gpu) if wanted[0] else None
    room = (0, 0) if scratch is None else (scratch.data_ptr(), scratch.numel())
    code = plan.run(m, x_at, w_at, bias_at, x_scale_at, w_scale_at, out_at, stream, *room)
    if code > 0:
        wanted[0] = max(wanted[0], code)
        scratch = _workspace(x.device, stream, code, is_gpu)
        code = plan.run(m, x_at, w_at, bias_at, x_scale_at, w_scale_at, out_at, stream, scratch.data_ptr(), scratch.numel())
    if code:
        return _by_torch(x, w, bias, out, out_dtype, x_scale, w_scale, activation)
    if out is not None:
        # Autograd must see that it was written to.
        torch.autograd.graph.increment_version(out)
    return result


def _out_dtype(x_dtype: torch.dtype, asked: torch.dtype | None) -> torch.dtype:
    if asked is not None:
        return asked
    return torch.bfloat16 if x_dtype.itemsize == 1 and x_dtype.is_floating_point else x_dtype


def _find(key: tuple[Any, ...], place: int) -> _Found:
    """What is known of a layout, looked at on first sight."""
    found = _plans.get(key)
    if found is None:
        with _making:
            found = _make(key)
        if len(_plans) >= _PLANS_MAX:
            _plans.clear()
        _plans[key] = found
    if len(_recent) >= _RECENT_MAX:
        _recent.clear()
    _recent[place] = found
    return found


def _make(key: tuple[Any, ...]) -> _Found:
    x_dtype, w_dtype, device, w_device, w_shape, w_stride, bias_dtype, out_dtype, activation, factors, database = key
    if activation is not None and activation not in _ACTIVATIONS:
        raise ProblemError(f"unknown activation {activation!r} (known: {', '.join(_ACTIVATIONS)})")
    dtype = _out_dtype(x_dtype, out_dtype)
    is_gpu = device.type == _GPU_TYPE
    none: _Found = (key, None, is_gpu, 0, 0, dtype, [0])
    # Weights of whole rows; a view that skips or repeats elements is not what a library takes.
    if _is_orphan or not (
        (is_gpu or device.type == "cpu")
        and w_device == device
        and len(w_shape) == 2
        and min(w_shape) > 0
        and max(w_shape) < 2**31
        and w_stride[1] == 1
        and w_shape[1] <= w_stride[0] < 2**31
        and x_dtype.is_floating_point
        and w_dtype.is_floating_point
        and dtype.is_floating_point
    ):
        return none
    n, k = w_shape
    try:
        problem = Problem(
            1, n, k, x_dtype, w_dtype=w_dtype, out_dtype=dtype, bias=bias_dtype, activation=activation,
            ldw=0 if w_stride[0] == k else w_stride[0],
            scale=None if factors is None else "tensor" if factors == 1 else "token_channel",
        )  # fmt: skip
    except ProblemError:
        # An element type that tgemm has no word for.
        return none
    kind, ordinal = (_GPU, device.index or 0) if is_gpu else ("cpu", 0)
    if database is None:
        database = default_database(f"{kind}:{ordinal}" if is_gpu else "cpu")
        if len(database) == 0 and not is_recording():
            return none
    return key, Plan(database, problem, kind, ordinal), is_gpu, n, k, dtype, [0]


def _others(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    out: torch.Tensor | None,
    dtype: torch.dtype,
    x_scale: torch.Tensor | None,
    w_scale: torch.Tensor | None,
    m: int,
    n: int,
) -> tuple[int, int, int] | None:
    """Where bias and scales lie; None if one of them, or ``out``, is not as a launch needs it."""
    device = x.device
    bias_at = x_scale_at = w_scale_at = 0
    if bias is not None:
        if type(bias) not in _OURS or bias.shape != (n,) or not bias.is_contiguous() or bias.device != device:
            return None
        if bias.is_neg():
            return None
        bias_at = bias.data_ptr()
    if (x_scale is None) != (w_scale is None):
        return None
    if x_scale is not None and w_scale is not None:
        # The plan was found by how many elements w_scale has: one, or one an out feature.
        is_by_tensor = w_scale.numel() == 1
        for scale, count in ((x_scale, 1 if is_by_tensor else m), (w_scale, 1 if is_by_tensor else n)):
            if type(scale) not in _OURS or scale.dtype != torch.float32 or scale.device != device:
                return None
            if scale.numel() != count or not scale.is_contiguous() or scale.is_neg():
                return None
            if _is_grad_enabled() and scale.requires_grad:
                return None
        x_scale_at, w_scale_at = x_scale.data_ptr(), w_scale.data_ptr()
    if out is not None:
        if type(out) not in _OURS or not out.is_contiguous() or out.device != device or out.is_neg() or out.requires_grad:
            return None
        if out.shape != (*x.shape[:-1], n) or out.dtype != dtype:
            return None
        if any(_overlap(out, operand) for operand in (x, w, bias, x_scale, w_scale) if operand is not None):
            return None
    return bias_at, x_scale_at, w_scale_at


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """May two tensors share memory?"""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _workspace(device: torch.device, stream: int, needed: int, is_gpu: bool) -> torch.Tensor:
    """Scratch memory of ``needed`` bytes or more that no launch of another stream uses."""
    if is_gpu and torch.cuda.is_current_stream_capturing():
        # Of the graph's own memory, which its launches use in their order.
        return torch.empty(needed, dtype=torch.uint8, device=device)
    # On a CPU a launch is over when it returns: each thread has its own.
    place = (device.index or 0, stream) if is_gpu else (-1, threading.get_ident())
    kept = _workspaces.get(place)
    if kept is None or kept.numel() < needed:
        kept = torch.empty(needed, dtype=torch.uint8, device=device)
        if len(_workspaces) < _WORKSPACES_MAX:
            _workspaces[place] = kept
    return kept


def _by_torch(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    out: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    x_scale: torch.Tensor | None,
    w_scale: torch.Tensor | None,
    activation: str | None,
) -> torch.Tensor:
    """The same by torch's own product."""
    for name, operand in (("x", x), ("w", w)):
        if not isinstance(operand, torch.Tensor):
            raise TypeError(f"{name} is {type(operand).__name__}, not a torch.Tensor")
    if w.dim() != 2 or x.dim() < 1 or x.shape[-1] != w.shape[1]:
        raise ProblemError(f"x of {tuple(x.shape)} and w of {tuple(w.shape)} have no product: they are [..., K] and [N, K]")
    if bias is not None and bias.shape != (w.shape[0],):
        raise ProblemError(f"bias of {tuple(bias.shape)} does not go with w of {tuple(w.shape)}: it has N elements")
    if activation is not None and activation not in _ACTIVATIONS:
        raise ProblemError(f"unknown activation {activation!r} (known: {', '.join(_ACTIVATIONS)})")
    if (x_scale is None) != (w_scale is None):
        raise ProblemError("x_scale and w_scale go together")
    dtype = _out_dtype(x.dtype, out_dtype)
    if x_scale is not None and w_scale is not None:
        value = _scaled(x, w, bias, dtype, x_scale, w_scale)
    elif x.dtype == w.dtype == dtype:
        value = functional.linear(x, w, bias)
    else:
        # What is summed must not be rounded to less than the output has.
        wide = torch.promote_types(torch.promote_types(x.dtype, w.dtype), dtype) if _is_wide(x, w) else torch.float32
        value = functional.linear(x.to(wide), w.to(wide), None if bias is None else bias.to(wide))
    if activation is not None:
        value = _ACTIVATIONS[activation](value)
    value = value.to(dtype)
    if out is None:
        return value
    if out.shape != value.shape or out.dtype != value.dtype:
        raise ProblemError(f"out is {out.dtype} {tuple(out.shape)}; the result is {value.dtype} {tuple(value.shape)}")
    return out.copy_(value)


def _is_wide(x: torch.Tensor, w: torch.Tensor) -> bool:
    return x.dtype.itemsize > 1 and w.dtype.itemsize > 1


def _scaled(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
) -> torch.Tensor:
    """A product with scales: by torch's own where it takes these, else with factors brought in before."""
    n, k = w.shape
    rows = x.reshape(-1, k)
    m = rows.shape[0]
    if x_scale.numel() not in (1, m) or w_scale.numel() not in (1, n):
        text = f"x_scale of {x_scale.numel()} and w_scale of {w_scale.numel()} elements"
        raise ProblemError(f"{text}: they are 1 and 1, or {m} (one a token) and {n} (one an out feature)")
    is_by_tensor = x_scale.numel() == w_scale.numel() == 1
    value = None
    if x.device.type == _GPU_TYPE and x.dtype.itemsize == 1 and n % 16 == 0 and k % 16 == 0 and rows.is_contiguous():
        of_x, of_w = (x_scale.reshape(()), w_scale.reshape(())) if is_by_tensor else (
            x_scale.reshape(-1, 1).expand(m, 1).contiguous(), w_scale.reshape(1, -1).expand(1, n).contiguous()
        )  # fmt: skip
        try:
            value = torch._scaled_mm(rows, w.t(), of_x, of_w, bias=bias, out_dtype=dtype)
        except (RuntimeError, ValueError):
            # This device or this version does not take them.
            value = None
    if value is None:
        value = (rows.float() * x_scale.reshape(-1, 1)) @ (w.float() * w_scale.reshape(-1, 1)).t()
        value = (value if bias is None else value + bias.float()).to(dtype)
    return value.reshape(*x.shape[:-1], n)


class Linear:
    """A linear layer that holds its weights and its options: ``layer(x)`` is ``mm(x, w, bias, ...)``.

    The tensors are taken as they are at each call, so they may be written to; ``w`` and ``bias`` are attributes.
    """

    __slots__ = ("activation", "bias", "database", "out_dtype", "w")

    def __init__(
        self,
        w: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        out_dtype: torch.dtype | None = None,
        activation: str | None = None,
        database: Database | None = None,
    ) -> None:
        self.w = w
        self.bias = bias
        self.out_dtype = out_dtype
        self.activation = activation
        self.database = database

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The product with ``x`` [..., K]: [..., N]."""
        return mm(
            x, self.w, self.bias, out_dtype=self.out_dtype, activation=self.activation, database=self.database
        )  # fmt: skip

    def __repr__(self) -> str:
        n, k = self.w.shape
        return f"tgemm.Linear({k} -> {n}, {self.w.dtype}, {self.w.device})"
