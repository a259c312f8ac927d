//! Reading rows column by column, so that a value which this build cannot read is named by table and column; and the
//! conversions between our numbers and SQLite's.

use std::fmt::Display;
use std::str::FromStr;

use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};

use super::error::Fault;
use super::known::Recent;

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

    #[inline]
    fn value(&mut self) -> Result<ValueRef<'r>, Fault> {
        let at = self.next;
        self.next += 1;
        Ok(self.row.get_ref(at)?)
    }

    /// The next column, which cannot be read as what it should be.
    #[cold]
    fn refuse(&self, value: ValueRef<'_>, wanted: &str) -> Fault {
        let (table, column) = (self.table, self.next);
        Fault::Damaged(format!("column {column} of a row of {table} is {}, not {wanted}", value.data_type()))
    }

    /// The next column as a whole number.
    #[inline]
    pub(super) fn integer(&mut self) -> Result<i64, Fault> {
        match self.value()? {
            ValueRef::Integer(value) => Ok(value),
            other => Err(self.refuse(other, "a whole number")),
        }
    }

    /// The next column as a number that is not negative (the schema checks it).
    #[inline]
    pub(super) fn unsigned(&mut self) -> Result<u64, Fault> {
        Ok(self.optional_unsigned()?.unwrap_or(0))
    }

    /// The same where it may be absent.
    #[inline]
    pub(super) fn optional_unsigned(&mut self) -> Result<Option<u64>, Fault> {
        match self.value()? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) => Ok(Some(u64::try_from(value).unwrap_or(0))),
            other => Err(self.refuse(other, "a whole number")),
        }
    }

    /// The next column as yes, no or not known.
    #[inline]
    pub(super) fn known(&mut self) -> Result<Option<bool>, Fault> {
        match self.value()? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) => Ok(Some(value != 0)),
            other => Err(self.refuse(other, "0 or 1")),
        }
    }

    /// The next column as a float, NULL being not a number.
    #[inline]
    pub(super) fn float(&mut self) -> Result<f64, Fault> {
        Ok(self.optional_float()?.unwrap_or(f64::NAN))
    }

    /// The same where it may be absent.
    #[inline]
    pub(super) fn optional_float(&mut self) -> Result<Option<f64>, Fault> {
        match self.value()? {
            ValueRef::Null => Ok(None),
            ValueRef::Real(value) => Ok(Some(value)),
            // A column of numbers says a whole one so.
            ValueRef::Integer(value) => Ok(Some(value as f64)),
            other => Err(self.refuse(other, "a number")),
        }
    }

    /// The next column as a text.
    #[inline]
    pub(super) fn text(&mut self) -> Result<&'r str, Fault> {
        match self.value()? {
            ValueRef::Text(text) => std::str::from_utf8(text).map_err(|error| Fault::Damaged(error.to_string())),
            other => Err(self.refuse(other, "a text")),
        }
    }

    /// The next column, read from its text form.
    pub(super) fn parse<T: FromStr<Err: Display>>(&mut self, column: &'static str) -> Result<T, Fault> {
        self.parse_with(column, T::from_str)
    }

    /// The same, where rows nearly always say what the row before said.
    pub(super) fn recent<T: FromStr<Err: Display> + Copy>(
        &mut self,
        column: &'static str,
        recent: &mut Recent<T>,
    ) -> Result<T, Fault> {
        self.parse_with(column, |text| recent.parse(text))
    }

    /// The next column, read from its text form by `parse`.
    pub(super) fn parse_with<T, E: Display>(
        &mut self,
        column: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Fault> {
        let text = self.text()?;
        parse(text).map_err(|error| Fault::Stored {
            table: self.table,
            column,
            value: text.into(),
            reason: error.to_string(),
        })
    }
}
