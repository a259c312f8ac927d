"""Lookup, recorder and plans: the part of tgemm that is compiled."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

__all__ = [
    "Constraints",
    "Database",
    "Device",
    "FileReport",
    "Hit",
    "Plan",
    "Problem",
    "Recorder",
    "__version__",
    "is_recording",
    "record",
]

__version__: str

_Path = str | os.PathLike[str]
_Form = Literal["plain", "preshuffled", "prepacked"]
_Numerics = Literal["exact", "reduced_accumulation", "partial16"]
_Via = Literal["", "dispatch", "lt_matmul", "gemm_ex", "rocblas_gemm_ex", "blas", "linear"]

@final
class Problem:
    """What is to be computed: ``out[M,N] = act(alpha * x[M,K] @ w[N,K].T * scales + bias[N] + beta * c[M,N])``.

    ``m`` counts tokens, ``n`` out features, ``k`` in features, each 1 to 2147483647; all matrices are row-major. An element
    type is a name ("bf16", "float16", "f8e4m3fn") or an object whose text is one (``torch.bfloat16``, a NumPy dtype).
    Everything but the sizes may be left out, which means a packed linear layer of one element type, summed in f32.

    - ``bias``: element type of a bias of N elements; ``scale``: "none", "tensor", "token_channel", "block128", "mx".
    - ``activation``: "none", "relu", "gelu", "silu", ...; ``compute``: "f32", "tf32", "f16", "f64", "i32".
    - ``alpha``, ``beta``: "0", "1" or "other"; ``trans``: "linear", "x", "w", "xw".
    - ``ldx``, ``ldw``, ``ldo``: elements from row to row, 0 where rows are packed; ``stride_*``: elements from one matrix
      of a batch to the next.
    - ``align``: what every pointer and row start is a multiple of, in bytes: 16, 8, 4, 1.

    Problems are values: equal, ordered and hashed by what they say. Raises :class:`tgemm.ProblemError`.
    """

    def __new__(
        cls,
        m: int,
        n: int,
        k: int,
        dtype: object = None,
        *,
        w_dtype: object = None,
        out_dtype: object = None,
        compute: str | None = None,
        bias: object = None,
        scale: str | None = None,
        scale_dtype: object = None,
        activation: str | None = None,
        alpha: str | None = None,
        beta: str | None = None,
        in_place: bool = True,
        fast_accumulation: bool = False,
        preshuffled: bool = False,
        trans: str | None = None,
        ldx: int = 0,
        ldw: int = 0,
        ldo: int = 0,
        batch_count: int = 1,
        stride_x: int = 0,
        stride_w: int = 0,
        stride_out: int = 0,
        align: int | None = None,
    ) -> Problem: ...
    @staticmethod
    def parse(key: str) -> Problem:
        """Reads a key, such as "gemm,m=4,n=1024,k=3072,x=bf16,w=bf16,out=bf16,compute=f32"."""

    @property
    def key(self) -> str:
        """The one text of this problem: two problems are equal if and only if their keys are."""

    @property
    def short(self) -> str:
        """A short form for people: "4x1024x3072 bf16"."""

    @property
    def m(self) -> int:
        """Tokens."""

    @property
    def n(self) -> int:
        """Out features."""

    @property
    def k(self) -> int:
        """In features."""

    @property
    def dtype(self) -> str:
        """Element type of x."""

    @property
    def w_dtype(self) -> str:
        """Element type of w."""

    @property
    def out_dtype(self) -> str:
        """Element type of the output."""

    @property
    def bias(self) -> str | None:
        """Element type of the bias; None where there is none."""

    def with_m(self, m: int) -> Problem:
        """The same layer at another number of tokens."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __lt__(self, other: Problem, /) -> bool: ...
    def __le__(self, other: Problem, /) -> bool: ...
    def __gt__(self, other: Problem, /) -> bool: ...
    def __ge__(self, other: Problem, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...

@final
class Constraints:
    """What an engine allows a choice to be.

    ``libraries``: the only ones, None for all. ``weight_forms``: those in which weights are held or may be made; plain
    alone unless said otherwise. ``workspace_bytes_max``: most scratch memory of a launch. ``numerics``: the least faithful
    arithmetic that will do. ``deterministic``, ``graph_safe``: only what is known to be so.
    """

    def __new__(
        cls,
        *,
        libraries: Sequence[str] | None = None,
        weight_forms: Sequence[_Form] | None = None,
        workspace_bytes_max: int | None = None,
        numerics: _Numerics | None = None,
        deterministic: bool = False,
        graph_safe: bool = False,
    ) -> Constraints: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...

@final
class Device:
    """A device and the libraries on it: what tables are read for.

    ``arch`` is an instruction set ("gfx942", "sm_90", "x86_64-v4"), ``compute_units`` counts its compute units,
    multiprocessors or cores. What is 0 or None is not known, and fits any. ``builds`` names the libraries that the engine
    can call, each with its version, or version and revision, as tuned tables write them: what was tuned with a known build
    of any other library does not serve.
    """

    def __new__(
        cls,
        arch: str,
        compute_units: int = 0,
        *,
        vendor: Literal["amd", "nvidia", "cpu"] | None = None,
        memory_gib: int | None = None,
        chip_id: int | None = None,
        partition: str | None = None,
        builds: Mapping[str, str | tuple[str, str]] | None = None,
    ) -> Device: ...
    @staticmethod
    def here(name: str | None = None) -> Device:
        """A device of this machine, with the libraries that are found: "cpu", "cuda:0", "hip:0".

        None is the GPU that is current where torch has one in use in this process, else the CPU: it touches no GPU that
        the process does not use already. Raises :class:`tgemm.DeviceError`.
        """

    @property
    def arch(self) -> str:
        """Instruction set."""

    @property
    def vendor(self) -> str:
        """Who makes it: "amd", "nvidia", "cpu"."""

    @property
    def compute_units(self) -> int:
        """Compute units, multiprocessors or cores; 0 if not known."""

    @property
    def memory_gib(self) -> int | None:
        """Memory in GiB, rounded."""

    @property
    def chip_id(self) -> int | None:
        """PCI device id of a GPU, CPUID leaf 1 signature of an x86 CPU."""

    @property
    def partition(self) -> str | None:
        """Partition mode, such as "SPX/NPS1"."""

    @property
    def builds(self) -> dict[str, tuple[str, str]]:
        """Version and revision of each library."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Hit:
    """The answer to a lookup; true unless its kind is "default", where everything but ``kind`` is None or empty."""

    @property
    def kind(self) -> str:
        """Which level answered: "exact", "padded", "interval", "predicted", "default" (run what would have run)."""

    @property
    def tuned_m(self) -> int | None:
        """The M that the choice was tuned at."""

    @property
    def tuned(self) -> Problem | None:
        """The problem that it was tuned for."""

    @property
    def solution(self) -> str | None:
        """The solution in a form for people."""

    @property
    def library(self) -> str | None:
        """Who computes: "hipblaslt", "cublaslt", "onednn"."""

    @property
    def version(self) -> str | None:
        """That library's version; empty if not known."""

    @property
    def revision(self) -> str | None:
        """That library's source revision or content hash; empty if not known."""

    @property
    def index(self) -> int | None:
        """The library's own number for the solution; means nothing for another build."""

    @property
    def name(self) -> str | None:
        """The library's own name for it."""

    @property
    def params(self) -> dict[str, str]:
        """What else selects it."""

    @property
    def weight_form(self) -> str | None:
        """How it takes the weights: "plain", "preshuffled", "prepacked"."""

    @property
    def numerics(self) -> str | None:
        """How faithful its arithmetic is: "exact", "reduced_accumulation", "partial16"."""

    @property
    def workspace_bytes(self) -> int | None:
        """Scratch memory of a launch at ``tuned_m``, bytes."""

    @property
    def deterministic(self) -> bool | None:
        """Does it give the same bits every time? None: not known."""

    @property
    def graph_safe(self) -> bool | None:
        """May it be captured into a graph? None: not known."""

    @property
    def time_us(self) -> float | None:
        """Microseconds a call at ``tuned_m``."""

    @property
    def baseline_us(self) -> float | None:
        """Microseconds of the best baseline, measured beside it."""

    @property
    def ratio(self) -> float | None:
        """Time over the best baseline's; below 1 is faster."""

    @property
    def ratio_low(self) -> float | None:
        """Lower end of its 95 % interval."""

    @property
    def ratio_high(self) -> float | None:
        """Upper end of its 95 % interval."""

    @property
    def verdict(self) -> str | None:
        """How it compared: "faster", "same", "ambiguous", "no_baseline", "unknown"."""

    @property
    def is_baseline(self) -> bool:
        """Is it what would have run without tgemm?"""

    def __bool__(self, /) -> bool: ...

@final
class FileReport:
    """What became of one file and its rows."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def kept(self) -> int:
        """Rows that serve here."""

    @property
    def other_device(self) -> int:
        """Rows of other devices."""

    @property
    def other_build(self) -> int:
        """Rows whose winner is of a build that is not here."""

    @property
    def rejected(self) -> int:
        """Rows that could not be read."""

    @property
    def rejections(self) -> list[str]:
        """The first of them, each as "file:line: reason"."""

    @property
    def error(self) -> str | None:
        """Why the file could not be read at all."""

    @property
    def is_clean(self) -> bool:
        """Was all of it read?"""

@final
class Database:
    """Tuned tables made ready for one device. Any number of threads may ask it at once."""

    @staticmethod
    def open(
        *paths: _Path,
        device: Device | str | None = None,
        levels: str | Sequence[str] | None = None,
        strict: bool = False,
        use_environment: bool = False,
        misses_max: int = 4096,
        constraints: Constraints | None = None,
    ) -> Database:
        """Reads tuned CSV files (tgemm's or AITER's) and databases of sweeps; of two that both answer, the first counts.

        ``device``: for which one, described or by name, see :meth:`Device.here`. ``levels``: how far from what was tuned a
        lookup may answer: "default" (exact, padded, interval), "exact", "aiter" (exact, padded), "all", or a list of "exact",
        "padded", "interval", "scored" (an interval whose ends chose differently), "predicted".
        ``use_environment``: the tables that TGEMM_DB names count before the paths. ``misses_max``: how many different misses
        are kept. ``constraints``: what lookups allow that say nothing else.

        What cannot be read is in :attr:`report` and the rest serves, unless ``strict``. Raises :class:`tgemm.DatabaseError`,
        :class:`tgemm.DeviceError`.
        """

    def lookup(self, problem: Problem, constraints: Constraints | None = None) -> Hit:
        """What to run for ``problem``. Counted in :meth:`tally`."""

    def explain(self, problem: Problem, constraints: Constraints | None = None) -> str:
        """Which level answers, and why the better ones do not."""

    def refresh(self) -> bool:
        """Reads the files again if one changed, and replaces the whole table or nothing; was it replaced?

        Raises :class:`tgemm.DatabaseError` where the files cannot be read whole; the old table serves on.
        """

    @property
    def report(self) -> list[FileReport]:
        """What became of each file when it was last read, in order of priority."""

    @property
    def device(self) -> Device:
        """What the tables were read for."""

    def problems(self) -> list[Problem]:
        """The problems of all rows that serve."""

    def tally(self) -> dict[str, int]:
        """How many lookups were answered by which kind of hit."""

    def launches(self) -> dict[str, int]:
        """What became of the calls of all plans of this database.

        "applied": a choice ran; "not_tuned", "left_as_is": there is none, or it is what the baseline runs; "refused": its
        library did not take it; "under_capture": it was not ready before its stream was captured.
        """

    def misses(self) -> list[tuple[Problem, int]]:
        """The problems that nothing answered for, with their counts, the most frequent first."""

    def write_misses(self, path: _Path) -> None:
        """Replaces the file at ``path`` by the misses as an untuned CSV, to be tuned next."""

    def __len__(self, /) -> int: ...

@final
class Recorder:
    """Counts the problems that an engine runs, and writes them to a file for the tuner.

    A ``path`` that ends in .csv is one file, which processes may share; any other is a folder with a file for each process;
    None is memory only. No file is touched before the first problem.
    """

    def __new__(cls, path: _Path | None = None) -> Recorder: ...
    def record(
        self,
        problem: Problem,
        *,
        via: _Via | None = None,
        captured: bool = False,
        calls: int = 1,
        workspace_bytes_max: int | None = None,
    ) -> None:
        """Counts calls of ``problem`` by the interface ``via`` ("linear" where it is not said)."""

    def recorded(self) -> list[tuple[Problem, int]]:
        """What was recorded so far, with counts."""

    def flush(self) -> None:
        """Writes every count that is not in the file yet. Raises :class:`tgemm.RecordError`."""

    @property
    def path(self) -> Any:
        """The file that is written to, a ``pathlib.Path``, once there is one."""

    @property
    def dropped(self) -> int:
        """Calls that were not counted because there were too many different problems."""

@final
class Plan:
    """Products of one layer on one device, from addresses: what :func:`tgemm.mm` stands on. Not for engines."""

    def __new__(cls, database: Database, problem: Problem, kind: str, ordinal: int) -> Plan:
        """The plan of a layer, described by ``problem`` at any M, on torch's device ``kind``:``ordinal``."""

    def run(
        self,
        m: int,
        x: int,
        w: int,
        bias: int,
        x_scale: int,
        w_scale: int,
        out: int,
        stream: int,
        workspace: int,
        workspace_bytes: int,
    ) -> int:
        """0: enqueued. -1: nothing was, and the caller runs its own. Above 0: call again with so many bytes of workspace.

        Addresses must be of what the problem says, until the product is done; nothing here can check that.
        """

    @property
    def problem(self) -> Problem:
        """The layer."""

def is_recording() -> bool:
    """Does TGEMM_TUNE=1 ask for recording? Read from the environment at the first question."""

def record(
    problem: Problem,
    *,
    via: _Via | None = None,
    captured: bool = False,
    calls: int = 1,
    workspace_bytes_max: int | None = None,
) -> bool:
    """Counts calls of ``problem`` where TGEMM_TUNE=1 asks for it, into what TGEMM_UNTUNED names; is it asked for?

    ``via``: by which interface ("linear" where it is not said); ``captured``: it went into a graph.
    Raises :class:`tgemm.RecordError` where there are too many different problems.
    """
