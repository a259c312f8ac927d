//! Typed cells: a column reads its cell from a row, or says what it should have been.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use super::cells::{Cells, unescape};
use super::limits::excerpt;
use super::sheet::{Column, Reason};
use crate::dtype::DType;
use crate::problem::EXTENT_MAX;

impl Column {
    /// The cell as it is, without blanks around it.
    pub(crate) fn text(self, row: &Cells) -> &str {
        row.get(self.at)
    }

    /// Free text of ours.
    pub(crate) fn unescaped(self, row: &Cells) -> Result<Cow<'_, str>, Reason> {
        unescape(self.text(row)).map_err(|why| format!("{}: {why}", self.name))
    }

    /// The reason for refusing this cell.
    pub(crate) fn refuse(self, row: &Cells, expected: impl Display) -> Reason {
        format!("{} is '{}': {expected} is expected", self.name, excerpt(self.text(row)))
    }

    /// A matrix extent: 1 to [`EXTENT_MAX`].
    pub(crate) fn extent(self, row: &Cells) -> Result<u32, Reason> {
        let value = self.text(row).parse().ok().filter(|value| (1..=EXTENT_MAX).contains(value));
        value.ok_or_else(|| self.refuse(row, format_args!("a whole number from 1 to {EXTENT_MAX}")))
    }

    /// A whole number of type `T`.
    pub(crate) fn whole<T: FromStr>(self, row: &Cells) -> Result<T, Reason> {
        self.text(row).parse().map_err(|_| self.refuse(row, "a whole number in range"))
    }

    /// A whole number; the default where the cell is empty.
    pub(crate) fn whole_or_default<T: FromStr + Default>(self, row: &Cells) -> Result<T, Reason> {
        if self.text(row).is_empty() { Ok(T::default()) } else { self.whole(row) }
    }

    /// A whole number; `None` where the cell is empty.
    pub(crate) fn whole_or_none<T: FromStr>(self, row: &Cells) -> Result<Option<T>, Reason> {
        if self.text(row).is_empty() { Ok(None) } else { self.whole(row).map(Some) }
    }

    /// A time or a ratio: finite and above zero, so that a placeholder of 0 never wins.
    pub(crate) fn positive(self, row: &Cells) -> Result<f64, Reason> {
        let value = self.text(row).parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
        value.ok_or_else(|| self.refuse(row, "a finite number above 0"))
    }

    /// A share or an error: finite and not negative.
    pub(crate) fn not_negative(self, row: &Cells) -> Result<f64, Reason> {
        let value = self.text(row).parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        value.ok_or_else(|| self.refuse(row, "a finite number not below 0"))
    }

    /// `True` or `False` in any letter case, 1 or 0.
    pub(crate) fn flag(self, row: &Cells) -> Result<bool, Reason> {
        flag(self.text(row)).ok_or_else(|| self.refuse(row, "True or False"))
    }

    /// PyTorch's name of an element type.
    pub(crate) fn torch_dtype(self, row: &Cells) -> Result<DType, Reason> {
        DType::from_torch(self.text(row)).ok_or_else(|| self.refuse(row, "a torch element type such as torch.bfloat16"))
    }

    /// Anything with a parser that words its own error.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(self, row: &Cells) -> Result<T, Reason> {
        self.text(row).parse().map_err(|error| format!("{}: {error}", self.name))
    }
}

/// `True` or `False` in any letter case, 1 or 0.
pub(crate) fn flag(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// As AITER writes it.
pub(crate) fn flag_text(flag: bool) -> &'static str {
    if flag { "True" } else { "False" }
}
