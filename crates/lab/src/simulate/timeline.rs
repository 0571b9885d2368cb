//! Which servers the calls went to, tenth of a second by tenth of a second.

/// The length of one step.
pub(super) const STEP_S: f64 = 0.1;
const STEP_NS: u64 = 100_000_000;

/// Calls sent to each server in each step since the beginning.
#[derive(Debug)]
pub(super) struct Timeline {
    servers: usize,
    picks: Vec<u32>,
}

impl Timeline {
    pub(super) fn new(servers: usize) -> Self {
        Self { servers, picks: Vec::new() }
    }

    pub(super) fn note(&mut self, at_ns: u64, server: usize) {
        let row = (at_ns / STEP_NS) as usize * self.servers;
        if self.picks.len() < row + self.servers {
            self.picks.resize(row + self.servers, 0);
        }
        self.picks[row + server] += 1;
    }

    /// The part of the calls that went to `server` in each step; 0 in a step without calls.
    pub(super) fn shares(&self, server: usize) -> Vec<f64> {
        let share = |row: &[u32]| f64::from(row[server]) / f64::from(row.iter().sum::<u32>().max(1));
        self.picks.chunks_exact(self.servers).map(share).collect()
    }

    /// How long after `from_s` a whole second begins in which `server` gets at least `share` of the calls.
    pub(super) fn reaches(&self, server: usize, from_s: f64, share: f64) -> Option<f64> {
        let first = (from_s / STEP_S).round() as usize;
        let steps: Vec<&[u32]> = self.picks.chunks_exact(self.servers).skip(first).collect();
        let second = (1.0 / STEP_S) as usize;
        let begin = steps.windows(second).position(|rows| {
            let its: u32 = rows.iter().map(|row| row[server]).sum();
            let all: u32 = rows.iter().flat_map(|row| row.iter()).sum();
            all > 0 && f64::from(its) >= share * f64::from(all)
        });
        begin.map(|step| step as f64 * STEP_S)
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
