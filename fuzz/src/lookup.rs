//! What a database is held to, whatever its files were.
//!
//! - every line of a table is a row that was taken or told as rejected, and every row is served, of another device or of
//!   another build;
//! - a file that cannot be read leaves nothing behind;
//! - a table that was cut gives the rows before the cut and says that it was cut;
//! - a table that is replaced by a cut one changes whole or not at all;
//! - [`check_answers`]: answers are of rows that are there, and valid for what was asked.

use std::collections::BTreeMap;
use std::path::Path;

use tgemm_db::format::{self, Format, Read, ReadOptions};
use tgemm_db::problem::EXTENT_MAX;
use tgemm_db::{Choice, Constraints, Device, Environment, Numerics, Problem, Site, Vendor, WeightForm};
use tgemm_lookup::{Database, Hit, HitKind, Layers, Levels, Live, LoadReport, Refreshed};

use crate::scratch;

/// Sites that are asked for, of a database that may have hundreds.
const SITES_MAX: usize = 2;

/// The device that most of `rows` could serve on: that of the first, with the builds of all.
pub fn here<'c>(rows: impl IntoIterator<Item = &'c Choice>) -> Environment {
    let mut rows = rows.into_iter().peekable();
    let device = match rows.peek() {
        Some(first) => (*first.device).clone(),
        None => Device::named(Vendor::Amd, "gfx942", 304),
    };
    let mut builds: BTreeMap<String, _> = BTreeMap::new();
    for row in rows {
        let build = &row.solution.build;
        builds.entry(build.library.clone()).or_insert_with(|| (**build).clone());
    }
    Environment { device, builds: builds.into_values().collect(), driver: String::new(), vars: BTreeMap::new() }
}

