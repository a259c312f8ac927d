//! What others look up by, on as many choices: TunableOp's string key in a hash map, AITER's tuple in a Python dictionary.

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::io::Write as _;
use std::ops::Range;
use std::process::{Command, Stdio};

use tgemm_db::Gemm;

use crate::clock::{Cost, cost};
use crate::table::{self, CHOICES};

/// Builds AITER's dictionary of the rows on standard input, and times it inside of Python.
const AITER_DICT: &str = include_str!("aiter_dict.py");

/// As many as lookups of ours are asked for in turn.
const IN_TURN: usize = 4096;

/// A hash map with TunableOp's key, formatted at each call; the same problem again and again, and all in turn.
pub fn tunableop() -> Result<[(&'static str, Cost); 2], Box<dyn Error>> {
    let choices = table::choices(CHOICES)?;
    let gemms: Vec<_> = choices.iter().filter_map(|choice| choice.problem.gemm().copied()).collect();
    let by_text: HashMap<String, i64> =
        choices.iter().zip(&gemms).map(|(choice, gemm)| (table::tunableop_key(gemm), choice.solution.index)).collect();
    let find = |gemm: &Gemm| by_text.get(&table::tunableop_key(black_box(gemm))).copied();
    let hot = cost(|numbers: Range<u32>| {
        numbers.for_each(|_| {
            black_box(find(&gemms[17]));
        });
    });
    let turn = cost(|numbers: Range<u32>| {
        numbers.for_each(|at| {
            black_box(find(&gemms[at as usize % IN_TURN * 7919 % gemms.len()]));
        });
    });
    Ok([("HashMap<String>, TunableOp's key, hot", hot), ("HashMap<String>, TunableOp's key, in turn", turn)])
}

/// What the script prints: lines of a table, as ours.
pub fn aiter() -> Result<String, Box<dyn Error>> {
    let mut python = Command::new("python3")
        .args(["-c", AITER_DICT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("python3: {error}"))?;
    python.stdin.take().ok_or("python3 takes no input")?.write_all(table::aiter_text(CHOICES).as_bytes())?;
    let output = python.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("python3 ended with {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
