use super::*;

fn chain(trace: u128) -> ChainId {
    ChainId::of_trace(trace)
}

#[test]
fn a_request_is_remembered_for_ten_seconds() {
    let (spent_chains, now) = (SpentChains::default(), Instant::now());
    let (request, other) = (chain(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736), chain(0x4bf9_2f35_77b3_4da6_a3ce_929d));
    let memory = TICK * u32::from(MEMORY_TICKS);
    assert!(!spent_chains.has(request, now, now));
    spent_chains.note(request, now);
    assert!(spent_chains.has(request, now, now) && spent_chains.has(request, now, now + memory));
    assert!(!spent_chains.has(request, now, now + memory + TICK) && !spent_chains.has(other, now, now));
    let later = now + Duration::from_secs(60);
    spent_chains.note(request, later);
    assert!(spent_chains.has(request, now, later));
}

#[test]
fn a_call_of_an_earlier_request_of_the_trace_does_not_count() {
    let (spent_chains, now) = (SpentChains::default(), Instant::now());
    spent_chains.note(chain(7), now);
    assert!(!spent_chains.has(chain(7), now + TICK, now + TICK));
    spent_chains.note(chain(7), now + 2 * TICK);
    assert!(spent_chains.has(chain(7), now + TICK, now + 3 * TICK));
}

#[test]
fn another_worker_may_be_a_little_ahead() {
    let (spent_chains, now) = (SpentChains::default(), Instant::now());
    spent_chains.note(chain(1), now);
    spent_chains.note(chain(7), now + 2 * TICK);
    assert!(spent_chains.has(chain(7), now, now + TICK));
}

#[test]
fn requests_with_small_numbers_are_told_apart_from_the_first_moment() {
    let (spent_chains, now) = (SpentChains::default(), Instant::now());
    for trace in 1..100 {
        assert!(!spent_chains.has(chain(trace), now, now));
        spent_chains.note(chain(trace), now);
        assert!(spent_chains.has(chain(trace), now, now));
    }
}

#[test]
fn an_empty_slot_is_no_request() {
    let (spent_chains, now) = (SpentChains::default(), Instant::now());
    spent_chains.note(chain(u128::MAX / 3), now);
    assert!((1..10_000).all(|trace| !spent_chains.has(chain(trace), now, now)));
}

#[test]
fn later_requests_take_the_place_of_earlier_ones() {
    let (spent_chains, now) = (SpentChains::default(), Instant::now());
    let mut random = fastrand::Rng::with_seed(7);
    let requests: Vec<ChainId> = (0..100_000).map(|_| chain(random.u128(..))).collect();
    requests.iter().for_each(|request| spent_chains.note(*request, now));
    let kept = requests.iter().filter(|request| spent_chains.has(**request, now, now)).count();
    assert!((SLOTS / 2..=SLOTS).contains(&kept), "{kept}");
    assert!(spent_chains.has(requests[requests.len() - 1], now, now));
}
