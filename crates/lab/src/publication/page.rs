//! `report.html`: the report as a self-contained page, in the style of the experiments' pages.

use crate::chart::text::escape;
use crate::report::page::document;

use super::document::{Document, Part};
use super::sheet::{Cell, Head, Row, Sheet, Text};

/// The whole page.
pub(super) fn html(content: &Document) -> String {
    let name = content.description.publication.name();
    let mut sheets = content.sheets.iter();
    let first: String = sheets.next().map(|sheet| table(sheet, true)).unwrap_or_default();
    let others: String = sheets.map(|sheet| table(sheet, false)).collect();
    let standings: String = content.standings().into_iter().map(list).collect();
    let parts: String = content.parts().into_iter().map(list).collect();
    let body = format!(
        "<header>\n<p class=\"eyebrow\">Leno lab · {}</p>\n<h1>{}</h1>\n<p class=\"lead\">{}. Load: {}. \
         Scale {}. Started {}.</p>\n</header>\n{first}{standings}{others}{parts}{}",
        escape(name),
        escape(&content.sentence),
        escape(content.who),
        escape(content.load),
        content.description.scale.name(),
        escape(&content.description.started),
        about(content),
    );
    document(name, &body)
}

fn table(sheet: &Sheet, is_first: bool) -> String {
    let groups: String = sheet.columns.iter().map(group).collect();
    let parts: String =
        sheet.columns.iter().flat_map(|head| marked(parts(head).iter().map(|part| escape(part)), "th")).collect();
    let rows: String = sheet.rows.iter().map(|it| row(sheet, it, is_first)).collect();
    let orders: String = sheet.orders.iter().map(|order| format!("<li>{}</li>\n", escape(order))).collect();
    let orders = if orders.is_empty() { orders } else { format!("<ul class=\"prose\">\n{orders}</ul>\n") };
    let base = sheet.base.map(|base| format!("<p class=\"note\">In brackets: relative to {}.</p>\n", escape(base)));
    let title = escape(sheet.title);
    format!(
        "<section>\n<h2>{title}</h2>\n{}\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\n<table class=\"full published\">\n\
         <thead><tr><th scope=\"col\" rowspan=\"2\">condition</th>{groups}</tr>\n<tr>{parts}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table>\n</div>\n{orders}</section>\n",
        base.unwrap_or_default()
    )
}

fn group(head: &Head) -> String {
    let (name, width) = (escape(&head.name), parts(head).len());
    format!("<th class=\"begin\" scope=\"colgroup\" colspan=\"{width}\">{name}</th>")
}

fn parts(head: &Head) -> &'static [&'static str] {
    if head.has_theirs { &["here", "theirs", "ratio"] } else { &["here"] }
}

/// The cells of one column. The class `begin` of the first cell draws a line that separates the column from the
/// previous one.
fn marked(contents: impl Iterator<Item = String>, tag: &'static str) -> impl Iterator<Item = String> {
    contents.enumerate().map(move |(index, content)| {
        let class = if index == 0 { " class=\"begin\"" } else { "" };
        format!("<{tag}{class}>{content}</{tag}>")
    })
}

fn row(sheet: &Sheet, row: &Row, is_first: bool) -> String {
    let class = if row.is_leno { " class=\"own\"" } else { "" };
    let why = row.why_not.as_ref().map(|why| {
        // The reason is long, so only the first table has it. The other tables refer to the first table.
        let why = if is_first { why.as_str() } else { "see the first table" };
        let (width, why) = (width(sheet), escape(why));
        format!("<tr{class}><td class=\"skipped reason\" colspan=\"{width}\"><span>not measured here: {why}</span></td></tr>\n")
    });
    let cells: String = row.cells.iter().zip(&sheet.columns).map(|(it, head)| cells(it, head)).collect();
    format!(
        "<tr{class}><th scope=\"row\">{}<span class=\"detail\">{}</span></th>{cells}</tr>\n{}",
        escape(row.name),
        row.target.name(),
        why.unwrap_or_default()
    )
}

fn width(sheet: &Sheet) -> usize {
    1 + sheet.columns.iter().map(|head| parts(head).len()).sum::<usize>()
}

fn cells(cell: &Cell, head: &Head) -> String {
    let all = [figure(&cell.here), figure(&cell.theirs), escape(&cell.ratio)];
    marked(all.into_iter().take(parts(head).len()), "td").collect()
}

fn figure(text: &Text) -> String {
    let detail = text.detail();
    let detail = if detail.is_empty() { detail } else { format!("<span class=\"detail\">{}</span>", escape(&detail)) };
    escape(&text.figure) + &detail
}

fn list((title, lines): Part) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!("<section>\n<h2>{}</h2>\n<ul class=\"prose\">\n{items}</ul>\n</section>\n", escape(title))
}

/// The source, the versions, and the commands that repeat the measurement.
fn about(content: &Document) -> String {
    let versions = content.description.versions.iter();
    let versions: String =
        versions.map(|it| format!("<dt>{}</dt><dd>{}</dd>\n", it.target.name(), escape(&it.version))).collect();
    let commands = content.commands().into_iter().map(escape).collect::<Vec<_>>().join("\n");
    format!(
        "<section>\n<h2>With what</h2>\n<dl>\n<dt>publication</dt><dd>{}</dd>\n{versions}</dl>\n<h3>Repeat it, as a whole or one \
         experiment alone</h3>\n<pre><code>{commands}</code></pre>\n</section>\n",
        escape(content.source)
    )
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
