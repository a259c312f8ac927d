//! `--where EXPR`: which recorded problems to keep.
//!
//! ```text
//! m <= 8 and dtype == bf16
//! n in (1280, 8192) && !(k = 1024)
//! bias or count > 1_000
//! ```
//!
//! Fields: `m n k batch count` are numbers; `dtype` (of x), `w`, `out`, `compute`, `scale`, `act`, `trans` and `via` are
//! words as the text key writes them; `captured` and `preshuffled` are switches; `bias` is a switch and, compared with a
//! type or `none`, a word. Operators: `= == != < <= > >=`, `in (a, b)`, `not in (a, b)`, `and &&`, `or ||`, `not !`,
//! parentheses; `not` binds tightest, `or` loosest. Upper and lower case are one.

mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::str::FromStr;

use tgemm_db::problem::{Activation, ScaleMode, Trans};
use tgemm_db::{Compute, DType, Recorded, Via};

/// The longest expression read, bytes.
pub const EXPR_BYTES_MAX: usize = 4096;

/// How deep parentheses and negations may nest.
pub const DEPTH_MAX: usize = 64;

/// Columns of an expression that an error repeats.
const EXCERPT_COLUMNS_MAX: usize = 72;

/// Characters of a wrong word that an error repeats.
const WORD_CHARS_MAX: usize = 40;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    expr: Expr,
}

impl Filter {
    /// Reads an expression; the error says where it stops making sense.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        parse::expression(text).map(|expr| Filter { expr })
    }

    /// Is `row` to be kept?
    pub fn matches(&self, row: &Recorded) -> bool {
        self.expr.holds(row)
    }
}

impl FromStr for Filter {
    type Err = FilterError;
    fn from_str(text: &str) -> Result<Filter, FilterError> {
        Filter::parse(text)
    }
}

/// Why an expression cannot be read. Shows the expression with a caret under the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {reason}\n  {excerpt}\n  {caret:>width$}", caret = "^", width = .caret_column)]
pub struct FilterError {
    /// 1-based, in characters.
    pub column: usize,
    /// What is wrong there.
    pub reason: Reason,
    excerpt: String,
    caret_column: usize,
}

/// What is wrong in an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Longer than [`EXPR_BYTES_MAX`].
    #[error("the expression has {bytes} bytes; at most {EXPR_BYTES_MAX} are read")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("parentheses and negations nest deeper than {DEPTH_MAX}")]
    TooDeep,
    /// A character that begins nothing.
    #[error("'{0}' does not belong here")]
    Character(char),
    /// A quotation that does not end.
    #[error("this quotation mark is never closed")]
    Unclosed,
    /// Digits that are no number, or too large a one.
    #[error("'{0}' is not a whole number below 2^64")]
    Number(String),
    /// Something else belongs here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What would have been taken.
        expected: String,
        /// What is there.
        found: String,
    },
    /// No field of that name.
    #[error("'{name}' is not a field (known: {known})")]
    UnknownField {
        /// As written.
        name: String,
        /// The fields there are.
        known: String,
    },
    /// A field without an order was asked which is larger.
    #[error("'{field}' has no order; compare it with ==, != or in")]
    NoOrder {
        /// The field.
        field: &'static str,
    },
    /// A value that the field never has.
    #[error("'{field}' cannot be '{value}': {why}")]
    Value {
        /// The field.
        field: &'static str,
        /// As written.
        value: String,
        /// What it can be.
        why: String,
    },
}

impl FilterError {
    /// An error at byte `at` of `text`.
    fn new(text: &str, at: usize, reason: Reason) -> FilterError {
        let column = text[..at].chars().count() + 1;
        // A window that holds the place: the expression may be much longer than a terminal is wide.
        let first = (column - 1).saturating_sub(EXCERPT_COLUMNS_MAX / 2);
        let shown = text.chars().skip(first).take(EXCERPT_COLUMNS_MAX);
        let excerpt = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
        FilterError { column, reason, excerpt, caret_column: column - first }
    }
}

