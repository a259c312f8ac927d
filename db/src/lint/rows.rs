//! What rows say, one by one and beside each other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{AITER_ERROR_LIMIT, Code, Place, Seen, Sink, TIME_FALL_MIN};
use crate::choice::Choice;
use crate::format::{Format, Read, Rejected};
use crate::key;
use crate::merge::identity;
use crate::recording::Recorded;

/// Names the rows that the reader refused, by their kind.
pub(super) fn rejected(rows: &[Rejected], format: Format, is_conflict: impl Fn(u64) -> bool, sink: &mut Sink<'_>) {
    // What a program logs was not written by hand: nobody can mend it.
    let is_log = matches!(format, Format::HipblasltLog | Format::RocblasLog | Format::CublasltLog);
    for row in rows.iter().filter(|row| !is_conflict(row.line)) {
        let code = if is_log { Code::UnusableLine } else { kind(&row.reason) };
        sink.find(code, Some(row.line), row.reason.clone());
    }
}

/// The code for what a reader says about a row that it took.
pub(super) fn told(what: &str) -> Code {
    if what.starts_with("the last comma is missing") { Code::MissingLastCell } else { Code::Assumed }
}

/// The code for a reader's reason, which starts with `column is 'cell'` where one cell is to blame.
fn kind(reason: &str) -> Code {
    let cell = reason.split_once(" is '").and_then(|(column, rest)| Some((column, rest.split('\'').next()?)));
    if let Some((column, cell)) = cell {
        let is_time = matches!(column, "us" | "soltimes" | "us1" | "us2" | "total_us");
        match cell.parse::<f64>() {
            Ok(time) if is_time && time.is_finite() && time <= 0.0 => return Code::PlaceholderTime,
            Ok(time) if is_time && !time.is_finite() => return Code::InfiniteTime,
            _ => {}
        }
    }
    match lengths(reason) {
        Some((have, want)) if have < want => Code::ShortRow,
        Some((have, want)) if have > want => Code::LongRow,
        _ if reason.contains("say which device it was") || reason.contains("say which it was") => Code::UnsaidDevice,
        _ => Code::RejectedRow,
    }
}

/// The cells that a row has and should have, where its reason starts with them.
fn lengths(reason: &str) -> Option<(usize, usize)> {
    let (have, rest) = reason.split_once(" cells where the header has ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((have.parse().ok()?, rest[..digits].parse().ok()?))
}

/// Names what is odd about choices.
pub(super) fn choices(read: &Read<Choice>, seen: &mut Seen, sink: &mut Sink<'_>) {
    for row in &read.rows {
        let choice = &row.value;
        if choice.err_ratio > AITER_ERROR_LIMIT {
            let what = format!("{}: {} of the outputs are off", key::short(&choice.problem), choice.err_ratio);
            sink.find(Code::HighError, Some(row.line), what);
        }
        if let Some(arch) = foreign_arch(&choice.solution.name, &choice.device.arch) {
            let what = format!("a kernel for {arch} on {}", choice.device.arch);
            sink.find(Code::ForeignKernel, Some(row.line), what);
        }
        duplicate(choice, row.line, read.format, seen, sink);
    }
    falling_times(read, sink);
}

/// The arch that a kernel's name says, if it is another than `arch`.
fn foreign_arch<'n>(name: &'n str, arch: &str) -> Option<&'n str> {
    if !arch.starts_with("gfx") {
        return None;
    }
    let named = name.match_indices("gfx").map(|(at, _)| {
        let rest = &name[at + 3..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        // The last place may be a hexadecimal digit: gfx90a. More letters are the name's next word.
        let tail: Vec<char> = rest[digits..].chars().take_while(char::is_ascii_alphanumeric).collect();
        let letter = usize::from(matches!(tail[..], ['a'..='f']));
        (digits, &name[at..at + 3 + digits + letter])
    });
    let mut archs = named.filter(|(digits, _)| (2..=4).contains(digits)).map(|(_, arch)| arch).peekable();
    let first = *archs.peek()?;
    archs.all(|named| named != arch).then_some(first)
}

