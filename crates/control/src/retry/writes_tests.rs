use std::cell::RefCell;
use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::fixtures::Warnings;

/// The time after which a write without an answer fails.
const UNANSWERED: Duration = Duration::from_secs(65);

fn names(prefix: &str, count: usize) -> BTreeSet<Box<str>> {
    (0..count).map(|i| format!("{prefix}-{i:02}").into()).collect()
}

fn unanswered() -> kube::Error {
    kube::Error::Service("no answer".into())
}

async fn write(namespace: Box<str>) -> bool {
    if !namespace.starts_with("hung") {
        return true;
    }
    sleep(UNANSWERED).await;
    false
}

#[tokio::test(start_paused = true)]
async fn many_namespaces_that_do_not_answer_delay_others_only_until_their_first_failure() {
    let start = Instant::now();
    let began = RefCell::new(Vec::<(Box<str>, u64)>::new());
    let written = RefCell::new(BTreeSet::<Box<str>>::new());
    let begin = |namespace: &str| {
        if written.borrow().contains(namespace) {
            return None;
        }
        began.borrow_mut().push((namespace.into(), start.elapsed().as_secs()));
        Some(write(namespace.into()))
    };
    let mut writes = Writes::default();
    let mut wanted = names("hung", 2 * WRITES_MAX);
    let mut second = 0;
    while second < 1_000 {
        writes.need(wanted.clone());
        let until = start + Duration::from_secs(second + 1);
        while let Ok((namespace, is_written)) = tokio::time::timeout_at(until, writes.next(begin)).await {
            match is_written {
                true => {
                    writes.succeeded(&namespace);
                    written.borrow_mut().insert(namespace);
                }
                false => writes.failed(&namespace, format_args!("it"), &unanswered()),
            }
        }
        second += 1;
        wanted.insert(format!("open-{second}").into());
    }
    let began = began.into_inner();
    // Two rounds of first writes take all places.
    let first_s = UNANSWERED.as_secs() * 2;
    for second in first_s + 1..1_000 {
        let open: Box<str> = format!("open-{second}").into();
        let times: Vec<u64> = began.iter().filter(|(of, _)| *of == open).map(|(_, at_s)| *at_s).collect();
        assert_eq!(times, [second]);
    }
    // No namespace takes all the places for retries.
    for namespace in names("hung", 2 * WRITES_MAX) {
        assert!(began.iter().filter(|(of, _)| *of == namespace).count() >= 3, "{namespace}: {began:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_namespace_has_one_write_at_a_time_and_all_have_a_limit() {
    let began = RefCell::new(Vec::<Box<str>>::new());
    let begin = |namespace: &str| {
        began.borrow_mut().push(namespace.into());
        Some(pending::<()>())
    };
    let mut writes = Writes::default();
    for count in [2, 3, 2 * WRITES_MAX] {
        writes.need(names("hung", count));
        assert!(timeout(Duration::from_secs(1), writes.next(begin)).await.is_err());
        let expected: Vec<Box<str>> = names("hung", count.min(WRITES_MAX)).into_iter().collect();
        assert_eq!(*began.borrow(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_always_need_a_write_take_turns_with_the_others() {
    let began = RefCell::new(Vec::<Box<str>>::new());
    let begin = |namespace: &str| {
        began.borrow_mut().push(namespace.into());
        Some(sleep(Duration::from_secs(1)))
    };
    let mut writes = Writes::default();
    let wanted: BTreeSet<Box<str>> = names("busy", WRITES_MAX).into_iter().chain(["open".into()]).collect();
    for _ in 0..2 * WRITES_MAX {
        writes.need(wanted.clone());
        let (namespace, ()) = writes.next(begin).await;
        writes.succeeded(&namespace);
    }
    let of_open = began.borrow().iter().filter(|namespace| &***namespace == "open").count();
    assert!(of_open >= 2, "{began:?}");
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_always_need_a_write_do_not_stop_the_retries_of_another() {
    let began = RefCell::new(Vec::<(Box<str>, u64)>::new());
    let start = Instant::now();
    let begin = |namespace: &str| {
        began.borrow_mut().push((namespace.into(), start.elapsed().as_secs()));
        Some(sleep(Duration::from_secs(1)))
    };
    let mut writes = Writes::default();
    let wanted: BTreeSet<Box<str>> = names("busy", 2 * WRITES_MAX).into_iter().chain(["refusing".into()]).collect();
    while start.elapsed() < Duration::from_secs(60) {
        writes.need(wanted.clone());
        let (namespace, ()) = writes.next(begin).await;
        match &*namespace == "refusing" {
            true => writes.failed(&namespace, format_args!("it"), &unanswered()),
            false => writes.succeeded(&namespace),
        }
    }
    let began = began.into_inner();
    let of_refusing: Vec<u64> = began.iter().filter(|(of, _)| &**of == "refusing").map(|(_, at_s)| *at_s).collect();
    // Its turn among the others comes after two rounds of writes. Then the delays are 1, 2, 4, 8 and 16 s.
    assert_eq!(of_refusing, [2, 4, 7, 12, 21, 38]);
    let of_busy = began.len() - of_refusing.len();
    assert!(of_busy > 60 * (WRITES_MAX - 1), "a retry takes one place: {of_busy}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_undone_again_and_again_is_repeated_once_a_second_with_one_warning() {
    let (warnings, _guard) = Warnings::collect();
    let start = Instant::now();
    let mut writes = Writes::default();
    for at_s in 0..10 {
        // Another program has undone the write: the namespace needs another one.
        writes.need(names("undone", 1));
        let (namespace, ()) = writes.next(|_| Some(ready(()))).await;
        assert_eq!(start.elapsed().as_secs(), at_s);
        writes.accepted(&namespace, format_args!("it"));
    }
    let warnings = warnings.lines();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("undone-00") && warning.contains("another program"), "{warning}");
    // The last write stays. So the series ends, and the next write need not wait.
    assert!(timeout(UNANSWERED, writes.next(|_| None)).await.is_err());
    let later = Instant::now();
    writes.need(names("undone", 1));
    let (namespace, ()) = writes.next(|_| Some(ready(()))).await;
    assert_eq!((&*namespace, later.elapsed()), ("undone-00", Duration::ZERO));
}

/// Another program may delete an object that is needed only while it exists, and create it again.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_needs_no_write_for_a_moment_still_waits_after_an_accepted_write() {
    let start = Instant::now();
    let mut writes = Writes::default();
    for at_s in 0..5 {
        writes.need(names("undone", 1));
        let (namespace, ()) = writes.next(|_| Some(ready(()))).await;
        assert_eq!(start.elapsed().as_secs(), at_s);
        writes.accepted(&namespace, format_args!("it"));
        writes.need(BTreeSet::new());
    }
    sleep(Duration::from_secs(1)).await;
    writes.need(BTreeSet::new());
    assert!(!writes.failing.is_accepted("undone-00"), "the wait has an end");
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_do_not_answer_delay_no_namespace_whose_write_was_accepted() {
    let start = Instant::now();
    let begin = |namespace: &str| Some(write(namespace.into()));
    let mut writes = Writes::default();
    let wanted: BTreeSet<Box<str>> = names("hung", RETRIES_MAX).into_iter().chain(["open".into()]).collect();
    let mut times_s = Vec::new();
    while start.elapsed() < UNANSWERED * 2 {
        writes.need(wanted.clone());
        let (namespace, is_written) = writes.next(begin).await;
        match is_written {
            true => {
                times_s.push(start.elapsed().as_secs());
                writes.accepted(&namespace, format_args!("it"));
            }
            false => writes.failed(&namespace, format_args!("it"), &unanswered()),
        }
    }
    // The retries of the others take all their places.
    assert_eq!(times_s, (0..=UNANSWERED.as_secs() * 2).collect::<Vec<u64>>());
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_no_series_of_failures() {
    let mut writes = Writes::default();
    writes.need(names("hung", 1));
    let begin = |namespace: &str| Some(write(namespace.into()));
    let (namespace, is_written) = writes.next(begin).await;
    assert!(!is_written);
    writes.failed(&namespace, format_args!("it"), &unanswered());
    writes.pause();
    assert!(timeout(UNANSWERED * 10, writes.next(begin)).await.is_err(), "no write begins");
    assert!(writes.failing.contains(&namespace));
    writes.need(names("open", 1));
    assert!(!writes.failing.contains(&namespace), "the namespace needs no write any more");
    assert_eq!(writes.next(begin).await, ("open-00".into(), true));
}
