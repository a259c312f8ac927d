//! Numbered migrations: schema `n` is what the first `n` files make, and `PRAGMA user_version` says which one a file has.

use rusqlite::{Connection, TransactionBehavior};

use super::error::Fault;

/// `tgem`: marks a SQLite file as ours.
pub(super) const APPLICATION_ID: u32 = u32::from_be_bytes(*b"tgem");

/// Never edit one that was released: add the next.
const MIGRATIONS: &[&str] =
    &[include_str!("0001_initial.sql"), include_str!("0002_origin.sql"), include_str!("0003_serving.sql")];

/// The newest schema, which this build writes.
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Brings a new or older database of ours to the newest schema, in one transaction: all of it or nothing.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    migrate_with(connection, MIGRATIONS)
}

fn migrate_with(connection: &mut Connection, migrations: &[&str]) -> Result<(), Fault> {
    let schema: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let pending = migrations.get(schema as usize..).unwrap_or_default();
    if pending.is_empty() {
        return Ok(());
    }
    // With a rollback journal the header on disk, by which `header` knows our files, is never behind a log.
    connection.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for sql in pending {
        transaction.execute_batch(sql)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", migrations.len() as u32)?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [&str; 3] =
        ["CREATE TABLE a (x)", "ALTER TABLE a ADD COLUMN y; INSERT INTO a VALUES (1, 2)", "UPDATE a SET y = y + 1"];

    fn version(connection: &Connection) -> u32 {
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn every_older_schema_comes_to_the_newest_and_each_step_runs_once() {
        for from in 0..=STEPS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            migrate_with(&mut connection, &STEPS[..from]).unwrap();
            assert_eq!(version(&connection), from as u32);
            migrate_with(&mut connection, &STEPS).unwrap();
            migrate_with(&mut connection, &STEPS).unwrap();
            assert_eq!(version(&connection), 3);
            let y: i64 = connection.query_row("SELECT sum(y) FROM a", [], |row| row.get(0)).unwrap();
            assert_eq!(y, 3);
            let id: u32 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).unwrap();
            assert_eq!(id, APPLICATION_ID);
        }
    }

    #[test]
    fn a_failing_step_leaves_the_old_schema() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_with(&mut connection, &STEPS[..1]).unwrap();
        migrate_with(&mut connection, &[STEPS[0], STEPS[1], "CREATE TABLE a (again)"]).unwrap_err();
        assert_eq!(version(&connection), 1);
        let columns: i64 =
            connection.query_row("SELECT count(*) FROM pragma_table_info('a')", [], |row| row.get(0)).unwrap();
        assert_eq!(columns, 1, "the second step was undone with the third");
    }

    #[test]
    fn the_real_migrations_make_the_newest_schema() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        assert_eq!(version(&connection), SCHEMA_VERSION);
    }
}
