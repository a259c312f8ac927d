//! Mixes on scripted devices, and on one that looks at what it is asked to time.

use std::collections::BTreeMap;

use super::*;
use crate::measure::noting::{Noted, Noting};
use crate::scripted::ScriptedContext;
use crate::{Backend, Library};
use proptest::prelude::*;
use tgemm_db::{DType, Site};

const TWO: &str =
    r#"{"name": "plain", "time_us": 10, "mixed_us": 3}, {"name": "packed", "time_us": 4, "weight_form": "prepacked"}"#;

fn problem(n: u32) -> Problem {
    Site::linear(n, 64, DType::Bf16).at(3).into()
}

fn context(solutions: &str) -> ScriptedContext {
    let script = format!(r#"{{"device": {{"last_level_cache_bytes": 16384}}, "solutions": [{solutions}]}}"#);
    ScriptedContext::from_json(&script).unwrap()
}

fn load(mix: &mut Mix, context: &dyn Context, part: usize, name: &str) -> usize {
    let problem = *mix.parts[part].bench.problem();
    let library: &dyn Library = &*context.libraries()[0];
    let all = library.candidates(&problem, crate::Effort::Full, &crate::Ask::default()).unwrap();
    let solution = all.iter().find(|solution| solution.name == name).unwrap();
    mix.load(context, part, library.prepare(&problem, solution).unwrap()).unwrap().id
}

#[test]
fn a_round_costs_what_its_launches_do_one_after_the_other() {
    let mut context = context(TWO);
    let mut mix = Mix::new(&context, &[(problem(32), 4), (problem(48), 2)], &BenchOptions::default()).unwrap();
    let plain = [0, 1].map(|part| load(&mut mix, &context, part, "plain"));
    let packed = [0, 1].map(|part| load(&mut mix, &context, part, "packed"));
    let entry = |ids: [usize; 2]| MixEntry { ids: ids.to_vec(), rounds: 1 };
    let block = [entry(plain), entry([packed[0], plain[1]]), entry([plain[0], packed[1]]), entry(packed)];
    let figures = mix.measure(&mut context, &block).unwrap();
    // 13 us a launch of `plain` in company, 4 of `packed`.
    let expected = [6.0 * 13.0, 4.0 * 4.0 + 2.0 * 13.0, 4.0 * 13.0 + 2.0 * 4.0, 6.0 * 4.0];
    assert!(figures.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{figures:?}");
}

#[test]
fn weights_come_round_again_past_the_cache_and_both_arms_see_the_same_outputs() {
    let mut context = Noting::new(context(TWO));
    let mut mix = Mix::new(&context, &[(problem(32), 2), (problem(64), 1)], &BenchOptions::default()).unwrap();
    let plain = [0, 1].map(|part| load(&mut mix, &context, part, "plain"));
    let packed = [0, 1].map(|part| load(&mut mix, &context, part, "packed"));
    let entry = |ids: [usize; 2]| MixEntry { ids: ids.to_vec(), rounds: 5 };
    mix.measure(&mut context, &[entry(plain), entry(packed)]).unwrap();
    let [first, second] = &context.arms[..] else { panic!("two arms") };
    assert_eq!((first.start, first.calls, first.places.len() % 3), (0, 15, 0), "whole rounds");
    assert_eq!(second.start, 15 % second.places.len(), "on from where the first stopped");
    let outs = |arm: &Noted| arm.places.iter().map(|io| io.out).collect::<Vec<_>>();
    assert_eq!(outs(first), outs(second));
    // 4 and 8 KiB of weights: three times 16 KiB go by before any is used again, give or take a launch.
    let mut seen_at = BTreeMap::new();
    for (at, io) in first.places.iter().chain(&first.places).enumerate() {
        if let Some(last) = seen_at.insert(io.w, at) {
            let bytes = |place: usize| if mix.order[place % mix.order.len()] == 0 { 4096 } else { 8192 };
            let passed: usize = (last..at).map(bytes).sum();
            assert!(passed >= 2 * 16384, "{passed} bytes between launches {last} and {at}");
        }
    }
    assert!(seen_at.len() > 2, "there are copies");
}

#[test]
fn what_makes_no_mix_is_an_error() {
    let mut context = context(TWO);
    let new = |parts: &[(Problem, u32)]| Mix::new(&context, parts, &BenchOptions::default());
    assert!(new(&[]).is_err());
    assert!(new(&[(problem(32), 0), (problem(48), 1)]).is_err());
    assert!(new(&[(problem(32), 5000)]).is_err());
    let mut mix = new(&[(problem(32), 1), (problem(48), 1)]).unwrap();
    let id = load(&mut mix, &context, 0, "plain");
    for (ids, rounds) in [(vec![id], 1), (vec![id, 7], 1), (vec![id, id], 0)] {
        assert!(mix.measure(&mut context, &[MixEntry { ids, rounds }]).is_err());
    }
    let library = &context.libraries()[0];
    let all = library.candidates(&problem(32), crate::Effort::Full, &crate::Ask::default()).unwrap();
    let prepared = library.prepare(&problem(32), &all[0]).unwrap();
    assert!(mix.load(&context, 2, prepared).is_err());
}

#[test]
fn turns_are_spread() {
    assert_eq!(spread(&[2, 2, 1], || 0.5), [0, 1, 2, 0, 1]);
    assert_eq!(spread(&[4, 1], || 0.5), [0, 0, 1, 0, 0]);
    assert_eq!(spread(&[], || 0.5), [0usize; 0]);
    let mut phases = [0.9, 0.2, 0.5].into_iter();
    assert_eq!(spread(&[2, 2, 2], || phases.next().unwrap()), [1, 2, 0, 1, 2, 0], "another phase is another order");
}

proptest! {
    #[test]
    fn every_part_has_its_launches_at_even_distances(
        launches in proptest::collection::vec(1usize..40, 1..6),
        seed in any::<u64>(),
    ) {
        let mut rng = crate::measure::rng::Rng::new(seed, 0);
        let order = spread(&launches, || rng.unit());
        for (part, &count) in launches.iter().enumerate() {
            let at: Vec<usize> = (0..order.len()).filter(|&i| order[i] == part).collect();
            prop_assert_eq!(at.len(), count);
            let even = order.len() as f64 / count as f64;
            let slack = launches.len() as f64;
            prop_assert!(at.windows(2).all(|w| ((w[1] - w[0]) as f64 - even).abs() <= slack), "{order:?}");
        }
    }

    #[test]
    fn a_plan_keeps_weights_out_of_the_cache_where_there_may_be_as_many(
        parts in proptest::collection::vec((1usize..40, 1u64..1 << 30), 1..6),
        wanted in 1u64..1 << 32,
    ) {
        let (launches, bytes): (Vec<usize>, Vec<u64>) = parts.into_iter().unzip();
        let plan = Plan::new(wanted, &launches, &bytes);
        let total: usize = launches.iter().sum();
        let round_bytes: u64 = launches.iter().zip(&bytes).map(|(count, bytes)| *count as u64 * bytes).sum();
        prop_assert!(plan.rounds >= 1 && plan.rounds * total <= TURNS_MAX);
        let is_capped = (plan.rounds + 1) * total > TURNS_MAX;
        prop_assert!(is_capped || plan.rounds as u64 * round_bytes >= wanted);
        for (copies, count) in plan.copies.iter().zip(&launches) {
            prop_assert!((1..=count * plan.rounds).contains(copies));
            let passes = u128::from(round_bytes) * *copies as u128 / *count as u128;
            prop_assert!(is_capped || passes + 1 >= u128::from(wanted));
        }
    }
}
