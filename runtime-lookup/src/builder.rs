//! Rows become a database: each is let in or kept for explanations, and all are put in order once.

use tgemm_db::format::limits::FILE_BYTES_MAX;
use tgemm_db::{Choice, Environment};

use crate::admit::{self, Devices, Refusal};
use crate::database::Database;
use crate::gather::Gathered;
use crate::index::Index;
use crate::load::Origin;

/// Bytes of a short row, in a text or a database.
const ROW_BYTES_TYPICAL: u64 = 160;

/// Collects rows, then orders them once.
pub(crate) struct Builder<'h> {
    here: &'h Environment,
    devices: Devices,
    database: Database,
    /// Of the choices in `database`.
    gathered: Gathered,
}

/// How many rows there were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    kept: usize,
    refused: usize,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    OtherDevice,
    OtherBuild,
}

impl<'h> Builder<'h> {
    pub(crate) fn new(here: &'h Environment) -> Builder<'h> {
        let database = Database { here: here.device.to_string(), ..Database::default() };
        Builder { here, devices: Devices::default(), database, gathered: Gathered::default() }
    }

    /// Where the rows end so far.
    pub(crate) fn mark(&self) -> Mark {
        Mark { kept: self.database.choices.len(), refused: self.database.refused.len() }
    }

    /// Forgets the rows that came after `mark`: their file turned out to be unreadable.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.database.choices.truncate(mark.kept);
        self.database.origins.truncate(mark.kept);
        self.database.refused.truncate(mark.refused);
        self.gathered = Gathered::default();
        self.database.choices.iter().for_each(|choice| self.gathered.push(choice));
    }

    /// Makes room for the rows of a file of so many bytes, at the least: moving rows to grow costs as much as reading them,
    /// and memory that is not touched costs nothing.
    pub(crate) fn make_room_for(&mut self, file_bytes: u64) {
        let rows = usize::try_from(file_bytes.min(FILE_BYTES_MAX) / ROW_BYTES_TYPICAL).unwrap_or_default();
        self.database.choices.reserve(rows);
        self.database.origins.reserve(rows);
        self.gathered.reserve(rows);
    }

    pub(crate) fn push(&mut self, mut choice: Choice, origin: Origin) -> Fate {
        // No lookup wants them, and they are as large as all the rest.
        choice.baselines = Vec::new();
        match admit::admit(&choice, self.here, &mut self.devices) {
            Ok(()) => {
                self.gathered.push(&choice);
                self.database.choices.push(choice);
                self.database.origins.push(origin);
                Fate::Kept
            }
            Err(refusal) => {
                let fate = match refusal {
                    Refusal::Device(_) => Fate::OtherDevice,
                    Refusal::Build(_) => Fate::OtherBuild,
                };
                self.database.refused.push((choice, refusal));
                fate
            }
        }
    }

    pub(crate) fn finish(mut self, files: Vec<std::path::PathBuf>) -> Database {
        // Rows came one by one, and what they are kept in grew by doubling.
        self.database.choices.shrink_to_fit();
        self.database.origins.shrink_to_fit();
        self.database.refused.shrink_to_fit();
        let origins = &self.database.origins;
        self.database.index = Index::of(self.gathered, &self.database.choices, |row| origins[row].layer);
        self.database.files = files;
        self.database
    }
}
