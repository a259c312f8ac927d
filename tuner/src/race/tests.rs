//! Races among made-up arms: true times are known, so every decision can be judged.

use super::*;
use proptest::prelude::*;

/// Arms with true times, log-normal noise and a drift that grows with every sample taken.
struct Track {
    true_us: Vec<f64>,
    noise: f64,
    drift: f64,
    taken: u32,
    rng: Shuffle,
}

impl Track {
    fn new(true_us: &[f64], noise: f64, seed: u64) -> Track {
        Track { true_us: true_us.to_vec(), noise, drift: 0.0, taken: 0, rng: Shuffle::new(seed) }
    }

    fn sample(&mut self, arm: usize) -> f64 {
        let normal = (0..12).map(|_| self.rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0;
        self.taken += 1;
        self.true_us[arm] * (self.noise * normal + self.drift * f64::from(self.taken)).exp()
    }

    fn entrants(&mut self, baselines: &[usize]) -> Vec<Entrant> {
        (0..self.true_us.len())
            .map(|arm| Entrant { baseline: baselines.contains(&arm), probe_us: self.sample(arm), rank: arm as u64 })
            .collect()
    }

    fn run(&mut self, baselines: &[usize]) -> (Race, Conclusion) {
        let entrants = self.entrants(baselines);
        let mut race = Race::new(&entrants, Rules::default(), 1);
        for _ in 0..10_000 {
            match race.step() {
                Step::Measure { entries, .. } => {
                    let times: Vec<f64> = entries.iter().map(|&arm| self.sample(arm)).collect();
                    race.feed(&times);
                }
                Step::Refresh => {}
                Step::Done => {
                    let conclusion = race.conclude().expect("someone is left");
                    return (race, conclusion);
                }
            }
        }
        panic!("the race does not end");
    }
}

#[test]
fn a_clear_winner_wins_and_its_figure_comes_from_the_confirmation() {
    let mut track = Track::new(&[100.0, 80.0, 95.0, 130.0, 500.0], 0.01, 3);
    let (race, end) = track.run(&[0]);
    assert_eq!((end.chosen, end.verdict, end.confirmed), (1, Verdict::Faster, true));
    assert!((end.ratio.estimate - 0.8).abs() < 0.02 && end.ratio.high < 0.9, "{end:?}");
    assert!((end.time_us - 80.0).abs() < 2.0);
    assert_eq!(race.standing(4), Standing::Pruned);
    let confirm = race.samples(1).iter().filter(|s| s.phase == Phase::Confirm).count();
    assert_eq!(confirm, 2 * Rules::default().confirm_blocks);
}

#[test]
fn equal_arms_keep_the_baseline() {
    let mut switched = 0;
    for seed in 0..200 {
        let mut track = Track::new(&[100.0; 9], 0.02, seed);
        let (_, end) = track.run(&[0]);
        switched += u32::from(end.chosen != 0);
    }
    assert!(switched <= 2, "{switched} of 200 A/A races switched");
}

#[test]
fn a_gain_below_the_minimum_is_no_win() {
    let mut track = Track::new(&[100.0, 99.7], 0.0001, 5);
    let (_, end) = track.run(&[0]);
    assert_eq!((end.chosen, end.verdict), (0, Verdict::Same));
    assert_eq!(end.ratio, Ratio::ONE);
}

#[test]
fn noise_that_hides_the_answer_is_ambiguous() {
    let ends: Vec<Conclusion> = (0..50).map(|seed| Track::new(&[100.0, 96.0], 0.3, seed).run(&[0]).1).collect();
    assert!(ends.iter().all(|end| end.chosen == 0));
    // A contender whose single probe looks twice as slow is dropped at once; the others stay open.
    let open = ends.iter().filter(|end| end.verdict == Verdict::Ambiguous).count();
    assert!(open >= 40, "{open} of 50");
}

#[test]
fn the_winner_must_beat_every_baseline() {
    let mut track = Track::new(&[100.0, 70.0, 80.0], 0.005, 2);
    let (_, end) = track.run(&[0, 1]);
    assert_eq!((end.chosen, end.verdict), (1, Verdict::Same));
    assert_eq!(end.baselines.iter().map(|b| b.0).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn drift_cancels() {
    let mut track = Track::new(&[100.0, 97.0], 0.002, 8);
    track.drift = 0.001;
    let (_, end) = track.run(&[0]);
    assert_eq!(end.verdict, Verdict::Faster);
    assert!((end.ratio.estimate - 0.97).abs() < 0.005, "{end:?}");
}

#[test]
fn without_a_baseline_the_fastest_is_chosen() {
    let mut track = Track::new(&[120.0, 100.0, 150.0], 0.005, 4);
    let (_, end) = track.run(&[]);
    assert_eq!((end.chosen, end.verdict, end.ratio), (1, Verdict::NoBaseline, Ratio::ONE));
}

#[test]
fn ties_among_winners_go_by_the_fixed_order() {
    for seed in 0..20 {
        let mut track = Track::new(&[100.0, 70.0, 70.0], 0.0003, seed);
        let (_, end) = track.run(&[0]);
        assert_eq!(end.chosen, 1, "seed {seed}");
    }
}

#[test]
fn a_win_that_does_not_show_again_is_none() {
    let entrants =
        [Entrant { baseline: true, probe_us: 100.0, rank: 0 }, Entrant { baseline: false, probe_us: 50.0, rank: 1 }];
    let mut race = Race::new(&entrants, Rules::default(), 1);
    loop {
        match race.step() {
            Step::Measure { phase, entries } => {
                let contender = if phase == Phase::Confirm { 120.0 } else { 50.0 };
                let times: Vec<f64> = entries.iter().map(|&arm| if arm == 0 { 100.0 } else { contender }).collect();
                race.feed(&times);
            }
            Step::Refresh => {}
            Step::Done => break,
        }
    }
    let end = race.conclude().unwrap();
    assert_eq!((end.chosen, end.verdict), (0, Verdict::Ambiguous));
}

#[test]
fn an_arm_that_dies_is_taken_out_and_the_race_goes_on() {
    let mut track = Track::new(&[100.0, 50.0, 60.0], 0.001, 9);
    let entrants = track.entrants(&[0]);
    let mut race = Race::new(&entrants, Rules::default(), 1);
    let mut steps = 0;
    loop {
        match race.step() {
            Step::Measure { .. } if steps == 3 => race.retire(1),
            Step::Measure { entries, .. } => {
                assert!(steps < 3 || !entries.contains(&1));
                let times: Vec<f64> = entries.iter().map(|&arm| track.sample(arm)).collect();
                race.feed(&times);
            }
            Step::Refresh => {}
            Step::Done => break,
        }
        steps += 1;
    }
    assert_eq!(race.standing(1), Standing::Retired);
    assert_eq!(race.conclude().unwrap().chosen, 2);
}

#[test]
fn stopping_early_never_switches_on_thin_evidence() {
    let mut track = Track::new(&[100.0, 50.0], 0.01, 1);
    let entrants = track.entrants(&[0]);
    let mut race = Race::new(&entrants, Rules::default(), 1);
    for _ in 0..3 {
        if let Step::Measure { entries, .. } = race.step() {
            let times: Vec<f64> = entries.iter().map(|&arm| track.sample(arm)).collect();
            race.feed(&times);
        }
    }
    race.stop();
    assert_eq!(race.step(), Step::Done);
    let end = race.conclude().unwrap();
    assert_eq!((end.chosen, end.verdict, end.confirmed), (0, Verdict::Ambiguous, false));
}

#[test]
fn a_confirmation_that_is_cut_short_gives_no_figures() {
    let mut track = Track::new(&[100.0, 50.0, 60.0], 0.001, 6);
    let entrants = track.entrants(&[0]);
    let mut race = Race::new(&entrants, Rules::default(), 1);
    let mut confirms = 0;
    loop {
        match race.step() {
            Step::Measure { phase, entries } => {
                confirms += u32::from(phase == Phase::Confirm);
                if confirms == 3 {
                    break;
                }
                // Timings of the confirmation are all wrong here: none of them may show.
                let factor = if phase == Phase::Confirm { 7.0 } else { 1.0 };
                let times: Vec<f64> = entries.iter().map(|&arm| factor * track.sample(arm)).collect();
                race.feed(&times);
            }
            Step::Refresh => assert_eq!([0, 1, 2].map(|arm| race.is_needed(arm)), [true, true, false]),
            Step::Done => panic!("over too soon"),
        }
    }
    race.stop();
    let end = race.conclude().unwrap();
    assert_eq!((end.chosen, end.verdict, end.confirmed), (1, Verdict::Faster, false));
    assert!(
        (end.time_us - 50.0).abs() < 1.0 && (end.ratio.estimate - 0.5).abs() < 0.01 && end.ratio.high < 0.52,
        "{end:?}"
    );
}

#[test]
fn void_blocks_are_measured_again() {
    let entrants = [Entrant { baseline: true, probe_us: 1.0, rank: 0 }; 1];
    let mut race = Race::new(&entrants, Rules::default(), 1);
    race.step();
    race.feed(&[f64::NAN, 1.0]);
    race.step();
    race.feed(&[1.0]);
    assert!(race.samples(0).len() == 1, "nothing of a void block is kept");
    for _ in 0..VOIDS_MAX {
        race.step();
        race.feed(&[0.0, 0.0]);
    }
    assert_eq!(race.step(), Step::Done, "a device that cannot be timed ends the race");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_race_ends_and_never_chooses_much_slower_than_the_best_baseline(
        true_us in prop::collection::vec(10.0f64..1000.0, 1..20),
        baselines in prop::collection::vec(0usize..20, 0..3),
        seed: u64,
    ) {
        let baselines: Vec<usize> = baselines.into_iter().filter(|b| *b < true_us.len()).collect();
        let (_, end) = Track::new(&true_us, 0.01, seed).run(&baselines);
        let bar = baselines.iter().map(|&b| true_us[b]).fold(f64::INFINITY, f64::min);
        prop_assert!(true_us[end.chosen] <= bar * 1.01);
    }
}

#[test]
fn a_race_that_is_short_of_time_still_decides() {
    let mut times = vec![100.0; 40];
    times[17] = 60.0;
    let mut track = Track::new(&times, 0.01, 5);
    let entrants = track.entrants(&[0]);
    let mut race = Race::new(&entrants, Rules::default(), 5);
    race.hurry();
    let in_final = (0..times.len()).filter(|&arm| race.is_finalist(arm)).count();
    assert_eq!(in_final, 1 + Rules::default().finalists_max, "the baseline and the fastest so far");
    assert!(race.is_finalist(17));
    loop {
        match race.step() {
            Step::Measure { entries, .. } => {
                let figures: Vec<f64> = entries.iter().map(|&arm| track.sample(arm)).collect();
                race.feed(&figures);
            }
            Step::Refresh => {}
            Step::Done => break,
        }
        race.hurry();
    }
    let end = race.conclude().unwrap();
    assert_eq!((end.chosen, end.verdict), (17, Verdict::Faster));
}
