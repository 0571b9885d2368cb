use super::*;

#[test]
fn every_limit_can_be_set_to_its_own_default_and_shows_it() {
    for info in Limits::default().list() {
        let mut limits = Limits::default();
        limits.set(info.name, &info.default.to_string()).expect("a default is in range");
        let shown = limits.list().into_iter().find(|other| other.name == info.name).expect("it is listed");
        assert_eq!(shown.value, info.default, "{}", info.name);
    }
}

#[test]
fn setting_one_limit_changes_that_one_alone() {
    for info in Limits::default().list() {
        let mut limits = Limits::default();
        let value = info.default + 1;
        if limits.set(info.name, &value.to_string()).is_err() {
            continue;
        }
        let changed: Vec<_> = limits.list().into_iter().filter(|info| info.value != info.default).collect();
        assert_eq!(changed.len(), 1, "{}", info.name);
        assert_eq!((changed[0].name, changed[0].value), (info.name, value));
    }
}

#[test]
fn a_bad_limit_says_what_is_allowed() {
    let mut limits = Limits::default();
    assert_eq!(limits.set("max_pongs", "1"), Err(LimitError::Unknown("max_pongs".to_owned())));
    for value in ["0", "x", "-1", "4294967296", ""] {
        let error = limits.set("max_attempts", value).expect_err("it is not in range");
        assert_eq!(error.to_string(), format!("{value} is not a number from 1 to 100"));
    }
}

#[test]
fn the_memory_budget_is_half_of_the_container_and_no_other_limit_exceeds_it() {
    let limits = Limits::default().within_memory(Some(64 << 20), 2);
    assert_eq!(limits.relay.memory_budget_kib, 32 << 10);
    let worker_bytes = 16 << 20;
    assert!(limits.relay.max_replay_bytes + limits.relay.max_mirror_bytes <= worker_bytes / 4);
    assert!(limits.relay.max_buffered_bytes_per_client <= worker_bytes / 2);

    let unlimited = Limits::default().within_memory(None, 1);
    assert_eq!(unlimited.relay.memory_budget_kib, UNLIMITED_BUDGET_KIB);
    assert_eq!(unlimited.relay.max_replay_bytes, Limits::default().relay.max_replay_bytes);
}

#[test]
fn a_small_container_remembers_as_many_destinations_as_fit_into_a_quarter_of_it() {
    let subjects = |bytes| Limits::default().within_memory(bytes, 1).relay.max_subjects;
    assert_eq!((subjects(Some(64 << 20)), subjects(Some(1 << 20))), (2_048, MIN_SUBJECTS));
    assert_eq!((subjects(Some(1 << 30)), subjects(None)), (10_000, 10_000));
}

#[test]
fn a_memory_budget_that_was_set_holds_whatever_the_container_has() {
    let mut limits = Limits::default();
    limits.set("memory_budget_kib", "20000").expect("it is in range");
    assert_eq!(limits.within_memory(Some(1 << 30), 1).relay.memory_budget_kib, 20_000);
}

#[test]
fn sockets_leave_an_eighth_of_the_open_files_and_other_workloads_leave_an_eighth_to_our_application() {
    let fitted = |files, workers| {
        let mut limits = Limits::default();
        limits.fit_open_files(files, workers);
        let relay = limits.relay;
        assert!(
            relay.max_outbound_connections + relay.max_inbound_connections + relay.max_identified_connections
                <= relay.max_sockets
        );
        (
            relay.max_sockets,
            relay.max_outbound_connections,
            relay.max_inbound_connections,
            relay.max_identified_connections,
        )
    };
    // The limits of each of two workers. Each connection of another client may need a second connection, to the
    // application. With these second connections, both workers together use at most three quarters of 1,024 files.
    assert_eq!(fitted(1_024, 2), (448, 256, 64, 128));
    assert_eq!(fitted(20_000, 1), (17_500, 10_000, 2_500, 5_000));
    assert_eq!(fitted(1 << 20, 1), (917_504, 16_000, 8_000, 16_000));
    assert_eq!(fitted(u64::MAX, 1), (1_000_000, 16_000, 8_000, 16_000));
}
