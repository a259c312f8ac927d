//! How many instructions a call takes, counted by valgrind: a figure that no other load on the machine changes.
//!
//! This program is started under valgrind once for each case, to make so many calls, and once to make none; the difference
//! has only the calls in it, with the few instructions of the loop around them.

use std::error::Error;
use std::process::Command;

use crate::cases::Bench;

/// What asks the program to be the one that is counted: the number of the case and of calls follow.
pub const CALLS: &str = "--calls";
const MANY: u32 = 20_480;

/// Makes `calls` calls of a case.
pub fn call(case: usize, calls: u32) -> Result<(), Box<dyn Error>> {
    let bench = Bench::new()?;
    let cases = bench.cases()?;
    let case = cases.get(case).ok_or("there is no such case")?;
    (case.calls)(0..calls);
    Ok(())
}

/// Instructions of this program with `calls` calls of a case in it.
fn counted(case: usize, calls: u32) -> Result<u64, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([CALLS, &case.to_string(), &calls.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said.lines().find_map(|line| line.split_once("refs:")).map(|(_, count)| count.trim().replace(',', ""));
    let count = count.filter(|_| output.status.success()).ok_or_else(|| format!("valgrind says:\n{said}"))?;
    Ok(count.parse()?)
}

pub fn print(bench: &Bench) -> Result<(), Box<dyn Error>> {
    println!("\n{:<44} {:>8}", "instructions", "a call");
    let none = counted(0, 0)?;
    for (at, case) in bench.cases()?.iter().enumerate() {
        let a_call = counted(at, MANY)?.saturating_sub(none) as f64 / f64::from(MANY);
        println!("{:<44} {a_call:>8.1}", case.name);
    }
    Ok(())
}
