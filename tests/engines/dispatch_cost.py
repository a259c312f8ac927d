"""What a product costs the host: torch.nn.functional.linear beside tgemm.mm and tgemm.Linear, on a CUDA device.

    python3 -m pip install tgemm-*.whl && python3 dispatch_cost.py

A call only enqueues, so its time on the host is what an engine that is bound by the host waits for. Blocks of calls take
turns, with a wait for the device between them so that no queue is ever full; a figure is the median over blocks, in ns a
call, and a difference that of blocks beside each other. The table is made by a short sweep, in which ties count as choices,
or is what --db or TGEMM_DB names. Where a problem has no choice there, `mm` is F.linear and a look at the table: the last
column says what ran.
"""

import argparse
import csv
import os
import statistics
import subprocess
import tempfile
import time

# As `tune` names it.
DEVICE = "cuda:0"
SHAPES = [(m, n, k) for n, k in ((1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096)) for m in (1, 16)]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--blocks", type=int, default=60, help="blocks of each way")
    parser.add_argument("--calls", type=int, default=200, help="calls of a block")
    parser.add_argument("--db", help="tuned table; without it and TGEMM_DB, one is made by a short sweep")
    parser.add_argument("--budget", default="60s", help="time of that sweep")
    parser.add_argument("--write-untuned", metavar="FILE", help="write the problems for a sweep, and end")
    return parser.parse_args()


def plain_layers():
    import tgemm

    return [tgemm.Problem(m, n, k, "bf16") for m, n, k in SHAPES]


def write_untuned(path, problems):
    import tgemm

    recorder = tgemm.Recorder(path)
    for problem in problems:
        recorder.record(problem, via="lt_matmul" if "scale=" in problem.key else "gemm_ex")
    recorder.flush()


def swept(folder, budget, problems):
    """A table of this device. Ties become choices that run as well: this is about what a call costs, not what it gains."""
    untuned, table = os.path.join(folder, "untuned.csv"), os.path.join(folder, "tuned.csv")
    write_untuned(untuned, problems)
    command = ["tune", "sweep", untuned, "--db", os.path.join(folder, "t.sqlite"), "--csv", table, "--device", DEVICE]
    subprocess.run([*command, "--budget", budget, "--sample", "1", "--plain-weights"], check=True, stdout=subprocess.DEVNULL)
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["verdict"] = "faster"
    with open(table, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return table


def block_ns(call, calls, synchronize):
    synchronize()
    began = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - began) / calls


def main():
    args = arguments()
    if args.write_untuned:
        return write_untuned(args.write_untuned, plain_layers())
    with tempfile.TemporaryDirectory() as folder:
        table = args.db or os.environ.get("TGEMM_DB") or swept(folder, args.budget, plain_layers())
        measure(args, table)


def measure(args, table):
    import tgemm
    import torch

    torch.set_grad_enabled(False)
    torch.cuda.init()
    database = tgemm.Database.open(*table.split(":"), device=DEVICE, levels="exact")
    for report in database.report:
        print(report)
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, tgemm {tgemm.__version__}; ns a call on the host")
    print(f"{'M':>4} {'N':>5} {'K':>5} {'F.linear':>9} {'mm':>9} {'Linear':>9} {'mm - F':>9} {'Linear - F':>10}  ran")
    linear = torch.nn.functional.linear
    for m, n, k in SHAPES:
        x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
        layer = tgemm.Linear(w, database=database)
        ways = {
            "F.linear": lambda: linear(x, w),
            "mm": lambda: tgemm.mm(x, w, database=database),
            "Linear": lambda: layer(x),
        }
        before = database.launches()["applied"]
        want = ways["F.linear"]()
        bound = 0.02 * want.float().abs().max().item()
        for name in ("mm", "Linear"):
            error = (ways[name]().float() - want.float()).abs().max().item()
            assert error <= bound, f"{name} at {m}x{n}x{k}: error {error}, bound {bound}"
        ran = "choice" if database.launches()["applied"] > before else "torch: no choice"
        times = {name: [] for name in ways}
        for block in range(args.blocks + 5):
            names = list(ways)
            # Each way comes first, second and last as often as the others.
            for name in names[block % 3 :] + names[: block % 3]:
                took = block_ns(ways[name], args.calls, torch.cuda.synchronize)
                if block >= 5:
                    times[name].append(took)
        at = {name: statistics.median(took) for name, took in times.items()}
        paired = {
            name: statistics.median(a - b for a, b in zip(times[name], times["F.linear"])) for name in ("mm", "Linear")
        }
        print(
            f"{m:>4} {n:>5} {k:>5} {at['F.linear']:>9.0f} {at['mm']:>9.0f} {at['Linear']:>9.0f} "
            f"{paired['mm']:>+9.0f} {paired['Linear']:>+10.0f}  {ran}",
            flush=True,
        )
    print(database.launches())


if __name__ == "__main__":
    main()
