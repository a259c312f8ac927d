//! `tune noise`: how often would a tie be taken for a win?

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::input::{self, ConstraintArgs, Selection};
use super::verify::settings;
use super::{Exit, Failure};
use crate::report;
use crate::sweep::Halt;
use crate::sweep::review::{Noise, Reviewer};

/// What `tune noise` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each problem's first baseline races against copies of itself, by the rules of a sweep. A copy that \
is chosen is a mistake.\nExit codes: 0 done; 1 some problems could not be raced or were not reached; 2 usage or input; \
3 no device; 130 interrupted."
)]
pub struct Args {
    /// Untuned CSVs: the problems to race on
    #[arg(required = true, value_name = "UNTUNED")]
    pub untuned: Vec<PathBuf>,
    /// Device to race on
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Copies of the baseline that enter as candidates
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub copies: u32,
    /// Which problems
    #[command(flatten)]
    pub selection: Selection,
    /// Time for everything, such as 90s, 10m
    #[arg(long, value_name = "TIME", value_parser = input::duration)]
    pub budget: Option<Duration>,
    /// How long one sample takes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 4.0, value_parser = super::sweep::sample_ms)]
    pub sample: f64,
    /// Seed of operand values and shuffles
    #[arg(long, default_value_t = 3)]
    pub seed: u64,
    /// What may be chosen
    #[command(flatten)]
    pub constraints: ConstraintArgs,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let rows = input::merged(&input::read_sources(&args.untuned, &args.selection)?);
    let interrupt = input::catch_interrupt()?;
    let settings = settings(&args.device, args.constraints.constraints(), args.budget, args.sample, args.seed);
    let end = settings.budget.map(|budget| Instant::now() + budget);
    let mut reviewer = Reviewer::open(&settings, end, &interrupt).map_err(Failure::device)?;
    let mut noise = Noise::default();
    for row in &rows {
        if reviewer.is_over() || interrupt.is_set() {
            break;
        }
        match reviewer.race_itself(row, args.copies as usize, &mut noise) {
            Ok(()) => {}
            Err(Halt::BudgetOver | Halt::Interrupted) => break,
            Err(halt) => return Err(Failure::device(anyhow::anyhow!(halt))),
        }
    }
    let Noise { problems, switches, ambiguous, failed } = noise;
    let unreached = rows.len() - problems - failed;
    let text = format!(
        "{problems} problems raced against {} copies of their baseline: {switches} switches, {ambiguous} ambiguous\n\
         {failed} could not be raced, {unreached} not reached\n",
        args.copies
    );
    report::write_stdout(&text).context("cannot write results")?;
    Ok(match (interrupt.is_set(), failed + unreached) {
        (true, _) => Exit::Interrupted,
        (false, 0) => Exit::Done,
        _ => Exit::Partly,
    })
}
