#!/usr/bin/env python3
"""Do AMD's own Python bindings know our numbers, signatures and struct layouts as we know them?

    rocm_numbers.py FACTS.json

FACTS.json is what the Rust side says: `numbers` by the header's names, `symbols` with the kinds of their arguments, `structs`
with their size and where their fields lie. The bindings (rocm-bindings-hip, rocm-bindings-libraries) are compiled against
AMD's headers and import without ROCm: their enum classes carry the numbers, their structs the layouts, and the Cython
sources beside them each function's symbol and argument types.
"""

import argparse
import ctypes
import importlib
import json
import pathlib
import re
import sys

MODULES = ["hip", "hiprtc", "hipblas", "hipblaslt"]
SCALARS = {
    "int": "i32", "int32_t": "i32", "unsigned int": "u32", "uint32_t": "u32", "int64_t": "i64", "long long": "i64",
    "uint64_t": "u64", "unsigned long long": "u64", "size_t": "u64", "float": "f32", "char": "char", "void": "any",
}


def declared_types(texts):
    """The typedefs and the enums of the bindings' declarations."""
    aliases, enums = {}, set()
    for text in texts:
        enums.update(re.findall(r"^ +(?:ctypedef|cdef) enum (\w+)", text, re.M))
        for target, name in re.findall(r"^ *ctypedef ((?!enum |struct |union )[\w ]+?\**\s*\**) ?(\w+)$", text, re.M):
            aliases[name] = target
    return aliases, enums


def kind(text, aliases, enums):
    """A C type in the words of the facts: `*` or `&` for each pointer, by whether it may be written through."""
    text = text.strip()
    if "*" in text:
        pointee, after = text.rsplit("*", 1)
        if after.strip() not in ("", "const"):
            raise ValueError(f"cannot read the type {text!r}")
        pointee = pointee.strip()
        is_const = pointee.endswith("const") if "*" in pointee else "const" in pointee.split()
        return ("&" if is_const else "*") + kind(pointee, aliases, enums)
    name = " ".join(word for word in text.split() if word != "const")
    if name in SCALARS:
        return SCALARS[name]
    if name in enums:
        return "i32"
    if name in aliases:
        return kind(aliases[name], aliases, enums)
    return "any"


def declared_symbols(folder):
    """Every symbol that the bindings load: its name -> the kinds of its arguments."""
    headers = {name: (folder / f"cy{name}.pxd").read_text() for name in MODULES}
    aliases, enums = declared_types(headers.values())
    symbols = {}
    for name in MODULES:
        source = (folder / f"cy{name}.pyx").read_text()
        loaded = dict(re.findall(r'__init_symbol\(&_(\w+)__funptr,"(\w+)"\)', source))
        for function, arguments in re.findall(r"^cdef [\w *]+? \**(\w+)\(([^)\n]*)\) (?:except|noexcept)", headers[name], re.M):
            if function in loaded:
                types = [re.sub(r"\w+$", "", argument) for argument in arguments.split(",") if argument.strip()]
                symbols[loaded[function]] = [kind(text, aliases, enums) for text in types]
    return symbols


def number(path):
    """The number of a name such as `hip.hipDeviceAttribute_t.hipDeviceAttributeWarpSize`."""
    module, *names = path.split(".")
    found = importlib.import_module(f"rocm.bindings.{module}")
    for name in names:
        found = getattr(found, name)
    return int(found)


def layout(path, fields):
    """Size of a struct and where its fields lie: each is set, and the bytes that change are looked at."""
    module, name = path.split(".")
    room = ctypes.create_string_buffer(1 << 14)
    struct = getattr(importlib.import_module(f"rocm.bindings.{module}"), name).fromObj(ctypes.addressof(room))
    return {"bytes": struct.c_sizeof(), "fields": {field: place(room, struct, field) for field in fields}}


def place(room, struct, field):
    """Where a field begins and, of a number, how many bytes it has."""
    empty = getattr(struct, field)
    if isinstance(empty, str):
        # Texts can only be read: the field begins with the one byte that, when it is set, is the text's first.
        return [next(at for at in range(len(room)) if text_with(room, struct, field, at) == "g"), None]
    if hasattr(type(empty), "__members__"):
        # Only its own values can be set, and they are small.
        return [set_bytes(room, struct, field, max(type(empty)))[0], 4]
    try:
        changed = set_bytes(room, struct, field, 0.1 if isinstance(empty, float) else 2**64 - 1)
    except OverflowError:
        changed = set_bytes(room, struct, field, -1)
    return [changed[0], len(changed)]


def set_bytes(room, struct, field, value):
    """The bytes that a value sets."""
    ctypes.memset(room, 0, len(room))
    setattr(struct, field, value)
    return [at for at, byte in enumerate(room.raw) if byte]


def text_with(room, struct, field, at):
    """The text where only byte `at` of the struct is set."""
    ctypes.memset(room, 0, len(room))
    room[at] = b"g"
    return getattr(struct, field)


def judge(facts):
    """Differences, and how many facts were compared."""
    import rocm.bindings

    folder = pathlib.Path(next(iter(rocm.bindings.__path__)))
    differences = []
    for path, ours in facts["numbers"].items():
        try:
            theirs = number(path)
        except AttributeError:
            theirs = "nothing"
        if ours != theirs:
            differences.append(f"{path}: we say {ours}, AMD says {theirs}")
    symbols = declared_symbols(folder)
    for symbol, ours in facts["symbols"].items():
        theirs = symbols.get(symbol)
        if ours != theirs:
            differences.append(f"{symbol}: we say {ours}, AMD says {theirs}")
    for path, ours in facts["structs"].items():
        theirs = layout(path, ours["fields"])
        if ours != theirs:
            differences.append(f"{path}: we say {ours}, AMD says {theirs}")
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("facts", type=pathlib.Path)
    arguments = parser.parse_args()
    facts = json.loads(arguments.facts.read_text())
    differences = judge(facts)
    for difference in differences:
        print(difference, file=sys.stderr)
    if differences:
        return 1
    from rocm.bindings import hip, hipblaslt

    version = ".".join(str(getattr(hipblaslt, f"HIPBLASLT_VERSION_{part}")) for part in ("MAJOR", "MINOR", "PATCH"))
    counts = ", ".join(f"{len(facts[name])} {name}" for name in ("numbers", "symbols", "structs"))
    print(f"{counts}: as in AMD's bindings of HIP {hip.HIP_VERSION} and hipBLASLt {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
