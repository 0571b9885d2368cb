//! Keeps the figures of the last hour for each Service, in memory. No I/O; the current time is an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;

use super::mesh::{Id, Mesh};
use crate::cluster::readings::SECOND;
use crate::cluster::stat::counts::Counts;

/// Period of time that one point of a series covers.
pub(super) const POINT: Duration = Duration::from_secs(10);
/// Maximum number of points of a series, which covers one hour.
const POINTS: usize = 360;
/// Maximum number of series. With 16 bytes for each point, all series together take at most 12 MB.
const SERIES_MAX: usize = 2_000;

/// One point of a series: the means over one period of [`POINT`]. `NaN` means that there was nothing to measure.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// Number of points between the start of the dashboard and this point.
    number: u32,
    rate: f32,
    success: f32,
    p99_ms: f32,
}

/// The series of all Services.
#[derive(Default)]
pub(super) struct History {
    series: BTreeMap<Id, VecDeque<Point>>,
    /// The sums of the counts of all snapshots since the current point began.
    open: BTreeMap<Id, Counts>,
    snapshots: u32,
    number: u32,
}

/// A series in the form that the page draws, the oldest point first. A figure is `None` where there was nothing to
/// measure.
#[derive(Debug, Serialize, PartialEq)]
pub(super) struct Series {
    step_s: u64,
    rate: Vec<Option<f32>>,
    success: Vec<Option<f32>>,
    p99_ms: Vec<Option<f32>>,
}

impl History {
    /// Adds a snapshot that was taken `since_start` after the start of the dashboard.
    pub(super) fn add(&mut self, mesh: &Mesh, since_start: Duration) {
        let number = u32::try_from(since_start.as_secs() / POINT.as_secs()).unwrap_or(u32::MAX);
        if number != self.number {
            self.close();
            self.number = number;
        }
        self.snapshots += 1;
        for (id, node) in mesh.nodes.iter().filter(|(_, node)| node.is_service) {
            if self.open.contains_key(id) || self.open.len() < SERIES_MAX {
                self.open.entry(id.clone()).or_default().add(node.counts().0);
            }
        }
    }

    fn close(&mut self) {
        let (open, snapshots, number) = (std::mem::take(&mut self.open), self.snapshots.max(1), self.number);
        self.snapshots = 0;
        let oldest = number.saturating_sub(POINTS as u32 - 1);
        for (id, counts) in open {
            if !self.series.contains_key(&id) && self.series.len() >= SERIES_MAX {
                continue;
            }
            let figures = counts.figures(SECOND);
            let number_or_nan = |figure: Option<f64>| figure.map_or(f32::NAN, |figure| figure as f32);
            self.series.entry(id).or_default().push_back(Point {
                number,
                rate: (figures.calls_per_second / f64::from(snapshots)) as f32,
                success: number_or_nan(figures.success_rate),
                p99_ms: number_or_nan(figures.p99_ms),
            });
        }
        for series in self.series.values_mut() {
            while series.front().is_some_and(|point| point.number < oldest) {
                series.pop_front();
            }
        }
        self.series.retain(|_, series| !series.is_empty());
    }

    /// Returns the last `points` points of a Service, at most [`POINTS`].
    pub(super) fn series(&self, id: &str, points: usize) -> Series {
        let points = points.min(POINTS);
        let first = self.number.saturating_sub(u32::try_from(points).unwrap_or(u32::MAX));
        let length = usize::try_from(self.number - first).unwrap_or(0);
        let mut series = Series {
            step_s: POINT.as_secs(),
            rate: vec![None; length],
            success: vec![None; length],
            p99_ms: vec![None; length],
        };
        let known = self.series.get(id).into_iter().flatten().filter(|point| point.number >= first);
        for point in known {
            let at = usize::try_from(point.number - first).unwrap_or(usize::MAX);
            let figure = |figure: f32| Some(figure).filter(|figure| figure.is_finite());
            for (list, value) in [
                (&mut series.rate, point.rate),
                (&mut series.success, point.success),
                (&mut series.p99_ms, point.p99_ms),
            ] {
                if let Some(place) = list.get_mut(at) {
                    *place = figure(value);
                }
            }
        }
        series
    }

    /// The call rates of every Service in its last `points` points, for small charts. The page reads them with every
    /// snapshot, so they are rounded to what a chart can show.
    pub(super) fn rates(&self, points: usize) -> BTreeMap<&Id, Vec<Option<f64>>> {
        let rates = |id| self.series(id, points).rate.into_iter().map(|rate| rate.map(rounded)).collect();
        self.series.keys().map(|id| (id, rates(id))).collect()
    }
}

/// Rounds a number to two decimals below 10, to one decimal below 100, and otherwise to a whole number.
fn rounded(number: f32) -> f64 {
    let digits = match number {
        ..10.0 => 100.0,
        10.0..100.0 => 10.0,
        _ => 1.0,
    };
    (f64::from(number) * digits).round() / digits
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
