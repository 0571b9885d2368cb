use super::*;

fn exemplar(trace: u128, ms: u64, at_s: u64) -> Exemplar {
    Exemplar {
        trace: TraceId::of(trace).expect("not zero"),
        duration: Duration::from_millis(ms),
        at: UNIX_EPOCH + Duration::from_secs(at_s),
    }
}

#[test]
fn the_latest_exemplar_of_each_bucket_counts() {
    let (first, second) = (Exemplars::<2>::default(), Exemplars::<2>::default());
    let mut latest = None;
    first.add_to(&mut latest);
    assert_eq!(latest, None);
    first.record(0, exemplar(1, 1, 10));
    first.record(0, exemplar(2, 1, 20));
    second.record(0, exemplar(3, 1, 15));
    second.record(1, exemplar(4, 9, 5));
    second.record(2, exemplar(5, 9, 5));
    for own in [&first, &second, &first] {
        own.add_to(&mut latest);
    }
    assert_eq!(*latest.expect("there are some"), [Some(exemplar(2, 1, 20)), Some(exemplar(4, 9, 5))]);
}

#[test]
fn a_worker_does_not_wait_for_a_scrape() {
    let exemplars = Exemplars::<1>::default();
    exemplars.record(0, exemplar(1, 1, 1));
    let read = exemplars.0.get().expect("one is recorded").lock().expect("not poisoned");
    exemplars.record(0, exemplar(2, 1, 2));
    drop(read);
    let mut latest = None;
    exemplars.add_to(&mut latest);
    assert_eq!(latest.map(|all| all[0]), Some(Some(exemplar(1, 1, 1))));
}

#[test]
fn exemplars_stand_behind_the_lines_with_their_numbers() {
    let text =
        "# TYPE t histogram\nt_bucket{le=\"1\"} 1\nt_count 1\nt_bucket{le=\"+Inf\"} 2\nother_t_bucket{} 3\n# EOF\n";
    let lines = |exemplars| ExemplarLines { prefix: "t_bucket{", exemplars }.add_to(text.to_owned());
    assert_eq!(lines(Vec::new()), text);
    let with_one = lines(vec![(1, exemplar(0xab, 1_500, 7))]);
    let line = "t_bucket{le=\"+Inf\"} 2 # {trace_id=\"000000000000000000000000000000ab\"} 1.5 7.000";
    assert_eq!(with_one, text.replace("t_bucket{le=\"+Inf\"} 2", line));
}
