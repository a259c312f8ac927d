//! Putting choices into a database, each under its environment and constraints.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tgemm_db::device::Environment;
use tgemm_db::merge::{self, Row};
use tgemm_db::store::{EnvironmentId, RunId, RunInfo, Store, StoreError};
use tgemm_db::{Choice, Constraints, Numerics, Problem, WeightForm};

/// Where a choice is kept in a database.
type Place = (EnvironmentId, Arc<Constraints>);

/// Saves rows, some at a time.
pub struct Keeper<'s> {
    store: &'s mut Store,
    run: RunId,
    environments: HashMap<Arc<Environment>, EnvironmentId>,
    anything: Arc<Constraints>,
    /// What is taken: a database has one choice for each.
    taken: HashSet<(Problem, EnvironmentId, Arc<Constraints>)>,
    /// Rows saved.
    pub saved: usize,
    /// Rows that found their place taken by a better row of this very import: several sweeps of one environment had
    /// winners of different libraries.
    pub superseded: usize,
}

/// Says how many rows found their place taken.
pub fn tell_superseded(rows: usize) {
    if rows > 0 {
        eprintln!("tune: warning: {rows} rows of one environment found a better one in their place");
    }
}

/// A file says nothing of what was allowed when it was tuned, so everything was.
pub fn anything() -> Constraints {
    Constraints {
        libraries: None,
        weight_forms: WeightForm::ALL.iter().copied().collect(),
        workspace_bytes_max: None,
        numerics: Numerics::Partial16,
        deterministic: false,
        graph_safe: false,
    }
}

impl<'s> Keeper<'s> {
    /// Begins a run in `store`; `options` are the command's.
    pub fn new(store: &'s mut Store, options: serde_json::Value) -> Result<Keeper<'s>, StoreError> {
        let command: Vec<String> = std::env::args().collect();
        let run = store.begin_run(&RunInfo {
            tool_version: env!("CARGO_PKG_VERSION").into(),
            command_line: command.join(" "),
            options,
        })?;
        Ok(Keeper {
            store,
            run,
            environments: HashMap::new(),
            anything: Arc::new(anything()),
            taken: HashSet::new(),
            saved: 0,
            superseded: 0,
        })
    }

    /// Saves `rows`, of which the better of two comes first; one transaction an environment.
    pub fn save(&mut self, rows: Vec<Row>) -> Result<(), StoreError> {
        let mut groups: Vec<(Place, Vec<Choice>)> = Vec::new();
        let mut group_of: HashMap<Place, usize> = HashMap::new();
        for row in rows {
            let environment = row.environment.unwrap_or_else(|| Arc::new(merge::environment_of(&row.choice)));
            let environment = self.environment(environment)?;
            let constraints = row.constraints.unwrap_or_else(|| Arc::clone(&self.anything));
            if !self.taken.insert((row.choice.problem, environment, Arc::clone(&constraints))) {
                self.superseded += 1;
                continue;
            }
            let key = (environment, constraints);
            let at = *group_of.entry(key.clone()).or_insert_with(|| {
                groups.push((key, Vec::new()));
                groups.len() - 1
            });
            groups[at].1.push(row.choice);
        }
        for ((environment, constraints), choices) in groups {
            self.store.save_choices(self.run, environment, &constraints, &choices)?;
            self.saved += choices.len();
        }
        Ok(())
    }

    fn environment(&mut self, environment: Arc<Environment>) -> Result<EnvironmentId, StoreError> {
        if let Some(id) = self.environments.get(&environment) {
            return Ok(*id);
        }
        let id = self.store.environment(&environment)?;
        self.environments.insert(environment, id);
        Ok(id)
    }

    /// Keeps recorded problems, and says that they came from `source`.
    pub fn record(&mut self, rows: &[tgemm_db::Recorded], source: &str) -> Result<(), StoreError> {
        self.store.record(rows, source)
    }

    /// Ends the run.
    pub fn end(self) -> Result<(), StoreError> {
        self.store.end_run(self.run, "done")
    }
}
