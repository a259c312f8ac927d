//! Choices of problems that one step of an engine runs, timed in one round: what they save there.
//!
//! A round has every problem of one M as often as the recording did, in the [`Order`] that is known. Rounds that differ
//! in one choice say what that choice saves: once beside baselines, once beside the other choices, and the mean of the two.
//! So the savings of all add up to that of a round with every choice, up to what three of them do to each other.

use std::collections::BTreeMap;
use std::time::Instant;

use tgemm_db::choice::Ratio;
use tgemm_db::{Choice, Environment, Problem, Solution};

use super::Settings;
use super::order::Order;
use super::session::{BenchSettings, Halt, Session, unexpected};
use crate::race::VOIDS_MAX;
use crate::stats::{self, Shuffle};
use crate::worker::{Loss, MixEntry, MixPart, MixTurn, Reply, Request};

/// Most problems of a mix, those that matter most: it takes two arms for each.
const PARTS_MAX: usize = 12;
/// Blocks of a mix. Each has every arm twice, in palindromic order.
const BLOCKS: usize = 12;
/// Most rounds of one sample.
const ROUNDS_MAX: f64 = 1000.0;

/// One problem of a group.
#[derive(Clone, Debug)]
struct Member {
    /// Place in the list of choices.
    at: usize,
    problem: Problem,
    baseline: Solution,
    /// What is held against it; `None` where it runs in either case.
    choice: Option<Solution>,
    /// Of the choice, alone, microseconds.
    time_us: f64,
    /// Of a round.
    launches: u32,
}

/// Problems that a step runs together.
#[derive(Clone, Debug)]
pub struct Group {
    members: Vec<Member>,
    round: Vec<MixTurn>,
}

/// What a mix gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    /// Tokens of every problem in it.
    pub m: u32,
    /// How many problems.
    pub problems: usize,
    /// Launches of a round.
    pub launches: u32,
    /// A round by baselines, microseconds.
    pub baselines_us: f64,
    /// The same with every choice over it.
    pub ratio: Ratio,
    /// By place in the list of choices: time of the choice alone over that and what it saves in the mix.
    pub ratios: Vec<(usize, Ratio)>,
}

/// What of `choices`, those that matter most first, runs together: problems of one M, at least two, with a choice among them
/// for which `holds` is true. Only solutions of the builds that are in `environment` take part.
pub fn groups(
    choices: &[Choice],
    environment: &Environment,
    bench: &BenchSettings,
    order: &Order,
    holds: impl Fn(usize) -> bool,
) -> Vec<Group> {
    let mut by_m: BTreeMap<u32, Vec<Member>> = BTreeMap::new();
    for (at, choice) in choices.iter().enumerate() {
        let best = choice.best_baseline();
        let Some(baseline) = best.map(|best| &best.solution).or(choice.is_baseline().then_some(&choice.solution))
        else {
            continue;
        };
        let is_here = |solution: &Solution| {
            environment.build(solution.library()).is_some_and(|here| solution.build.difference(here).is_none())
        };
        if is_here(baseline) {
            let takes_part = !choice.is_baseline() && holds(at);
            by_m.entry(choice.problem.m()).or_default().push(Member {
                at,
                problem: choice.problem,
                baseline: baseline.clone(),
                choice: takes_part.then(|| choice.solution.clone()),
                time_us: choice.time_us,
                launches: 0,
            });
        }
    }
    let is_mix = |members: &Vec<Member>| members.len() > 1 && members.iter().any(|member| member.choice.is_some());
    let mut groups = Vec::new();
    for mut members in by_m.into_values() {
        members.truncate(PARTS_MAX);
        if is_mix(&members) {
            let calls = |member: &Member| (member.problem, choices[member.at].count.max(1));
            let calls: Vec<(Problem, u64)> = members.iter().map(calls).collect();
            let round = order.round(&calls, bench.between, bench.seed);
            round.iter().for_each(|turn| members[turn.part].launches += 1);
            groups.push(Group { members, round });
        }
    }
    groups
}

