#!/usr/bin/env bash
# Our HIP numbers, signatures and offsets against each HIP version that cubecl-hip-sys binds: `tests/judges/hip_versions.sh`.
# Needs the crates' registry, and no ROCm: the bindings ask `hipconfig` for a version, and a stand-in answers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/hip-versions"

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$(cd ../../.. && pwd)/target/hip-versions}

versions=(6.2.41134 6.3.42131 6.3.42133 6.3.42134 6.4.43482 6.4.43483 6.4.43484 7.0.51831 7.1.52802 7.2.53211 7.14.60850)

stand_in=$(mktemp -d)
trap 'rm -r "$stand_in"' EXIT
for version in "${versions[@]}"; do
    printf '#!/bin/sh\necho %s-judge\n' "$version" >"$stand_in/hipconfig"
    chmod +x "$stand_in/hipconfig"
    # Their build script runs again when HIP_PATH changes.
    PATH="$stand_in:$PATH" HIP_PATH="$version" cargo test --quiet
    echo "HIP $version: as we say"
done
