//! What a lookup and a start cost on this machine, as one program that needs nothing beside it: it makes its own table of
//! 100,000 choices.
//!
//! ```text
//! cargo build --release -p tgemm-lookup --features sqlite --example speed
//! target/release/examples/speed                 # latencies, peers, loading
//! target/release/examples/speed --threads       # 1 to 16 threads over one table, and over one that is replaced
//! target/release/examples/speed --instructions  # instructions a call, by valgrind
//! target/release/examples/speed --loading [PART OF A NAME]
//! ```

mod cases;
mod clock;
mod instructions;
mod loading;
mod peers;
mod scratch;
mod table;
mod threads;

use std::error::Error;

use cases::Bench;
use scratch::Scratch;

const USAGE: &str = "usage: speed [--threads | --instructions | --loading [PART OF A NAME]]";

fn latencies(bench: &Bench) -> Result<(), Box<dyn Error>> {
    let (choices, bytes) = (bench.database.len(), bench.database.index_bytes());
    println!("{choices} choices, {:.1} bytes of index each", bytes as f64 / choices as f64);
    println!("\n{:<44} {:>8} {:>8}", "a call, ns", "median", "least");
    for case in bench.cases()? {
        println!("{:<44} {}", case.name, clock::cost(&case.calls));
    }
    for (name, cost) in peers::tunableop()? {
        println!("{name:<44} {cost}");
    }
    match peers::aiter() {
        Ok(lines) => print!("{lines}"),
        Err(error) => println!("no figures of a Python dictionary: {error}"),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => {
            latencies(&Bench::new()?)?;
            loading::print(&Scratch::new()?, "")
        }
        ["--threads"] => threads::print(&Bench::new()?, &Scratch::new()?),
        ["--instructions"] => instructions::print(&Bench::new()?),
        ["--loading"] => loading::print(&Scratch::new()?, ""),
        ["--loading", only] => loading::print(&Scratch::new()?, only),
        [instructions::CALLS, case, calls] => instructions::call(case.parse()?, calls.parse()?),
        _ => Err(USAGE.into()),
    }
}
