//! Trials: one row a candidate, and one a timing.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::columns::{Columns, bounded, cut, integer};
use super::error::Fault;
use super::known::Recent;
use super::words::{self, Promises};
use super::{EnvironmentId, RunId};
use crate::outcome::{ErrorFigures, Outcome, Sample, Trial};
use crate::problem::Problem;

/// Most timings of one trial.
pub const SAMPLES_MAX: usize = 1_000_000;

/// Saves a trial over an earlier one of the same problem, environment and solution.
pub(super) fn save(
    connection: &Connection,
    run: RunId,
    environment: EnvironmentId,
    problem: &Problem,
    trial: &Trial,
) -> Result<(), Fault> {
    if trial.samples.len() > SAMPLES_MAX {
        return Err(Fault::TooLarge { what: "timings", size: trial.samples.len(), limit: SAMPLES_MAX });
    }
    let problem = words::problem_id(connection, problem)?;
    let solution = words::solution_id(connection, &trial.solution)?;
    let via = trial.baseline_via.as_deref().map(|via| bounded("the name of an API", via)).transpose()?;
    let error = trial.error;
    let mut upsert = connection.prepare_cached(
        "INSERT INTO trial (problem, environment, solution, run, outcome, detail, baseline_via, finalist,
             workspace_bytes, numerics, deterministic, graph_safe,
             error_checked, error_max_over_bound, error_max_relative, error_share_beyond, pack_us, median_us)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
         ON CONFLICT (problem, environment, solution) DO UPDATE SET
             run = excluded.run, outcome = excluded.outcome, detail = excluded.detail,
             baseline_via = excluded.baseline_via, finalist = excluded.finalist,
             workspace_bytes = excluded.workspace_bytes, numerics = excluded.numerics,
             deterministic = excluded.deterministic, graph_safe = excluded.graph_safe,
             error_checked = excluded.error_checked, error_max_over_bound = excluded.error_max_over_bound,
             error_max_relative = excluded.error_max_relative, error_share_beyond = excluded.error_share_beyond,
             pack_us = excluded.pack_us, median_us = excluded.median_us
         RETURNING id",
    )?;
    let values = params![
        problem,
        environment.0,
        solution,
        run.0,
        trial.outcome.kind.name(),
        cut(&trial.outcome.detail),
        via,
        trial.finalist,
        integer(trial.solution.workspace_bytes),
        trial.solution.numerics.name(),
        trial.solution.deterministic,
        trial.solution.graph_safe,
        error.map(|e| integer(e.checked)),
        error.map(|e| e.max_over_bound),
        error.map(|e| e.max_relative),
        error.map(|e| e.share_beyond),
        trial.pack_us,
        trial.median_us(),
    ];
    let id: i64 = upsert.query_row(values, |row| row.get(0))?;
    save_samples(connection, id, &trial.samples)
}

fn save_samples(connection: &Connection, trial: i64, samples: &[Sample]) -> Result<(), Fault> {
    connection.prepare_cached("DELETE FROM sample WHERE trial = ?1")?.execute([trial])?;
    let mut insert = connection
        .prepare_cached("INSERT INTO sample (trial, position, phase, block, time_us) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (position, Sample { phase, block, time_us }) in (0i64..).zip(samples) {
        insert.execute(params![trial, position, phase.name(), block, time_us])?;
    }
    Ok(())
}

/// The trials of one problem in one environment, in the order in which their solutions were first tried.
pub(super) fn load(
    connection: &Connection,
    environment: EnvironmentId,
    problem: &Problem,
) -> Result<Vec<Trial>, Fault> {
    let Some(problem) = words::find_problem(connection, &problem.to_string())? else { return Ok(Vec::new()) };
    let of_these = params![problem, environment.0];
    let identities = words::solutions(
        connection,
        "WHERE solution.id IN (SELECT solution FROM trial WHERE problem = ?1 AND environment = ?2)",
        of_these,
    )?;
    let mut samples = samples(connection, problem, environment)?;
    let mut select = connection.prepare_cached(
        "SELECT id, solution, workspace_bytes, numerics, deterministic, graph_safe, outcome, detail, baseline_via,
             finalist, error_checked, error_max_over_bound, error_max_relative, error_share_beyond, pack_us
         FROM trial WHERE problem = ?1 AND environment = ?2 ORDER BY id",
    )?;
    let mut rows = select.query(of_these)?;
    let (mut trials, mut numerics) = (Vec::new(), Recent::default());
    while let Some(row) = rows.next()? {
        let mut c = Columns::of(row, "trial");
        let (id, solution) = (c.get::<i64>()?, c.get()?);
        trials.push(Trial {
            solution: Promises::read(&mut c, &mut numerics)?.complete(solution, &identities)?,
            outcome: Outcome { kind: c.parse("outcome")?, detail: c.get()? },
            baseline_via: c.get()?,
            finalist: c.get()?,
            error: error_figures(&mut c)?,
            pack_us: c.get()?,
            samples: samples.remove(&id).unwrap_or_default(),
        });
    }
    Ok(trials)
}

/// From the next four columns; a trial that never gave a result has no count of checked outputs.
fn error_figures(c: &mut Columns<'_>) -> Result<Option<ErrorFigures>, Fault> {
    let checked = c.optional_unsigned()?;
    let (max_over_bound, max_relative, share_beyond) = (c.float()?, c.float()?, c.float()?);
    Ok(checked.map(|checked| ErrorFigures { max_over_bound, max_relative, share_beyond, checked }))
}

fn samples(
    connection: &Connection,
    problem: i64,
    environment: EnvironmentId,
) -> Result<HashMap<i64, Vec<Sample>>, Fault> {
    let mut select = connection.prepare_cached(
        "SELECT trial, phase, block, time_us FROM trial JOIN sample ON sample.trial = trial.id
         WHERE problem = ?1 AND environment = ?2 ORDER BY trial, position",
    )?;
    let mut rows = select.query(params![problem, environment.0])?;
    let mut found: HashMap<i64, Vec<Sample>> = HashMap::new();
    while let Some(row) = rows.next()? {
        let mut c = Columns::of(row, "sample");
        let trial = c.get()?;
        let sample = Sample { phase: c.parse("phase")?, block: c.get()?, time_us: c.float()? };
        found.entry(trial).or_default().push(sample);
    }
    Ok(found)
}
