//! Reading rows column by column, so that a value which this build cannot read is named by table and column; and the
//! conversions between our numbers and SQLite's.

use std::fmt::Display;
use std::str::FromStr;

use rusqlite::Row;
use rusqlite::types::FromSql;

use super::error::Fault;

/// The longest text that one field may hold; explanations are cut to it, names beyond it are refused.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// SQLite's integers are signed: what lies beyond is stored as the largest, which no real count or size reaches.
pub(super) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Refuses a text over [`TEXT_BYTES_MAX`].
pub(super) fn bounded<'t>(what: &'static str, text: &'t str) -> Result<&'t str, Fault> {
    match text.len() {
        size if size > TEXT_BYTES_MAX => Err(Fault::TooLarge { what, size, limit: TEXT_BYTES_MAX }),
        _ => Ok(text),
    }
}

/// The head of a text that explains, where losing the tail is better than losing the outcome.
pub(super) fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The columns of a row in order.
pub(super) struct Columns<'r> {
    row: &'r Row<'r>,
    next: usize,
    table: &'static str,
}

impl<'r> Columns<'r> {
    pub(super) fn of(row: &'r Row<'r>, table: &'static str) -> Columns<'r> {
        Columns { row, next: 0, table }
    }

    /// The next column as it is.
    pub(super) fn get<T: FromSql>(&mut self) -> Result<T, Fault> {
        let at = self.next;
        self.next += 1;
        Ok(self.row.get(at)?)
    }

    /// The next column as a number that is not negative (the schema checks it).
    pub(super) fn unsigned(&mut self) -> Result<u64, Fault> {
        Ok(self.optional_unsigned()?.unwrap_or(0))
    }

    /// The same where it may be absent.
    pub(super) fn optional_unsigned(&mut self) -> Result<Option<u64>, Fault> {
        Ok(self.get::<Option<i64>>()?.map(|value| u64::try_from(value).unwrap_or(0)))
    }

    /// The next column as a float, NULL being not a number.
    pub(super) fn float(&mut self) -> Result<f64, Fault> {
        Ok(self.get::<Option<f64>>()?.unwrap_or(f64::NAN))
    }

    /// The next column, read from its text form.
    pub(super) fn parse<T: FromStr<Err: Display>>(&mut self, column: &'static str) -> Result<T, Fault> {
        let at = self.next;
        self.next += 1;
        let text = self.row.get_ref(at)?.as_str().map_err(|e| Fault::Damaged(e.to_string()))?;
        text.parse().map_err(|error: T::Err| Fault::Stored {
            table: self.table,
            column,
            value: text.into(),
            reason: error.to_string(),
        })
    }
}
