//! The page's drawings.

use crate::chart::text::escape;
use crate::chart::{Axis, Bar, Bars, Chart, Guide, Mode, Scale, Series};
use crate::experiment::record::{Scenario, TargetKind};

use super::super::figures::{self, Figure};
use super::super::group::{Group, Load, Results};
use super::super::spread::Spread;
use super::super::{labels, outcome, verdict};
use super::bars::{self, bar, bars_figure};

/// The quantiles that a latency curve shows: from the median to the 99.99th percentile.
const CURVE: std::ops::RangeInclusive<f64> = 0.5..=0.9999;

pub(super) fn html(results: &Results, scenario: Scenario) -> String {
    let Some(main) = verdict::main_load(results, scenario) else {
        return String::new();
    };
    let mut html = match scenario {
        Scenario::SlowPod | Scenario::FastFail => share_bars(results, scenario, main),
        Scenario::Recover => recovery(results, main),
        _ => String::new(),
    };
    html.insert_str(0, &over_loads(results, scenario, main));
    html.push_str(&bars::html(results, scenario, main));
    // The scenario `tcp` measures throughput, not latency.
    let with_curves = if scenario == Scenario::Tcp { Vec::new() } else { results.loads(scenario) };
    let curves: String = with_curves.into_iter().map(|load| curves(results, scenario, load, main)).collect();
    format!(
        "{curves}<section>\n<h2>Side by side</h2>\n<p class=\"note\">Medians over the repeats; shades and thin lines go from the least to the \
         greatest of them.</p>\n<div class=\"charts\">\n{html}</div>\n</section>\n"
    )
}

/// Draws the latency curves under one load: a panel for each skew and condition. The panels are collapsed unless `load`
/// is `main`.
fn curves(results: &Results, scenario: Scenario, load: Load, main: Load) -> String {
    let groups: Vec<&Group> = results.of(scenario).filter(|group| group.load == load).collect();
    let skewed = results.skews(scenario).len() > 1;
    let panels: String = groups
        .chunk_by(|a, b| a.section() == b.section())
        .map(|section| {
            let title = match section[0].condition {
                condition if condition.is_usual() && !scenario.has_conditions() => curve_title(section[0], skewed),
                condition if skewed => format!("{}, {condition}", curve_title(section[0], skewed)),
                condition => condition.to_string(),
            };
            curve_panel(title, section.iter().map(|group| curve(group)).collect())
        })
        .collect();
    let name = escape(&labels::load(load));
    if load == main {
        return format!(
            "<section>\n<h2>Latency</h2>\n<p class=\"note\">{name}. How many of the calls took at most how long.</p>\n\
             <div class=\"charts\">\n{panels}</div>\n</section>\n"
        );
    }
    format!("<details>\n<summary>Latency: {name}</summary>\n<div class=\"charts\">\n{panels}</div>\n</details>\n")
}

fn curve_title(group: &Group, skewed: bool) -> String {
    match group.skew_ms {
        _ if !skewed => "Latency curve".to_owned(),
        0 => "All backends well".to_owned(),
        skew_ms => format!("One backend {skew_ms} ms slow"),
    }
}

fn curve_panel(title: String, series: Vec<Series>) -> String {
    let x = Axis::new("of the calls took at most", "", Scale::Quantile);
    let y = Axis::new("", "ms", Scale::Log);
    figure(&Chart { title, x, y, series, guides: Vec::new() })
}

fn curve(group: &Group) -> Series {
    let curve = group.curve().into_iter().filter(|(quantile, _)| CURVE.contains(quantile));
    line(group.target, &curve.collect::<Vec<_>>())
}

/// The parameter on the x axis of a line chart.
#[derive(Clone, Copy, PartialEq)]
enum Varied {
    Skew,
    Connections,
    Rate,
}

impl Varied {
    fn of(scenario: Scenario) -> Self {
        match scenario {
            Scenario::Connections => Self::Connections,
            Scenario::Ladder | Scenario::Graph => Self::Rate,
            _ => Self::Skew,
        }
    }

    fn value(self, group: &Group) -> f64 {
        match self {
            Self::Skew => group.skew_ms.into(),
            Self::Connections => group.load.connections.into(),
            Self::Rate => group.load.rate_per_s.unwrap_or_default().into(),
        }
    }

    fn axis(self) -> Axis {
        match self {
            Self::Skew => Axis::new("skew", "ms", Scale::Steps),
            Self::Connections => Axis::new("connections", "", Scale::Steps),
            Self::Rate => Axis::new("calls/s", "", Scale::Steps),
        }
    }
}

