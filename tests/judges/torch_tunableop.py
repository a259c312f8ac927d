#!/usr/bin/env python3
"""Does PyTorch's TunableOp take our results file?

    torch_tunableop.py EXPORT [--reheaded]

Two judges. The first is PyTorch itself, where it can be imported: `torch.cuda.tunable.read_file` compares the validators
and parses the rows. A build without the device that the file is for rejects it by its validators, as it should;
--reheaded therefore asks about a copy under this PyTorch's own version, so that its parser sees our rows all the same.
The second are the rules of that parser, written down here: they always run.
"""

import argparse
import pathlib
import re
import sys
import tempfile

TYPES = [
    "c10::complex<double>", "c10::complex<float>", "Float8_e4m3fnuz", "Float8_e5m2fnuz", "Float8_e8m0fnu",
    "Float8_e4m3fn", "Float8_e5m2", "BFloat16", "double", "float", "tf32", "Half",
]
TYPE = "(?:" + "|".join(re.escape(name) for name in TYPES) + ")"
OPERATION = re.compile(
    rf"(?:(?:Gemm|GemmAndBias|GemmStridedBatched)TunableOp_{TYPE}|ScaledGemmTunableOp_{TYPE}_{TYPE}_{TYPE})_([NT]{{2}})"
)
PARAMETERS = re.compile(
    rf"([nt]{{2}})_\d+_\d+_\d+(_B_\d+)?(?:_ld_\d+_\d+_\d+)?(_rw_[01]_bias_(?:None|{TYPE}))?"
)
SOLUTION = re.compile(r"Default|Gemm_Rocblas_-?\d+|Gemm_Hipblaslt_-?\d+|Gemm_Cublaslt_id_-?\d+_.+")


def by_rules(text):
    """Rows of each kind, or the first fault."""
    if "\r" in text:
        return None, "a carriage return would become part of a validator's value"
    if not text.endswith("\n"):
        return None, "the last line has no end: the next one that is appended would be glued to it"
    validators, keys, rows = {}, set(), 0
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split(",")
        if cells[0] == "Validator":
            if rows or len(cells) < 3 or cells[1] in validators:
                return None, f"line {number}: validators stand first, once each, with a value"
            validators[cells[1]] = ",".join(cells[2:])
            continue
        if len(cells) < 4:
            return None, f"line {number}: operation, parameters, solution and time are expected"
        operation, parameters = OPERATION.fullmatch(cells[0]), PARAMETERS.fullmatch(cells[1])
        if not operation or not parameters or operation[1].lower() != parameters[1]:
            return None, f"line {number}: {cells[0]},{cells[1]} is no signature"
        if cells[0].startswith("GemmStridedBatched") != bool(parameters[2]):
            return None, f"line {number}: only strided batches have _B_"
        if cells[0].startswith("ScaledGemm") != bool(parameters[3]):
            return None, f"line {number}: only scaled products have _rw_"
        if not SOLUTION.fullmatch(cells[2]):
            return None, f"line {number}: {cells[2]} is no solution"
        if not float(cells[3]) > 0:
            return None, f"line {number}: {cells[3]} is no time in milliseconds"
        if (cells[0], cells[1]) in keys:
            return None, f"line {number}: a key stands twice, and PyTorch would take the first"
        keys.add((cells[0], cells[1]))
        rows += 1
    if "PT_VERSION" not in validators:
        return None, "no PT_VERSION: PyTorch refuses the file"
    return rows, validators


def by_torch(path, text, reheaded):
    """PyTorch's word: accepted or not, and its complaints."""
    import warnings

    import torch

    if reheaded:
        rows = [line for line in text.splitlines() if not line.startswith("Validator,")]
        head = f"Validator,PT_VERSION,{torch.__version__.split('+')[0]}"
        path = pathlib.Path(tempfile.mkdtemp()) / "results.csv"
        path.write_text("\n".join([head, *rows]) + "\n")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        accepted = torch.cuda.tunable.read_file(str(path))
        complaints = [str(warning.message).splitlines()[0] for warning in told]
    try:
        results = len(torch.cuda.tunable.get_results())
    except RuntimeError:
        results = None
    return torch.__version__, accepted, complaints, results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export", type=pathlib.Path)
    parser.add_argument("--reheaded", action="store_true", help="ask PyTorch about the rows under its own version")
    arguments = parser.parse_args()
    text = arguments.export.read_bytes().decode()
    rows, told = by_rules(text)
    if rows is None:
        print(f"refused by the rules: {told}", file=sys.stderr)
        return 1
    print(f"{arguments.export}: {rows} rows and {len(told)} validators hold by the rules")
    try:
        version, accepted, complaints, results = by_torch(arguments.export, text, arguments.reheaded)
    except ImportError:
        print("PyTorch is not here: judged by the rules alone")
        return 0
    except RuntimeError as error:
        print(f"PyTorch cannot judge without its device: {str(error).splitlines()[0]}")
        return 0
    print(f"PyTorch {version}: read_file says {accepted}" + (f", {results} results" if results is not None else ""))
    for complaint in complaints:
        print(f"  {complaint}")
    return 0 if accepted else 1


if __name__ == "__main__":
    sys.exit(main())
