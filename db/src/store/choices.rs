//! Choices: one row a problem, environment and constraints, with its baselines best first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rusqlite::{Connection, Rows, params};

use super::columns::{Columns, bounded, integer};
use super::error::Fault;
use super::known::{ById, Keys, Recent};
use super::origins::{Files, Origins, Stored};
use super::serving;
use super::words::{self, Promises};
use super::{EnvironmentId, RunId, StoredChoice};
use crate::choice::{Baseline, Choice, Constraints, Ratio};
use crate::device::{Device, Environment};
use crate::origin::Origin;
use crate::problem::Problem;
use crate::solution::{Numerics, Solution};

/// Most baselines of one choice.
pub const BASELINES_MAX: usize = 256;

/// Saves choices over earlier ones of the same problem, environment and constraints.
pub(super) fn save<'c>(
    connection: &Connection,
    run: RunId,
    environment: EnvironmentId,
    constraints: &Constraints,
    choices: impl IntoIterator<Item = &'c Choice>,
) -> Result<(), Fault> {
    let place = words::environment(connection, environment.0)?.ok_or(Fault::Reference)?.device;
    let constraints = words::constraints_id(connection, constraints)?;
    let mut origins = Origins::default();
    choices
        .into_iter()
        .try_for_each(|choice| save_one(connection, run, (environment, &place), constraints, &mut origins, choice))
}

/// Saves choices of any devices, each in the environment that is its device alone.
pub(super) fn import<'c>(
    connection: &Connection,
    run: RunId,
    constraints: &Constraints,
    choices: impl IntoIterator<Item = &'c Choice>,
) -> Result<(), Fault> {
    let constraints = words::constraints_id(connection, constraints)?;
    let mut origins = Origins::default();
    let mut environments: HashMap<&Device, EnvironmentId> = HashMap::new();
    for choice in choices {
        let device: &Device = &choice.device;
        let environment = match environments.get(device) {
            Some(id) => *id,
            None => {
                let alone = Environment {
                    device: device.clone(),
                    builds: Vec::new(),
                    driver: String::new(),
                    vars: BTreeMap::new(),
                };
                let id = EnvironmentId(words::environment_id(connection, &alone)?);
                environments.insert(device, id);
                id
            }
        };
        save_one(connection, run, (environment, device), constraints, &mut origins, choice)?;
    }
    Ok(())
}

fn save_one(
    connection: &Connection,
    run: RunId,
    (environment, place): (EnvironmentId, &Device),
    constraints: i64,
    origins: &mut Origins,
    choice: &Choice,
) -> Result<(), Fault> {
    if choice.baselines.len() > BASELINES_MAX {
        return Err(Fault::TooLarge { what: "baselines", size: choice.baselines.len(), limit: BASELINES_MAX });
    }
    check_device(&choice.device, place)?;
    let problem = words::problem_id(connection, &choice.problem)?;
    let solution = words::solution_id(connection, &choice.solution)?;
    let origin = choice.origin.as_ref().map(|origin| origins.save(connection, origin)).transpose()?;
    let mut upsert = connection.prepare_cached(
        "INSERT INTO choice (problem, environment, constraints, run, solution,
             workspace_bytes, numerics, deterministic, graph_safe, time_us, ratio_estimate, ratio_low, ratio_high,
             verdict, error_over_bound, err_ratio, pack_us, count, tuned_at,
             imported_file, imported_line, imported_cells)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)
         ON CONFLICT (problem, environment, constraints) DO UPDATE SET
             run = excluded.run, solution = excluded.solution, workspace_bytes = excluded.workspace_bytes,
             numerics = excluded.numerics, deterministic = excluded.deterministic, graph_safe = excluded.graph_safe,
             time_us = excluded.time_us, ratio_estimate = excluded.ratio_estimate, ratio_low = excluded.ratio_low,
             ratio_high = excluded.ratio_high, verdict = excluded.verdict,
             error_over_bound = excluded.error_over_bound, err_ratio = excluded.err_ratio,
             pack_us = excluded.pack_us, count = excluded.count, tuned_at = excluded.tuned_at,
             imported_file = excluded.imported_file, imported_line = excluded.imported_line,
             imported_cells = excluded.imported_cells
         RETURNING id",
    )?;
    let values = params![
        problem,
        environment.0,
        constraints,
        run.0,
        solution,
        integer(choice.solution.workspace_bytes),
        choice.solution.numerics.name(),
        choice.solution.deterministic,
        choice.solution.graph_safe,
        choice.time_us,
        choice.ratio.estimate,
        choice.ratio.low,
        choice.ratio.high,
        choice.verdict.name(),
        choice.error_over_bound,
        choice.err_ratio,
        choice.pack_us,
        integer(choice.count),
        bounded("a time stamp", &choice.tuned_at)?,
        origin.as_ref().map(|origin| origin.file),
        origin.as_ref().map(|origin| integer(origin.line)),
        origin.as_ref().map(|origin| &origin.cells),
    ];
    let id: i64 = upsert.query_row(values, |row| row.get(0))?;
    save_baselines(connection, id, &choice.baselines)
}

