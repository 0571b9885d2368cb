//! Bar charts that show one figure of all targets side by side.

use crate::chart::{Bar, Bars, Mode};
use crate::experiment::record::{Scenario, TargetKind};

use super::super::figures::{self, Figure};
use super::super::group::{Group, Load, Results};
use super::super::labels;
use super::super::spread::Spread;
use super::charts::framed;

/// The title and the unit of a chart, and the function that returns the chart's figure of a run.
type Shown = (&'static str, &'static str, Figure);

/// Draws the bar charts of a scenario, one for each figure. The charts show one load and the smallest skew. A chart
/// omits a target if all runs of the target lack the chart's figure.
pub(super) fn html(results: &Results, scenario: Scenario, main: Load) -> String {
    let least = results.skews(scenario).into_iter().min().unwrap_or_default();
    let drawing = |(title, unit, figure): Shown, is_of_all_runs: bool| {
        let spread = |group: &Group| if is_of_all_runs { group.spread_of_all(figure) } else { group.spread(figure) };
        let of = |target| bar(target, results.find(scenario, main, least, target).and_then(spread));
        let bars: Vec<Bar> = results.targets(scenario).into_iter().map(of).filter(|bar| bar.range.is_some()).collect();
        if bars.is_empty() {
            return String::new();
        }
        bars_figure(&Bars { title: title.to_owned(), unit: unit.to_owned(), bars, guide: None })
    };
    let of_all_runs = of_all_runs(scenario).into_iter().map(|it| drawing(it, true));
    of_all_runs.chain(shown(scenario).into_iter().map(|it| drawing(it, false))).collect()
}

/// The charts of figures that even a run without an answered call has. They come first.
fn of_all_runs(scenario: Scenario) -> Vec<Shown> {
    match scenario {
        Scenario::Capacity => vec![("Sustained calls per second", "", figures::sustained_or_none_per_s)],
        Scenario::Steady => vec![("Until the latency is steady", "s", figures::steady_or_never_s)],
        Scenario::Rollout => vec![
            ("Calls lost, graceful restarts", "", figures::lost_gracefully),
            ("Calls lost, abrupt restarts", "", figures::lost_abruptly),
        ],
        _ => Vec::new(),
    }
}

fn shown(scenario: Scenario) -> Vec<Shown> {
    const IDLE: Shown = ("Memory of all proxies, idle", "MB", figures::idle_mb);
    const LOADED: Shown = ("Memory of all proxies, under the load", "MB", figures::loaded_mb);
    const CONNECTION: Shown = ("Memory for each connection", "KB", figures::kb_per_connection);
    const CPU: Shown = ("CPU of all proxies", "mCPU", figures::millicores);
    let mut shown: Vec<Shown> = match scenario {
        Scenario::Tcp => vec![
            ("Bytes up", "MB/s", figures::up_mb_per_s),
            ("Bytes down", "MB/s", figures::down_mb_per_s),
            ("CPU per MB up", "µs", figures::up_cpu_us_per_mb),
            ("CPU per MB down", "µs", figures::down_cpu_us_per_mb),
        ],
        Scenario::Handshakes => vec![("Handshakes in a second of CPU", "", figures::per_cpu_s)],
        Scenario::Memory => vec![
            ("Memory before the burst", "MB", figures::before_mb),
            ("Memory after the burst", "MB", figures::after_mb),
        ],
        Scenario::Ladder | Scenario::Graph => vec![CPU, IDLE, LOADED],
        Scenario::RetryStorm | Scenario::Tail | Scenario::Capacity => vec![CPU],
        Scenario::Crowd => vec![CONNECTION, CPU],
        Scenario::Footprint => {
            vec![IDLE, LOADED, CONNECTION, ("Memory of all proxies, after the burst", "MB", figures::after_burst_mb)]
        }
        Scenario::Streams => vec![
            ("Messages per second", "", figures::messages_per_s),
            ("Busiest over mean backend", "×", figures::busiest_over_mean),
            ("Quietest over mean backend", "×", figures::quietest_over_mean),
        ],
        Scenario::Methods => vec![("p99 of the slow method", "ms", figures::slow_method_p99_ms)],
        Scenario::SlowPod
        | Scenario::Connections
        | Scenario::FastFail
        | Scenario::Recover
        | Scenario::Steady
        | Scenario::Rollout => Vec::new(),
    };
    shown.push(("Memory of the proxy, at its peak", "MB", figures::peak_mb));
    shown
}

/// The bar of a target. Its value is `None` if no run has the figure, or if the figure's median is infinite.
pub(super) fn bar(target: TargetKind, spread: Option<Spread>) -> Bar {
    let is_endless = spread.is_some_and(|spread| spread.median.is_infinite());
    let note = match spread {
        None => "not measured",
        Some(_) if is_endless => "not within the run",
        Some(_) => "",
    };
    Bar {
        name: target.name().to_owned(),
        value: spread.map(|spread| spread.median).filter(|_| !is_endless),
        range: spread.map(|spread| (spread.min, spread.max)),
        note: note.to_owned(),
        style: labels::style(target),
    }
}

pub(super) fn bars_figure(bars: &Bars) -> String {
    framed(&bars.title, &bars.to_svg(Mode::Inline))
}
