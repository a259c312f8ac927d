//! The SQLite store of a sweep: runs, environments, recorded problems, every candidate's outcome with its timings, and
//! the choices.
//!
//! | module | holds |
//! |---|---|
//! | `schema`, `0001_*.sql` | the tables, as numbered migrations |
//! | `header`, `handles` | whose file it is, before SQLite may touch it |
//! | `lock` | one writer a file, gone with its process |
//! | `words` | what is stored once and referred to: problems, solutions, environments, constraints |
//! | `trials`, `choices`, `recordings` | the rows |
//! | `origins` | which rows of which files imported choices came from |
//! | `open` | connections for writing and for reading |
//! | `columns`, `error` | reading with named limits; failing in one line with the remedy |
//! | `known` | what rows say again and again, read once |
//! | `serving` | the choices in one value, as a lookup reads them |
//!
//! # What survives what
//! Each call is one transaction: it is there whole or not at all. While a [`Store`] is open for writing, the file is
//! in write-ahead mode, so that others may read it meanwhile. Everything that returned `Ok` survives the death of the
//! process at any moment. [`Store::save_choice`] and [`Store::end_run`] also wait for the disk, and with them
//! everything saved before: a choice that was reported survives the loss of power, an outcome whose problem is not
//! chosen yet may not, and is then simply tried again. [`Store::close`] folds the log back, so that one file remains
//! which opens from a read-only folder.

mod choices;
mod columns;
mod error;
mod handles;
mod header;
mod known;
mod lock;
mod open;
mod origins;
mod recordings;
mod schema;
mod serving;
mod trials;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

pub use choices::BASELINES_MAX;
pub use columns::TEXT_BYTES_MAX;
pub use error::StoreError;
pub use schema::SCHEMA_VERSION;
pub use trials::SAMPLES_MAX;

use crate::choice::{Choice, Constraints};
use crate::device::Environment;
use crate::outcome::Trial;
use crate::problem::Problem;
use crate::recording::Recorded;
use columns::{bounded, cut};
use error::Fault;
use handles::Presence;
use header::Found;
use lock::WriterLock;
use open::Immutable;

/// How long a log may be on its way, and how often it is looked for.
const LOG_WAIT: Duration = Duration::from_millis(10);
const LOG_ATTEMPTS: usize = 20;

/// A run of the tool in this store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(i64);

/// An environment in this store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvironmentId(i64);

/// What is kept about a run when it begins; the store adds the time.
#[derive(Clone, Debug, PartialEq)]
pub struct RunInfo {
    /// Version of the tool.
    pub tool_version: String,
    /// The command as it was typed.
    pub command_line: String,
    /// The options in force, defaults included.
    pub options: serde_json::Value,
}

/// A choice with where and under which constraints it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredChoice {
    /// The environment's number in this store.
    pub environment_id: EnvironmentId,
    /// Where; shared by all choices made there.
    pub environment: Arc<Environment>,
    /// What was allowed; shared likewise.
    pub constraints: Arc<Constraints>,
    /// The choice.
    pub choice: Choice,
}

/// The SQLite database of sweeps. See the [module](self) for what survives what.
#[derive(Debug)]
pub struct Store {
    /// As the user named it, for messages.
    path: PathBuf,
    // Dropped in this order: the connection must be gone before another writer may come.
    connection: Connection,
    _writer: Option<WriterLock>,
    _presence: Presence,
    /// Nothing is left to fold: read-only, or folded already.
    folded: bool,
}

