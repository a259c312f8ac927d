//! `tune verify`: a second look at the choices of a database.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tgemm_db::choice::Ratio;
use tgemm_db::format::{self, tuned};
use tgemm_db::store::Store;
use tgemm_db::{Choice, Constraints, Recorded, Verdict, key};
use tgemm_kernels::{Between, Effort};

use super::input::{self, ConstraintArgs};
use super::{Exit, Failure};
use crate::filter::Filter;
use crate::race::Rules;
use crate::report::{self, ratio, table};
use crate::sweep::mix::Mixed;
use crate::sweep::order::Order;
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
    /// Time the problems of each M together besides, each launch after another problem's as in an engine's step. Ratios are
    /// then of what a choice saves there. Each process has another order of problems, and on CUDA every other one fills the
    /// first instruction cache between launches
    #[arg(long)]
    pub mix: bool,
    /// Recording of the engine: with it the problems of a mix come in the order, and with as much between them, as they did in
    /// the graphs that the engine captured. Without, or of problems that were not captured, they are spread evenly
    #[arg(long, value_name = "CSV", requires = "mix")]
    pub order: Option<PathBuf>,
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
        bench: BenchSettings {
            effort: Effort::Minimal,
            seed,
            rotation_bytes: 0,
            between: Between::default(),
            streams: None,
        },
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
    let looks: Vec<Settings> = (0..args.processes).map(|at| settings_of(args, at)).collect();
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
    let is_told_at_once = looks.len() == 1 && !args.mix;
    let tell_now = |choice: &Choice, review: &Review| if is_told_at_once { show(args, choice, review) } else { Ok(()) };
    let order = args.order.as_deref().map(order_of).transpose()?.unwrap_or_default();
    let mut mixes = Vec::new();
    let mut is_whole = true;
    for (at, settings) in looks.iter().enumerate() {
        if at > 0 {
            drop(reviewer);
            reviewer = Reviewer::open(settings, end, &interrupt).map_err(Failure::device)?;
        }
        is_whole = look(&mut reviewer, &choices, &mut reviews, &interrupt, tell_now)?
            && (!args.mix || look_together(&mut reviewer, &choices, &order, &reviews, &mut mixes)?);
        if !is_whole {
            break;
        }
    }
    let mut found = Vec::new();
    let mut kept = Vec::new();
    for (at, (choice, seen)) in choices.iter().zip(&reviews).enumerate() {
        if let Some((review, is_new_ratio)) = agreed(choice, at, seen, &mixes) {
            if !is_told_at_once {
                show(args, choice, &review)?;
            }
            kept.extend(as_it_came_out(choice, &review, is_new_ratio));
            found.push(review);
        }
    }
    show_mixes(args, &mixes)?;
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

/// Streams that processes have used besides their own, two processes each: an engine may have used few or many.
const STREAMS: [Option<u32>; 4] = [None, Some(0), Some(16), Some(64)];

/// The settings of one of several processes. Each has operands of its own. How much of its code a product finds in the
/// instruction caches is the engine's doing, and so is how many streams it has used; neither is known: with `--mix` processes
/// differ in both.
fn settings_of(args: &Args, at: u32) -> Settings {
    let seed = args.seed.wrapping_add(at.into());
    let mut settings = settings(&args.device, args.constraints.constraints(), args.budget, args.sample, seed);
    if args.mix {
        settings.bench.between.cold_code = at % 2 == 1;
        settings.bench.streams = STREAMS[at as usize / 2 % STREAMS.len()];
    }
    settings
}

