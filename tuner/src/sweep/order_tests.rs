//! Rounds of orders that were written down by hand, and of any.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use proptest::prelude::*;
use tgemm_db::{DType, Follows, Site, Via};

/// As no pair has it.
const USUAL: u32 = 9;

fn usual() -> Between {
    Between { kernels: Some(USUAL), ..Between::default() }
}

fn problem(at: usize) -> Problem {
    Site::linear(16 * (at as u32 + 1), 64, DType::Bf16).at(3).into()
}

/// The first `count` problems, each called as often as the others.
fn alike(count: usize) -> Vec<(Problem, u64)> {
    (0..count).map(|at| (problem(at), 1)).collect()
}

/// So many calls of `to` came after `from`.
fn row(from: usize, to: usize, nodes_between: Option<u32>, count: u64) -> Recorded {
    Recorded { count, follows: Some(Follows { problem: problem(from), nodes_between }), ..Recorded::bare(problem(to)) }
}

fn parts(round: &[MixTurn]) -> Vec<usize> {
    round.iter().map(|turn| turn.part).collect()
}

fn launches(round: &[MixTurn], part: usize) -> usize {
    round.iter().filter(|turn| turn.part == part).count()
}

/// Which problem comes after which, over how many kernels, and how often: rounds follow each other.
type Pairs = BTreeMap<(usize, usize, Option<u32>), u64>;

fn pairs(round: &[MixTurn]) -> Pairs {
    let mut pairs = Pairs::new();
    for (before, turn) in round.iter().cycle().skip(round.len() - 1).zip(round) {
        *pairs.entry((before.part, turn.part, turn.before.kernels)).or_default() += 1;
    }
    pairs
}

/// Projections of attention in and out, keys and values, gate and up, down, and the head.
const Q: usize = 0;
const K: usize = 1;
const GATE: usize = 2;
const DOWN: usize = 3;
const HEAD: usize = 4;

/// One step of a decoder: q k v o gate up down in each layer, the head behind the last. The next step is another launch.
fn step(layers: u64) -> Pairs {
    [
        ((DOWN, Q, Some(2)), layers - 1),
        ((Q, K, Some(0)), layers),
        ((K, K, Some(0)), layers),
        ((K, Q, Some(3)), layers),
        ((Q, GATE, Some(1)), layers),
        ((GATE, GATE, Some(0)), layers),
        ((GATE, DOWN, Some(1)), layers),
        ((DOWN, HEAD, Some(1)), 1),
        ((HEAD, Q, None), 1),
    ]
    .into()
}

fn recorded(step: &Pairs, steps: u64) -> Order {
    let rows = step.iter().map(|((from, to, nodes), count)| row(*from, *to, *nodes, count * steps));
    Order::of(&rows.collect::<Vec<_>>())
}

/// As a round has them: the usual stands where nothing is known.
fn in_a_round(step: &Pairs) -> Pairs {
    step.iter().map(|((from, to, nodes), count)| ((*from, *to, nodes.or(Some(USUAL))), *count)).collect()
}

#[test]
fn a_round_has_the_pairs_of_a_step_as_often_as_that() {
    let step = step(8);
    for steps in [1, 7, 100_000] {
        for seed in 0..20 {
            let round = recorded(&step, steps).round(&alike(5), usual(), seed);
            assert_eq!(pairs(&round), in_a_round(&step), "{steps} steps");
            assert_eq!(launches(&round, K), LAUNCHES_MAX as usize);
        }
    }
}

#[test]
fn of_many_layers_a_round_has_some_and_still_the_head() {
    // A step has a problem at most 64 times: a quarter of that is in a round.
    let wanted = in_a_round(&step(32));
    let problems = alike(5);
    for seed in 0..20 {
        let round = recorded(&step(32), 1000).round(&problems, usual(), seed);
        let found = pairs(&round);
        for (pair, count) in &wanted {
            let here = found.get(pair).copied().unwrap_or(0) as f64;
            assert!((here - *count as f64 / 4.0).abs() < 1.0, "{pair:?}: {here} of {count}");
        }
        assert_eq!(launches(&round, HEAD), 1);
        // The head, at less than its share, makes one turn more than there should be, and one pair that was never seen.
        assert!((0..5).all(|part| launches(&round, part) <= LAUNCHES_MAX as usize + 1), "{found:?}");
        let unseen = found.iter().filter(|(pair, _)| !wanted.contains_key(pair)).map(|(_, count)| count);
        assert!(unseen.sum::<u64>() <= 1, "{found:?}");
    }
}

