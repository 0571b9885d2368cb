//! The mapping of values to positions on an axis, and the axis's ticks.

use super::number;

/// How an axis maps values to positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences between values are equal distances on the axis.
    Linear,
    /// Equal ratios of values are equal distances on the axis. Only values above 0 have a position.
    Log,
    /// Fractions of the calls, from 0 to below 1. The distance on the axis from 90 % to 99 % equals the distance from
    /// 99 % to 99.9 %.
    Quantile,
    /// Only the values that occur have a position. They are in ascending order, at equal distances on the axis.
    Steps,
}

/// An axis with a fixed beginning and end. Positions on the axis go from 0 at its beginning to 1 at its end.
#[derive(Debug, Clone)]
pub(super) struct Ruler {
    scale: Scale,
    /// The beginning and the end of the axis, in the unit of [`place`]. For [`Scale::Steps`], they are indexes into
    /// `steps`.
    extent: (f64, f64),
    /// The values that occur, for [`Scale::Steps`].
    steps: Vec<f64>,
}

impl Ruler {
    /// Returns an axis that fits `values`; `None` if `scale` cannot show any of the values.
    ///
    /// `room` makes the axis extend a little beyond the smallest and the largest value. With `room`, a linear axis
    /// includes 0; if all values have the same sign, one end of the axis is 0. [`Scale::Steps`] ignores `room`.
    pub(super) fn new(scale: Scale, values: impl Iterator<Item = f64>, room: bool) -> Option<Self> {
        let mut values: Vec<f64> = values.filter(|&value| place(scale, value).is_some()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (&least, &most) = (values.first()?, values.last()?);
        let mut extent = (place(scale, least)?, place(scale, most)?);
        if scale == Scale::Steps {
            extent = (0.0, (values.len() - 1) as f64);
        } else if room {
            extent = with_room(scale, extent);
        }
        if extent.1 <= extent.0 {
            // A single value is drawn in the middle.
            let around = if scale == Scale::Linear { (extent.0.abs() / 2.0).max(0.5) } else { 0.3 };
            extent = (extent.0 - around, extent.1 + around);
        }
        let steps = if scale == Scale::Steps { values } else { Vec::new() };
        Some(Self { scale, extent, steps })
    }

    /// Position of `value`; `None` if the axis cannot show it.
    pub(super) fn position(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Steps => self.steps.iter().position(|&step| step == value)? as f64,
            scale => place(scale, value)?,
        };
        let (least, most) = self.extent;
        let position = (place - least) / (most - least);
        (-0.001..=1.001).contains(&position).then_some(position)
    }

    /// Returns the ticks in ascending order. [`Scale::Linear`] and [`Scale::Log`] have about `wanted` round values, or
    /// fewer. The other scales ignore `wanted`.
    pub(super) fn ticks(&self, wanted: usize) -> Vec<f64> {
        let (least, most) = self.extent;
        match self.scale {
            Scale::Linear => linear_ticks(least, most, wanted),
            Scale::Log => log_ticks(10_f64.powf(least), 10_f64.powf(most), wanted),
            Scale::Quantile => {
                const QUANTILES: [f64; 8] = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999];
                QUANTILES.into_iter().filter(|&quantile| self.position(quantile).is_some()).collect()
            }
            Scale::Steps => self.steps.clone(),
        }
    }

    /// The text of a tick.
    pub(super) fn tick_text(&self, value: f64) -> String {
        match self.scale {
            // Three digits would round 99.99 % to 100 %.
            Scale::Quantile => format!("{} %", (value * 1e8).round() / 1e6),
            _ => number::short(value),
        }
    }
}

/// Returns the position of a value on an axis without ends; `None` if the scale has no position for the value.
fn place(scale: Scale, value: f64) -> Option<f64> {
    let place = match scale {
        Scale::Linear | Scale::Steps => value,
        Scale::Log => (value > 0.0).then(|| value.log10())?,
        Scale::Quantile => (0.0..1.0).contains(&value).then(|| -(1.0 - value).log10())?,
    };
    place.is_finite().then_some(place)
}

fn with_room(scale: Scale, (least, most): (f64, f64)) -> (f64, f64) {
    if scale == Scale::Linear {
        let (least, most) = (least.min(0.0), most.max(0.0));
        return (least * 1.06, most * 1.06);
    }
    // Extend by at least a factor of 1.1 in each direction, so that noise does not fill the height.
    let beyond = ((most - least) * 0.06).max(0.04);
    (least - beyond, most + beyond)
}

/// Returns multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(least: f64, most: f64, wanted: usize) -> Vec<f64> {
    let raw = (most - least) / wanted.max(1) as f64;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|round| round * power).into_iter().find(|&step| step >= raw * 0.999);
    let step = step.unwrap_or(power * 10.0);
    let (first, last) = ((least / step - 1e-9).ceil() as i64, (most / step + 1e-9).floor() as i64);
    // For a step below 1, divide by its inverse: 3 / 10 is 0.3, but 3 * 0.1 would be 0.30000000000000004.
    let tick = |number: i64| if step < 1.0 { number as f64 / (1.0 / step).round() } else { number as f64 * step };
    (first..=last).map(tick).collect()
}

/// Returns 1, 2 and 5 times every power of ten. Leaves values out if there would be more than `wanted`, and returns
/// linear ticks if there would be fewer than 3.
fn log_ticks(least: f64, most: f64, wanted: usize) -> Vec<f64> {
    let decades = (least.log10().floor() as i32)..=(most.log10().floor() as i32);
    let of = |multiples: &[f64], every: u32| -> Vec<f64> {
        let powers = decades.clone().filter(|decade| decade.unsigned_abs().is_multiple_of(every));
        let all = powers.flat_map(|decade| multiples.iter().map(move |multiple| decimal(*multiple, decade)));
        all.filter(|tick| (least * 0.999..=most * 1.001).contains(tick)).collect()
    };
    let choices = [of(&[1.0, 2.0, 5.0], 1), of(&[1.0, 3.0], 1), of(&[1.0], 1), of(&[1.0], 2), of(&[1.0], 3)];
    if choices[0].len() < 3 {
        return linear_ticks(least, most, wanted.min(4)).into_iter().filter(|&tick| tick > 0.0).collect();
    }
    choices.into_iter().find(|ticks| ticks.len() <= wanted).unwrap_or_else(|| vec![least, most])
}

/// Returns `multiple` times 10 to the power of `power`. Divides if `power` is negative, because a float can be exactly
/// 10 or 100, but not exactly 0.1 or 0.01.
fn decimal(multiple: f64, power: i32) -> f64 {
    if power < 0 { multiple / 10_f64.powi(-power) } else { multiple * 10_f64.powi(power) }
}

#[cfg(test)]
#[path = "scale_tests.rs"]
mod tests;