/// A choice is read back with the device of its environment, so the two must be one.
fn check_device(device: &Device, place: &Device) -> Result<(), Fault> {
    let same = Device { last_level_cache_bytes: place.last_level_cache_bytes, ..device.clone() } == *place;
    match same {
        true => Ok(()),
        false => Err(Fault::Device { choice: device.to_string(), environment: place.to_string() }),
    }
}

fn save_baselines(connection: &Connection, choice: i64, baselines: &[Baseline]) -> Result<(), Fault> {
    connection.prepare_cached("DELETE FROM choice_baseline WHERE choice = ?1")?.execute([choice])?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO choice_baseline (choice, position, via, solution,
             workspace_bytes, numerics, deterministic, graph_safe, time_us)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for (position, Baseline { via, solution, time_us }) in (0i64..).zip(baselines) {
        insert.execute(params![
            choice,
            position,
            bounded("the name of an API", via)?,
            words::solution_id(connection, solution)?,
            integer(solution.workspace_bytes),
            solution.numerics.name(),
            solution.deterministic,
            solution.graph_safe,
            time_us,
        ])?;
    }
    Ok(())
}

/// Is there a choice for exactly this?
pub(super) fn has(
    connection: &Connection,
    environment: EnvironmentId,
    constraints: &Constraints,
    problem: &Problem,
) -> Result<bool, Fault> {
    let mut find = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM choice
             WHERE problem = (SELECT id FROM problem WHERE key = ?1) AND environment = ?2
                 AND constraints = (SELECT id FROM constraints WHERE identity = ?3))",
    )?;
    let exact = params![problem.to_string(), environment.0, words::constraints_text(constraints)?];
    Ok(find.query_row(exact, |row| row.get(0))?)
}

/// The columns of a choice that a lookup does not want.
const MORE: &str = ", constraints, imported_file, imported_line, imported_cells";

/// Every choice with where and under which constraints it was made, in the order in which their problems were first
/// chosen.
pub(super) fn load(connection: &Connection, mut take: impl FnMut(StoredChoice)) -> Result<(), Fault> {
    let constraints = words::constraints(connection)?;
    let files = Files::load(connection)?;
    let mut beside = connection.prepare_cached(Baselines::SELECT)?;
    let mut baselines = Baselines { rows: beside.query([])?, numerics: Recent::default(), next: None };
    each(connection, MORE, |made, c| {
        let Made { id, environment_id, environment, identities, mut choice, .. } = made;
        let constraint = constraints.get(&c.get()?).ok_or_else(|| dangling(id, "constraints"))?;
        choice.origin = origin(c, &files)?;
        choice.baselines = baselines.of(id, identities)?;
        let (environment, constraints) = (Arc::clone(environment), Arc::clone(constraint));
        take(StoredChoice { environment_id, environment, constraints, choice });
        Ok(())
    })
}

/// Every choice in the same order, but for its origin and its baselines: to read those takes longer than all the rest.
pub(super) fn each_alone(connection: &Connection, mut take: impl FnMut(Choice)) -> Result<(), Fault> {
    if serving::each(connection, &mut take)? {
        return Ok(());
    }
    each_numbered(connection, |_, _, choice| take(choice))
}

/// The same by the rows, with the numbers of its environment and its solution.
pub(super) fn each_numbered(connection: &Connection, mut take: impl FnMut(i64, i64, Choice)) -> Result<(), Fault> {
    each(connection, "", |made, _| {
        take(made.environment_id.0, made.solution_id, made.choice);
        Ok(())
    })
}

/// Environments and their devices, by number.
pub(super) type Places = ById<(Arc<Environment>, Arc<Device>)>;

/// All of them.
pub(super) fn places(connection: &Connection) -> Result<Places, Fault> {
    let environments = words::environments(connection)?.into_iter();
    let environments = environments.map(|(id, environment)| {
        let device = Arc::new(environment.device.clone());
        (id, (environment, device))
    });
    Ok(ById::new(environments.collect()))
}

/// A choice, and where it was made.
struct Made<'e> {
    id: i64,
    environment_id: EnvironmentId,
    environment: &'e Arc<Environment>,
    solution_id: i64,
    identities: &'e ById<Solution>,
    /// Without what [`MORE`] has, and without its baselines.
    choice: Choice,
}

pub(super) fn dangling(choice: i64, what: &str) -> Fault {
    Fault::Damaged(format!("choice {choice} refers to no {what}"))
}