/// What the recording `path` says of which problem came after which.
fn order_of(path: &Path) -> Result<Order, Failure> {
    let sheet = format::read_untuned(path).context("--order")?;
    input::report_rejected(path, &sheet.rejected);
    let order = Order::of(&sheet.into_values().collect::<Vec<_>>());
    if order.is_empty() {
        eprintln!("tune: {}: no call was captured in a graph, so nothing is known of their order", path.display());
    }
    Ok(order)
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

/// Times those of `choices` together that run together and hold alone. Was all of it done?
fn look_together(
    reviewer: &mut Reviewer<'_>,
    choices: &[Choice],
    order: &Order,
    alone: &[Vec<Review>],
    mixes: &mut Vec<Mixed>,
) -> Result<bool, Failure> {
    let holds = |at: usize| matches!(alone[at].last(), Some(Review::Holds(_)));
    for group in reviewer.groups(choices, order, holds) {
        match reviewer.mix(&group) {
            Ok(Ok(mixed)) => mixes.push(mixed),
            Ok(Err(why)) => eprintln!("tune: {why}; its choices are judged alone"),
            Err(Halt::BudgetOver | Halt::Interrupted) => return Ok(false),
            Err(halt) => return Err(Failure::device(anyhow::anyhow!(halt))),
        }
    }
    Ok(true)
}

/// What the looks at choice `at` come to: it has to hold alone and in every mix that it was in, and the ratio is that of the
/// mixes, if there were any.
fn agreed(choice: &Choice, at: usize, alone: &[Review], mixes: &[Mixed]) -> Option<(Review, bool)> {
    let all_alone = review::agreed(Some(choice.ratio), alone)?;
    let in_mix = mixes.iter().flat_map(|mixed| &mixed.ratios).filter(|(place, _)| *place == at);
    let in_mixes: Vec<Review> = in_mix.map(|(_, ratio)| Review::of(*ratio)).collect();
    Some(match (&all_alone, review::agreed(None, &in_mixes)) {
        (Review::Holds(_), Some(together)) => (together, true),
        _ => (all_alone, alone.len() > 1),
    })
}

/// Says of each M what its mixes, one a process, came to.
fn show_mixes(args: &Args, mixes: &[Mixed]) -> Result<(), Failure> {
    let mut by_m: BTreeMap<u32, Vec<&Mixed>> = BTreeMap::new();
    for mixed in mixes {
        by_m.entry(mixed.m).or_default().push(mixed);
    }
    for (m, mixes) in by_m {
        let ratios: Vec<f64> = mixes.iter().map(|mixed| mixed.ratio.estimate).collect();
        let mut rounds_us: Vec<f64> = mixes.iter().map(|mixed| mixed.baselines_us).collect();
        let (Some(first), Some(over_all), Some(round_us)) =
            (mixes.first(), crate::stats::over_processes(&ratios), tgemm_db::outcome::median(&mut rounds_us))
        else {
            continue;
        };
        let over_all = if mixes.len() == 1 { first.ratio } else { over_all };
        let text = if args.json {
            let value = serde_json::json!({ "mix": {
                "m": m, "problems": first.problems, "launches": first.launches, "baselines_us": round_us,
                "ratio": over_all, "processes": mixes.len(), "ratios": ratios,
            } });
            format!("{value}\n")
        } else {
            let Mixed { problems, launches, .. } = first;
            let (us, ratio) = (report::time_us(round_us), ratio(&over_all));
            format!(
                "M = {m}: {launches} launches of {problems} problems in turn, {us} us by baselines; with choices {ratio}\n"
            )
        };
        report::write_stdout(&text).context("cannot write results")?;
    }
    Ok(())
}

/// What is to be served after this review; `None` where nothing was compared. Was its ratio found in another way than by one
/// look?
fn as_it_came_out(choice: &Choice, review: &Review, is_new_ratio: bool) -> Option<Choice> {
    match review {
        Review::Holds(ratio) if is_new_ratio => Some(Choice { ratio: *ratio, ..choice.clone() }),
        Review::Baseline | Review::Holds(_) => Some(choice.clone()),
        Review::NoBaseline => None,
        Review::Slower(_) | Review::Refused(_) => {
            let best = choice.best_baseline()?;
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
