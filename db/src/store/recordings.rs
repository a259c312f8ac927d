//! Recordings: what each source file says was run, kept apart by source so that reading one again adds nothing.

use rusqlite::{Connection, params};

use super::columns::{Columns, bounded, integer};
use super::error::Fault;
use super::{now, words};
use crate::recording::{Recorded, merge};

/// Replaces what is known from `source` by `rows`.
pub(super) fn save(connection: &Connection, rows: &[Recorded], source: &str) -> Result<(), Fault> {
    let source: i64 = connection
        .prepare_cached(
            "INSERT INTO source (name, read_at) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET read_at = excluded.read_at RETURNING id",
        )?
        .query_row(params![bounded("the name of a source", source)?, now()], |row| row.get(0))?;
    connection.prepare_cached("DELETE FROM recording WHERE source = ?1")?.execute([source])?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO recording (source, problem, via, count, captured, workspace_bytes_max, library_file, library_build)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    // Caps are brought to what can be stored before equal rows are merged, not after.
    let storable = |cap: u64| cap.min(i64::MAX as u64);
    let rows =
        rows.iter().map(|row| Recorded { workspace_bytes_max: row.workspace_bytes_max.map(storable), ..row.clone() });
    for row in merge(rows) {
        insert.execute(params![
            source,
            words::problem_id(connection, &row.problem)?,
            row.via.name(),
            integer(row.count),
            row.captured,
            row.workspace_bytes_max.map(integer),
            bounded("the name of a library file", &row.library_file)?,
            bounded("a library version", &row.library_build)?,
        ])?;
    }
    Ok(())
}

/// Everything recorded, summed over the sources, in order of first sight.
pub(super) fn load(connection: &Connection) -> Result<Vec<Recorded>, Fault> {
    let mut select = connection.prepare_cached(
        "SELECT key, via, count, captured, workspace_bytes_max, library_file, library_build
         FROM recording JOIN problem ON problem.id = recording.problem ORDER BY source, recording.id",
    )?;
    let mut rows = select.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let mut c = Columns::of(row, "recording");
        found.push(Recorded {
            problem: c.parse("problem")?,
            via: c.parse("via")?,
            count: c.unsigned()?,
            captured: c.get()?,
            follows: None,
            workspace_bytes_max: c.optional_unsigned()?,
            library_file: c.get()?,
            library_build: c.get()?,
            origin: None,
        });
    }
    Ok(merge(found))
}
