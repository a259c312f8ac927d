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

/// So many launches of each part in turn, as long as there are any.
fn round(launches: &[usize]) -> Vec<MixTurn> {
    let most = launches.iter().copied().max().unwrap_or(0);
    let at = |time: usize| (0..launches.len()).filter(move |part| launches[*part] > time);
    (0..most).flat_map(at).map(|part| MixTurn { part, before: Between::default() }).collect()
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
    let mut mix = Mix::new(&context, &[32, 48].map(problem), &round(&[4, 2]), &BenchOptions::default()).unwrap();
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
    let mut order = round(&[2, 1]);
    order[1].before.kernels = Some(3);
    let mut mix = Mix::new(&context, &[32, 64].map(problem), &order, &BenchOptions::default()).unwrap();
    let plain = [0, 1].map(|part| load(&mut mix, &context, part, "plain"));
    let packed = [0, 1].map(|part| load(&mut mix, &context, part, "packed"));
    let entry = |ids: [usize; 2]| MixEntry { ids: ids.to_vec(), rounds: 5 };
    mix.measure(&mut context, &[entry(plain), entry(packed)]).unwrap();
    let [first, second] = &context.arms[..] else { panic!("two arms") };
    assert_eq!((first.start, first.calls, first.places.len() % 3), (0, 15, 0), "whole rounds");
    assert_eq!(second.start, 15 % second.places.len(), "on from where the first stopped");
    let outs = |arm: &Noted| arm.places.iter().map(|io| io.out).collect::<Vec<_>>();
    assert_eq!(outs(first), outs(second));
    let as_ordered = |arm: &Noted| arm.before.iter().zip(order.iter().cycle()).all(|(has, turn)| *has == turn.before);
    assert!(as_ordered(first) && as_ordered(second));
    // 4 and 8 KiB of weights: three times 16 KiB go by before any is used again.
    let mut seen_at = BTreeMap::new();
    for (at, io) in first.places.iter().chain(&first.places).enumerate() {
        if let Some(last) = seen_at.insert(io.w, at) {
            let bytes = |place: usize| if mix.turns[place % mix.turns.len()].part == 0 { 4096 } else { 8192 };
            let passed: usize = (last..at).map(bytes).sum();
            assert!(passed >= 3 * 16384, "{passed} bytes between launches {last} and {at}");
        }
    }
    assert!(seen_at.len() > 2, "there are copies");
}

#[test]
fn what_makes_no_mix_is_an_error() {
    let mut context = context(TWO);
    let new = |ns: &[u32], launches: &[usize]| {
        let problems: Vec<Problem> = ns.iter().copied().map(problem).collect();
        Mix::new(&context, &problems, &round(launches), &BenchOptions::default())
    };
    assert!(new(&[32, 48], &[1]).is_err(), "a problem without a launch");
    assert!(new(&[32], &[1, 1]).is_err(), "a launch without a problem");
    assert!(new(&[32], &[5000]).is_err());
    let mut mix = new(&[32, 48], &[1, 1]).unwrap();
    let id = load(&mut mix, &context, 0, "plain");
    for (ids, rounds) in [(vec![id], 1), (vec![id, 7], 1), (vec![id, id], 0)] {
        assert!(mix.measure(&mut context, &[MixEntry { ids, rounds }]).is_err());
    }
    let library = &context.libraries()[0];
    let all = library.candidates(&problem(32), crate::Effort::Full, &crate::Ask::default()).unwrap();
    let prepared = library.prepare(&problem(32), &all[0]).unwrap();
    assert!(mix.load(&context, 2, prepared).is_err());
}

proptest! {
    #[test]
    fn a_plan_keeps_weights_out_of_the_cache(
        round in proptest::collection::vec(0usize..4, 1..40),
        bytes in proptest::array::uniform4(1u64..1 << 30),
        wanted in 1u64..1 << 32,
    ) {
        let plan = Plan::new(wanted, &round, &bytes);
        prop_assert!(plan.rounds >= 1 && plan.rounds * round.len() <= TURNS_MAX);
        let passes = |rounds: usize| rounds as u64 * round.iter().map(|part| bytes[*part]).sum::<u64>();
        let is_capped = passes(plan.rounds) < wanted;
        prop_assert!(!is_capped || (plan.rounds + 1) * round.len() > TURNS_MAX);
        let turns = round.repeat(plan.rounds);
        for (part, &copies) in plan.copies.iter().enumerate().filter(|(part, _)| round.contains(part)) {
            let places: Vec<usize> = (0..turns.len()).filter(|at| turns[*at] == part).collect();
            prop_assert!(copies >= 1 && places.len().is_multiple_of(copies));
            for (at, &from) in places.iter().enumerate() {
                let to = places.get(at + copies).map_or_else(|| places[at + copies - places.len()] + turns.len(), |to| *to);
                let passed: u64 = (from..to).map(|at| bytes[turns[at % turns.len()]]).sum();
                prop_assert!(passed >= wanted || is_capped && copies == places.len(), "{passed} of {wanted}");
            }
        }
    }
}
