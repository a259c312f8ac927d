//! What is written reads back equal.

use std::path::Path;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;

use crate::choice::{Baseline, Choice, Ratio, Verdict};
use crate::device::{Build, Device, Vendor};
use crate::dtype::DType;
use crate::format::{self, Format, ReadOptions, aiter, tuned, untuned};
use crate::problem::{Alignment, Problem, ScaleMode, Site, Trans};
use crate::recording::{Follows, Recorded, Via};
use crate::solution::{Numerics, Params, Solution, WeightForm};

/// Any text at all: commas, quotes, line ends, separators, blanks at the ends.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9_ ]{0,8}", "(?s).{0,8}", "[\\\\|#,\"\n\r\t ]{0,6}"]
}

/// A time or ratio of any magnitude.
fn positive() -> impl Strategy<Value = f64> {
    prop_oneof![0.001f64..1e6, any::<f64>().prop_map(f64::abs).prop_filter("finite", |v| v.is_finite() && *v > 0.0)]
}

fn problems() -> impl Strategy<Value = Problem> {
    let dtype = || select(DType::all().collect::<Vec<_>>());
    let words = (select(ScaleMode::ALL), select(Trans::ALL), select(Alignment::ALL), any::<bool>());
    (1u32..70_000, 1u32..70_000, 1u32..70_000, dtype(), dtype(), dtype(), of(dtype()), words).prop_map(
        |(m, n, k, x, w, out, bias, (scale, trans, align, preshuffled))| {
            Site { x, w, out, bias, scale, trans, align, preshuffled, ..Site::linear(n, k, x) }.at(m).into()
        },
    )
}

fn params() -> impl Strategy<Value = Params> {
    let pair = ("[a-z_]{1,6}", "[^;=\\pC]{0,6}");
    (vec(pair, 0..3), of(0u32..64)).prop_map(|(pairs, split_k)| {
        let params = pairs.iter().fold(Params::new(), |params, (name, value)| params.with(name, value));
        split_k.map_or(params.clone(), |split_k| params.with("split_k", split_k))
    })
}

fn solutions() -> impl Strategy<Value = Solution> {
    let build = (text(), text(), text()).prop_map(|(library, version, revision)| Build { library, version, revision });
    let words = (select(WeightForm::ALL), select(Numerics::ALL), of(any::<bool>()), of(any::<bool>()));
    (build, any::<i64>(), text(), params(), any::<u64>(), words).prop_map(
        |(build, index, name, params, workspace_bytes, (weight_form, numerics, deterministic, graph_safe))| Solution {
            build: build.into(),
            index,
            name: name.into(),
            params,
            weight_form,
            workspace_bytes,
            numerics,
            deterministic,
            graph_safe,
        },
    )
}

fn devices() -> impl Strategy<Value = Device> {
    let partition = of(text().prop_filter("an empty partition is none", |text| !text.is_empty()));
    (select(Vendor::ALL), text(), any::<u32>(), of(any::<u32>()), of(any::<u32>()), partition, any::<u64>()).prop_map(
        |(vendor, arch, compute_units, memory_gib, chip_id, partition, last_level_cache_bytes)| Device {
            vendor,
            arch,
            compute_units,
            memory_gib,
            chip_id,
            partition,
            last_level_cache_bytes,
        },
    )
}

fn choices() -> impl Strategy<Value = Choice> {
    let baseline =
        (text(), solutions(), positive()).prop_map(|(via, solution, time_us)| Baseline { via, solution, time_us });
    let ends = || prop_oneof![8 => positive(), 1 => Just(0.0), 1 => Just(f64::INFINITY)];
    let figures = (positive(), positive(), ends(), ends(), 0.0f64..2.0, 0.0f64..1.0, of(0.0f64..1e9));
    let rest = (select(Verdict::ALL), vec(baseline, 0..3), any::<u64>(), text());
    (problems(), devices(), solutions(), figures, rest).prop_map(
        |(problem, device, solution, figures, (verdict, baselines, count, tuned_at))| Choice {
            problem,
            device: device.into(),
            solution,
            time_us: figures.0,
            ratio: Ratio { estimate: figures.1, low: figures.2, high: figures.3 },
            verdict,
            baselines,
            error_over_bound: figures.4,
            err_ratio: figures.5,
            pack_us: figures.6,
            count,
            tuned_at,
            origin: None,
        },
    )
}

#[test]
fn a_choice_without_a_time_keeps_none() {
    let site = Site { n: 8, ..Site::linear(8, 16, DType::Bf16) };
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let choice = choices().new_tree(&mut runner).unwrap().current();
    let choice = Choice { problem: site.at(4).into(), time_us: f64::NAN, ..choice };
    let text = tuned::to_text([&choice]);
    assert!(!text.contains("NaN"), "{text}");
    let read = format::parse_choices(Path::new("t.csv"), text.as_bytes(), &ReadOptions::default()).unwrap();
    assert!(read.rejected.is_empty(), "{:?}", read.rejected);
    let back = read.into_values().next().unwrap();
    assert!(back.time_us.is_nan());
    assert_eq!(Choice { time_us: 1.0, ..back }, Choice { time_us: 1.0, ..choice });
}

