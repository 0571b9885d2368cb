use super::*;

#[test]
fn a_run_is_listed_with_its_network_namespace_while_it_lives() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = State::open(directory.path()).expect("a state");
    let (number, alive) = state.claim(2, 9).expect("a lock").expect("a free number");
    state.set_about(number, &Running::line("leno0-2", "shop", "cart")).expect("a file");
    let run =
        Running { namespace: "shop".to_owned(), service: "cart".to_owned(), network: "/var/run/netns/leno0-2".into() };
    assert_eq!(list(directory.path()), [run]);
    drop(alive);
    assert_eq!(list(directory.path()), []);
    assert_eq!(list(Path::new("/nowhere")), []);
}

#[test]
fn a_line_of_another_form_is_no_run() {
    assert_eq!(Running::parse("leno0-2 shop"), None);
}

#[test]
fn a_list_of_the_runs_creates_no_file_or_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    assert_eq!(list(directory.path()), []);
    assert_eq!(directory.path().read_dir().expect("a directory").count(), 0);
    let run = directory.path().join("runs/2");
    std::fs::create_dir_all(&run).expect("a directory");
    std::fs::write(run.join("about"), Running::line("leno0-2", "shop", "cart")).expect("a file");
    assert_eq!(list(directory.path()), [], "a run without a lock is dead");
    assert!(!run.join("lock").exists() && !directory.path().join("manifests").exists());
}
