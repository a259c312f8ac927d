//! `tune`: see [`tgemm_tuner::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    tgemm_tuner::cli::main()
}