/// What a race that ended early says of its ratio: nothing.
#[test]
fn an_interval_without_ends_reads_back() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let choice = choices().new_tree(&mut runner).unwrap().current();
    for (low, high) in [(0.0, f64::INFINITY), (0.0, 0.9), (0.8, f64::INFINITY), (f64::INFINITY, f64::INFINITY)] {
        let choice = Choice { ratio: Ratio { estimate: 0.5, low, high }, ..choice.clone() };
        let text = tuned::to_text([&choice]);
        let read = format::parse_choices(Path::new("t.csv"), text.as_bytes(), &ReadOptions::default()).unwrap();
        assert_eq!(read.rejected, []);
        assert_eq!(read.into_values().next(), Some(choice));
    }
}

#[test]
fn an_end_of_an_interval_that_is_none_is_refused() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let choice = choices().new_tree(&mut runner).unwrap().current();
    for (low, high, named) in [(-0.1, 1.0, "ratio_low is '-0.1'"), (0.5, f64::NAN, "ratio_high is 'NaN'")] {
        let choice = Choice { ratio: Ratio { estimate: 0.5, low, high }, ..choice.clone() };
        let read =
            format::parse_choices(Path::new("t.csv"), tuned::to_text([&choice]).as_bytes(), &ReadOptions::default());
        let reasons: Vec<String> = read.unwrap().rejected.iter().map(|row| row.reason.clone()).collect();
        assert_eq!(reasons, [format!("{named}: a number not below 0, or inf is expected")]);
    }
}

/// Cells that a row before had too are not read again, but compared: all of them.
#[test]
fn rows_that_repeat_others_read_as_if_alone() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let few: Vec<Choice> = (0..7).map(|_| choices().new_tree(&mut runner).unwrap().current()).collect();
    let rows: Vec<Choice> = (0..400u32)
        .map(|at| {
            let [problem, solution, device] = [1, 3, 5].map(|step| &few[(at * step) as usize % few.len()]);
            let site = problem.problem.gemm().unwrap().site;
            let (solution, device) = (solution.solution.clone(), device.device.clone());
            Choice { problem: site.at(1 + at).into(), solution, device, ..few[0].clone() }
        })
        .collect();
    let text = tuned::to_text(&rows);
    let parse =
        |text: &str| format::parse_choices(Path::new("t.csv"), text.as_bytes(), &ReadOptions::default()).unwrap();
    let read = parse(&text);
    assert_eq!(read.rejected, []);
    assert!(read.into_values().eq(rows.iter().cloned()));

    // A cell that says otherwise is refused behind rows that agree, in the words that it would be refused in alone.
    let site = Site::linear(64, 32, DType::Bf16);
    let good = Choice { problem: site.at(16).into(), ..few[0].clone() };
    let header = text.lines().next().unwrap();
    let text = tuned::to_text([&good, &good, &good]);
    let row = text.lines().last().unwrap();
    let changes = [
        ("16,64,32,", "17,64,32,"),
        ("16,64,32,", "16,65,32,"),
        ("16,64,32,", "16,64,33,"),
        ("16,64,32,False,", "16,64,32,True,"),
        ("torch.bfloat16,torch.bfloat16,", "torch.float16,torch.bfloat16,"),
        ("gemm,m=16,", "gemm,m=17,"),
        ("gemm,m=16,", "gemm,m=0,"),
        ("gemm,m=16,", "gemm,m=16,m=16,"),
        ("n=64,k=32,", "n=64,k=33,"),
    ];
    for (from, to) in changes {
        let changed = row.replacen(from, to, 1);
        assert_ne!(changed, row);
        let (alone, behind) = (parse(&format!("{header}\n{changed}\n")), parse(&format!("{text}{changed}\n")));
        assert_eq!((alone.rejected.len(), behind.rows.len()), (1, 3), "{to}");
        assert_eq!(alone.rejected[0].reason, behind.rejected[0].reason);
    }
}

fn recorded() -> impl Strategy<Value = Recorded> {
    let follows = of((problems(), of(any::<u32>())));
    let follows = follows.prop_map(|said| said.map(|(problem, nodes_between)| Follows { problem, nodes_between }));
    (problems(), any::<u64>(), select(Via::ALL), any::<bool>(), follows, of(any::<u64>()), text(), text()).prop_map(
        |(problem, count, via, captured, follows, workspace_bytes_max, library_file, library_build)| Recorded {
            problem,
            count,
            via,
            captured,
            follows,
            workspace_bytes_max,
            library_file,
            library_build,
            origin: None,
        },
    )
}