#[test]
fn problems_that_nobody_asks_for_are_nodes_like_others() {
    // 0, another, 1, and two others on the way back.
    let rows = [
        row(0, 7, Some(0), 5),
        row(7, 1, Some(1), 5),
        row(1, 8, Some(0), 5),
        row(8, 9, Some(0), 5),
        row(9, 0, Some(0), 5),
        row(1, 1, Some(0), 5),
    ];
    let order = Order::of(&rows[..3]);
    let round = order.round(&alike(2), usual(), 1);
    assert_eq!(pairs(&round), [((0, 1, Some(2)), 5), ((1, 0, Some(USUAL)), 5)].into(), "what leads back is not known");
    // Of the two on the way back no one is asked for: that they follow each other is not looked at.
    let round = Order::of(&rows).round(&alike(2), usual(), 1);
    let wanted: Pairs = [((0, 1, Some(2)), 5), ((1, 0, Some(USUAL)), 5), ((1, 1, Some(0)), 5)].into();
    assert_eq!(pairs(&round), wanted);
    let back = [row(0, 7, Some(0), 5), row(7, 1, Some(1), 5), row(1, 8, Some(1), 5), row(8, 0, Some(1), 5)];
    let round = Order::of(&back).round(&alike(2), usual(), 1);
    assert_eq!(pairs(&round), [((0, 1, Some(2)), 5), ((1, 0, Some(3)), 5)].into());
}

#[test]
fn more_than_a_few_nodes_are_as_a_few() {
    let order = Order::of(&[row(0, 1, Some(BETWEEN_MAX), 1), row(1, 0, Some(u32::MAX), 1)]);
    let few = Some(BETWEEN_MAX);
    assert_eq!(pairs(&order.round(&alike(2), usual(), 0)), [((0, 1, few), 1), ((1, 0, few), 1)].into());
    // Nor do nodes that are added up run over.
    let order = Order::of(&[row(0, 7, Some(u32::MAX), 1), row(7, 0, Some(u32::MAX), 1)]);
    assert_eq!(pairs(&order.round(&alike(1), usual(), 0)), [((0, 0, few), 1)].into());
}

#[test]
fn a_problem_of_which_nothing_is_said_is_spread_among_the_others() {
    let order = Order::of(&[row(0, 1, Some(0), 800), row(1, 0, Some(1), 800)]);
    let problems = [(problem(0), 800), (problem(1), 800), (problem(2), 200)];
    for seed in 0..20 {
        let round = order.round(&problems, usual(), seed);
        assert_eq!([0, 1, 2].map(|part| launches(&round, part)), [16, 16, 4]);
        assert!(round.iter().filter(|turn| turn.part == 2).all(|turn| turn.before.kernels == Some(USUAL)));
        // One in each quarter: at equal distances of 8 others, a round behind the other.
        let at: Vec<usize> = (0..2 * round.len()).filter(|at| round[at % round.len()].part == 2).collect();
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] == 9), "{:?}", parts(&round));
        let others: Vec<MixTurn> = round.into_iter().filter(|turn| turn.part != 2).collect();
        assert_eq!(pairs(&others), [((0, 1, Some(0)), 16), ((1, 0, Some(1)), 16)].into(), "they keep their order");
    }
}

#[test]
fn groups_that_nothing_connects_come_one_after_the_other() {
    let rows = [row(0, 1, Some(0), 3), row(1, 0, Some(1), 3), row(2, 3, Some(2), 2), row(3, 2, Some(3), 2)];
    let round = Order::of(&rows).round(&alike(4), usual(), 5);
    assert_eq!([0, 1, 2, 3].map(|part| launches(&round, part)), [3, 3, 2, 2]);
    let found = pairs(&round);
    let changes = found.iter().filter(|((from, to, _), _)| from / 2 != to / 2);
    assert_eq!(changes.map(|(_, count)| count).sum::<u64>(), 2, "{found:?}");
}

#[test]
fn what_has_no_end_or_no_beginning_is_closed_over_the_usual() {
    // The last call of a recording follows one, and none follows it.
    let round = Order::of(&[row(0, 1, Some(0), 1), row(1, 2, Some(1), 1)]).round(&alike(3), usual(), 0);
    assert_eq!(pairs(&round), [((0, 1, Some(0)), 1), ((1, 2, Some(1)), 1), ((2, 0, Some(USUAL)), 1)].into());
}

#[test]
fn an_end_among_other_problems_does_not_swell_a_round() {
    // Half of a recording: of what follows the others nothing is said.
    let order = Order::of(&[row(0, 7, Some(0), 1000), row(1, 0, Some(0), 1)]);
    let round = order.round(&alike(2), usual(), 0);
    assert!(round.len() <= 2 * LAUNCHES_MAX as usize, "{} launches", round.len());
}

#[test]
fn rows_of_one_pair_are_summed_and_rows_that_say_nothing_are_none() {
    let by = |via, row| Recorded { via, ..row };
    let rows = [by(Via::GemmEx, row(0, 1, Some(2), 3)), by(Via::Blas, row(0, 1, Some(2), 4)), row(0, 1, None, 2)];
    let order = Order::of(&rows);
    let pair = |nodes_between| Pair { from: problem(0), to: problem(1), nodes_between };
    assert_eq!(order.pairs, [(pair(Some(2)), 7), (pair(None), 2)].into());
    assert!(!order.is_empty());
    let alone = Recorded { count: 5, ..Recorded::bare(problem(0)) };
    assert!(Order::of(&[alone, row(0, 1, Some(0), 0)]).is_empty());
    let order = Order::of(&[row(0, 1, None, u64::MAX), row(0, 1, None, 2)]);
    assert_eq!(order.pairs, [(pair(None), u64::MAX)].into());
}

