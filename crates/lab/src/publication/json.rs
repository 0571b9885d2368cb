//! `table.json`: the report's figures in a form that programs can read.

use serde_json::{Value as Json, json};

use super::definition::{Column, Published, Table};
use super::document::Document;
use super::figures::Measured;
use super::standing::standing;

/// The whole file. A figure that is unknown is `null`.
pub(super) fn text(measured: &Measured, document: &Document) -> String {
    let tables: Vec<Json> = measured.publication().tables.iter().map(|it| table(measured, it)).collect();
    let (description, standing) = (&measured.description, standing(measured));
    let whole = json!({
        "publication": description.publication,
        "source": document.source,
        "scale": description.scale,
        "started": description.started,
        "ended": description.ended,
        "interrupted": description.is_interrupted,
        "machine": description.machine,
        "versions": description.versions,
        "not_measured": description.skipped,
        "sentence": document.sentence,
        "better": standing.ahead,
        "worse": standing.behind,
        "cannot_tell": standing.level,
        "left_out": document.left_out,
        "doubts": document.doubts,
        "tables": tables,
        "commands": document.commands(),
    });
    format!("{whole:#}\n")
}

fn table(measured: &Measured, table: &Table) -> Json {
    let columns: Vec<Json> = table.columns.iter().map(|it| column(measured, it)).collect();
    json!({"title": table.title, "base": table.base, "columns": columns})
}

fn column(measured: &Measured, column: &Column) -> Json {
    let row = |condition: &super::definition::Condition| {
        let here = measured.here(column, condition.target);
        let comparable = here.filter(|here| !here.has_failed);
        let theirs = column.published(condition.target);
        json!({
            "condition": condition.name,
            "target": condition.target,
            "here": here.map(|here| here.mean.value),
            "plus_minus": here.and_then(|here| here.mean.plus_minus),
            "is_worst_repeat": here.is_some_and(|here| here.is_worst),
            "has_too_many_failed_calls": here.is_some_and(|here| here.has_failed),
            "theirs": theirs.map(Published::value),
            "theirs_is_a_lower_bound": theirs.is_some_and(|theirs| !theirs.is_exact()),
            "ratio": comparable.zip(theirs).map(|(here, theirs)| here.mean.value / theirs.value()),
        })
    };
    let rows: Vec<Json> = measured.publication().conditions.iter().map(row).collect();
    json!({"name": column.name, "what": column.what, "unit": column.unit, "rows": rows})
}
