//! Where imported choices came from: the file once, then a line and its cells a choice.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::columns::bounded;
use super::error::Fault;
use crate::choice::Origin;

/// What a choice stores of its origin.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) file: i64,
    pub(super) line: u64,
    /// Cells in the order of the file's columns, JSON.
    pub(super) cells: String,
}

/// A file that rows were imported from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ImportedFile {
    file: String,
    file_hash: String,
    format: String,
    imported_at: String,
    columns: Vec<String>,
}

impl ImportedFile {
    fn is_of(&self, origin: &Origin) -> bool {
        self.file == origin.file
            && self.file_hash == origin.file_hash
            && self.format == origin.format
            && self.imported_at == origin.imported_at
            && self.columns.iter().eq(origin.cells.iter().map(|(column, _)| column))
    }
}

/// Stores origins; remembers the last file, since rows of one file come together.
#[derive(Debug, Default)]
pub(super) struct Origins {
    last: Option<(i64, ImportedFile)>,
}

impl Origins {
    /// What a choice is to store; the file is stored now if it is new.
    pub(super) fn save(&mut self, connection: &Connection, origin: &Origin) -> Result<Stored, Fault> {
        let cells: Vec<&str> = origin.cells.iter().map(|(_, cell)| cell.as_str()).collect();
        let cells = to_json(&cells)?;
        bounded("the cells of an imported row", &cells)?;
        let file = match &self.last {
            Some((id, file)) if file.is_of(origin) => *id,
            _ => self.file_id(connection, origin)?,
        };
        Ok(Stored { file, line: origin.line, cells })
    }

    fn file_id(&mut self, connection: &Connection, origin: &Origin) -> Result<i64, Fault> {
        let Origin { file, file_hash, format, imported_at, .. } = origin.clone();
        let columns: Vec<String> = origin.cells.iter().map(|(column, _)| column.clone()).collect();
        let columns_text = to_json(&columns)?;
        let values = params![
            bounded("the name of a file", &file)?,
            bounded("the hash of a file", &file_hash)?,
            bounded("the format of a file", &format)?,
            bounded("a time stamp", &imported_at)?,
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
        self.last = Some((id, ImportedFile { file, file_hash, format, imported_at, columns }));
        Ok(id)
    }
}

/// All files that rows were imported from.
#[derive(Debug)]
pub(super) struct Files(HashMap<i64, ImportedFile>);

impl Files {
    pub(super) fn load(connection: &Connection) -> Result<Files, Fault> {
        let mut select =
            connection.prepare_cached("SELECT id, file, file_hash, format, imported_at, columns FROM imported_file")?;
        let mut rows = select.query([])?;
        let mut files = HashMap::new();
        while let Some(row) = rows.next()? {
            let columns = from_json(row.get_ref(5)?.as_str().unwrap_or_default(), "imported_file", "columns")?;
            let [file, file_hash, format, imported_at] = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
            files.insert(row.get(0)?, ImportedFile { file, file_hash, format, imported_at, columns });
        }
        Ok(Files(files))
    }

    /// The origin that was stored, if its file is there and has as many columns as the row has cells.
    pub(super) fn origin(&self, stored: &Stored) -> Result<Option<Origin>, Fault> {
        let Some(file) = self.0.get(&stored.file) else { return Ok(None) };
        let cells: Vec<String> = from_json(&stored.cells, "choice", "imported_cells")?;
        if cells.len() != file.columns.len() {
            return Ok(None);
        }
        let ImportedFile { file, file_hash, format, imported_at, columns } = file.clone();
        let cells = columns.into_iter().zip(cells).collect();
        Ok(Some(Origin { file, line: stored.line, file_hash, format, imported_at, cells }))
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