/// Draws the p99 and the calls per second against the varied parameter: the skew, the number of connections, or the
/// rate.
fn over_loads(results: &Results, scenario: Scenario, main: Load) -> String {
    let varied = Varied::of(scenario);
    let skews = results.skews(scenario);
    let steps = if varied == Varied::Skew { skews.len() } else { results.loads(scenario).len() };
    if steps < 2 {
        return String::new();
    }
    let most = skews.into_iter().max().unwrap_or_default();
    let plainest = results.conditions(scenario).into_iter().next();
    let is_plainest = |group: &&Group| Some(group.condition) == plainest;
    let shown = |group: &&Group| match varied {
        Varied::Skew => group.load == main,
        Varied::Connections => group.load.rate_per_s == main.rate_per_s && group.skew_ms == most,
        Varied::Rate => group.load.connections == main.connections && group.skew_ms == most,
    };
    let skew = match varied {
        Varied::Skew => String::new(),
        _ if most == 0 => String::new(),
        _ => format!(", one backend {most} ms slow"),
    };
    let mut html = String::new();
    for (name, y, value) in [
        ("p50", Axis::new("p50", "ms", Scale::Log), figures::p50_ms as Figure),
        ("p99", Axis::new("p99", "ms", Scale::Log), figures::p99_ms),
        ("Calls per second", Axis::new("calls/s", "", Scale::Linear), figures::rps),
    ] {
        let series = results.targets(scenario).into_iter().map(|target| {
            let groups = results.of(scenario).filter(|group| group.target == target).filter(is_plainest).filter(shown);
            let spreads = groups.filter_map(|group| Some((varied.value(group), group.spread(value)?)));
            line(target, &spreads.collect::<Vec<_>>())
        });
        let title = format!("{name}{skew}");
        html.push_str(&figure(&Chart { title, x: varied.axis(), y, series: series.collect(), guides: Vec::new() }));
    }
    html
}

fn line(target: TargetKind, spreads: &[(f64, Spread)]) -> Series {
    let points = spreads.iter().map(|(x, spread)| (*x, spread.median)).collect();
    let band = spreads.iter().map(|(x, spread)| (*x, spread.min, spread.max)).collect();
    Series { name: target.name().to_owned(), points, band, style: labels::style(target) }
}

/// Draws the fraction of calls that the faulty backend received, in one bar chart for each skew.
fn share_bars(results: &Results, scenario: Scenario, main: Load) -> String {
    let pod = labels::pod(scenario);
    let mut html = String::new();
    for skew_ms in results.skews(scenario) {
        if scenario == Scenario::SlowPod && skew_ms == 0 {
            continue;
        }
        let bars = results.targets(scenario).into_iter().map(|target| {
            let group = results.find(scenario, main, skew_ms, target);
            let bar = bar(target, group.and_then(|group| group.spread(figures::share_percent)));
            if outcome::is_request_level(results, target) == Some(false) {
                return Bar { value: None, range: None, note: "all or nothing, by connection".to_owned(), ..bar };
            }
            bar
        });
        let title = match skew_ms {
            0 => format!("Calls to the {pod}"),
            skew_ms => format!("Calls to the {pod}, {skew_ms} ms slow"),
        };
        let guide = Some(Guide { value: 0.5, label: "goal 0.5 %".to_owned() });
        html.push_str(&bars_figure(&Bars { title, unit: "%".to_owned(), bars: bars.collect(), guide }));
    }
    html
}

/// Draws, for each skew, the seconds until the recovered backend received its fair share of the calls again.
fn recovery(results: &Results, main: Load) -> String {
    let scenario = Scenario::Recover;
    let mut html = String::new();
    for skew_ms in results.skews(scenario) {
        let bars = results.targets(scenario).into_iter().map(|target| {
            let group = results.find(scenario, main, skew_ms, target);
            bar(target, group.and_then(|group| group.spread_of_all(figures::recovered_s)))
        });
        let title = format!("Until the backend has its fair share again, after {skew_ms} ms of skew");
        let guide = Some(Guide { value: 5.0, label: "goal 5 s".to_owned() });
        html.push_str(&bars_figure(&Bars { title, unit: "s".to_owned(), bars: bars.collect(), guide }));
    }
    html
}

fn figure(chart: &Chart) -> String {
    framed(&chart.title, &chart.to_svg(Mode::Inline))
}

pub(super) fn framed(title: &str, svg: &str) -> String {
    format!("<figure>\n<figcaption>{}</figcaption>\n{svg}</figure>\n", escape(title))
}
