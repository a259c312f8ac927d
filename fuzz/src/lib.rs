//! What every fuzz target holds a reader to, whatever the bytes are.
//!
//! No panic, no hang, no unbounded memory: the fuzzer sees those by itself. Beyond that:
//!
//! - what was accepted survives our own tables: written as a native table and read again it is equal;
//! - every row and every rejection has a line of the file, and nothing is said twice;
//! - what was imported with its spelling is accepted again when it is exported like its origin.
//!
//! | module | holds |
//! |---|---|
//! | [`lookup`] | what tables and databases are held to once they are loaded, and cut |
//! | [`store`] | SQLite databases, spoiled page by page and row by row |
//! | [`capi`] | a program in C's words that a fuzzer writes |
//! | [`feed`], [`scratch`] | its bytes as decisions; files in memory |

pub mod capi;
pub mod feed;
pub mod lookup;
pub mod scratch;
pub mod store;

use std::path::Path;

use tgemm_db::format::aiter::{Like, to_text_like, untuned_text_like_origin};
use tgemm_db::format::tunableop::{self, Validators};
use tgemm_db::format::{self, AssumedDevice, Content, Format, Read, ReadOptions, fmoe, tuned, untuned, vllm_moe};
use tgemm_db::{Choice, DType, Problem, Recorded};

/// Options under which as many rows as possible are accepted, each with its origin.
fn options() -> ReadOptions {
    ReadOptions {
        device: Some(AssumedDevice { arch: "gfx942".into(), compute_units: 304 }),
        family: None,
        weight_dtype: Some(DType::F8E4m3Fnuz),
        keep_origin: true,
        imported_at: "2026-11-30T00:00:00Z".into(),
    }
}

/// Reads `bytes` as a file called `name` and checks all of the above.
pub fn check(name: &str, bytes: &[u8]) {
    match format::parse(Path::new(name), bytes, &options()) {
        Err(error) => drop(error.to_string()),
        Ok(Content::Choices(read)) => check_choices(name, bytes, read),
        Ok(Content::Problems(read)) => check_problems(bytes, read),
    }
}

/// [`check`] of `body` as it is, and under each of `heads` in turn: a header that the fuzzer need not find by itself.
pub fn check_below(name: &str, heads: &[&str], body: &[u8]) {
    check(name, body);
    let Some((&first, rest)) = body.split_first() else { return };
    if let Some(head) = heads.get(usize::from(first) % heads.len().max(1)) {
        let whole = [head.as_bytes(), b"\n", rest].concat();
        check(name, &whole);
    }
}

fn check_lines<T>(bytes: &[u8], read: &Read<T>) {
    let lines_max = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
    for rejected in &read.rejected {
        assert!(rejected.line <= lines_max, "line {} of {lines_max}", rejected.line);
        assert!(!rejected.reason.is_empty() && !rejected.reason.contains('\n'), "{rejected}");
    }
    assert!(read.rows.iter().all(|row| row.line <= lines_max), "a row beyond the file's end");
    assert!(read.rows.is_sorted_by_key(|row| row.line), "rows out of the file's order");
    read.warnings.iter().for_each(|warning| drop(warning.to_string()));
}

fn check_problems(bytes: &[u8], read: Read<Recorded>) {
    check_lines(bytes, &read);
    let (format, is_whole) = (read.format, read.rejected.is_empty());
    let rows: Vec<Recorded> = read.into_values().collect();
    for row in &rows {
        check_key(&row.problem);
    }
    // Problems of a log are told to be AITER's as well, and have no rows of a table.
    let is_table = !rows.is_empty() && rows.iter().all(|row| row.origin.is_some());
    if matches!(format, Format::AiterUntuned(_)) && is_table {
        let (text, left_out) = untuned_text_like_origin(&rows);
        assert!(left_out.is_empty(), "{}", left_out[0]);
        // Rows that were all taken are the file.
        assert!(!is_whole || text.as_bytes() == bytes, "{text:?}");
    }
    let rows: Vec<Recorded> = rows.into_iter().map(|row| Recorded { origin: None, ..row }).collect();
    let text = untuned::to_text(&rows);
    let again = format::parse_untuned(Path::new("again.csv"), text.as_bytes());
    let again = again.unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(again.rejected.is_empty(), "{:?}\n{text}", again.rejected);
    assert_eq!(again.into_values().collect::<Vec<_>>(), rows);
}

fn check_choices(name: &str, bytes: &[u8], read: Read<Choice>) {
    check_lines(bytes, &read);
    let format = read.format;
    let choices: Vec<Choice> = read.into_values().collect();
    for choice in &choices {
        check_key(&choice.problem);
        // vLLM's files have no times.
        let is_timed = choice.time_us.is_finite() && choice.time_us > 0.0;
        assert!(is_timed || format == Format::VllmMoe && choice.time_us.is_nan(), "{}", choice.time_us);
    }
    let text = tuned::to_text(&choices);
    let again = format::parse_choices(Path::new("again.csv"), text.as_bytes(), &options());
    let again = again.unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(again.rejected.is_empty(), "{:?}\n{text}", again.rejected);
    // As text, since a time that nobody measured is not a number, and so not equal to itself.
    assert_eq!(format!("{:?}", again.into_values().collect::<Vec<_>>()), format!("{choices:?}"));
    check_export(name, bytes, format, &choices);
}

/// What the format's own writer makes of the rows is read again as so many rows of the same problems.
fn check_export(name: &str, bytes: &[u8], format: Format, choices: &[Choice]) {
    if choices.is_empty() {
        return;
    }
    let (texts, left_out): (Vec<(String, String)>, usize) = match format {
        Format::AiterTuned(_) => {
            let written = to_text_like(choices, Like::Origin);
            (vec![(name.into(), written.text)], written.left_out.len())
        }
        Format::FmoeTuned => {
            let (text, left_out) = fmoe::to_text(choices);
            (vec![(name.into(), text)], left_out.len())
        }
        Format::VllmMoe => {
            let (files, left_out) = vllm_moe::to_files(choices);
            (files.into_iter().map(|file| (file.name, file.text)).collect(), left_out.len())
        }
        Format::TunableOp => match Validators::parse(bytes) {
            Ok(validators) => match tunableop::to_text(choices, Some(&validators)) {
                Ok((text, left_out)) => (vec![(name.into(), text)], left_out.len()),
                Err(none) => panic!("{none}"),
            },
            Err(_) => return,
        },
        _ => return,
    };
    // Which family a table is of may have been told by the kernel of a row that was rejected: who exports knows it.
    let family = match format {
        Format::AiterTuned(family) => Some(family),
        _ => None,
    };
    let options = ReadOptions { family, ..options() };
    let mut exported = 0;
    for (name, text) in &texts {
        // Nothing but a header, or nothing at all, where every row was left out.
        let Ok(Content::Choices(again)) = format::parse(Path::new(name), text.as_bytes(), &options) else { continue };
        assert!(again.rejected.is_empty(), "{}\n{text}", again.rejected[0]);
        for row in &again.rows {
            let problem = row.value.problem;
            assert!(choices.iter().any(|choice| choice.problem == problem), "{problem} was not imported\n{text}");
        }
        exported += again.rows.len();
    }
    assert_eq!(exported + left_out, choices.len(), "rows exported and left out are not all rows: {texts:?}");
}

/// The text key of an accepted problem reads back as the same problem.
pub fn check_key(problem: &Problem) {
    let key = problem.to_string();
    assert_eq!(key.parse::<Problem>().as_ref(), Ok(problem), "{key}");
}
