"""Tuned matrix products for engines that are written in Python.

A problem is ``out[M,N] = act(alpha * x[M,K] @ w[N,K].T * scales + bias[N])``: M counts tokens, N out features, K in
features. Tables say which solution of which library was found to be right and fastest for it on which device.

- :class:`Database` reads tuned tables for a device, and answers; :func:`lookup` and :func:`explain` ask the tables that
  the environment variable ``TGEMM_DB`` names.
- :func:`record` counts what an engine runs, for the tuner, where ``TGEMM_TUNE=1`` asks for it.
- :func:`mm` and :class:`Linear` run products of torch tensors by their tuned solutions; they alone import torch.
- The command ``tune`` comes with the package: recording of whole programs, sweeps, reports.
"""

from __future__ import annotations

import functools
import os
import threading
from typing import TYPE_CHECKING, Any

from ._native import Constraints, Database, Device, FileReport, Hit, Problem, Recorder, __version__, is_recording, record
from .errors import DatabaseError, DeviceError, Error, LaunchError, ProblemError, RecordError

if TYPE_CHECKING:
    from ._torch import Linear as Linear, mm as mm

__all__ = [
    "Constraints",
    "Database",
    "DatabaseError",
    "Device",
    "DeviceError",
    "Error",
    "FileReport",
    "Hit",
    "LaunchError",
    "Linear",
    "Problem",
    "ProblemError",
    "RecordError",
    "Recorder",
    "__version__",
    "default_database",
    "explain",
    "is_recording",
    "lookup",
    "mm",
    "record",
]

_opening = threading.Lock()


def _after_fork() -> None:
    global _opening
    # Another thread may have held it.
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


@functools.lru_cache(maxsize=None)
def _opened(device: str | None) -> Database:
    return Database.open(device=device, use_environment=True)


def default_database(device: str | None = None) -> Database:
    """The tables that ``TGEMM_DB`` names, opened at the first call and kept; with none of them, nothing is tuned.

    ``device`` is as in :meth:`Database.open`. Raises :class:`DeviceError` where that device is not here.
    """
    with _opening:
        return _opened(device)


def lookup(problem: Problem, constraints: Constraints | None = None) -> Hit:
    """What to run for ``problem``, from :func:`default_database`."""
    return default_database().lookup(problem, constraints)


def explain(problem: Problem, constraints: Constraints | None = None) -> str:
    """Which row of :func:`default_database` answers for ``problem``, and why better ones do not."""
    return default_database().explain(problem, constraints)


def __getattr__(name: str) -> Any:
    # torch is slow to import, and most of the package does without it.
    if name in ("mm", "Linear"):
        from . import _torch

        return globals().setdefault(name, getattr(_torch, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
