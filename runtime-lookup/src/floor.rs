//! What a site costs at least, by the best rates that the table itself has seen: the measure by which rows of different M
//! are compared.
//!
//! Nobody tells a lookup what its device can do. But each row says how many operations and bytes it got through in its time,
//! and the best of them bound all: no row of the table is below its floor.

use rustc_hash::FxHashMap;
use tgemm_db::{Choice, Compute, DType, Problem, Site, cost};

/// The best rates of a table.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    /// By the type of `x` and of the sums: 8-bit products are twice as fast as 16-bit ones.
    flops_per_us: FxHashMap<(DType, Compute), f64>,
    bytes_per_us: f64,
}

/// The longest product of two extents that is costed: a hostile row must not overflow the sums, and no real one is near.
const ELEMENTS_MAX: f64 = (1u64 << 48) as f64;

/// Can this be costed without overflow?
fn is_sane(site: &Site, m: u32) -> bool {
    let [m, n, k] = [m, site.n, site.k].map(f64::from);
    let batch = f64::from(site.batch.count);
    [m * n, m * k, n * k].iter().all(|elements| elements * batch < ELEMENTS_MAX)
}

impl Rates {
    /// Takes what `choice` says of the device.
    pub(crate) fn add(&mut self, choice: &Choice) {
        let Problem::Gemm(gemm) = &choice.problem else { return };
        let time_us = choice.time_us;
        if time_us > 0.0 && time_us.is_finite() && is_sane(&gemm.site, gemm.m) {
            let flops = self.flops_per_us.entry((gemm.site.x, gemm.site.compute)).or_default();
            *flops = flops.max(cost::flops(&choice.problem) / time_us);
            self.bytes_per_us = self.bytes_per_us.max(cost::bytes(&choice.problem) as f64 / time_us);
        }
    }

    #[cfg(test)]
    fn of(choices: &[Choice]) -> Rates {
        let mut rates = Rates::default();
        choices.iter().for_each(|choice| rates.add(choice));
        rates
    }
}

/// The least time of a site as a function of M: the slower of its arithmetic and its traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Floor {
    /// Arithmetic a token, microseconds.
    arithmetic_us: f32,
    /// Traffic that comes with the first token: the weights.
    weights_us: f32,
    /// Traffic a token.
    traffic_us: f32,
}

impl Floor {
    /// All zero where the table has no time.
    pub(crate) fn of(site: &Site, rates: &Rates) -> Floor {
        let flops_per_us = rates.flops_per_us.get(&(site.x, site.compute)).copied().unwrap_or_default();
        if flops_per_us <= 0.0 || rates.bytes_per_us <= 0.0 || !is_sane(site, 4) {
            return Floor::default();
        }
        let bytes = |m: u32| cost::bytes(&Problem::Gemm(site.at(m))) as f64;
        // Bytes are linear in M; at even M also where two elements share one.
        let a_token = (bytes(4) - bytes(2)) / 2.0;
        Floor {
            arithmetic_us: (cost::flops(&Problem::Gemm(site.at(1))) / flops_per_us) as f32,
            weights_us: ((bytes(2) - 2.0 * a_token) / rates.bytes_per_us) as f32,
            traffic_us: (a_token / rates.bytes_per_us) as f32,
        }
    }

    /// At `m` tokens, microseconds.
    #[inline]
    pub(crate) fn at(&self, m: u32) -> f32 {
        let m = m as f32;
        (self.arithmetic_us * m).max(self.weights_us + self.traffic_us * m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::choice;
    use tgemm_db::cost::Roofline;
    use tgemm_db::problem::Batch;
    use tgemm_db::problem::Scalar;

    #[test]
    fn it_is_the_roofline_of_the_best_rates_and_no_row_is_below() {
        let plain = Site::linear(1024, 4096, DType::Bf16);
        let batch = Batch { count: 3, stride_x: 9, stride_w: 0, stride_out: 9 };
        let sites = [
            plain,
            Site { beta: Scalar::One, batch, ..plain },
            Site { w: DType::I4, ..plain }.with_bias(DType::Bf16),
            Site::linear(64, 64, DType::F8E4m3Fn),
        ];
        let times = [(1, 20.0), (16, 21.0), (512, 90.0), (4096, 600.0)];
        let rows: Vec<Choice> = sites
            .iter()
            .flat_map(|site| times.map(|(m, time_us)| Choice { time_us, ..choice(site.at(m).into()) }))
            .collect();
        let rates = Rates::of(&rows);
        for row in &rows {
            let Problem::Gemm(gemm) = row.problem else { unreachable!() };
            let floor_us = f64::from(Floor::of(&gemm.site, &rates).at(gemm.m));
            let roof = Roofline {
                gflops_per_s: rates.flops_per_us[&(gemm.site.x, gemm.site.compute)] / 1e3,
                gbytes_per_s: rates.bytes_per_us / 1e3,
            };
            let want = roof.time_us(&row.problem);
            assert!((floor_us / want - 1.0).abs() < 1e-5, "{}: {floor_us} {want}", row.problem);
            assert!(floor_us <= row.time_us * 1.00001, "{}: {floor_us} {}", row.problem, row.time_us);
        }
    }

    #[test]
    fn rows_without_a_time_and_monstrous_ones_say_nothing() {
        let huge = Site::linear(i32::MAX as u32, i32::MAX as u32, DType::F64);
        let rows = [
            Choice { time_us: f64::NAN, ..choice(Site::linear(8, 8, DType::Bf16).at(1).into()) },
            Choice { time_us: 0.0, ..choice(Site::linear(8, 8, DType::Bf16).at(2).into()) },
            choice(huge.at(i32::MAX as u32).into()),
        ];
        let rates = Rates::of(&rows);
        assert_eq!(Floor::of(&huge, &rates), Floor::default());
        assert_eq!(Floor::of(&Site::linear(8, 8, DType::Bf16), &rates).at(9), 0.0);
    }
}
