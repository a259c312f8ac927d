//! A database written anew without personal data: bytes that were once in a file stay in its free pages, so nothing is
//! struck out of the original.

use std::collections::HashMap;
use std::path::Path;

use tgemm_db::Recorded;
use tgemm_db::store::{RunInfo, Store, StoreError};

use super::redact::Redactor;

/// Copies environments, trials and choices of `from` into a new database at `to`.
///
/// # Errors
/// Either cannot be read or written.
pub fn redacted(from: &Store, to: &Path, redactor: &Redactor) -> Result<(), StoreError> {
    let mut to = Store::open(to)?;
    let run = to.begin_run(&RunInfo {
        tool_version: env!("CARGO_PKG_VERSION").into(),
        command_line: "tune selfcheck".into(),
        options: serde_json::json!({}),
    })?;
    let recorded: Vec<Recorded> = from.recorded()?.iter().map(|row| redactor.recorded(row)).collect();
    to.record(&recorded, "selfcheck")?;
    let mut environments = HashMap::new();
    for (id, environment) in from.environments()? {
        let new = to.environment(&redactor.environment(&environment))?;
        environments.insert(id, new);
        for row in &recorded {
            for trial in from.trials(id, &row.problem)? {
                to.save_trial(run, new, &row.problem, &redactor.trial(&trial))?;
            }
        }
    }
    for stored in from.choices_with_environment()? {
        if let Some(&environment) = environments.get(&stored.environment_id) {
            to.save_choice(run, environment, &stored.constraints, &redactor.choice(&stored.choice))?;
        }
    }
    to.end_run(run, "done")?;
    to.close()
}