impl Store {
    /// Opens for writing; makes the file if it is missing or empty, brings an older schema up to date, and ends runs
    /// that were killed. Others may read meanwhile, no other may write.
    ///
    /// # Errors
    /// A file of another program or of a newer schema (neither is touched), a second writer, a folder that is
    /// read-only, a full disk, a damaged file.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let presence = Presence::enter();
        let file = open::resolve(path)?;
        header::inspect(&presence, &file, path)?;
        let writer = WriterLock::acquire(&file, path)?;
        // Again, now that nobody else can be making it.
        let found = header::inspect(&presence, &file, path)?;
        let opened = open::for_writing(&file).map_err(|fault| fault.at(path));
        match opened {
            Ok(connection) => Ok(Store {
                path: path.to_owned(),
                connection,
                _writer: Some(writer),
                _presence: presence,
                folded: false,
            }),
            Err(error) => {
                if found == Found::Missing {
                    open::remove_if_empty(&file);
                }
                Err(error)
            }
        }
    }

    /// Opens for reading: a finished file from any folder, also a read-only one, or a file that a sweep is writing.
    ///
    /// # Errors
    /// Nothing there, a file of another program or of another schema, a damaged file, one without the log that belongs to it,
    /// or the unfolded log of a killed sweep in a read-only folder.
    pub fn open_read_only(path: &Path) -> Result<Store, StoreError> {
        let presence = Presence::enter();
        let file = open::resolve(path)?;
        match header::inspect(&presence, &file, path)? {
            Found::Missing => return Err(StoreError::Missing { path: path.to_owned() }),
            Found::Empty => return Err(StoreError::Empty { path: path.to_owned() }),
            Found::Ours { schema } if schema < SCHEMA_VERSION => {
                return Err(StoreError::Older { path: path.to_owned(), found: schema, needed: SCHEMA_VERSION });
            }
            Found::Ours { .. } => {}
        }
        // A writer that begins or ends has a moment between the header and the log.
        for attempt in 1.. {
            if !header::has_a_log(&presence, &file) || open::log_exists(&file) {
                break;
            }
            if attempt > LOG_ATTEMPTS {
                return Err(StoreError::LogMissing { path: path.to_owned() });
            }
            std::thread::sleep(LOG_WAIT);
        }
        let detail = if open::has_log(&file) { None } else { header::missing(&presence, &file) };
        // Once more: a sweep may have begun meanwhile.
        if let Some(detail) = detail.filter(|_| !open::has_log(&file)) {
            return Err(StoreError::Damaged { path: path.to_owned(), detail });
        }
        let connection = match open::for_reading(&file, Immutable::No) {
            Err(fault) if fault.is_read_only_folder() => {
                if open::has_log(&file) {
                    return Err(StoreError::NeedsRecovery { path: path.to_owned() });
                }
                open::for_reading(&file, Immutable::Yes)
            }
            other => other,
        };
        let connection = connection.map_err(|fault| fault.at(path))?;
        Ok(Store { path: path.to_owned(), connection, _writer: None, _presence: presence, folded: true })
    }

    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a run; everything saved refers to one.
    ///
    /// # Errors
    /// As for every write: read-only, a full disk, a damaged file.
    pub fn begin_run(&mut self, run: &RunInfo) -> Result<RunId, StoreError> {
        self.write(Wait::Process, |transaction| {
            let options = run.options.to_string();
            let values =
                params![now(), cut(&run.tool_version), cut(&run.command_line), bounded("run options", &options)?];
            let mut insert = transaction.prepare_cached(
                "INSERT INTO run (started_at, tool_version, command_line, options) VALUES (?1, ?2, ?3, ?4)",
            )?;
            Ok(RunId(insert.insert(values)?))
        })
    }

    /// Ends a run and says how: `done`, `interrupted`, `failed: …`. Waits for the disk.
    ///
    /// # Errors
    /// As for every write, and a run that this store does not hold.
    pub fn end_run(&mut self, run: RunId, how: &str) -> Result<(), StoreError> {
        self.write(Wait::Disk, |transaction| {
            let mut update = transaction.prepare_cached("UPDATE run SET ended_at = ?2, ended = ?3 WHERE id = ?1")?;
            match update.execute(params![run.0, now(), cut(how)])? {
                0 => Err(Fault::Reference),
                _ => Ok(()),
            }
        })
    }

    /// The number of an environment, stored now if it is new. Identity is every field but the cache size.
    ///
    /// # Errors
    /// As for every write, and one whose text is over [`TEXT_BYTES_MAX`].
    pub fn environment(&mut self, environment: &Environment) -> Result<EnvironmentId, StoreError> {
        self.write(Wait::Process, |transaction| words::environment_id(transaction, environment).map(EnvironmentId))
    }

    /// Keeps what `source` (a file's full path) says was run. It replaces what that source said before: to read a file
    /// twice, or again when it has grown, never counts anything double.
    ///
    /// # Errors
    /// As for every write.
    pub fn record(&mut self, rows: &[Recorded], source: &str) -> Result<(), StoreError> {
        self.write(Wait::Process, |transaction| recordings::save(transaction, rows, source))
    }

    /// Saves what happened to a candidate, over an earlier outcome of the same solution for the same problem and
    /// environment. When this returns, the death of the process cannot lose it.
    ///
    /// # Errors
    /// As for every write, and more than [`SAMPLES_MAX`] timings.
    pub fn save_trial(
        &mut self,
        run: RunId,
        environment: EnvironmentId,
        problem: &Problem,
        trial: &Trial,
    ) -> Result<(), StoreError> {
        self.write(Wait::Process, |transaction| trials::save(transaction, run, environment, problem, trial))
    }

    /// Saves a choice over an earlier one for the same problem, environment and constraints. Waits for the disk: when
    /// this returns, not even the loss of power can lose it, nor any trial saved before it.
    ///
    /// # Errors
    /// As for every write, a device that is not the environment's, and more than [`BASELINES_MAX`] baselines.
    pub fn save_choice(
        &mut self,
        run: RunId,
        environment: EnvironmentId,
        constraints: &Constraints,
        choice: &Choice,
    ) -> Result<(), StoreError> {
        self.save_choices(run, environment, constraints, [choice])
    }

    /// [`save_choice`](Store::save_choice) for many in one transaction, for imports: all of them or none.
    ///
    /// # Errors
    /// As for [`save_choice`](Store::save_choice).
    pub fn save_choices<'c>(
        &mut self,
        run: RunId,
        environment: EnvironmentId,
        constraints: &Constraints,
        choices: impl IntoIterator<Item = &'c Choice>,
    ) -> Result<(), StoreError> {
        self.write(Wait::Disk, |transaction| choices::save(transaction, run, environment, constraints, choices))
    }

    /// Saves imported choices of any number of devices in one transaction: all of them or none. Each is kept under an
    /// environment that is its device and nothing else, since a file knows neither driver nor builds beyond its rows'.
    /// Of several for one problem and device the last stays: [merge](crate::merge) before.
    ///
    /// # Errors
    /// As for [`save_choice`](Store::save_choice).
    pub fn import_choices<'c>(
        &mut self,
        run: RunId,
        constraints: &Constraints,
        choices: impl IntoIterator<Item = &'c Choice>,
    ) -> Result<(), StoreError> {
        self.write(Wait::Disk, |transaction| choices::import(transaction, run, constraints, choices))
    }

    /// What happened to each candidate of `problem` in `environment`, in the order of their first trial.
    ///
    /// # Errors
    /// As for every read: a damaged file, or a word that this build does not know.
    pub fn trials(&self, environment: EnvironmentId, problem: &Problem) -> Result<Vec<Trial>, StoreError> {
        self.read(|connection| trials::load(connection, environment, problem))
    }

    /// Was `problem` chosen already, in exactly this environment under exactly these constraints?
    ///
    /// # Errors
    /// As for every read.
    pub fn has_choice(
        &self,
        environment: EnvironmentId,
        constraints: &Constraints,
        problem: &Problem,
    ) -> Result<bool, StoreError> {
        self.read(|connection| choices::has(connection, environment, constraints, problem))
    }

    /// Every choice, oldest first.
    ///
    /// # Errors
    /// As for every read.
    pub fn choices(&self) -> Result<Vec<Choice>, StoreError> {
        Ok(self.choices_with_environment()?.into_iter().map(|stored| stored.choice).collect())
    }

    /// Every choice, oldest first, goes to `take`: they never stand in memory together.
    ///
    /// # Errors
    /// As for every read; some choices may have gone to `take` by then.
    pub fn each_choice(&self, mut take: impl FnMut(Choice)) -> Result<(), StoreError> {
        self.read(|connection| choices::load(connection, |stored| take(stored.choice)))
    }

    /// As [`Store::each_choice`], as a lookup wants them: without their [`Origin`](crate::Origin) and their baselines, which
    /// take longer to read than all the rest.
    ///
    /// # Errors
    /// As for every read; some choices may have gone to `take` by then.
    pub fn each_to_serve(&self, take: impl FnMut(Choice)) -> Result<(), StoreError> {
        self.read(|connection| choices::each_alone(connection, take))
    }

    /// Every choice with where and under which constraints it was made, oldest first.
    ///
    /// # Errors
    /// As for every read.
    pub fn choices_with_environment(&self) -> Result<Vec<StoredChoice>, StoreError> {
        let mut found = Vec::new();
        self.read(|connection| choices::load(connection, |stored| found.push(stored)))?;
        Ok(found)
    }

    /// Every environment, oldest first.
    ///
    /// # Errors
    /// As for every read.
    pub fn environments(&self) -> Result<Vec<(EnvironmentId, Arc<Environment>)>, StoreError> {
        self.read(|connection| {
            Ok(words::environments(connection)?.into_iter().map(|(id, found)| (EnvironmentId(id), found)).collect())
        })
    }

    /// What was recorded, summed over all sources, in order of first sight.
    ///
    /// # Errors
    /// As for every read.
    pub fn recorded(&self) -> Result<Vec<Recorded>, StoreError> {
        self.read(recordings::load)
    }

    /// Reads every page, index, check and reference of the file.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with SQLite's first finding.
    pub fn integrity_check(&self) -> Result<(), StoreError> {
        self.read(|connection| {
            let finding: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
            if finding != "ok" {
                return Err(Fault::Damaged(finding));
            }
            let dangling: i64 =
                connection.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0))?;
            match dangling {
                0 => serving::check(connection),
                _ => Err(Fault::Damaged(format!("{dangling} rows refer to rows that are gone"))),
            }
        })
    }

    /// Folds the log into the file and leaves no other file beside it, on the disk; the choices stand in it as a lookup reads
    /// them soonest. Dropping folds too, but cannot say if it failed.
    ///
    /// # Errors
    /// A full disk, or another process that still reads. All that was saved is kept in the file and its log.
    pub fn close(mut self) -> Result<(), StoreError> {
        if !self.folded {
            // Without it a lookup reads the rows; if the disk is full, the fold says so.
            let _ = self.write(Wait::Process, |transaction| serving::make(transaction));
        }
        self.fold()
    }

    fn fold(&mut self) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.folded, true) {
            return Ok(());
        }
        // A statement still cached may hold the log open.
        self.connection.flush_prepared_statement_cache();
        let mode = self.connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0));
        match mode.map_err(|error| Fault::from(error).at(&self.path)) {
            Ok(mode) if mode == "wal" => Err(StoreError::StillRead { path: self.path.clone() }),
            Ok(_) => Ok(()),
            Err(StoreError::Locked { path, .. }) => Err(StoreError::StillRead { path }),
            Err(other) => Err(other),
        }
    }

    /// One transaction, which is there whole when this returns `Ok`, and not at all otherwise.
    fn write<T>(
        &mut self,
        wait: Wait,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.try_write(wait, change).map_err(|fault| fault.at(&self.path))
    }

    fn try_write<T>(
        &mut self,
        wait: Wait,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.connection.pragma_update(None, "synchronous", wait.synchronous())?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = change(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Several statements that see one state of the file.
    fn read<T>(&self, look: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, StoreError> {
        let snapshot = self.connection.unchecked_transaction().map_err(|e| Fault::from(e).at(&self.path))?;
        look(&snapshot).map_err(|fault| fault.at(&self.path))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.fold();
    }
}

/// What a write waits for.
#[derive(Clone, Copy)]
enum Wait {
    /// Until the kernel has it: the process may die.
    Process,
    /// Until the disk has it: the power may fail.
    Disk,
}

impl Wait {
    /// <https://sqlite.org/pragma.html#pragma_synchronous>: in write-ahead mode FULL syncs the log at each commit.
    fn synchronous(self) -> &'static str {
        match self {
            Wait::Process => "NORMAL",
            Wait::Disk => "FULL",
        }
    }
}

/// Now, RFC 3339, to the millisecond.
fn now() -> String {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now).to_string()
}