/// A number that is the same for the same bytes.
pub fn salt(bytes: &[u8]) -> u64 {
    // FNV-1a: any will do.
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Loads `bytes` as a table from a file and checks all of the above.
pub fn check_table(bytes: &[u8]) {
    // What begins like a database is read as one: see [`store`](crate::store).
    if bytes.starts_with(format::SQLITE_MAGIC) {
        return;
    }
    // vLLM's files are told by their names.
    let name = match bytes.first() {
        Some(b'{') => "E=8,N=14336,device_name=AMD_Instinct_MI300X.json",
        _ => "t.csv",
    };
    let path = scratch::file(name, bytes);
    let read = format::parse_choices(&path, bytes, &ReadOptions::default());
    let here = here(read.iter().flat_map(|read| &read.rows).map(|row| &row.value));
    let (database, report) = Database::open(&[path.clone()], &here);
    let salt = salt(bytes);
    match &read {
        Ok(read) => {
            check_lines(bytes, read);
            check_report(bytes, read, &database, &report);
        }
        Err(error) => {
            assert_eq!(report.files[0].error, Some(error.to_string()));
            assert!(database.is_empty() && database.refused() == 0, "rows of a file that cannot be read: {error}");
        }
    }
    check_cut(&path, bytes, &here, &database, read.as_ref().ok(), salt);
    check_answers(database, &here, salt);
}

/// Every line is a row, rejected with its reason, blank, or the header.
fn check_lines(bytes: &[u8], read: &Read<Choice>) {
    if !matches!(read.format, Format::Tuned | Format::AiterTuned(_) | Format::FmoeTuned) {
        return;
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let is_blank = |line: &&[u8]| line.iter().all(|byte| matches!(byte, b' ' | b'\t'));
    let trimmed = |line: &'_ [u8]| line.iter().rposition(|&byte| byte != b'\r').map_or(0, |at| at + 1);
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').map(|line| &line[..trimmed(line)]).collect();
    let is_told = |number: u64| {
        let row = read.rows.iter().filter(|row| row.line == number).count();
        row + read.rejected.iter().filter(|row| row.line == number).count()
    };
    let header = lines.iter().find(|line| !is_blank(line));
    for (number, line) in (1..).zip(&lines) {
        match is_told(number) {
            0 => assert!(is_blank(line) || Some(line) == header, "line {number} was dropped without a word"),
            more => assert!(more == 1 && !is_blank(line), "line {number} is told {more} times"),
        }
    }
}

/// What the report says is what the reader gave and what is served.
fn check_report(bytes: &[u8], read: &Read<Choice>, database: &Database, report: &LoadReport) {
    let file = &report.files[0];
    assert_eq!((report.files.len(), &file.error), (1, &None));
    assert_eq!(file.kept + file.other_device + file.other_build, read.rows.len(), "{report}");
    assert_eq!((file.kept, file.other_device + file.other_build), (database.len(), database.refused()));
    assert_eq!(file.rejected, read.rejected.len());
    assert_eq!(file.rejections.len(), file.rejected.min(tgemm_lookup::load::REJECTED_TOLD_MAX));
    let is_ended = bytes.last() == Some(&b'\n') || read.format == Format::VllmMoe;
    assert_eq!(file.is_unended, !is_ended);
    assert_eq!(report.is_clean(), is_ended && read.rejected.is_empty());
    assert!(report.to_string().lines().count() <= 2 + tgemm_lookup::load::REJECTED_TOLD_MAX, "{report}");
}

/// The same file, cut: opened anew, and put in the place of the whole one under a database that follows it.
fn check_cut(path: &Path, bytes: &[u8], here: &Environment, whole: &Database, read: Option<&Read<Choice>>, salt: u64) {
    let layers = Layers::default().with_site([path.to_owned()]);
    let (live, before) = Live::open(layers, here.clone(), Levels::default());
    let was = live.snapshot();
    let at = (salt % (bytes.len() as u64 + 1)) as usize;
    scratch::must(std::fs::write(path, &bytes[..at]), "a scratch file");
    let (cut, report) = Database::open(&[path.to_owned()], here);
    // A table of another family may be told from another row, and JSON is whole or nothing: only ours is sure.
    if let Some(read) = read.filter(|read| read.format == Format::Tuned && report.files[0].error.is_none()) {
        let is_at_line_end = at > 0 && bytes[at - 1] == b'\n';
        assert!(is_at_line_end || report.files[0].is_unended, "cut at {at}, and nothing says so: {report}");
        let lines = bytes[..at].iter().filter(|&&byte| byte == b'\n').count() as u64;
        let rows = |database: &Database, count: usize| format!("{:?}", &database.choices()[..count]);
        let count = cut.len().min(whole.len());
        let rejected = read.rejected.iter().filter(|row| row.line <= lines).count();
        assert!(cut.len() <= whole.len() + 1 && report.files[0].rejected >= rejected, "cut at {at}: {report}");
        // The last line may be whole but for its end, or for cells that may be empty.
        let sure = count.saturating_sub(usize::from(!is_at_line_end));
        assert_eq!(rows(&cut, sure), rows(whole, sure), "cut at {at}");
    }
    match live.refresh() {
        Refreshed::Replaced(after) => {
            assert_eq!(after, report);
            assert_eq!(live.snapshot().len(), cut.len());
        }
        Refreshed::Kept(kept) => {
            assert!(std::ptr::eq(&*was, &*live.snapshot()), "{kept}");
            let is_worse = before.files[0].error.is_none() || report.files[0].is_unended;
            assert!(!kept.reasons.is_empty() && is_worse, "{kept}");
        }
        Refreshed::Unchanged => assert!(at == bytes.len(), "a cut at {at} went by unseen"),
    }
}

/// Asks at, beside and far from a tuned M of some sites, on several levels and under several constraints.
pub fn check_answers(database: Database, here: &Environment, salt: u64) {
    let mut database = database;
    let count = database.len();
    let chosen: Vec<Problem> = (0..count.min(SITES_MAX))
        .map(|at| database.choices()[(at + salt as usize % count.max(1)) % count].problem)
        .collect();
    let fewer = [Levels::default(), Levels::EXACT, Levels::AITER][salt as usize % 3];
    for levels in [fewer, Levels::ALL] {
        database = database.with_levels(levels);
        for (number, problem) in (0..).zip(&chosen) {
            for asked in around(problem, salt.rotate_right(number)) {
                for constraints in constraints(&database, salt) {
                    check_answer(&database, here, &asked, &constraints);
                }
            }
        }
    }
}

/// `problem`, at other token counts, and its site with other sizes.
fn around(problem: &Problem, salt: u64) -> Vec<Problem> {
    let m = problem.m();
    let more = [m, m.wrapping_add(1), m.wrapping_sub(1), m.saturating_mul(2), m / 2, m / 3 + 7];
    let mut all = vec![*problem];
    for m in more.into_iter().chain([salt as u32 % 4096, 0, 1, EXTENT_MAX, u32::MAX]) {
        all.push(match problem {
            Problem::Gemm(gemm) => gemm.site.at(m).into(),
            Problem::Moe(moe) => moe.site.at(m).into(),
            other => *other,
        });
    }
    if let Problem::Gemm(gemm) = problem {
        let Site { n, k, .. } = gemm.site;
        for (n, k) in [(n.wrapping_add(n / 4), k), (n, k.wrapping_sub(k / 8)), (n.wrapping_mul(2), 1), (0, u32::MAX)] {
            all.push(Site { n, k, ..gemm.site }.at(m).into());
        }
    }
    all
}

/// Most that is allowed, and some of that.
fn constraints(database: &Database, salt: u64) -> [Constraints; 2] {
    let some = database.choices().get(salt as usize % database.len().max(1));
    let all = Constraints {
        weight_forms: WeightForm::ALL.iter().copied().collect(),
        numerics: Numerics::Partial16,
        ..Constraints::default()
    };
    let cap = some.map_or(0, |choice| choice.solution.workspace_bytes);
    let library = some.map(|choice| choice.solution.library().to_owned());
    let fewer = match salt / 3 % 3 {
        0 => Constraints { workspace_bytes_max: Some(cap), ..all.clone() },
        1 => Constraints { libraries: library.map(|library| [library].into()), ..all.clone() },
        _ => Constraints { deterministic: salt & 1 == 0, graph_safe: salt & 2 == 0, ..Constraints::default() },
    };
    [fewer, all]
}

/// One lookup, by every way that there is.
fn check_answer(database: &Database, here: &Environment, asked: &Problem, constraints: &Constraints) {
    let hit = database.lookup(asked, constraints);
    check_hit(database, here, asked, constraints, &hit);
    let by_site = match asked {
        Problem::Gemm(gemm) => database.site(&gemm.site).at(gemm.m, constraints),
        Problem::Moe(moe) => database.moe_site(&moe.site).at(moe.m, constraints),
        _ => hit,
    };
    let same = |hit: &Hit<'_>| (hit.kind, hit.tuned_m, hit.choice.map(std::ptr::from_ref));
    assert_eq!(same(&by_site), same(&hit), "{asked}: by site and by problem");
    let told = database.explain(asked, constraints);
    assert_eq!((told.kind, told.tuned_m), (hit.kind, hit.tuned_m), "{told}");
    let answered = told.steps.iter().filter(|step| step.answered).count();
    assert_eq!(answered, usize::from(hit.kind != HitKind::Default), "{told}");
    assert!(told.steps.iter().all(|step| !step.answered || step.level == hit.kind), "{told}");
}

/// A hit is a row that is here, may run, and is what its kind says.
fn check_hit(database: &Database, here: &Environment, asked: &Problem, constraints: &Constraints, hit: &Hit<'_>) {
    let levels = database.levels();
    let is_allowed = |choice: &Choice| constraints.refuse_choice(choice).is_none();
    let Some(choice) = hit.choice else {
        assert_eq!((hit.kind, hit.tuned_m), (HitKind::Default, None));
        let tuned = database.choices().iter().find(|row| row.problem == *asked && is_allowed(row));
        // AITER's rows for builds without a kernel are no answers.
        let tuned = tuned.filter(|row| row.problem.gemm().is_some());
        assert!(tuned.is_none(), "{asked} was tuned and is not answered");
        return;
    };
    assert!(database.choices().as_ptr_range().contains(&std::ptr::from_ref(choice)), "{asked}: a row from elsewhere");
    assert_eq!(hit.tuned_m, Some(choice.problem.m()));
    assert!(is_allowed(choice), "{asked}: {:?}", constraints.refuse_choice(choice));
    assert!(choice.device.difference(&here.device).is_none(), "{asked}: tuned on another device");
    let build = &choice.solution.build;
    let is_here = here.build(&build.library).is_some_and(|now| build.difference(now).is_none());
    assert!(is_here || !build.is_known(), "{asked}: another build");
    let (Problem::Gemm(gemm), Problem::Gemm(tuned)) = (asked, &choice.problem) else { return };
    match hit.kind {
        HitKind::Exact => assert_eq!(gemm, tuned),
        HitKind::Padded => assert!(levels.padded && gemm.site == tuned.site && gemm.m != tuned.m, "{asked}"),
        HitKind::Interval => assert!(levels.interval && gemm.site == tuned.site && gemm.m != tuned.m, "{asked}"),
        HitKind::Predicted => {
            let Site { n, k, .. } = tuned.site;
            assert!(levels.predicted && Site { n, k, ..gemm.site } == tuned.site && gemm.site != tuned.site, "{asked}");
        }
        kind => panic!("{asked}: {kind} with a choice"),
    }
}
