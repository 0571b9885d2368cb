//! The demo's output without the live screen, for example to a file: one line every few seconds.

use std::io::{self, Write};

use super::row::{HEADER, Row};
use super::way::Way;
use super::{Moment, WARM_UP};

/// Seconds between two lines.
const EVERY_S: u64 = 2;

/// The mode of the last line of output, and the measured time at which that line was written.
#[derive(Debug, Default)]
pub(super) struct Lines {
    way: Option<Way>,
    said_at_s: u64,
}

impl Lines {
    /// Writes the header of a new mode, and a line of numbers every [`EVERY_S`] seconds.
    pub(super) fn show(&mut self, moment: &Moment<'_>, out: &mut impl Write) -> io::Result<()> {
        let (way, snapshot) = (moment.way, moment.snapshot);
        if self.way != Some(way) {
            self.way = Some(way);
            self.said_at_s = 0;
            let warm_up = WARM_UP.as_secs();
            let measured = moment.options.seconds_per_phase;
            writeln!(out, "\n{way}: {}", way.explanation())?;
            writeln!(out, "  {warm_up} s of warm-up, then {measured} s")?;
            writeln!(out, "    {HEADER}")?;
        }
        let seconds = snapshot.measured.as_secs();
        if seconds >= self.said_at_s + EVERY_S {
            self.said_at_s = seconds;
            let row = Row::of_all(format!("after {seconds} s"), snapshot);
            writeln!(out, "    {row}")?;
        }
        Ok(())
    }
}
