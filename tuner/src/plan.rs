//! What to tune, in which order, and how much of the budget each problem gets.

use std::collections::HashMap;
use std::time::Duration;

use tgemm_db::{Device, Problem, Recorded};
use tgemm_kernels::Ask;

use crate::roofline;

/// A problem gets at least this share of an equal split, however little it weighs: the budget covers everything.
const EQUAL_SHARE: f64 = 0.5;

/// One problem of the plan.
#[derive(Clone, Debug)]
pub struct Item {
    /// What was recorded: the problem with the count of all its rows.
    pub recorded: Recorded,
    /// Every way in which it was asked for: one choice serves them all.
    pub asks: Vec<Ask>,
    /// Time of one call by the nominal roofline, microseconds. Good for weighing problems, not for judging them.
    pub nominal_us: f64,
    /// Share of the whole recording's nominal time: count x time.
    pub share: f64,
}

/// The problems to tune, heaviest first.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// In order.
    pub items: Vec<Item>,
}

/// The rows of each problem together, in the order of first sight, with every way in which it was asked for.
pub fn by_problem(recorded: &[Recorded]) -> Vec<(Recorded, Vec<Ask>)> {
    let mut grouped: Vec<(Recorded, Vec<Ask>)> = Vec::new();
    let mut places = HashMap::new();
    for row in recorded {
        let place = *places.entry(row.problem).or_insert(grouped.len());
        let ask = Ask::from(row);
        match grouped.get_mut(place) {
            Some((first, asks)) => {
                first.count = first.count.saturating_add(row.count);
                first.captured |= row.captured;
                if !asks.contains(&ask) {
                    asks.push(ask);
                }
            }
            None => grouped.push((row.clone(), vec![ask])),
        }
    }
    grouped
}

/// Plans `recorded` on `device`: heaviest first, equal weights in key order, so that a plan does not depend on the order
/// of its input.
pub fn plan(recorded: &[Recorded], device: &Device) -> Plan {
    let least_us = |row: &Recorded| roofline::least_time_us(device, &row.problem);
    let weigh = |row: &Recorded| row.count.max(1) as f64 * least_us(row);
    let grouped = by_problem(recorded);
    let total: f64 = grouped.iter().map(|(row, _)| weigh(row)).sum();
    let mut items: Vec<Item> = grouped
        .into_iter()
        .map(|(row, asks)| Item {
            nominal_us: least_us(&row),
            share: if total > 0.0 { weigh(&row) / total } else { 0.0 },
            recorded: row,
            asks,
        })
        .collect();
    items.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| key(a).cmp(&key(b))));
    Plan { items }
}

fn key(item: &Item) -> Problem {
    item.recorded.problem
}

/// The time that the first of `left` problems may take when `remaining` is left for all of them: half of it is split
/// equally, half by weight. What a problem does not use goes to those behind it.
pub fn slice(left: &[Item], remaining: Duration) -> Duration {
    let Some(first) = left.first() else { return Duration::ZERO };
    let weights: f64 = left.iter().map(|item| item.share).sum();
    let by_weight = if weights > 0.0 { first.share / weights } else { 1.0 / left.len() as f64 };
    remaining.mul_f64(EQUAL_SHARE / left.len() as f64 + (1.0 - EQUAL_SHARE) * by_weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tgemm_db::{DType, Site, Vendor, Via};

    fn device() -> Device {
        Device {
            vendor: Vendor::Cpu,
            arch: "x86_64-v4".into(),
            compute_units: 2,
            memory_gib: None,
            chip_id: None,
            partition: None,
            last_level_cache_bytes: 0,
        }
    }

    fn row(m: u32, n: u32, count: u64) -> Recorded {
        Recorded { count, ..Recorded::bare(Site::linear(n, 64, DType::F32).at(m).into()) }
    }

    #[test]
    fn the_heaviest_comes_first_whatever_the_order() {
        let rows = [row(1, 64, 1), row(2, 64, 1000), row(1, 4096, 1)];
        let plan_a = plan(&rows, &device());
        assert_eq!(plan_a.items[0].recorded.count, 1000);
        let reversed: Vec<Recorded> = rows.iter().rev().cloned().collect();
        let order = |p: &Plan| p.items.iter().map(|i| (i.recorded.problem, i.recorded.count)).collect::<Vec<_>>();
        assert_eq!(order(&plan_a)[0], order(&plan(&reversed, &device()))[0]);
        assert!((plan_a.items.iter().map(|i| i.share).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn rows_of_one_problem_are_one_item_with_every_ask() {
        let asked = |via, count| Recorded { via, ..row(1, 64, count) };
        let rows = [asked(Via::GemmEx, 3), row(2, 64, 1), asked(Via::LtMatmul, 4), asked(Via::GemmEx, 5)];
        let plan = plan(&rows, &device());
        assert_eq!(plan.items.len(), 2);
        let item = plan.items.iter().find(|item| item.recorded.problem.m() == 1).unwrap();
        assert_eq!(item.recorded.count, 12);
        assert_eq!(item.asks.iter().map(|ask| ask.via).collect::<Vec<_>>(), [Via::GemmEx, Via::LtMatmul]);
    }

    proptest! {
        #[test]
        fn slices_spend_the_budget_and_starve_nobody(counts in prop::collection::vec(0u64..10_000, 1..30), secs in 1u64..1000) {
            let rows: Vec<Recorded> = counts.iter().enumerate().map(|(i, c)| row(i as u32 + 1, 64, *c)).collect();
            let plan = plan(&rows, &device());
            let budget = Duration::from_secs(secs);
            let mut remaining = budget;
            for i in 0..plan.items.len() {
                let slice = slice(&plan.items[i..], remaining);
                prop_assert!(slice <= remaining);
                prop_assert!(slice >= remaining.mul_f64(0.499 / (plan.items.len() - i) as f64));
                remaining -= slice;
            }
            prop_assert!(remaining < Duration::from_millis(1));
        }
    }
}