/// Notes the row's key; names the row if its key stands already.
fn duplicate(choice: &Choice, line: u64, format: Format, seen: &mut Seen, sink: &mut Sink<'_>) {
    let key = (choice.problem, identity::Place::of(choice));
    let (file, content) = (sink.number(), identity::content(choice));
    let now = Place { file, line, content, solution: choice.solution.key() };
    let before = match seen.choices.entry(key) {
        Entry::Vacant(entry) => {
            entry.insert(now);
            return;
        }
        Entry::Occupied(entry) => entry.get().clone(),
    };
    let place = seen.place(&before);
    let problem = key::short(&choice.problem);
    let is_aiter = matches!(format, Format::AiterTuned(_) | Format::FmoeTuned);
    let (code, what) = if before.content == now.content {
        (Code::DuplicateRow, format!("{problem}: says what {place} says"))
    } else if is_aiter && before.file == file {
        (Code::DuplicateKey, format!("{problem} on {}: has the key of {place}", choice.device))
    } else if before.solution != now.solution {
        (Code::TwoWinners, format!("{problem} on {}: {place} has another winner", choice.device))
    } else {
        (Code::TunedTwice, format!("{problem} on {}: {place} has the same winner", choice.device))
    };
    sink.find(code, Some(line), what);
}

/// Names neighbours along M where more tokens take less time, by more than [`TIME_FALL_MIN`].
fn falling_times(read: &Read<Choice>, sink: &mut Sink<'_>) {
    let mut layers: HashMap<_, Vec<(u32, f64, u64)>> = HashMap::new();
    for row in &read.rows {
        let (layer, m) = identity::layer(&row.value.problem);
        layers.entry((layer, identity::Place::of(&row.value))).or_default().push((m, row.value.time_us, row.line));
    }
    let mut falls: Vec<_> = layers.into_values().flat_map(falls).collect();
    falls.sort_by_key(|((_, _, line), _)| *line);
    for ((m, us, line), (next_m, next_us, next_line)) in falls {
        let what = format!("M={m} takes {us} us, M={next_m} on line {next_line} takes {next_us} us");
        sink.find(Code::TimeFalls, Some(line), what);
    }
}

type Timed = (u32, f64, u64);

/// Neighbours of one layer that fall; of several rows at one M the fastest speaks.
fn falls(mut rows: Vec<Timed>) -> Vec<(Timed, Timed)> {
    rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    rows.dedup_by_key(|(m, ..)| *m);
    let is_fall = |pair: &&[Timed]| pair[1].1 < pair[0].1 * (1.0 - TIME_FALL_MIN);
    rows.windows(2).filter(is_fall).map(|pair| (pair[0], pair[1])).collect()
}

/// Names problems of one file that stand twice. Our own recordings may: their counts are summed.
pub(super) fn problems(read: &Read<Recorded>, sink: &mut Sink<'_>) {
    if !matches!(read.format, Format::AiterUntuned(_) | Format::FmoeUntuned | Format::TunableOpUntuned) {
        return;
    }
    let mut lines = HashMap::new();
    for row in &read.rows {
        match lines.entry(row.value.problem) {
            Entry::Vacant(entry) => {
                entry.insert(row.line);
            }
            Entry::Occupied(entry) => {
                let what = format!("{}: stands on line {} already", key::short(&row.value.problem), entry.get());
                sink.find(Code::DuplicateProblem, Some(row.line), what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arches_in_names_are_whole_words() {
        assert_eq!(foreign_arch("opus_gfx950_x", "gfx950"), None);
        assert_eq!(foreign_arch("opus_gfx950_x", "gfx942"), Some("gfx950"));
        assert_eq!(foreign_arch("k_gfx90a", "gfx90a"), None);
        assert_eq!(foreign_arch("k_gfx90a_", "gfx942"), Some("gfx90a"));
        assert_eq!(foreign_arch("gfx942_gfx950", "gfx950"), None, "it is for both");
        assert_eq!(foreign_arch("gfx_", "gfx950"), None);
        assert_eq!(foreign_arch("gfx942", "sm_90"), None);
    }

    #[test]
    fn only_neighbours_that_fall_by_more_than_the_margin_are_named() {
        let rows = vec![(4, 10.0, 1), (1, 9.0, 2), (2, 8.6, 3), (2, 20.0, 4), (8, 9.0, 5)];
        assert_eq!(falls(rows), [((4, 10.0, 1), (8, 9.0, 5))]);
        assert_eq!(falls(vec![(1, f64::NAN, 1), (2, 1.0, 2)]), []);
    }
}