/// Every choice goes to `take`, with its columns from `more` on. A hundred thousand are read when an engine starts, so each
/// column that is not asked for counts, and what rows say again and again is read once.
fn each(
    connection: &Connection,
    more: &str,
    mut take: impl FnMut(Made<'_>, &mut Columns<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let identities = words::solutions(connection, "", [])?;
    let environments = places(connection)?;
    let mut select = connection.prepare_cached(&format!(
        "SELECT id, environment, solution, workspace_bytes, numerics, deterministic, graph_safe, problem, time_us,
             ratio_estimate, ratio_low, ratio_high, verdict, error_over_bound, err_ratio, pack_us, count, tuned_at{more}
         FROM choice ORDER BY id"
    ))?;
    let mut rows = select.query([])?;
    let mut beside = connection.prepare_cached(Problems::SELECT)?;
    let mut problems = Problems { connection, rows: beside.query([])?, keys: Keys::new(), last: None };
    let (mut numerics, mut verdicts) = (Recent::default(), Recent::default());
    while let Some(row) = rows.next()? {
        let mut c = Columns::of(row, "choice");
        let (id, environment_id, solution) = (c.integer()?, c.integer()?, c.integer()?);
        let (environment, device) = environments.get(environment_id).ok_or_else(|| dangling(id, "environment"))?;
        let choice = Choice {
            solution: Promises::read(&mut c, &mut numerics)?.complete(solution, &identities)?,
            device: Arc::clone(device),
            problem: problems.get(c.integer()?)?.ok_or_else(|| dangling(id, "problem"))?,
            time_us: c.float()?,
            ratio: Ratio { estimate: c.float()?, low: c.float()?, high: c.float()? },
            verdict: c.recent("verdict", &mut verdicts)?,
            baselines: Vec::new(),
            error_over_bound: c.float()?,
            err_ratio: c.float()?,
            pack_us: c.optional_float()?,
            count: c.unsigned()?,
            tuned_at: c.text()?.into(),
            origin: None,
        };
        let environment_id = EnvironmentId(environment_id);
        let made = Made { id, environment_id, environment, solution_id: solution, identities: &identities, choice };
        take(made, &mut c)?;
    }
    Ok(())
}

/// The problems of all choices, read in step with the choices: to find each by its number takes twice as long.
struct Problems<'r> {
    connection: &'r Connection,
    rows: Rows<'r>,
    keys: Keys,
    /// The last one that was read.
    last: Option<(i64, Problem)>,
}

impl Problems<'_> {
    const SELECT: &'static str = "SELECT id, key FROM problem ORDER BY id";

    fn get(&mut self, wanted: i64) -> Result<Option<Problem>, Fault> {
        if let Some((id, _)) = self.last
            && wanted < id
        {
            return self.find(wanted);
        }
        while self.last.is_none_or(|(id, _)| id < wanted) {
            let Some(row) = self.rows.next()? else { return Ok(None) };
            let mut c = Columns::of(row, "problem");
            let id = c.integer()?;
            // Most of those that are passed over were never chosen for, and nobody wants them read.
            if id >= wanted {
                self.last = Some((id, c.parse_with("key", |text| self.keys.problem(text))?));
            }
        }
        Ok(self.last.filter(|(id, _)| *id == wanted).map(|(_, problem)| problem))
    }

    /// Problems that are chosen for in another order than they came in.
    fn find(&mut self, wanted: i64) -> Result<Option<Problem>, Fault> {
        let mut find = self.connection.prepare_cached("SELECT key FROM problem WHERE id = ?1")?;
        let mut rows = find.query([wanted])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Columns::of(row, "problem").parse_with("key", |text| self.keys.problem(text)).map(Some)
    }
}

/// The next three columns: where a choice was imported from, if it was.
fn origin(c: &mut Columns<'_>, files: &Files) -> Result<Option<Arc<Origin>>, Fault> {
    let file: Option<i64> = c.get()?;
    let line = c.unsigned()?;
    let cells: Option<String> = c.get()?;
    let Some(file) = file else { return Ok(None) };
    let stored = Stored { file, line, cells: cells.unwrap_or_else(|| "[]".into()) };
    Ok(files.origin(&stored)?.map(Arc::new))
}

/// The baselines of all choices, read in step with the choices.
struct Baselines<'r> {
    rows: Rows<'r>,
    numerics: Recent<Numerics>,
    /// Read already, of a later choice.
    next: Option<(i64, Baseline)>,
}

impl Baselines<'_> {
    const SELECT: &'static str =
        "SELECT choice, solution, workspace_bytes, numerics, deterministic, graph_safe, via, time_us
         FROM choice_baseline ORDER BY choice, position";

    /// Those of `choice`, which must be later than the one asked for before.
    fn of(&mut self, choice: i64, identities: &ById<Solution>) -> Result<Vec<Baseline>, Fault> {
        let mut found = Vec::new();
        loop {
            if self.next.is_none() {
                self.next = self.read(identities)?;
            }
            match self.next.take() {
                Some((owner, baseline)) if owner == choice => found.push(baseline),
                // Of a choice that is gone: `integrity_check` names it.
                Some((owner, _)) if owner < choice => {}
                later => {
                    self.next = later;
                    return Ok(found);
                }
            }
        }
    }

    fn read(&mut self, identities: &ById<Solution>) -> Result<Option<(i64, Baseline)>, Fault> {
        let Some(row) = self.rows.next()? else { return Ok(None) };
        let mut c = Columns::of(row, "choice_baseline");
        let (choice, solution) = (c.get()?, c.get()?);
        let solution = Promises::read(&mut c, &mut self.numerics)?.complete(solution, identities)?;
        Ok(Some((choice, Baseline { solution, via: c.get()?, time_us: c.float()? })))
    }
}
