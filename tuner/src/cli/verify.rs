//! `tune verify`: a second look at the choices of a database.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tgemm_db::choice::Ratio;
use tgemm_db::format::tuned;
use tgemm_db::store::Store;
use tgemm_db::{Choice, Constraints, Recorded, Verdict, key};
use tgemm_kernels::Effort;

use super::input::{self, ConstraintArgs};
use super::{Exit, Failure};
use crate::filter::Filter;
use crate::race::Rules;
use crate::report::{self, ratio, table};
use crate::sweep::review::{self, Review, Reviewer, SLOWER_MAX};
use crate::sweep::{BenchSettings, Halt, Settings};
use crate::worker::Interrupt;

/// What `tune verify` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 every choice holds; 1 some are slower than 0.99 of their baseline, wrong, refused or \
not reached; 2 usage or input; 3 no device; 130 interrupted."
)]
pub struct Args {
    /// Database of a sweep
    #[arg(long, value_name = "FILE")]
    pub db: PathBuf,
    /// Device to look on: choices for other kinds of device are left out
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Only problems for which this holds, such as 'm<=8 and dtype=bf16'
    #[arg(long = "where", value_name = "FILTER")]
    pub filter: Option<String>,
    /// At most this many choices, those of the greatest recorded time first
    #[arg(long, value_name = "CHOICES")]
    pub limit: Option<usize>,
    /// Time for everything, such as 90s, 10m
    #[arg(long, value_name = "TIME", value_parser = input::duration)]
    pub budget: Option<Duration>,
    /// Look in so many fresh processes, one after the other. A choice holds if it does in all of them; its ratio is then
    /// over all, with an interval of what changes from one process to the next, and `--csv` writes that
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub processes: u32,
    /// How long one sample takes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 4.0, value_parser = super::sweep::sample_ms)]
    pub sample: f64,
    /// Seed of operand values and shuffles
    #[arg(long, default_value_t = 2)]
    pub seed: u64,
    /// What may be chosen
    #[command(flatten)]
    pub constraints: ConstraintArgs,
    /// Write the choices as they came out as a table: those that hold, and in place of the others their best baseline.
    /// What was not reached is left out
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// One JSON object a choice
    #[arg(long)]
    pub json: bool,
}

