//! What a person sees: progress on standard error, tables on standard output, JSON lines for tools.

pub mod markdown;
pub mod overview;
pub mod progress;
pub mod table;

use tgemm_db::choice::Ratio;

/// Microseconds with as many digits as they deserve: `9.87`, `123.4`, `12 345`.
pub fn time_us(us: f64) -> String {
    match us {
        us if !us.is_finite() => "-".into(),
        us if us < 10.0 => format!("{us:.2}"),
        us if us < 1000.0 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}

/// A ratio with the wider half of its interval: `0.812 ±0.004`; a choice that is its own baseline has none.
pub fn ratio(ratio: &Ratio) -> String {
    if *ratio == Ratio::ONE {
        return "1".into();
    }
    let half = (ratio.high - ratio.estimate).max(ratio.estimate - ratio.low);
    if half.is_finite() { format!("{:.3} ±{half:.3}", ratio.estimate) } else { format!("{:.3} ±?", ratio.estimate) }
}

/// A share in whole per cent; `-` where it is not known.
pub fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0))
}

/// A duration for people: `4.2 s`, `3 min 10 s`.
pub fn seconds(duration: std::time::Duration) -> String {
    let s = duration.as_secs_f64();
    if s < 60.0 { format!("{s:.1} s") } else { format!("{} min {:.0} s", (s / 60.0) as u64, s % 60.0) }
}

/// Standard output closed by its reader (`tune … | head`) is no error.
pub fn write_stdout(text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_carry_no_false_digits() {
        assert_eq!(time_us(9.876), "9.88");
        assert_eq!(time_us(123.44), "123.4");
        assert_eq!(time_us(12345.6), "12346");
        assert_eq!(time_us(f64::INFINITY), "-");
        assert_eq!(ratio(&Ratio::ONE), "1");
        assert_eq!(ratio(&Ratio { estimate: 0.8, low: 0.79, high: 0.82 }), "0.800 ±0.020");
        assert_eq!((percent(Some(0.756)), percent(None)), ("76 %".into(), "-".into()));
        assert_eq!(seconds(std::time::Duration::from_secs(190)), "3 min 10 s");
    }
}