#[test]
fn turns_of_which_nothing_is_said_are_spread() {
    let round = |calls: &[u64], seed| {
        let problems: Vec<_> = calls.iter().enumerate().map(|(at, calls)| (problem(at), *calls)).collect();
        let round = Order::default().round(&problems, usual(), seed);
        assert!(round.iter().all(|turn| turn.before.kernels == Some(USUAL)));
        parts(&round)
    };
    let mut orders = BTreeSet::new();
    for seed in 0..50 {
        let order = round(&[2, 2, 2], seed);
        assert_eq!(order[..3], order[3..], "at even distances");
        orders.insert(order);
    }
    assert_eq!(orders.len(), 6, "other phases are other orders");
    assert_eq!(round(&[], 0), [0usize; 0]);
    let count = |order: &[usize], part| order.iter().filter(|one| **one == part).count();
    let order = round(&[4800, 300, 451, 1, 0], 0);
    assert_eq!(
        [0, 1, 2, 3, 4].map(|part| count(&order, part)),
        [16, 1, 2, 1, 1],
        "in proportion, and each at least once"
    );
    assert_eq!(round(&[0, 0], 0).len(), 2);
}

/// What an order may say of problems from 0 to 8.
fn any_rows() -> impl Strategy<Value = Vec<Recorded>> {
    let nodes = proptest::option::of(prop_oneof![0u32..6, any::<u32>()]);
    let count = prop_oneof![0u64..20, 0u64..1 << 20, any::<u64>()];
    let row = (0usize..9, 0usize..9, nodes, count).prop_map(|(from, to, nodes, count)| row(from, to, nodes, count));
    proptest::collection::vec(row, 0..30)
}

proptest! {
    #[test]
    fn any_order_gives_a_round_of_all_problems_and_the_same_for_a_seed(
        rows in any_rows(),
        calls in proptest::collection::vec(prop_oneof![0u64..20, any::<u64>()], 1..7),
        seed: u64,
    ) {
        let problems: Vec<_> = calls.iter().enumerate().map(|(at, calls)| (problem(at), *calls)).collect();
        let order = Order::of(&rows);
        let round = order.round(&problems, usual(), seed);
        for part in 0..problems.len() {
            prop_assert!(launches(&round, part) >= 1);
        }
        prop_assert!(round.iter().all(|turn| turn.part < problems.len()));
        let few = 0..=BETWEEN_MAX;
        prop_assert!(round.iter().all(|turn| turn.before.kernels.is_some_and(|n| n == USUAL || few.contains(&n))));
        // Counts are rounded pair by pair, and each pair may have to be closed.
        prop_assert!(round.len() <= problems.len() * LAUNCHES_MAX as usize + 2 * rows.len(), "{} launches", round.len());
        prop_assert_eq!(order.round(&problems, usual(), seed), round);
    }

    #[test]
    fn a_short_step_comes_back_pair_by_pair(
        step in proptest::collection::vec((0usize..5, proptest::option::of(0..=BETWEEN_MAX)), 1..LAUNCHES_MAX as usize),
        seed: u64,
    ) {
        let mut wanted = Pairs::new();
        let mut rows = Vec::new();
        for ((from, _), (to, nodes)) in step.iter().cycle().skip(step.len() - 1).zip(&step) {
            *wanted.entry((*from, *to, nodes.or(Some(USUAL)))).or_default() += 1;
            rows.push(row(*from, *to, *nodes, 1));
        }
        let present: Vec<usize> = (0..5).filter(|at| step.iter().any(|(part, _)| part == at)).collect();
        let problems: Vec<_> = present.iter().map(|at| (problem(*at), 1)).collect();
        let mut found = Pairs::new();
        for ((from, to, kernels), count) in pairs(&Order::of(&rows).round(&problems, usual(), seed)) {
            found.insert((present[from], present[to], kernels), count);
        }
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn every_problem_has_its_launches_at_even_distances(
        calls in proptest::collection::vec(1..=u64::from(LAUNCHES_MAX), 1..6),
        seed: u64,
    ) {
        let problems: Vec<_> = calls.iter().enumerate().map(|(at, calls)| (problem(at), *calls)).collect();
        let order = parts(&Order::default().round(&problems, usual(), seed));
        for (part, &count) in calls.iter().enumerate() {
            let at: Vec<usize> = (0..order.len()).filter(|&i| order[i] == part).collect();
            prop_assert_eq!(at.len() as u64, count);
            let even = order.len() as f64 / count as f64;
            let slack = calls.len() as f64;
            prop_assert!(at.windows(2).all(|w| ((w[1] - w[0]) as f64 - even).abs() <= slack), "{order:?}");
        }
    }
}
