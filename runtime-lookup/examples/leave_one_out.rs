//! What answers between and beside tuned problems are worth, by the times of a sweep: each choice is left out in turn, the
//! rest is asked for its problem, and what the answer takes there is looked up among the candidates that the sweep timed.
//!
//! ```text
//! cargo run --release -p tgemm-lookup --features sqlite --example leave_one_out -- SWEEP.sqlite [--all]
//! ```
//!
//! Times are compared block by block, as they were taken side by side. An answer that the sweep did not time at that problem is
//! counted and says nothing.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use tgemm_db::outcome::{Phase, median};
use tgemm_db::store::{EnvironmentId, Store};
use tgemm_db::{Choice, Constraints, Environment, Problem, Site, Solution, Trial, Verdict};
use tgemm_lookup::{Database, HitKind, Levels};

/// So much longer than the baseline is slower than it, not noise.
const SLOWER: f64 = 1.01;

/// A sweep: its choices, and what its candidates took.
struct Sweep {
    here: Environment,
    choices: Vec<Choice>,
    /// By problem and solution.
    trials: BTreeMap<(Problem, String), Trial>,
}

impl Sweep {
    fn read(path: &Path) -> Result<Sweep, Box<dyn Error>> {
        let store = Store::open_read_only(path)?;
        let stored = store.choices_with_environment()?;
        let first = stored.first().ok_or("the sweep has no choice")?;
        let (id, here): (EnvironmentId, Environment) = (first.environment_id, (*first.environment).clone());
        let choices: Vec<Choice> =
            stored.into_iter().filter(|stored| stored.environment_id == id).map(|stored| stored.choice).collect();
        let mut trials = BTreeMap::new();
        for choice in &choices {
            for trial in store.trials(id, &choice.problem)? {
                trials.insert((choice.problem, trial.solution.key()), trial);
            }
        }
        Ok(Sweep { here, choices, trials })
    }

    fn without(&self, left_out: impl Fn(&Choice) -> bool, levels: Levels) -> Database {
        let rest = self.choices.iter().filter(|choice| !left_out(choice)).cloned();
        Database::from_choices(rest, &self.here).with_levels(levels)
    }

    /// Time of one solution over that of another at a problem, if both were timed side by side.
    fn ratio(&self, problem: Problem, over: &Solution, under: &Solution) -> Option<f64> {
        if over.key() == under.key() {
            return Some(1.0);
        }
        let trial = |solution: &Solution| self.trials.get(&(problem, solution.key()));
        paired(trial(over)?, trial(under)?)
    }
}

/// The mean time in each block; what was only probed counts where there is nothing else.
fn blocks(trial: &Trial, probed: bool) -> BTreeMap<(&'static str, u32), f64> {
    let mut sums: BTreeMap<_, (f64, f64)> = BTreeMap::new();
    for sample in trial.samples.iter().filter(|sample| (sample.phase == Phase::Probe) == probed) {
        let (sum, count) = sums.entry((sample.phase.name(), sample.block)).or_default();
        *sum += sample.time_us;
        *count += 1.0;
    }
    sums.into_iter().map(|(block, (sum, count))| (block, sum / count)).collect()
}

fn paired(over: &Trial, under: &Trial) -> Option<f64> {
    let of = |probed: bool| {
        let under = blocks(under, probed);
        let ratios = blocks(over, probed).into_iter().filter_map(|(block, us)| Some(us / under.get(&block)?));
        median(&mut ratios.collect::<Vec<f64>>())
    };
    of(false).or_else(|| of(true))
}

/// What became of a rule's answers.
#[derive(Default)]
struct Score {
    asked: usize,
    unanswered: usize,
    untimed: usize,
    over_baseline: Vec<f64>,
    over_best: Vec<f64>,
}

impl Score {
    /// Takes the answer for the problem of `truth`, the choice that was left out.
    fn take(&mut self, sweep: &Sweep, truth: &Choice, answer: Option<&Choice>) {
        self.asked += 1;
        let Some(answer) = answer else { return self.unanswered += 1 };
        let over = |under: &Solution| sweep.ratio(truth.problem, &answer.solution, under);
        let baseline = truth.baselines.first().map(|baseline| &baseline.solution);
        match (baseline.and_then(over), over(&truth.solution)) {
            (Some(baseline), Some(best)) => {
                self.over_baseline.push(baseline);
                self.over_best.push(best);
            }
            _ => self.untimed += 1,
        }
    }

