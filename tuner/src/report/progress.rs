//! Progress of a sweep: a bar with an ETA on a terminal, plain lines otherwise, JSON lines for tools.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use tgemm_db::{Choice, Trial, cost, key};

use super::table::{self, outcome_counts};
use super::{ratio, time_us, write_stdout};
use crate::sweep::Event;

/// Shows a sweep as it goes.
pub struct Progress {
    bar: Option<ProgressBar>,
    json: bool,
    verbose: bool,
    problems: usize,
    finished: usize,
    candidates: usize,
}

impl Progress {
    /// `json`: events as JSON lines on standard output. `verbose`: every candidate's outcome.
    pub fn new(json: bool, verbose: bool) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let template = "{elapsed_precise} [{bar:24}] {pos}/{len} problems, {eta} left: {wide_msg}";
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Progress { bar, json, verbose, problems: 0, finished: 0, candidates: 0 }
    }

    /// One line for a person.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event<'_>) {
        if self.json {
            // A reader that has gone does not stop the sweep.
            let _ = write_stdout(&format!("{}\n", event_json(event)));
        }
        match event {
            Event::Planned { environment, absent, plan, already_chosen } => {
                // Devices of another kind have a plan of their own.
                self.problems += plan.items.len();
                self.line(&format!("device {}: {}", environment.device, libraries(environment)));
                for (library, why) in *absent {
                    self.line(&format!("  without {library}: {why}"));
                }
                let already =
                    if *already_chosen > 0 { format!(", {already_chosen} chosen already") } else { String::new() };
                self.line(&format!("{} problems to tune{already}", plan.items.len()));
                if let Some(bar) = &self.bar {
                    bar.set_length(self.problems as u64);
                }
            }
            Event::Begun { item, .. } => {
                self.candidates = 0;
                if let Some(bar) = &self.bar {
                    bar.set_message(key::short(&item.recorded.problem));
                }
            }
            Event::Tried { trial } => self.show_trial(trial),
            Event::Disturbed { device, blocks, why } => {
                self.line(&format!("  {blocks} blocks disturbed on {device}: {why}"));
            }
            Event::Finished { contest, .. } => {
                self.count_finished();
                let counts = outcome_counts(&contest.trials);
                let text = match &contest.choice {
                    Some(choice) => format!(
                        "[{}/{}] {}: {} us with {}, ratio {} ({}; {}{counts})",
                        self.finished,
                        self.problems,
                        key::short(&choice.problem),
                        time_us(choice.time_us),
                        choice.solution,
                        ratio(&choice.ratio),
                        choice.verdict,
                        against(choice),
                    ),
                    None => format!("[{}/{}] no choice ({counts})", self.finished, self.problems),
                };
                self.line(&text);
                if self.verbose {
                    self.line(&table::trials(&contest.trials));
                }
            }
            Event::Impossible { item, why } => {
                self.count_finished();
                self.line(&format!("{}: {why}", key::short(&item.recorded.problem)));
            }
        }
    }

    fn count_finished(&mut self) {
        self.finished += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(self.finished as u64);
        }
    }

    fn show_trial(&mut self, trial: &Trial) {
        self.candidates += 1;
        if let Some(bar) = &self.bar {
            bar.tick();
        }
        // What went wrong is worth a line at once; the rest is in the table.
        if trial.outcome.kind.is_final_failure() && self.verbose {
            self.line(&format!("  {}: {} {}", trial.solution, trial.outcome.kind, trial.outcome.detail));
        }
    }
}

/// The baselines with their times: `gemm_ex 12.3 us, lt_matmul 11.9 us; `.
fn against(choice: &Choice) -> String {
    let times = choice.baselines.iter().map(|b| format!("{} {} us", b.via, time_us(b.time_us)));
    let times = times.collect::<Vec<_>>().join(", ");
    if times.is_empty() { times } else { times + "; " }
}

fn libraries(environment: &tgemm_db::Environment) -> String {
    environment.builds.iter().map(|b| format!("{} {}", b.library, b.version)).collect::<Vec<_>>().join(", ")
}

/// The event as one JSON object with an `event` field.
pub fn event_json(event: &Event<'_>) -> Value {
    match event {
        Event::Planned { environment, absent, plan, already_chosen } => json!({
            "event": "planned", "environment": environment, "absent": absent,
            "problems": plan.items.len(), "already_chosen": already_chosen,
        }),
        Event::Begun { number, item, device } => json!({
            "event": "begun", "number": number, "device": device, "problem": item.recorded.problem, "count": item.recorded.count,
            "share": item.share,
        }),
        Event::Tried { trial } => json!({
            "event": "tried", "solution": trial.solution, "outcome": trial.outcome, "baseline_via": trial.baseline_via,
            "median_us": trial.median_us(), "pack_us": trial.pack_us, "error": trial.error,
        }),
        Event::Disturbed { device, blocks, why } => {
            json!({ "event": "disturbed", "device": device, "blocks": blocks, "why": why })
        }
        Event::Finished { number, contest } => json!({
            "event": "finished", "number": number, "choice": contest.choice, "confirmed": contest.confirmed,
            "candidates": contest.trials.len(),
            "gflops_per_s": contest.choice.as_ref().map(|c| cost::gflops_per_s(&c.problem, c.time_us)),
        }),
        Event::Impossible { item, why } => {
            json!({ "event": "impossible", "problem": item.recorded.problem, "why": why })
        }
    }
}
