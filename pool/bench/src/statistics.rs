//! Medians and quartiles: what is left of samples that other work on the machine has disturbed.

/// A median and how far the middle half of the values reaches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Half of the values are below.
    pub median: f64,
    /// A quarter of the values is below.
    pub lower: f64,
    /// A quarter of the values is above.
    pub upper: f64,
}

impl Spread {
    /// Median and quartiles of `values`, interpolated between neighbours; `None` if there is no value, or one that is not
    /// a number.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let [lower, median, upper] = [0.25, 0.5, 0.75].map(|fraction| quantile(&sorted, fraction));
        Some(Self { median, lower, upper })
    }

    /// Half the interquartile range, what stands behind `±`.
    #[must_use]
    pub fn half_range(&self) -> f64 {
        (self.upper - self.lower) / 2.0
    }
}

/// Linear between the two nearest ranks (Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996, type 7).
fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = (sorted.len() - 1) as f64 * fraction;
    let below = position.floor();
    let (first, second) = (sorted[below as usize], sorted[position.ceil() as usize]);
    first + (second - first) * (position - below)
}

/// Each value by the baseline's value of the same repetition: what slows a whole repetition down is in both.
#[must_use]
pub fn paired_ratios(values: &[f64], baseline: &[f64]) -> Vec<f64> {
    values.iter().zip(baseline).map(|(value, baseline)| value / baseline).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_that_of_the_middle_half() {
        let spread = Spread::of(&[9.0, 1.0, 2.0, 4.0, 3.0]).expect("five numbers");
        assert_eq!(spread, Spread { median: 3.0, lower: 2.0, upper: 4.0 });
        assert!((spread.half_range() - 1.0).abs() < f64::EPSILON);
        let even = Spread::of(&[4.0, 1.0, 2.0, 3.0]).expect("four numbers");
        assert_eq!(even, Spread { median: 2.5, lower: 1.75, upper: 3.25 });
        assert_eq!(Spread::of(&[7.0]), Some(Spread { median: 7.0, lower: 7.0, upper: 7.0 }));
    }

    #[test]
    fn what_is_no_number_has_no_spread() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn one_disturbed_repetition_cancels_out() {
        let ratios = paired_ratios(&[2.0, 200.0, 2.0], &[1.0, 100.0, 1.0]);
        assert_eq!(ratios, [2.0, 2.0, 2.0]);
    }
}