/// The members that run their choices in an arm.
type Arm = Vec<bool>;

/// Among the arms: baselines everywhere, and choices wherever there are any.
const BASELINES: usize = 0;
const CHOICES: usize = 1;

/// A choice that is held against its baseline: pairs of arms that differ in it alone.
struct Duel {
    member: usize,
    /// (without it, with it).
    pairs: [(usize, usize); 2],
}

/// Times `group`. The inner error says why it could not be.
///
/// # Errors
/// What ends everything.
pub fn run(
    session: &mut Session,
    settings: &Settings,
    end: Option<Instant>,
    group: &Group,
) -> Result<Result<Mixed, String>, Halt> {
    let m = group.members.first().map_or(0, |member| member.problem.m());
    let timed = time(session, settings, end, group)?;
    Ok(timed.map_err(|why| format!("{} problems at M = {m} cannot be timed together: {why}", group.members.len())))
}

fn time(
    session: &mut Session,
    settings: &Settings,
    end: Option<Instant>,
    Group { members, round }: &Group,
) -> Result<Result<Mixed, String>, Halt> {
    let problems: Vec<Problem> = members.iter().map(|member| member.problem).collect();
    let solutions = |member: &Member| std::iter::once(&member.baseline).chain(&member.choice).cloned().collect();
    let part = |member: &Member| MixPart { problem: member.problem, solutions: solutions(member) };
    let bench = &settings.bench;
    let request = Request::Mix {
        parts: members.iter().map(part).collect(),
        round: round.clone(),
        seed: bench.seed,
        rotation_bytes: bench.rotation_bytes,
    };
    let ids = match session.ask_about(&problems, &request)? {
        Ok(Reply::Mixed { ids }) => ids,
        answer => return Ok(Err(why_not(answer))),
    };
    let (arms, duels) = arms_of(members);
    let expected_us: f64 = members.iter().map(|member| f64::from(member.launches) * member.time_us).sum();
    let rounds = (settings.sample_us / expected_us.max(0.01)).ceil().clamp(1.0, ROUNDS_MAX) as u32;
    let entry = |arm: usize| {
        let id = |(ids, on): (&Vec<usize>, &bool)| ids[usize::from(*on).min(ids.len() - 1)];
        MixEntry { ids: ids.iter().zip(&arms[arm]).map(id).collect(), rounds }
    };
    let mut shuffle = Shuffle::new(bench.seed);
    let mut blocks: Vec<Vec<f64>> = Vec::new();
    let mut voids = 0;
    while blocks.len() < BLOCKS {
        if end.is_some_and(|end| Instant::now() >= end) {
            return Err(Halt::BudgetOver);
        }
        let mut order: Vec<usize> = (0..arms.len()).collect();
        shuffle.shuffle(&mut order);
        order.extend(order.clone().iter().rev());
        let request = Request::MeasureMix { block: order.iter().map(|arm| entry(*arm)).collect() };
        match session.ask_about(&problems, &request)? {
            Ok(Reply::Measured { times_us }) if times_us.len() == order.len() => {
                session.note_disturbance(None);
                voids = 0;
                blocks.push(means(&order, &times_us, arms.len()));
            }
            Ok(Reply::Disturbed { why }) if voids < VOIDS_MAX => {
                session.note_disturbance(Some(why));
                voids += 1;
            }
            answer => return Ok(Err(why_not(answer))),
        }
    }
    Ok(conclude(members, &duels, &blocks).ok_or_else(|| "too few blocks went undisturbed".to_owned()))
}

/// What an answer that is of no use says.
fn why_not(answer: Result<Reply, Loss>) -> String {
    match answer {
        Ok(Reply::Disturbed { why }) => why,
        Ok(Reply::Failed { outcome }) => outcome.detail,
        Ok(other) => unexpected(&other).to_string(),
        Err(loss) => loss.to_string(),
    }
}

