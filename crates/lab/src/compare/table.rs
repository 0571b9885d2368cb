//! The comparison as a table for a terminal.

use std::io::{self, Write};

use super::side::{FIGURES, Figure, Side};
use crate::chart::number::{NONE, significant};
use crate::columns;
use crate::report::{Gap, Mean};

/// Maximum number of characters of a printed label. Labels of other tools may have any length.
const LABEL_SHOWN: usize = 120;

/// Writes the list of sides, the table and its explanation.
pub(super) fn write(sides: &[Side], out: &mut dyn Write) -> io::Result<()> {
    for (number, side) in (1..).zip(sides) {
        writeln!(out, "{number}  {}", description(side))?;
    }
    writeln!(out)?;
    columns::write(&lines(sides), |_| false, out)?;
    writeln!(
        out,
        "\nMeans over the runs of a side, ± half of their 95 % interval. In brackets: the gap to side 1, ≈ if the runs\n\
         cannot tell it from 0. One run has no interval."
    )
}

fn description(side: &Side) -> String {
    let runs = match side.runs.len() {
        1 => "one run, no interval".to_owned(),
        runs => format!("{runs} runs"),
    };
    // Escape the label, because it comes from a file: a line break in it must not add a line to the output.
    let label: String = side.label.escape_debug().take(LABEL_SHOWN).collect();
    let label = if label.is_empty() { "no label" } else { &label };
    format!("{} ({}): {label}; {runs}", side.path.display(), side.form)
}

fn lines(sides: &[Side]) -> Vec<Vec<String>> {
    let head = [""].into_iter().chain(FIGURES.iter().map(|figure| figure.title)).map(str::to_owned).collect();
    let line = |(number, side): (usize, &Side)| {
        let cells = FIGURES.iter().map(|&figure| cell(side, (number > 1).then_some(sides.first()).flatten(), figure));
        [number.to_string()].into_iter().chain(cells).collect()
    };
    [head].into_iter().chain((1..).zip(sides).map(line)).collect()
}

fn cell(side: &Side, base: Option<&Side>, figure: Figure) -> String {
    let Some(mean) = side.mean(figure) else { return NONE.to_owned() };
    let base = base.filter(|_| figure.has_gap).and_then(|base| base.mean(figure));
    match base.and_then(|base| mean.gap(&base)) {
        Some(gap) => format!("{} ({})", value(&mean), percent(&gap)),
        None => value(&mean),
    }
}

fn value(mean: &Mean) -> String {
    let interval = mean.plus_minus.map(|half| format!(" ± {}", significant(half))).unwrap_or_default();
    significant(mean.value) + &interval
}

/// Formats a gap: `+5.2 ± 1.1 %`.
fn percent(gap: &Gap) -> String {
    let sign = if gap.may_be_zero() { "≈ " } else { "" };
    let interval = gap.plus_minus.map(|half| format!(" ± {half:.1}")).unwrap_or_default();
    format!("{sign}{:+.1}{interval} %", gap.percent)
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
