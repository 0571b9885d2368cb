//! Chooses one endpoint of a cluster: by calls in flight, in turn, or at random.

use fastrand::Rng;

use super::endpoints::{Endpoint, EndpointId};

/// In a cluster with at most this many endpoints, a pick compares all of them. In a larger cluster, a pick compares
/// [`DRAWS`] endpoints that it draws at random. If none of these is ready, it compares all endpoints.
pub(super) const COMPARE_ALL_MAX: usize = 16;
/// Number of endpoints drawn from a large cluster for one pick.
const DRAWS: usize = 4;

/// The chosen endpoint, and the reason.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub(super) index: usize,
    pub(super) why: Why,
}

/// The reason for a pick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Why {
    NextInTurn,
    Drawn,
    /// A probe, which tests whether a slow or failing endpoint has recovered. `good_answers` is the number of probes
    /// that the endpoint has answered well so far.
    Probe {
        good_answers: u32,
    },
    Fewest {
        winner: Contender,
        runner_up: Option<Contender>,
    },
}

/// Preference classes of endpoints, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    Ready,
    Warming,
    Slow,
    Failing,
}

/// How an endpoint enters a comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) rank: Rank,
    /// The number that counts as the endpoint's calls in flight.
    pub(super) load: u32,
    /// Of endpoints with the same rank and load, the endpoint with the lowest number wins: the serial number of the
    /// endpoint's latest pick, or a random number.
    pub(super) turn: u64,
}

impl Entry {
    /// Of two entries, the entry with the lower key wins: a single number, because each pick compares many entries.
    #[inline]
    fn key(&self) -> u128 {
        (self.rank as u128) << 96 | u128::from(self.load) << 64 | u128::from(self.turn)
    }
}

/// One of the two best endpoints of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Contender {
    pub(super) id: EndpointId,
    pub(super) rank: Rank,
    pub(super) in_flight: u32,
    /// See [`Endpoint::load`].
    pub(super) load: u32,
}

/// Chooses the best endpoint. The first criterion is the rank, the second the fewest calls in flight, the third the
/// longest time since the last pick, or chance.
///
/// `enter` returns how an endpoint enters the comparison; `None` if the endpoint cannot be used. Its second argument is
/// the number of endpoints in the comparison.
pub(super) fn fewest_in_flight(
    list: &[Endpoint],
    random: &mut Rng,
    mut enter: impl FnMut(&Endpoint, usize, &mut Rng) -> Option<Entry>,
) -> Option<Choice> {
    if list.len() > COMPARE_ALL_MAX {
        let mut contest = Contest::default();
        for _ in 0..DRAWS {
            let index = random.usize(..list.len());
            contest.enter(index, enter(&list[index], DRAWS, random));
        }
        if contest.winner.is_some_and(|winner| winner.entry.rank == Rank::Ready) {
            return contest.choice(list);
        }
    }
    let mut contest = Contest::default();
    for (index, endpoint) in list.iter().enumerate() {
        contest.enter(index, enter(endpoint, list.len(), random));
    }
    contest.choice(list)
}

#[derive(Default)]
struct Contest {
    winner: Option<Entrant>,
    runner_up: Option<Entrant>,
}

#[derive(Clone, Copy)]
struct Entrant {
    index: usize,
    entry: Entry,
}

impl Contest {
    #[inline]
    fn enter(&mut self, index: usize, entry: Option<Entry>) {
        let Some(entry) = entry else { return };
        let beats = |other: &Entrant| entry.key() < other.entry.key();
        match &self.winner {
            Some(winner) if winner.index == index => {}
            Some(winner) if !beats(winner) => {
                if self.runner_up.as_ref().is_none_or(beats) {
                    self.runner_up = Some(Entrant { index, entry });
                }
            }
            _ => self.runner_up = self.winner.replace(Entrant { index, entry }),
        }
    }

    fn choice(self, list: &[Endpoint]) -> Option<Choice> {
        let contender = |Entrant { index, entry: Entry { rank, load, .. } }| {
            let Endpoint { id, calls, .. } = &list[index];
            Contender { id: *id, rank, in_flight: calls.in_flight, load }
        };
        self.winner.map(|winner| Choice {
            index: winner.index,
            why: Why::Fewest { winner: contender(winner), runner_up: self.runner_up.map(contender) },
        })
    }
}

/// Returns the first usable endpoint at or after the position `next`, and wraps around. Sets `next` to the position
/// after it.
pub(super) fn next_in_turn(
    list: &[Endpoint],
    next: &mut usize,
    mut usable: impl FnMut(EndpointId) -> bool,
) -> Option<Choice> {
    let start = (*next).min(list.len());
    let index = (start..list.len()).chain(0..start).find(|index| usable(list[*index].id))?;
    *next = (index + 1) % list.len();
    Some(Choice { index, why: Why::NextInTurn })
}

/// Returns a usable endpoint, drawn at random with equal probability.
pub(super) fn drawn(list: &[Endpoint], random: &mut Rng, mut usable: impl FnMut(EndpointId) -> bool) -> Option<Choice> {
    if list.is_empty() {
        return None;
    }
    let lucky = (0..DRAWS).map(|_| random.usize(..list.len())).find(|index| usable(list[*index].id));
    let index = lucky.or_else(|| {
        let mut seen = 0;
        let mut kept = None;
        for (index, endpoint) in list.iter().enumerate() {
            if usable(endpoint.id) {
                seen += 1;
                if random.usize(..seen) == 0 {
                    kept = Some(index);
                }
            }
        }
        kept
    })?;
    Some(Choice { index, why: Why::Drawn })
}