    fn print(&mut self, name: &str) {
        let Score { asked, unanswered, untimed, .. } = *self;
        let timed = self.over_baseline.len();
        print!("{name:<44} {asked:>6} {unanswered:>8} {untimed:>8} {timed:>6}");
        if timed == 0 {
            return println!();
        }
        let share = |count: usize| format!("{count} ({:.0} %)", 100.0 * count as f64 / timed as f64);
        let slower = self.over_baseline.iter().filter(|ratio| **ratio > SLOWER).count();
        let faster = self.over_baseline.iter().filter(|ratio| **ratio < 1.0 / SLOWER).count();
        let mean = self.over_baseline.iter().map(|ratio| ratio.ln()).sum::<f64>() / timed as f64;
        let middle = |ratios: &mut Vec<f64>| median(ratios).unwrap_or(f64::NAN);
        // The median sorts them: the last is the worst.
        let (base, best) = (middle(&mut self.over_baseline), middle(&mut self.over_best));
        let worst = |ratios: &[f64]| ratios.last().copied().unwrap_or(f64::NAN);
        println!(
            " {:>7.3} {base:>7.3} {:>7.3} {:>12} {:>12} {best:>8.3} {:>7.3}",
            mean.exp(),
            worst(&self.over_baseline),
            share(faster),
            share(slower),
            worst(&self.over_best),
        );
    }
}

/// The choices of each site by their M.
fn sites(choices: &[Choice]) -> BTreeMap<Site, Vec<&Choice>> {
    let mut sites: BTreeMap<Site, Vec<&Choice>> = BTreeMap::new();
    for choice in choices {
        if let Problem::Gemm(gemm) = &choice.problem {
            sites.entry(gemm.site).or_default().push(choice);
        }
    }
    sites.values_mut().for_each(|all| all.sort_by_key(|choice| choice.problem.m()));
    sites
}

/// Every M between two others of its site, left out.
fn between(sweep: &Sweep, constraints: &Constraints, all: bool) -> BTreeMap<&'static str, Score> {
    let mut scores: BTreeMap<&'static str, Score> = BTreeMap::new();
    let mut levels = Levels::EXACT;
    (levels.interval, levels.scored) = (true, true);
    for choices in sites(&sweep.choices).values() {
        for window in choices.windows(3) {
            let [low, truth, high] = window else { continue };
            let rest = sweep.without(|choice| choice.problem == truth.problem, levels);
            let hit = rest.lookup(&truth.problem, constraints);
            let agreed = hit.choice.filter(|_| low.solution.is_same_as(&high.solution));
            let won = |choice: &&Choice| choice.verdict == Verdict::Faster;
            let both = [low, high].into_iter().all(won);
            let answers = [
                ("0 what the sweep chose there", Some(*truth)),
                ("1 interval, by scores", hit.choice),
                ("2 by scores, only a choice found faster", hit.choice.filter(won)),
                ("3 where both ends agree (the default)", agreed),
                ("4 always the lower end", Some(*low)),
                ("5 always the upper end", Some(*high)),
                ("6 the upper end, only if found faster", Some(*high).filter(won)),
                ("7 the upper end, only if both found faster", Some(*high).filter(|_| both)),
                ("8 by scores, only if both found faster", hit.choice.filter(|_| both)),
            ];
            for (rule, answer) in answers {
                scores.entry(rule).or_default().take(sweep, truth, answer);
            }
            if let (true, Some(answer)) = (all, hit.choice) {
                let baseline = truth.baselines.first();
                let ratio = baseline.and_then(|base| sweep.ratio(truth.problem, &answer.solution, &base.solution));
                println!("{}: from M={} {} {ratio:.3?}", truth.problem, answer.problem.m(), answer.verdict);
            }
        }
    }
    scores
}

/// Every site left out, asked for at each of its M.
fn beside(sweep: &Sweep, constraints: &Constraints) -> Score {
    let mut score = Score::default();
    for (site, choices) in sites(&sweep.choices) {
        let is_of_site = |choice: &Choice| choice.problem.gemm().is_some_and(|gemm| gemm.site == site);
        let rest = sweep.without(is_of_site, Levels::ALL);
        for truth in choices {
            let hit = rest.lookup(&truth.problem, constraints);
            score.take(sweep, truth, hit.choice.filter(|_| hit.kind == HitKind::Predicted));
        }
    }
    score
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (path, all) = match arguments[..] {
        [path] => (path, false),
        [path, "--all"] => (path, true),
        _ => return Err("usage: leave_one_out SWEEP.sqlite [--all]".into()),
    };
    let sweep = Sweep::read(Path::new(path))?;
    println!("{} choices, {} candidates", sweep.choices.len(), sweep.trials.len());
    let constraints = Constraints::default();
    let mut scores = between(&sweep, &constraints, all);
    println!(
        "{:<44} {:>6} {:>8} {:>8} {:>6} {:>7} {:>7} {:>7} {:>12} {:>12} {:>8} {:>7}",
        "",
        "asked",
        "no answer",
        "untimed",
        "timed",
        "geomean",
        "median",
        "worst",
        ">1% faster",
        ">1% slower",
        "of best",
        "worst"
    );
    scores.iter_mut().for_each(|(rule, score)| score.print(&rule[2..]));
    beside(&sweep, &constraints).print("predicted, the site left out");
    Ok(())
}
