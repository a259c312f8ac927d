//! A site that nobody tuned, beside one that was: a guess, with guards.
//!
//! Asked for are the nearest tuned sites that differ in N and K only, on this device with these builds, as all rows of a
//! database are. A neighbour counts if both its sizes are within half an octave ([`OCTAVES_MAX`]) and neither is a multiple of a
//! higher power of two than the site's own, since kernels are bound to such multiples. Of its rows those count that were
//! raced and found faster than the baseline, and that take the weights as they are: a packed form is of one size, and a row
//! that is not known to gain where it was tuned gains nothing elsewhere. Workspace is taken to grow with the problem.
//!
//! Even so nobody measured it. [`Levels::predicted`](crate::Levels::predicted) is off until it is asked for.

use tgemm_db::Site;

use crate::index::{Index, Tuned};
use crate::site_key::{Family, SiteKey};

/// How far a neighbour may be, in octaves of N and of K.
pub const OCTAVES_MAX: f32 = 0.5;

/// The most neighbours that are asked.
pub const NEIGHBOURS_MAX: usize = 2;

/// Kernels care for multiples of up to 2 to this power.
const POWER_MAX: u32 = 7;

/// A tuned site near one that is not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Near {
    pub(crate) tuned: Tuned,
    pub(crate) n: u32,
    pub(crate) k: u32,
    /// So many times as many weights as there: never below 1.
    pub(crate) times: f32,
    octaves: f32,
}

/// The neighbours, nearest first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nears {
    all: [Near; NEIGHBOURS_MAX],
    len: usize,
}

impl Nears {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Near> {
        self.all[..self.len].iter()
    }

    /// Takes the place that is `near`'s, if it is among the nearest.
    fn add(&mut self, near: Near) {
        let at = self.iter().take_while(|have| have.octaves <= near.octaves).count();
        if at < NEIGHBOURS_MAX {
            self.all[at..].rotate_right(1);
            self.all[at] = near;
            self.len = (self.len + 1).min(NEIGHBOURS_MAX);
        }
    }

    /// Those of `site`. No allocation; a step for each site of its family.
    pub(crate) fn of(index: &Index, site: &Site) -> Nears {
        let mut nears = Nears::default();
        let Some(family) = Family::of(site) else { return nears };
        let octaves = |here: u32, there: u32| (here as f32 / there.max(1) as f32).log2().abs();
        let members = index.family(&family);
        // They are in the order of N: most are left out before their logarithms are taken.
        let bounds = |size: u32| [-OCTAVES_MAX, OCTAVES_MAX].map(|octaves| size as f32 * octaves.exp2());
        let ([n_least, n_most], [k_least, k_most]) = (bounds(site.n), bounds(site.k));
        let from = members.partition_point(|member| (member.n as f32) < n_least);
        for member in members[from..].iter().take_while(|member| member.n as f32 <= n_most) {
            if !(k_least..=k_most).contains(&(member.k as f32)) {
                continue;
            }
            let (n, k) = (octaves(site.n, member.n), octaves(site.k, member.k));
            let is_near = n <= OCTAVES_MAX && k <= OCTAVES_MAX;
            if is_near && is_multiple_enough(site.n, member.n) && is_multiple_enough(site.k, member.k) {
                let ratio = |here: u32, there: u32| here as f32 / there.max(1) as f32;
                // Each by itself: more columns need more partial sums, whatever K does.
                let times = ratio(site.n, member.n).max(1.0) * ratio(site.k, member.k).max(1.0);
                let tuned = Tuned::default();
                nears.add(Near { tuned, n: member.n, k: member.k, times, octaves: n + k });
            }
        }
        for near in &mut nears.all[..nears.len] {
            near.tuned = index.tuned(&SiteKey::new(&Site { n: near.n, k: near.k, ..*site }));
        }
        nears
    }
}

/// Is `here` a multiple of the power of two that `there` is a multiple of, as far as kernels care?
fn is_multiple_enough(here: u32, there: u32) -> bool {
    here.trailing_zeros().min(POWER_MAX) >= there.trailing_zeros().min(POWER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::choice;
    use tgemm_db::problem::{Batch, Leading};
    use tgemm_db::{Choice, DType};

    fn index(sites: &[Site]) -> Index {
        let rows: Vec<Choice> = sites.iter().map(|site| choice(site.at(8).into())).collect();
        Index::new(&rows, |_| 0)
    }

    fn near(index: &Index, site: Site) -> Vec<(u32, u32)> {
        Nears::of(index, &site).iter().map(|near| (near.n, near.k)).collect()
    }

    #[test]
    fn the_nearest_of_the_same_types_and_layout_count() {
        let of = |n, k| Site::linear(n, k, DType::Bf16);
        let tuned = [of(1024, 4096), of(1152, 4096), of(1024, 5120), of(4096, 1024)];
        let others = [
            Site::linear(1088, 4096, DType::F16),
            of(1088, 4096).with_bias(DType::Bf16),
            Site { ld: Leading { x: 5000, w: 0, out: 0 }, ..of(1088, 4096) },
            Site { batch: Batch { count: 2, ..Batch::default() }, ..of(1088, 4096) },
        ];
        let index = index(&[&tuned[..], &others[..]].concat());
        // Nearest first, and no more than two.
        assert_eq!(near(&index, of(1280, 4096)), [(1152, 4096), (1024, 4096)]);
        // A layout that depends on the sizes has no family.
        assert_eq!(near(&index, others[2]), []);
        assert_eq!(near(&index, others[3]), []);
    }

    #[test]
    fn what_is_far_or_less_divisible_does_not_count() {
        let of = |n, k| Site::linear(n, k, DType::Bf16);
        let index = index(&[of(1024, 4096)]);
        assert_eq!(near(&index, of(1408, 4096)), [(1024, 4096)]);
        for (n, k) in [(1536, 4096), (1024, 2048), (1024, 6144), (1056, 4096), (1024, 4160), (1023, 4096)] {
            assert_eq!(near(&index, of(n, k)), [], "{n}x{k}");
        }
        // Beyond 128 a power is as good as any.
        assert_eq!(near(&index, of(1024 + 128, 4096 - 128)), [(1024, 4096)]);
    }

    #[test]
    fn more_weights_are_counted_and_fewer_are_not() {
        let index = index(&[Site::linear(1024, 4096, DType::Bf16)]);
        let times = |n, k| Nears::of(&index, &Site::linear(n, k, DType::Bf16)).iter().next().map(|near| near.times);
        assert_eq!(times(1280, 3072), Some(1.25));
        assert_eq!(times(896, 5120), Some(1.25));
        assert_eq!(times(896, 3072), Some(1.0));
    }
}
