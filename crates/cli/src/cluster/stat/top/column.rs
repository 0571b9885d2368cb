//! The columns of the table: the text of their cells, and how each of them sorts the rows.

use std::cmp::Ordering;

use crate::cluster::printable::line;
use crate::cluster::stat::counts::number;
use crate::cluster::stat::methods::Row;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// `namespace/name`, or the proxy's address.
    Workload,
    Side,
    At,
    Method,
    Calls,
    Success,
    P50,
    P99,
    Messages,
    Expired,
    /// The burn rate of the method's objective.
    Burn,
}

impl Column {
    /// All columns, from left to right.
    pub(super) const ALL: [Self; 11] = [
        Self::Workload,
        Self::Side,
        Self::At,
        Self::Method,
        Self::Calls,
        Self::Success,
        Self::P50,
        Self::P99,
        Self::Messages,
        Self::Expired,
        Self::Burn,
    ];

    /// Columns that the table may leave out in a narrow terminal, in the order in which it leaves them out. It always
    /// shows the other columns.
    pub(super) const DROPPED: [Self; 9] = [
        Self::Expired,
        Self::Burn,
        Self::P50,
        Self::Messages,
        Self::At,
        Self::Workload,
        Self::P99,
        Self::Side,
        Self::Success,
    ];

    pub(super) fn head(self) -> &'static str {
        match self {
            Self::Workload => "WORKLOAD",
            Self::Side => "",
            Self::At => "AT",
            Self::Method => "METHOD",
            Self::Calls => "CALLS/S",
            Self::Success => "SUCCESS",
            Self::P50 => "P50 MS",
            Self::P99 => "P99 MS",
            Self::Messages => "MSG/S",
            Self::Expired => "EXPIRED",
            Self::Burn => "BURN",
        }
    }

    pub(super) fn is_number(self) -> bool {
        !matches!(self, Self::Workload | Self::Side | Self::At | Self::Method)
    }

    pub(super) fn cell(self, row: &Row) -> String {
        let figure = |index: usize| row.cells().into_iter().nth(index).unwrap_or_default();
        match self {
            Self::Workload => workload(row),
            Self::Side => row.key.side().to_owned(),
            Self::At => line(&row.key.at),
            Self::Method => line(&row.key.method),
            Self::Calls => figure(0),
            Self::Success => figure(1),
            Self::P50 => figure(2),
            Self::P99 => figure(3),
            Self::Messages => figure(4),
            Self::Expired => figure(5),
            Self::Burn => number(row.burn_rate()),
        }
    }

    fn number(self, row: &Row) -> Option<f64> {
        match self {
            Self::Workload | Self::Side | Self::At | Self::Method => None,
            Self::Calls => Some(row.figures.calls_per_second),
            Self::Success => row.figures.success_rate,
            Self::P50 => row.figures.p50_ms,
            Self::P99 => row.figures.p99_ms,
            Self::Messages => row.messages_per_second(),
            Self::Expired => row.expired_rate,
            Self::Burn => row.burn_rate(),
        }
    }

    /// Compares two rows in the order of this column: names from A to Z, and numbers from large to small. Success rates
    /// are sorted from small to large, so that the worst methods come first. Rows without a number come last in either
    /// direction.
    pub(super) fn order(self, is_reversed: bool, a: &Row, b: &Row) -> Ordering {
        let turned = |order: Ordering| if is_reversed { order.reverse() } else { order };
        let order = match (self.number(a), self.number(b)) {
            (Some(a), Some(b)) if self == Self::Success => turned(a.total_cmp(&b)),
            (Some(a), Some(b)) => turned(b.total_cmp(&a)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) if self.is_number() => Ordering::Equal,
            (None, None) => turned(self.cell(a).cmp(&self.cell(b))),
        };
        order.then_with(|| a.key.cmp(&b.key))
    }

    /// Returns the column that is `steps` columns to the right of this column. Counts only columns by which the table
    /// can be sorted. If `steps` is negative, counts to the left. Wraps around at both ends.
    pub(super) fn moved(self, steps: isize) -> Self {
        let can_sort: Vec<Self> = Self::ALL.into_iter().filter(|&column| column != Self::Side).collect();
        let at = can_sort.iter().position(|&column| column == self).unwrap_or(0);
        let count = can_sort.len();
        let to = (at + count).saturating_add_signed(steps) % count;
        can_sort.get(to).copied().unwrap_or(self)
    }
}

pub(super) fn workload(row: &Row) -> String {
    match row.key.namespace.as_str() {
        "" => line(&row.key.name),
        namespace => line(&format!("{namespace}/{}", row.key.name)),
    }
}

#[cfg(test)]
#[path = "column_tests.rs"]
mod tests;
