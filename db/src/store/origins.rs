//! Where imported choices came from: the file once, then a line and its cells a choice.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::columns::bounded;
use super::error::Fault;
use crate::origin::{Origin, Source};

/// What a choice stores of its origin.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) file: i64,
    pub(super) line: u64,
    /// Cells in the order of the file's columns, JSON.
    pub(super) cells: String,
}

/// Stores origins; remembers the last file, since rows of one file come together.
#[derive(Debug, Default)]
pub(super) struct Origins {
    last: Option<(i64, Arc<Source>)>,
}

impl Origins {
    /// What a choice is to store; the file is stored now if it is new.
    pub(super) fn save(&mut self, connection: &Connection, origin: &Origin) -> Result<Stored, Fault> {
        let cells: Vec<&str> = origin.cells().map(|(_, cell)| cell).collect();
        let cells = to_json(&cells)?;
        bounded("the cells of an imported row", &cells)?;
        let file = match &self.last {
            Some((id, source)) if Arc::ptr_eq(source, &origin.source) || *source == origin.source => *id,
            _ => self.file_id(connection, origin)?,
        };
        Ok(Stored { file, line: origin.line, cells })
    }

    fn file_id(&mut self, connection: &Connection, origin: &Origin) -> Result<i64, Fault> {
        let Source { file, file_hash, format, imported_at, columns } = &*origin.source;
        let columns_text = to_json(columns)?;
        let values = params![
            bounded("the name of a file", file)?,
            bounded("the hash of a file", file_hash)?,
            bounded("the format of a file", format)?,
            bounded("a time stamp", imported_at)?,
            bounded("the columns of a file", &columns_text)?,
        ];
        let mut find = connection.prepare_cached(
            "SELECT id FROM imported_file
             WHERE file = ?1 AND file_hash = ?2 AND format = ?3 AND imported_at = ?4 AND columns = ?5",
        )?;
        let id = match find.query_row(values, |row| row.get(0)).optional()? {
            Some(id) => id,
            None => connection
                .prepare_cached(
                    "INSERT INTO imported_file (file, file_hash, format, imported_at, columns) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .insert(values)?,
        };
        self.last = Some((id, Arc::clone(&origin.source)));
        Ok(id)
    }
}

/// All files that rows were imported from.
#[derive(Debug)]
pub(super) struct Files(HashMap<i64, Arc<Source>>);

impl Files {
    pub(super) fn load(connection: &Connection) -> Result<Files, Fault> {
        let mut select =
            connection.prepare_cached("SELECT id, file, file_hash, format, imported_at, columns FROM imported_file")?;
        let mut rows = select.query([])?;
        let mut files = HashMap::new();
        while let Some(row) = rows.next()? {
            let columns = from_json(row.get_ref(5)?.as_str().unwrap_or_default(), "imported_file", "columns")?;
            let [file, file_hash, format, imported_at] = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
            files.insert(row.get(0)?, Arc::new(Source { file, file_hash, format, imported_at, columns }));
        }
        Ok(Files(files))
    }

    /// The origin that was stored, if its file is there and has as many columns as the row has cells.
    pub(super) fn origin(&self, stored: &Stored) -> Result<Option<Origin>, Fault> {
        let Some(source) = self.0.get(&stored.file) else { return Ok(None) };
        let cells: Vec<String> = from_json(&stored.cells, "choice", "imported_cells")?;
        if cells.len() != source.columns.len() {
            return Ok(None);
        }
        Ok(Some(Origin::new(Arc::clone(source), stored.line, cells.iter().map(String::as_str))))
    }
}

fn to_json(value: &impl serde::Serialize) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Fault::Damaged(error.to_string()))
}

fn from_json(text: &str, table: &'static str, column: &'static str) -> Result<Vec<String>, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::Stored {
        table,
        column,
        value: text.into(),
        reason: error.to_string(),
    })
}
