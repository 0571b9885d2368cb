use std::sync::Arc;

use super::{Backend, BackendTarget, RouteKind, Rule};
use crate::route::Filters;
use crate::route::fixtures::rule;

fn weighted(weights: &[u32]) -> Rule {
    let backend = |(number, weight): (usize, &u32)| Backend {
        to: BackendTarget::Invalid(number.to_string().into()),
        weight: *weight,
        filters: Filters::default(),
    };
    let rule = rule(RouteKind::Http, "default/a", "");
    Rule { backends: weights.iter().enumerate().map(backend).collect(), ..Arc::unwrap_or_clone(rule) }
}

/// Counts how often each backend is chosen for `draws` evenly spaced numbers.
fn chosen(weights: &[u32], draws: u64) -> Vec<u64> {
    let rule = weighted(weights);
    let mut counts = vec![0; weights.len()];
    let step = u64::MAX / draws;
    for draw in 0..draws {
        let chosen = rule.choose(step / 2 + step * draw).expect("a backend");
        let place = rule.backends.iter().position(|backend| std::ptr::eq(backend, chosen)).expect("one of them");
        counts[place] += 1;
    }
    counts
}

#[test]
fn backends_are_chosen_by_weight() {
    assert_eq!(chosen(&[1], 10), [10]);
    assert_eq!(chosen(&[1, 1], 10), [5, 5]);
    assert_eq!(chosen(&[90, 10], 1000), [900, 100]);
    assert_eq!(chosen(&[1_000_000; 16], 1600), [100; 16]);
}

#[test]
fn a_backend_without_weight_gets_nothing() {
    assert_eq!(chosen(&[0, 1, 0], 10), [0, 10, 0]);
    let last = weighted(&[1, 0]);
    assert_eq!(last.choose(u64::MAX).map(|backend| &backend.to), Some(&BackendTarget::Invalid("0".into())));
}

#[test]
fn without_any_weight_there_is_no_backend() {
    assert_eq!(weighted(&[]).choose(7), None);
    assert_eq!(weighted(&[0, 0]).choose(7), None);
}
