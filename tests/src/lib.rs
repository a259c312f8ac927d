//! Tests and benchmarks across the crates; see `tests/` and `benches/`.
