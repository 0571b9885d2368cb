//! Counts the calls sent to each server in each tenth of a second.

/// The length of one step, in seconds.
pub(super) const STEP_S: f64 = 0.1;
const STEP_NS: u64 = 100_000_000;
const STEPS_PER_S: usize = 10;

/// Number of calls sent to each server in each step, from the start of the simulation.
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

    /// Fraction of the calls that `server` received in each step; 0 in a step without calls.
    pub(super) fn shares(&self, server: usize) -> Vec<f64> {
        let share = |row: &[u32]| f64::from(row[server]) / f64::from(row.iter().sum::<u32>().max(1));
        self.picks.chunks_exact(self.servers).map(share).collect()
    }

    /// Finds the first whole second in which `server` receives at least the fraction `share` of the calls. Returns the
    /// start of this second, in seconds after `from_s`; `None` if there is no such second.
    pub(super) fn reaches(&self, server: usize, from_s: f64, share: f64) -> Option<f64> {
        self.seconds(server, from_s).position(|its| its >= share).map(|step| step as f64 * STEP_S)
    }

    /// Largest fraction of the calls that `server` received within any second after `from_s`.
    pub(super) fn peak(&self, server: usize, from_s: f64) -> f64 {
        self.seconds(server, from_s).fold(0.0, f64::max)
    }

    /// For each step after `from_s`, the fraction of the calls that `server` received within the second that begins
    /// with this step.
    fn seconds(&self, server: usize, from_s: f64) -> impl Iterator<Item = f64> {
        let begin = ((from_s / STEP_S).round() as usize * self.servers).min(self.picks.len());
        let rows = self.picks[begin..].chunks_exact(self.servers);
        let counts: Vec<(u32, u32)> = rows.map(|row| (row[server], row.iter().sum())).collect();
        let last = (counts.len() + 1).saturating_sub(STEPS_PER_S);
        (0..last).map(move |step| {
            let second = &counts[step..step + STEPS_PER_S];
            let its: u32 = second.iter().map(|(its, _)| its).sum();
            let all: u32 = second.iter().map(|(_, all)| all).sum();
            f64::from(its) / f64::from(all.max(1))
        })
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
