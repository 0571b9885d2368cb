//! Draws charts of the result rows, each into its own SVG file.

use super::balancers::Kind;
use super::row::Row;
use super::scenarios::Scenario;
use super::timeline::STEP_S;
use crate::chart::{Axis, Bar, Bars, Chart, Color, Dash, Guide, Mode, Scale, Series, Style};

/// A chart and the name of its file.
pub(super) struct Plot {
    pub(super) file: String,
    pub(super) svg: String,
}

/// Number of successive steps of a timeline that the chart averages into one point.
const SMOOTHED: usize = 5;

/// Draws the charts of each scenario that has charts.
pub(super) fn draw(rows: &[Row]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for table in rows.chunk_by(|one, other| one.setting == other.setting) {
        match table[0].scenario {
            Scenario::SlowPod => {
                plots.push(over_skew(table, "p99 ms", "p99", "ms", None));
                plots.push(over_skew(table, "its share %", "share of the slow one", "%", Some((0.5, "0.5 %"))));
            }
            Scenario::Recover | Scenario::Newcomer => plots.extend(timeline(table)),
            Scenario::FastFail => plots.extend(bars(table, "1 fail", "failed %", "%")),
            Scenario::Herd => plots.extend(bars(table, "100 proxies", "p99 ms", "ms")),
            _ => {}
        }
    }
    let low_rate: Vec<&Row> = rows.iter().filter(|row| row.scenario == Scenario::LowRate).collect();
    plots.extend(over_rate(&low_rate));
    plots
}

fn style(kind: Kind) -> Style {
    let style = Style::nth(Kind::ALL.iter().position(|each| *each == kind).unwrap_or_default());
    if kind == Kind::OURS { style.strong() } else { style }
}

/// The balancers of some rows, without duplicates.
fn balancers<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<Kind> {
    let mut seen = Vec::new();
    for row in rows {
        if !seen.contains(&row.balancer) {
            seen.push(row.balancer);
        }
    }
    seen
}

fn over_skew(table: &[Row], figure: &str, label: &str, unit: &str, guide: Option<(f64, &str)>) -> Plot {
    let line = |kind: Kind| {
        let points = table.iter().filter(|row| row.balancer == kind && row.x > 0.0);
        let points = points.filter_map(|row| Some((row.x, row.value(figure)?)));
        Series::new(kind.name(), points.collect(), style(kind))
    };
    let healthy = table.iter().find(|row| row.x == 0.0 && row.balancer == Kind::OURS).and_then(|row| row.value(figure));
    let guide = guide.or_else(|| healthy.map(|value| (value, "all healthy")));
    let chart = Chart {
        title: title(&table[0].setting),
        x: Axis::new("slower by", "ms", Scale::Steps),
        y: Axis::new(label, unit, Scale::Log),
        series: balancers(table.iter()).into_iter().map(line).collect(),
        guides: guide.map(|(value, label)| Guide { value, label: label.to_owned() }).into_iter().collect(),
    };
    plot(&format!("{} {label}", table[0].setting), &chart)
}

/// Draws the observed server's share of the calls over time. Omits rows that did not record this share.
fn timeline(table: &[Row]) -> Option<Plot> {
    let drawn: Vec<&Row> = table.iter().filter(|row| !row.share_by_100ms.is_empty()).collect();
    let first = drawn.first()?;
    let line = |row: &&Row| {
        let points = row.share_by_100ms.chunks_exact(SMOOTHED).enumerate().map(|(index, steps)| {
            let at_s = (index as f64 + 0.5) * SMOOTHED as f64 * STEP_S;
            (at_s, steps.iter().sum::<f64>() / SMOOTHED as f64 * 100.0)
        });
        Series::new(row.balancer.name(), points.collect(), style(row.balancer))
    };
    let chart = Chart {
        title: format!("{}, {}", title(&first.setting), first.case),
        x: Axis::new("time", "s", Scale::Linear),
        y: Axis::new("its share", "%", Scale::Linear),
        series: drawn.iter().map(line).collect(),
        guides: Vec::new(),
    };
    Some(plot(&format!("{}, {}", first.setting, first.case), &chart))
}

/// Draws bars: one figure of each balancer, in one case.
fn bars(table: &[Row], case: &str, figure: &str, unit: &str) -> Option<Plot> {
    let rows = table.iter().filter(|row| row.case == case);
    let bars: Vec<Bar> = rows
        .map(|row| Bar {
            name: row.balancer.to_string(),
            value: row.value(figure),
            range: None,
            note: String::new(),
            style: style(row.balancer),
        })
        .collect();
    let file = file_name(&format!("{}, {case}: {figure}", table[0].setting));
    let title = format!("{}: {figure}", title(&table[0].setting));
    let drawn = !bars.is_empty();
    let svg = Bars { title, unit: unit.to_owned(), bars, guide: None }.to_svg(Mode::Standalone);
    drawn.then_some(Plot { file, svg })
}

/// Draws the p99, and its theoretical minimum, against the rate, at the medium skew.
fn over_rate(rows: &[&Row]) -> Option<Plot> {
    let mut cases: Vec<&str> = rows.iter().map(|row| row.case.as_str()).collect();
    cases.dedup();
    let case = *cases.get(cases.len().min(3) / 2)?;
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.case == case).collect();
    let line = |kind: Kind, name: &str, figure: &str, style: Style| {
        let points = rows.iter().filter(|row| row.balancer == kind);
        let mut points: Vec<(f64, f64)> = points.filter_map(|row| Some((row.x, row.value(figure)?))).collect();
        points.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        Series::new(name, points, style)
    };
    let kinds = balancers(rows.iter().copied());
    let mut series: Vec<Series> = kinds.iter().map(|kind| line(*kind, kind.name(), "p99 ms", style(*kind))).collect();
    series.push(line(
        kinds[0],
        "floor",
        "floor p99 ms",
        Style { color: Color::Grey, dash: Dash::Dotted, strong: false },
    ));
    let chart = Chart {
        title: format!("low-rate: one of the endpoints slower by {}", case.trim_start_matches('+')),
        x: Axis::new("calls", "per second", Scale::Steps),
        y: Axis::new("p99", "ms", Scale::Log),
        series,
        guides: Vec::new(),
    };
    Some(plot(&chart.title, &chart))
}

fn plot(name: &str, chart: &Chart) -> Plot {
    Plot { file: file_name(name), svg: chart.to_svg(Mode::Standalone) }
}

/// Shortens a setting for a chart's title: keeps the scenario and the last two parts.
fn title(setting: &str) -> String {
    let (scenario, rest) = setting.split_once(": ").unwrap_or(("", setting));
    let mut parts: Vec<&str> = rest.rsplitn(3, ", ").take(2).collect();
    parts.reverse();
    format!("{scenario}: {}", parts.join(", "))
}

fn file_name(title: &str) -> String {
    let words = title.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    format!("{}.svg", words.collect::<Vec<_>>().join("-").to_lowercase())
}

#[cfg(test)]
#[path = "plots_tests.rs"]
mod tests;
