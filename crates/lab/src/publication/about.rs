//! The description of a publication that `leno lab list NAME` prints.

use std::io::{self, Write};

use indicatif::HumanDuration;

use super::definition::{Publication, Step};
use super::name::Name;
use super::options::{Options, Scale};
use super::plan::plan;
use crate::experiment::record::TargetKind;
use crate::targets::{self, Programs};

/// Writes the description of a publication.
///
/// The description lists:
///
/// - the conditions (the compared systems), and whether each can run on this machine;
/// - the tables;
/// - the experiments at both scales;
/// - the parts of the publication that the lab does not show.
pub(crate) fn write_page(name: Name, programs: &Programs, out: &mut dyn Write) -> io::Result<()> {
    let publication = name.publication();
    let Publication { who, source, load, conditions, steps, tables, .. } = publication;
    writeln!(out, "{name}\n{who}\n{source}\n\nLoad\n  {load}\n\nConditions")?;
    for condition in *conditions {
        let (target, name) = (condition.target, condition.name);
        match targets::version(target, programs) {
            Ok(version) => writeln!(out, "  {name:18} {target:12} ready: {version}")?,
            Err(why) => writeln!(out, "  {name:18} {target:12} not here: {why}")?,
        }
    }
    writeln!(out, "\nTables")?;
    for table in *tables {
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        writeln!(out, "  {}: {}", table.title, columns.join("; "))?;
    }
    let all: Vec<TargetKind> = conditions.iter().map(|it| it.target).collect();
    for (scale, of) in
        [(Scale::Quick, (|step| step.quick) as fn(&Step) -> &'static str), (Scale::Full, |step| step.full)]
    {
        let duration = duration(name, scale, &all);
        writeln!(out, "\nScale {}{duration}", scale.name())?;
        steps.iter().try_for_each(|step| writeln!(out, "  leno lab run {}", of(step)))?;
    }
    writeln!(out, "  full: {}", publication.full_keeps)?;
    writeln!(out, "\nLeft out at scale quick")?;
    publication.quick_leaves_out.iter().try_for_each(|it| writeln!(out, "  {it}"))?;
    writeln!(out, "\nNot shown")?;
    publication.never_shown.iter().try_for_each(|it| writeln!(out, "  {it}"))
}

/// Formats the expected duration with all conditions as `: about 12 minutes with all conditions`. The text is empty if
/// the experiments cannot be planned.
fn duration(name: Name, scale: Scale, targets: &[TargetKind]) -> String {
    let planned = plan(&Options::plain(name, scale), targets);
    let sum = planned.map(|plan| plan.iter().map(|planned| planned.duration).sum());
    sum.map_or_else(|_| String::new(), |sum| format!(": about {} with all conditions", HumanDuration(sum)))
}

#[cfg(test)]
#[path = "about_tests.rs"]
mod tests;
