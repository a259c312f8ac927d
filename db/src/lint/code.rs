//! What lint can find: stable codes, how bad each is, and its mend.

use std::fmt;

use crate::dtype::word_enum;

word_enum! {
    /// How bad a finding is.
    pub enum Severity("severity") {
        /// It costs rows, or the file.
        Error = "error",
        /// It works here, and misleads people or other tools.
        Warning = "warning",
        /// Worth a look.
        Note = "note",
    }
}

/// Declares the codes with their number, name, severity and mend; numbers are never used again for something else.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal $name:literal $severity:ident $mend:literal;)*) => {
        /// A kind of finding. Shown as `TG001 placeholder-time`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// Every code, in order of numbers.
            pub const ALL: &'static [Code] = &[$(Code::$variant),*];

            /// `TG001`: what scripts may rely on.
            pub fn id(self) -> &'static str {
                match self { $(Code::$variant => concat!("TG", $number),)* }
            }

            /// `placeholder-time`: the same for people.
            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            /// How bad it is.
            pub fn severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$severity,)* }
            }

            /// What to do about it.
            pub fn mend(self) -> &'static str {
                match self { $(Code::$variant => $mend,)* }
            }
        }
    };
}

codes! {
    /// A time of zero or less.
    PlaceholderTime = "001" "placeholder-time" Error
        "measure it, or remove the row: every merge by lowest time would choose it";
    /// A time that is infinite or not a number.
    InfiniteTime = "002" "infinite-time" Error "remove the row: a candidate that hung was written as if it had run";
    /// Fewer cells than the header has.
    ShortRow = "003" "short-row" Error
        "write the cell that is missing: behind it every cell stands in the wrong column";
    /// More cells than the header has.
    LongRow = "004" "long-row" Error "quote cells that hold commas, or give the header the column that it lacks";
    /// A row that the reader refuses for another reason.
    RejectedRow = "005" "rejected-row" Error "write what the reason asks for, or remove the row";
    /// A file that no reader takes.
    Unreadable = "006" "unreadable-file" Error "name a file of a known format: docs/formats.md lists them";
    /// A merge that was never finished.
    ConflictMarker = "007" "conflict-marker" Error "resolve the merge: keep the rows of both sides and remove the marker";
    /// An element type in the spelling of AITER's own module.
    DtypesSpelling = "008" "dtypes-spelling" Warning
        "write torch.bfloat16 and the like: AITER compares the text, and never finds such a row of a tuned table";
    /// A known table of something that is not kept here.
    ForeignTable = "009" "foreign-table" Note "nothing: it is left alone";
    /// A text cell of a tuned table with blanks around it.
    BlankInText = "010" "blank-in-text" Warning "remove the blanks: AITER compares the text, so it never finds this row";
    /// Blanks around another cell.
    StrayBlank = "011" "stray-blank" Note "remove the blanks";
    /// A line with nothing on it, between others.
    BlankLine = "012" "blank-line" Note "remove the line";
    /// The last line has no end.
    NoFinalNewline = "013" "no-final-newline" Warning
        "end the last line: the next row that is appended would be glued to it";
    /// Lines end as on Windows.
    CarriageReturns = "014" "carriage-returns" Note "convert the line ends: tools that compare cells see the last one differ";
    /// The file starts with a byte-order mark.
    ByteOrderMark = "015" "byte-order-mark" Note "remove the first three bytes";
    /// A truth value in capitals.
    SpreadsheetBoolean = "016" "spreadsheet-boolean" Warning "write True and False: a spreadsheet has changed them";
    /// A header that stands once more among the rows.
    RepeatedHeader = "017" "repeated-header" Note "remove the line: files were put together";
    /// A row that lacks its last cell, which would be empty.
    MissingLastCell = "018" "missing-last-cell" Warning "end the row with one more comma: tools that count cells refuse it";
    /// A row that says what another says.
    DuplicateRow = "020" "duplicate-row" Warning "remove one of them";
    /// An AITER table with two rows for one key.
    DuplicateKey = "021" "duplicate-key" Error "keep one of them (tune db merge chooses): AITER refuses the whole table";
    /// One problem tuned twice for one device, with different winners.
    TwoWinners = "022" "two-winners" Warning "keep one of them: tune db merge chooses";
    /// One problem tuned twice for one device, with one winner.
    TunedTwice = "023" "tuned-twice" Note "keep one of them: tune db merge chooses";
    /// A problem that is to be tuned twice.
    DuplicateProblem = "024" "duplicate-problem" Warning "remove one of them: it would be tuned twice";
    /// A result further from the reference than AITER takes.
    HighError = "030" "high-error" Warning "tune it again: AITER's own limit is 0.05";
    /// More tokens take less time.
    TimeFalls = "031" "time-falls" Note "measure both again: one of the times is noise, or the larger M's winner serves both";
    /// A kernel whose name says another arch than its row.
    ForeignKernel = "032" "foreign-kernel" Warning "correct the row's gfx, or remove the row";
    /// A tuned AITER table without the column `gfx`.
    MissingGfx = "040" "missing-gfx" Warning
        "put a column gfx first: 256 compute units are gfx950's and gfx1250's alike";
    /// A tuned AITER table without the column `cu_num`.
    MissingUnits = "041" "missing-units" Warning "add the columns gfx and cu_num, or read it with --device";
    /// A column under the name that it had before.
    OldColumn = "042" "old-column" Note "rename the column";
    /// Tables of one format, given together, whose headers differ.
    HeaderVariant = "043" "header-variant" Note "export them again: tune db export writes today's header";
    /// A row of which nobody says which device it was tuned on.
    UnsaidDevice = "044" "unsaid-device" Warning "read it with --device";
    /// An AITER table that may be of several families.
    UnsaidFamily = "045" "unsaid-family" Warning "name the file as AITER does, or read it with --family";
    /// A line of a log that does not say enough to be a problem.
    UnusableLine = "046" "unusable-line" Note "log more: docs/formats.md says which setting writes whole lines";
    /// What a reader assumed or passed over.
    Assumed = "050" "assumed" Note "say it in the file, if it is wrong";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_told_apart() {
        for pair in Code::ALL.windows(2) {
            assert!(pair[0].id() < pair[1].id(), "{} {}", pair[0], pair[1]);
        }
        let names: std::collections::HashSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        assert_eq!(Code::ShortRow.to_string(), "TG003 short-row");
    }
}
