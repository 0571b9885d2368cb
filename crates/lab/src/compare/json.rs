//! The comparison as JSON, for programs.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::side::{FIGURES, Side};

/// Writes a list of the sides.
///
/// Each figure of a side has four values. The first two are the mean, and half the width of the mean's 95 % confidence
/// interval. The other two are the gap to the first side in percent, and half the width of the gap's interval. An
/// unknown value is `null`.
pub(super) fn write(sides: &[Side], out: &mut dyn Write) -> io::Result<()> {
    let list: Vec<Value> = sides.iter().map(|side| value(side, sides.first())).collect();
    serde_json::to_writer_pretty(&mut *out, &list)?;
    writeln!(out)
}

fn value(side: &Side, base: Option<&Side>) -> Value {
    let figures = FIGURES.iter().map(|&figure| {
        let mean = side.mean(figure);
        let base = base.filter(|_| figure.has_gap).and_then(|base| base.mean(figure));
        let gap = mean.zip(base).and_then(|(mean, base)| mean.gap(&base));
        let fields = json!({
            "mean": mean.map(|mean| mean.value),
            "plus_minus": mean.and_then(|mean| mean.plus_minus),
            "gap_percent": gap.map(|gap| gap.percent),
            "gap_plus_minus": gap.and_then(|gap| gap.plus_minus),
        });
        (figure.name.to_owned(), fields)
    });
    json!({
        "path": side.path.display().to_string(),
        "form": side.form.to_string(),
        "label": side.label,
        "runs": side.runs.len(),
        "figures": figures.collect::<Map<String, Value>>(),
    })
}