/// As spreadsheets and other systems store the same table.
fn disguise(text: &str, crlf: bool, bom: bool, final_newline: bool) -> String {
    let text = if final_newline { text } else { text.trim_end_matches('\n') };
    let text = if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
    if bom { format!("\u{feff}{text}") } else { text }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn tuned_tables(rows in vec(choices(), 0..4), [crlf, bom, final_newline] in any::<[bool; 3]>()) {
        let text = disguise(&tuned::to_text(&rows), crlf, bom, final_newline);
        let read = format::parse_choices(Path::new("t.csv"), text.as_bytes(), &ReadOptions::default()).unwrap();
        prop_assert_eq!(read.format, Format::Tuned);
        prop_assert_eq!(&read.rejected, &[]);
        prop_assert_eq!(read.into_values().collect::<Vec<_>>(), rows);
    }

    #[test]
    fn untuned_tables(rows in vec(recorded(), 0..4), [crlf, bom, final_newline] in any::<[bool; 3]>()) {
        let text = disguise(&untuned::to_text(&rows), crlf, bom, final_newline);
        let read = format::parse_untuned(Path::new("u.csv"), text.as_bytes()).unwrap();
        prop_assert_eq!(read.format, Format::Untuned);
        prop_assert_eq!(&read.rejected, &[]);
        prop_assert_eq!(read.into_values().collect::<Vec<_>>(), rows);
    }

    #[test]
    fn what_aiter_cannot_hold_is_said_and_the_rest_reads_back(rows in vec(choices(), 0..4)) {
        let (text, left_out) = aiter::to_text(&rows);
        let read = format::parse_choices(Path::new("a.csv"), text.as_bytes(), &ReadOptions::default()).unwrap();
        prop_assert_eq!(&read.rejected, &[]);
        prop_assert_eq!(read.rows.len() + left_out.len(), rows.len());
    }
}

#[test]
fn written_files_are_found_by_their_header_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    let aiter_row =
        "gfx950,256,64,256,5120,False,torch.bfloat16,torch.float32,False,False,asm,5,13,7.9191,name,0.0,21.19,417.92\n";
    let aiter_text = format!("{}\n{aiter_row}", aiter::COLUMNS.join(","));
    let options = ReadOptions::default();
    let choices: Vec<Choice> =
        format::parse_choices(Path::new("a"), aiter_text.as_bytes(), &options).unwrap().into_values().collect();

    tuned::write(&path, &choices).unwrap();
    let read = format::read_choices(&path, &options).unwrap();
    assert_eq!((read.format, read.rows[0].line), (Format::Tuned, 2));
    assert!(read.into_values().eq(choices.iter().cloned()));

    assert_eq!(aiter::write(&path, &choices).unwrap(), []);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), aiter_text.replace(",0.0,", ",0,"));

    let rows = [Recorded { count: 3, ..Recorded::bare(choices[0].problem) }];
    untuned::write(&path, &rows).unwrap();
    assert!(format::read_untuned(&path).unwrap().into_values().eq(rows.iter().cloned()));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        format!(
            "{}64,256,5120,False,torch.bfloat16,torch.float32,False,False,\
             \"gemm,m=64,n=256,k=5120,x=bf16,w=bf16,out=f32,compute=f32\",3,,False,,,,,\n",
            untuned::header()
        )
    );
}

#[test]
fn export_says_what_aiter_cannot_hold() {
    let bf16 = Site::linear(64, 64, DType::Bf16);
    let row = "gfx942,304,16,64,64,False,torch.bfloat16,torch.bfloat16,False,False,hipblaslt,-7,0,2.5,Cijk,0,1,1\n";
    let text = format!("{}\n{row}", aiter::COLUMNS.join(","));
    let read = format::parse_choices(Path::new("a"), text.as_bytes(), &ReadOptions::default()).unwrap();
    let good: Choice = read.into_values().next().unwrap();
    assert_eq!(good.solution.index, -7);
    let mut cpu = good.clone();
    cpu.device = Device::named(Vendor::Cpu, "x86_64-v4", 304).into();
    let mut onednn = good.clone();
    onednn.solution.build = Build::unknown("onednn").into();
    let strided = Choice { problem: Site { trans: Trans::W, ..bf16 }.at(16).into(), ..good.clone() };
    let mut packed = good.clone();
    packed.solution.weight_form = WeightForm::Prepacked;
    let slower = Choice { time_us: 9.0, ..good.clone() };
    let (text, left_out) = aiter::to_text(&[good, cpu, onednn, strided, packed, slower]);
    assert_eq!(text.lines().count(), 2);
    let reasons: Vec<&str> = left_out.iter().map(|row| row.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "x86_64-v4/304 is not an AMD device",
            "AITER cannot run library onednn",
            "AITER's columns cannot say all of this problem",
            "AITER holds these weights plain, the solution takes them prepacked",
            "an earlier choice has the same key",
        ]
    );
}
