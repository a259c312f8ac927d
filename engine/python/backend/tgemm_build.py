"""Builds the wheel: a PEP 517 backend of the standard library and cargo, so that `pip install .` is all there is to do.

The module `_native` and the command `tune` are built together, with one set of features: whatever both need is compiled once.
The shim is built alone, with no feature that only they turn on. Two environment variables choose how:

- TGEMM_WHEEL_PROFILE: the cargo profile, "release" unless it is set. "dev" takes what the tests have built.
- TGEMM_WHEEL_GLIBC: such as "2.28": for machines with that C library or a newer one, by cargo-zigbuild.
"""

import base64
import hashlib
import os
import platform
import subprocess
import sysconfig
import zipfile
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "engine" / "python" / "tgemm"
PROFILE = os.environ.get("TGEMM_WHEEL_PROFILE", "release")
GLIBC = os.environ.get("TGEMM_WHEEL_GLIBC", "")
MACHINE = platform.machine()
TARGET = f"{MACHINE}-unknown-linux-gnu"
# One module for all CPython from here on: what Cargo.toml asks PyO3 for.
PYTHON_TAG, ABI_TAG = "cp310", "abi3"


def get_requires_for_build_wheel(config_settings=None):
    return ["ziglang", "cargo-zigbuild"] if GLIBC else []


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("tgemm builds wheels, from its repository: pip wheel --no-deps .")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    built = _build("tgemm-python", "tgemm-tuner")
    name = f"tgemm-{version}"
    sources = [path for pattern in ("*.py", "*.pyi", "py.typed") for path in sorted(SOURCES.glob(pattern))]
    files = {f"tgemm/{path.name}": path for path in sources}
    files["tgemm/_native.abi3.so"] = built / "lib_native.so"
    # Where pip installs these: bin/tune, and lib/tgemm/libtgemm_shim.so, where tune looks for it.
    files[f"{name}.data/scripts/tune"] = built / "tune"
    files[f"{name}.data/data/lib/tgemm/libtgemm_shim.so"] = _build("tgemm-shim") / "libtgemm_shim.so"
    info = f"{name}.dist-info"
    files |= {f"{info}/licenses/{path}": ROOT / path for path in project["license-files"]}
    contents = {place: (path.read_bytes(), os.access(path, os.X_OK)) for place, path in files.items()}
    contents[f"{info}/METADATA"] = (_metadata(project, version).encode(), False)
    contents[f"{info}/WHEEL"] = (_wheel().encode(), False)
    file_name = f"{name}-{PYTHON_TAG}-{ABI_TAG}-{_platform_tag()}.whl"
    _write(Path(wheel_directory) / file_name, contents, f"{info}/RECORD")
    return file_name


def _build(*crates):
    """Builds crates with one set of features; returns the folder that they are in."""
    environment = dict(os.environ)
    # Without build isolation pip does not put the environment's own commands there, such as cargo-zigbuild.
    environment["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), environment.get("PATH", "")])
    # The module is for any interpreter, so none is asked: with another one PyO3 would be compiled again.
    environment["PYO3_NO_PYTHON"] = "1"
    if PROFILE == "release":
        # A wheel carries no debug information. In a developer's build that would be another build of everything.
        environment.setdefault("CARGO_PROFILE_RELEASE_DEBUG", "false")
        environment.setdefault("CARGO_PROFILE_RELEASE_STRIP", "true")
    build = ["zigbuild", "--target", f"{TARGET}.{GLIBC}"] if GLIBC else ["build"]
    command = ["cargo", *build, "--locked", "--profile", PROFILE, *(part for name in crates for part in ("-p", name))]
    try:
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
    except FileNotFoundError:
        raise SystemExit("cargo is not there: install Rust from https://rustup.rs") from None
    except subprocess.CalledProcessError as failed:
        raise SystemExit(f"{' '.join(command)} failed with {failed.returncode}: see above") from None
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    return target / (TARGET if GLIBC else "") / ("debug" if PROFILE == "dev" else PROFILE)


def _platform_tag():
    return f"manylinux_{GLIBC.replace('.', '_')}_{MACHINE}" if GLIBC else f"linux_{MACHINE}"


def _metadata(project, version):
    """Core metadata: https://packaging.python.org/en/latest/specifications/core-metadata/."""
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}"]
    lines += [f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"License-Expression: {project['license']}"]
    lines += [f"License-File: {path}" for path in project["license-files"]]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / project["readme"]).read_text()]
    return "\n".join(lines)


def _wheel():
    tag = f"{PYTHON_TAG}-{ABI_TAG}-{_platform_tag()}"
    return f"Wheel-Version: 1.0\nGenerator: tgemm_build\nRoot-Is-Purelib: false\nTag: {tag}\n"


def _write(path, contents, record):
    """A wheel: https://packaging.python.org/en/latest/specifications/binary-distribution-format/."""
    lines = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(place, content, is_executable):
            entry = zipfile.ZipInfo(place)  # dated 1980: the same contents give the same file
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if is_executable else 0o100644) << 16
            wheel.writestr(entry, content)

        for place, (content, is_executable) in contents.items():
            add(place, content, is_executable)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{place},sha256={digest},{len(content)}")
        add(record, "\n".join([*lines, f"{record},,", ""]), False)