/// The settings of a review or of a race of copies.
pub(super) fn settings(
    device: &str,
    constraints: Constraints,
    budget: Option<Duration>,
    sample_ms: f64,
    seed: u64,
) -> Settings {
    Settings {
        device: device.into(),
        bench: BenchSettings { effort: Effort::Minimal, seed, rotation_bytes: 0, between: None },
        constraints,
        rules: Rules::default(),
        budget,
        sample_us: sample_ms * 1e3,
        again: false,
        library_files: Vec::new(),
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let store = Store::open_read_only(&args.db)?;
    let filter = args.filter.as_deref().map(Filter::parse).transpose().context("--where")?;
    let interrupt = input::catch_interrupt()?;
    let end = args.budget.map(|budget| Instant::now() + budget);
    // Each process has operands of its own.
    let looks: Vec<Settings> =
        (0..u64::from(args.processes)).map(|at| settings_of(args, args.seed.wrapping_add(at))).collect();
    let mut reviewer = Reviewer::open(&looks[0], end, &interrupt).map_err(Failure::device)?;
    let is_here = |choice: &Choice| choice.device.difference(&reviewer.environment().device).is_none();
    let wanted = |choice: &Choice| filter.as_ref().is_none_or(|f| f.matches(&Recorded::bare(choice.problem)));
    let mut choices: Vec<Choice> = store.choices()?.into_iter().filter(|c| is_here(c) && wanted(c)).collect();
    // What a budget or a limit leaves out should matter least.
    let weight = |choice: &Choice| choice.count.max(1) as f64 * choice.time_us;
    choices.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    choices.truncate(args.limit.unwrap_or(usize::MAX));
    let mut reviews: Vec<Vec<Review>> = vec![Vec::new(); choices.len()];
    // Of one look each is told at once; of several, what they come to.
    let tell_now =
        |choice: &Choice, review: &Review| if looks.len() == 1 { show(args, choice, review) } else { Ok(()) };
    let mut is_whole = look(&mut reviewer, &choices, &mut reviews, &interrupt, tell_now)?;
    for settings in &looks[1..] {
        if is_whole {
            drop(reviewer);
            reviewer = Reviewer::open(settings, end, &interrupt).map_err(Failure::device)?;
            is_whole = look(&mut reviewer, &choices, &mut reviews, &interrupt, tell_now)?;
        }
    }
    let mut found = Vec::new();
    let mut kept = Vec::new();
    for (choice, seen) in choices.iter().zip(&reviews) {
        if let Some(review) = review::agreed(choice, seen) {
            if looks.len() > 1 {
                show(args, choice, &review)?;
            }
            kept.extend(as_it_came_out(choice, &review, seen.len()));
            found.push(review);
        }
    }
    if let Some(path) = &args.csv {
        kept.sort_by_key(|choice: &Choice| choice.problem);
        tuned::write(path, &kept).context("--csv")?;
    }
    let bad = found.iter().filter(|r| matches!(r, Review::Slower(_) | Review::Refused(_))).count();
    let unreached = choices.len() - found.len();
    if !args.json {
        let fewer = reviews.iter().filter(|seen| !seen.is_empty() && seen.len() < looks.len()).count();
        report::write_stdout(&summary(&found, unreached, fewer)).context("cannot write results")?;
    }
    Ok(match (interrupt.is_set(), bad + unreached) {
        (true, _) => Exit::Interrupted,
        (false, 0) if is_whole => Exit::Done,
        _ => Exit::Partly,
    })
}

fn settings_of(args: &Args, seed: u64) -> Settings {
    settings(&args.device, args.constraints.constraints(), args.budget, args.sample, seed)
}

/// Looks at each of `choices` once more. Was all of it done?
fn look(
    reviewer: &mut Reviewer<'_>,
    choices: &[Choice],
    reviews: &mut [Vec<Review>],
    interrupt: &Interrupt,
    tell: impl Fn(&Choice, &Review) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    for (choice, reviews) in choices.iter().zip(reviews) {
        if reviewer.is_over() || interrupt.is_set() {
            return Ok(false);
        }
        match reviewer.review(choice) {
            Ok(review) => {
                tell(choice, &review)?;
                reviews.push(review);
            }
            Err(Halt::BudgetOver | Halt::Interrupted) => return Ok(false),
            Err(halt) => return Err(Failure::device(anyhow::anyhow!(halt))),
        }
    }
    Ok(true)
}

/// What is to be served after this review of so many looks; `None` where nothing was compared.
fn as_it_came_out(choice: &Choice, review: &Review, looks: usize) -> Option<Choice> {
    match review {
        Review::Holds(ratio) if looks > 1 => Some(Choice { ratio: *ratio, ..choice.clone() }),
        Review::Baseline | Review::Holds(_) => Some(choice.clone()),
        Review::NoBaseline => None,
        Review::Slower(_) | Review::Refused(_) => {
            let best = choice.baselines.iter().min_by(|a, b| a.time_us.total_cmp(&b.time_us))?;
            Some(Choice {
                solution: best.solution.clone(),
                time_us: best.time_us,
                ratio: Ratio::ONE,
                verdict: Verdict::Same,
                ..choice.clone()
            })
        }
    }
}

fn words(review: &Review) -> (&'static str, String) {
    match review {
        Review::Baseline => ("baseline", String::new()),
        Review::Holds(r) => ("holds", ratio(r)),
        Review::Slower(r) => ("slower", ratio(r)),
        Review::Refused(why) => ("refused", why.clone()),
        Review::NoBaseline => ("no baseline", String::new()),
    }
}

fn show(args: &Args, choice: &Choice, review: &Review) -> Result<(), Failure> {
    let (word, detail) = words(review);
    let text = if args.json {
        let figures = match review {
            Review::Holds(r) | Review::Slower(r) => Some(*r),
            _ => None,
        };
        let value = serde_json::json!({
            "problem": key::short(&choice.problem), "solution": choice.solution, "review": word, "ratio": figures,
            "stored_ratio": choice.ratio, "why": matches!(review, Review::Refused(_)).then_some(&detail),
        });
        format!("{value}\n")
    } else if matches!(review, Review::Slower(_) | Review::Refused(_)) {
        format!(
            "{}: {word}: {detail} ({}; was {})\n",
            key::short(&choice.problem),
            choice.solution,
            ratio(&choice.ratio)
        )
    } else {
        return Ok(());
    };
    report::write_stdout(&text).context("cannot write results")?;
    Ok(())
}

fn summary(found: &[Review], unreached: usize, fewer: usize) -> String {
    let count = |word: &str| found.iter().filter(|review| words(review).0 == word).count();
    let mut lines = table::table(&["review", "choices"], 1);
    for word in ["holds", "baseline", "slower", "refused", "no baseline"] {
        lines.add_row([word.to_owned(), count(word).to_string()]);
    }
    let ratios: Vec<f64> = found
        .iter()
        .filter_map(|review| match review {
            Review::Holds(r) | Review::Slower(r) => Some(r.estimate),
            _ => None,
        })
        .collect();
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    let mut text = format!("{lines}\n");
    if let Some(mean) = crate::stats::geometric_mean(&ratios) {
        text += &format!(
            "time over the best baseline: geometric mean {mean:.3}, largest {worst:.3} (allowed {SLOWER_MAX:.3})\n"
        );
    }
    if unreached > 0 {
        text += &format!("{unreached} choices not reached\n");
    }
    if fewer > 0 {
        text += &format!("{fewer} choices seen in fewer processes than asked for\n");
    }
    text
}
