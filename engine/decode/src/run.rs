//! One plain run of a model: what an engine does all day, and what a recorder sees of it.

use std::sync::Arc;
use std::time::Instant;

use tgemm_kernels::Backend;
use tgemm_lookup::dispatch::{DispatchOptions, TunedGemm};
use tgemm_recorder::Recorder;

use crate::Error;
use crate::compare::Tokens;
use crate::decoder::{Decoder, check_run};
use crate::model::Model;
use crate::product::Dispatched;

/// What to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Sequences: M of a decode step.
    pub batch: u32,
    /// Tokens of each prompt.
    pub prompt: u32,
    /// Decode steps after the prompt.
    pub tokens: u32,
    /// How often prompt and steps are run, each time from empty sequences.
    pub repeats: u32,
    /// Decides the tokens.
    pub seed: u64,
    /// The library or `via` of the baseline; `None`: the first one that takes a problem.
    pub baseline: Option<String>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { batch: 4, prompt: 16, tokens: 32, repeats: 1, seed: 0, baseline: None }
    }
}

/// What it took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Time of each prompt, microseconds.
    pub prefill_us: Vec<f64>,
    /// Time of each decode step, microseconds: what each sequence waits for its next token.
    pub us_per_token: Vec<f64>,
}

/// Runs `model` on `backend` with the baseline, noting every problem in `recorder`.
pub fn run(
    model: &Model,
    backend: &Arc<dyn Backend>,
    recorder: Option<&Recorder>,
    options: &RunOptions,
) -> Result<Run, Error> {
    let positions = check_run(&model.config, options.batch, options.prompt, options.tokens)?;
    let dispatch = DispatchOptions { baseline: options.baseline.clone(), ..DispatchOptions::default() };
    let mut product = Dispatched::new(&TunedGemm::new(Arc::clone(backend), Arc::default(), dispatch));
    product.warm(model, options.batch, options.prompt)?;
    let mut decoder = Decoder::new(model, Box::new(product), options.batch, positions)?;
    decoder.record_into(recorder);
    let mut tokens = Tokens::new(options.seed, model, options.batch);
    let mut run = Run::default();
    for _ in 0..options.repeats {
        decoder.clear();
        let prompt = tokens.draw(options.prompt);
        run.prefill_us.push(timed(|| decoder.prefill(&prompt).map(|_| ()))?);
        for _ in 0..options.tokens {
            let input = tokens.draw(1);
            run.us_per_token.push(timed(|| decoder.step(&input).map(|_| ()))?);
        }
    }
    Ok(run)
}

/// Microseconds that `work` takes.
pub(crate) fn timed(work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}