/// All baselines, all choices, and for each choice only it and all but it, each arm once.
fn arms_of(members: &[Member]) -> (Vec<Arm>, Vec<Duel>) {
    let all: Arm = members.iter().map(|member| member.choice.is_some()).collect();
    let mut arms = vec![vec![false; members.len()], all.clone()];
    let mut place_of = |arm: Arm| {
        arms.iter().position(|known| *known == arm).unwrap_or_else(|| {
            arms.push(arm);
            arms.len() - 1
        })
    };
    let mut duel = |member: usize| {
        let (mut only, mut but) = (vec![false; members.len()], all.clone());
        (only[member], but[member]) = (true, false);
        Duel { member, pairs: [(BASELINES, place_of(only)), (place_of(but), CHOICES)] }
    };
    let duels = (0..members.len()).filter(|&member| all[member]).map(&mut duel).collect();
    (arms, duels)
}

/// Mean of each arm over a block that has it twice.
fn means(order: &[usize], times_us: &[f64], arms: usize) -> Vec<f64> {
    let mut sums = vec![0.0; arms];
    for (&arm, us) in order.iter().zip(times_us) {
        sums[arm] += us / 2.0;
    }
    sums
}

/// What the blocks come to; `None` where too few of them have a ratio.
fn conclude(members: &[Member], duels: &[Duel], blocks: &[Vec<f64>]) -> Option<Mixed> {
    // A block that was disturbed so much that it has no ratio is one of many.
    let ratio_of = |of: &dyn Fn(&[f64]) -> f64| {
        let logs: Vec<f64> = blocks.iter().map(|block| of(block).ln()).filter(|log| log.is_finite()).collect();
        stats::paired_ratio(&logs, 0.95)
    };
    let mut ratios = Vec::with_capacity(duels.len());
    for duel in duels {
        let member = &members[duel.member];
        let ratio = ratio_of(&|block| {
            let saved = duel.pairs.iter().map(|&(without, with)| block[without] - block[with]).sum::<f64>();
            let saved_us = saved / duel.pairs.len() as f64 / f64::from(member.launches);
            member.time_us / (member.time_us + saved_us)
        })?;
        ratios.push((member.at, ratio));
    }
    let mut baselines_us: Vec<f64> = blocks.iter().map(|block| block[BASELINES]).collect();
    Some(Mixed {
        m: members.first()?.problem.m(),
        problems: members.len(),
        launches: members.iter().map(|member| member.launches).sum(),
        baselines_us: tgemm_db::outcome::median(&mut baselines_us)?,
        ratio: ratio_of(&|block| block[CHOICES] / block[BASELINES])?,
        ratios,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::choice::Baseline;
    use tgemm_db::{Build, DType, Device, Site, Vendor, Verdict};
    use tgemm_kernels::{Between, Effort};

    fn build() -> Build {
        Build::unknown("lib")
    }

    fn choice(n: u32, m: u32, count: u64, verdict: Verdict) -> Choice {
        let problem = Site::linear(n, 32, DType::F32).at(m).into();
        let solution = |index| Solution::bare(build(), index, "");
        let baselines = [3.0, 2.0].map(|time_us| Baseline {
            via: format!("{time_us}"),
            solution: solution(10 + time_us as i64),
            time_us,
        });
        let device = Device::named(Vendor::Cpu, "x", 1);
        Choice {
            verdict,
            count,
            baselines: baselines.to_vec(),
            ..Choice::uncompared(problem, device, solution(1), 1.5)
        }
    }

    fn environment(builds: Vec<Build>) -> Environment {
        let device = Device::named(Vendor::Cpu, "x", 1);
        Environment { device, builds, driver: String::new(), vars: BTreeMap::new() }
    }

    fn here() -> Environment {
        environment(vec![build()])
    }

    fn grouped(choices: &[Choice], environment: &Environment, holds: impl Fn(usize) -> bool) -> Vec<Group> {
        let bench = BenchSettings {
            effort: Effort::Minimal,
            seed: 1,
            rotation_bytes: 0,
            between: Between::default(),
            streams: None,
        };
        groups(choices, environment, &bench, &Order::default(), holds)
    }

    fn launches(group: &Group) -> Vec<u32> {
        group.members.iter().map(|member| member.launches).collect()
    }

    #[test]
    fn a_group_is_of_one_m_and_has_something_to_compare() {
        use Verdict::{Faster, Same};
        let choices =
            [choice(1, 1, 800, Faster), choice(2, 1, 400, Same), choice(3, 1, 10, Faster), choice(1, 2, 9, Faster)];
        let all = grouped(&choices, &here(), |_| true);
        assert_eq!(all.len(), 1, "M = 2 has one problem");
        assert_eq!(launches(&all[0]), [16, 8, 1]);
        let takes_part: Vec<bool> = all[0].members.iter().map(|member| member.choice.is_some()).collect();
        assert_eq!(takes_part, [true, false, true]);
        assert!(all[0].members.iter().all(|member| member.baseline.index == 12), "the best of the baselines");
        assert!(grouped(&choices, &here(), |_| false).is_empty(), "no choice holds");
        assert!(grouped(&choices, &environment(Vec::new()), |_| true).is_empty(), "no library is here");
        let few = [choice(1, 1, 3, Faster), choice(2, 1, 1, Faster), choice(3, 1, 0, Faster)];
        assert_eq!(launches(&grouped(&few, &here(), |_| true)[0]), [3, 1, 1], "no more than were recorded");
    }

    #[test]
    fn savings_add_up_where_choices_help_each_other() {
        let choices = [choice(1, 1, 2, Verdict::Faster), choice(2, 1, 2, Verdict::Faster)];
        let group = &grouped(&choices, &here(), |_| true)[0];
        let (arms, duels) = arms_of(&group.members);
        assert_eq!(arms.len(), 4);
        // 2 launches each; one saves 0.5 a launch, the other 0.25, both together 0.1 a round more.
        let time = |on: &[bool]| {
            let saved = [1.0, 0.5].iter().zip(on).filter(|(_, on)| **on).map(|(us, _)| us).sum::<f64>();
            8.0 - saved - if on.iter().all(|on| *on) { 0.1 } else { 0.0 }
        };
        let block: Vec<f64> = arms.iter().map(|on| time(on)).collect();
        let mixed = conclude(&group.members, &duels, &vec![block; 6]).unwrap();
        let saved: f64 = mixed.ratios.iter().map(|(_, ratio)| 2.0 * 1.5 * (1.0 / ratio.estimate - 1.0)).sum();
        assert!((saved - 1.6).abs() < 1e-9, "{saved}");
        assert!((mixed.ratio.estimate - 6.4 / 8.0).abs() < 1e-9 && mixed.baselines_us == 8.0, "{mixed:?}");
        assert!((mixed.ratios[0].1.estimate - 1.5 / (1.5 + 0.525)).abs() < 1e-9, "{mixed:?}");
    }

    #[test]
    fn figures_that_make_no_sense_are_none() {
        let choices = [choice(1, 1, 1, Verdict::Faster), choice(2, 1, 1, Verdict::Same)];
        let group = &grouped(&choices, &here(), |_| true)[0];
        let (_, duels) = arms_of(&group.members);
        assert_eq!(conclude(&group.members, &duels, &vec![vec![4.0, 9.0]; 6]), None, "slower by more than it takes");
        assert_eq!(conclude(&group.members, &duels, &vec![vec![4.0, 3.9]; 3]), None, "too few for an interval");
        let mut blocks = vec![vec![4.0, 3.9]; 6];
        blocks.push(vec![4.0, 9.0]);
        let mixed = conclude(&group.members, &duels, &blocks).unwrap();
        assert!((mixed.ratios[0].1.estimate - 1.5 / 1.6).abs() < 1e-9, "one such block is left out: {mixed:?}");
    }

    #[test]
    fn blocks_have_every_arm_twice() {
        assert_eq!(means(&[1, 0, 0, 1], &[5.0, 1.0, 3.0, 7.0], 2), [2.0, 6.0]);
    }
}