fn shorten(word: &str) -> String {
    match word.char_indices().nth(WORD_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &word[..at]),
        None => word.to_owned(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expr {
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Not(Box<Expr>),
    Compare { field: Field, op: Op, with: Value },
    In { field: Field, values: Vec<Value> },
}

impl Expr {
    fn holds(&self, row: &Recorded) -> bool {
        match self {
            Expr::All(parts) => parts.iter().all(|part| part.holds(row)),
            Expr::Any(parts) => parts.iter().any(|part| part.holds(row)),
            Expr::Not(part) => !part.holds(row),
            Expr::Compare { field, op, with } => op.holds(field.of(row, *with).cmp(with)),
            Expr::In { field, values } => values.iter().any(|value| field.of(row, *value) == *value),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Op {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Op::Eq => order.is_eq(),
            Op::Ne => order.is_ne(),
            Op::Lt => order.is_lt(),
            Op::Le => order.is_le(),
            Op::Gt => order.is_gt(),
            Op::Ge => order.is_ge(),
        }
    }

    fn needs_order(self) -> bool {
        !matches!(self, Op::Eq | Op::Ne)
    }
}

/// What a field holds. Words are the canonical texts of their types, so that aliases compare equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Number(u64),
    Word(&'static str),
    Switch(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    M,
    N,
    K,
    Batch,
    Count,
    X,
    W,
    Out,
    Bias,
    Compute,
    Scale,
    Activation,
    Trans,
    Via,
    Captured,
    Preshuffled,
}

/// Names of fields; the first name of a field is the one that messages use.
const FIELDS: &[(&str, Field)] = &[
    ("m", Field::M),
    ("n", Field::N),
    ("k", Field::K),
    ("batch", Field::Batch),
    ("count", Field::Count),
    ("dtype", Field::X),
    ("x", Field::X),
    ("w", Field::W),
    ("out", Field::Out),
    ("outdtype", Field::Out),
    ("bias", Field::Bias),
    ("compute", Field::Compute),
    ("scale", Field::Scale),
    ("act", Field::Activation),
    ("trans", Field::Trans),
    ("via", Field::Via),
    ("captured", Field::Captured),
    ("preshuffled", Field::Preshuffled),
    ("bpreshuffle", Field::Preshuffled),
];

/// The word for "no bias".
const NO_BIAS: &str = "none";

impl Field {
    fn named(name: &str) -> Option<Field> {
        FIELDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|row| row.1)
    }

    fn name(self) -> &'static str {
        FIELDS.iter().find(|row| row.1 == self).map_or("", |row| row.0)
    }

    fn is_number(self) -> bool {
        matches!(self, Field::M | Field::N | Field::K | Field::Batch | Field::Count)
    }

    fn is_switch(self) -> bool {
        matches!(self, Field::Bias | Field::Captured | Field::Preshuffled)
    }

    /// The field's value in `row`, to be compared with `with`: a bias can be asked for as a switch or as a type.
    fn of(self, row: &Recorded, with: Value) -> Value {
        let Some(gemm) = row.problem.gemm() else { return self.of_other(row, with) };
        let site = &gemm.site;
        match self {
            Field::M => Value::Number(gemm.m.into()),
            Field::N => Value::Number(site.n.into()),
            Field::K => Value::Number(site.k.into()),
            Field::Batch => Value::Number(site.batch.count.into()),
            Field::Count => Value::Number(row.count),
            Field::X => Value::Word(site.x.name()),
            Field::W => Value::Word(site.w.name()),
            Field::Out => Value::Word(site.out.name()),
            Field::Bias if matches!(with, Value::Switch(_)) => Value::Switch(site.bias.is_some()),
            Field::Bias => Value::Word(site.bias.map_or(NO_BIAS, DType::name)),
            Field::Compute => Value::Word(site.compute.name()),
            Field::Scale => Value::Word(site.scale.name()),
            Field::Activation => Value::Word(site.activation.name()),
            Field::Trans => Value::Word(site.trans.name()),
            Field::Via => Value::Word(row.via.name()),
            Field::Captured => Value::Switch(row.captured),
            Field::Preshuffled => Value::Switch(site.preshuffled),
        }
    }

    /// The field's value where the row is no GEMM: what it has not is 0, false or the empty word.
    fn of_other(self, row: &Recorded, with: Value) -> Value {
        match self {
            Field::M => Value::Number(row.problem.m().into()),
            Field::Count => Value::Number(row.count),
            Field::Via => Value::Word(row.via.name()),
            Field::Captured => Value::Switch(row.captured),
            field if field.is_number() => Value::Number(0),
            _ if matches!(with, Value::Switch(_)) => Value::Switch(false),
            _ => Value::Word(""),
        }
    }

    /// Reads a word as a value of this field; the error says what the field can be.
    fn word(self, text: &str) -> Result<Value, String> {
        fn known<T: FromStr<Err = tgemm_db::dtype::UnknownName>>(
            text: &str,
            name: fn(T) -> &'static str,
        ) -> Result<Value, String> {
            let lower = shorten(text).to_ascii_lowercase();
            lower.parse().map(|value| Value::Word(name(value))).map_err(|error| error.to_string())
        }
        let switch = match text.to_ascii_lowercase().as_str() {
            "true" => Some(Value::Switch(true)),
            "false" => Some(Value::Switch(false)),
            _ => None,
        };
        match (self, switch) {
            (Field::Bias | Field::Captured | Field::Preshuffled, Some(switch)) => Ok(switch),
            (Field::Captured | Field::Preshuffled, None) => Err("it is true or false".into()),
            (Field::Bias, None) if text.eq_ignore_ascii_case(NO_BIAS) => Ok(Value::Word(NO_BIAS)),
            (Field::X | Field::W | Field::Out | Field::Bias, _) => known(text, DType::name),
            (Field::Compute, _) => known(text, Compute::name),
            (Field::Scale, _) => known(text, ScaleMode::name),
            (Field::Activation, _) => known(text, Activation::name),
            (Field::Trans, _) => known(text, Trans::name),
            (Field::Via, _) => known(text, Via::name),
            (Field::M | Field::N | Field::K | Field::Batch | Field::Count, _) => Err("it is a whole number".into()),
        }
    }
}
