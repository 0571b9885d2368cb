use super::*;

/// A mesh whose command line names the bridge `new0`.
fn mesh(directory: &tempfile::TempDir) -> Mesh {
    let state = State::open(directory.path()).expect("it is made");
    let subnet = "10.244.77.0/24".parse().expect("a network");
    let network = Network { bridge: "new0".to_owned(), state: state.path().to_owned(), subnet };
    Mesh { state, network }
}

#[test]
fn a_run_is_removed_from_the_network_that_it_has_recorded() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mesh = mesh(&directory);
    let (run, _alive) = mesh.state.claim(2, 9).expect("it can be written").expect("all are free");
    assert_eq!(mesh.network_of(run).name(run), "new0-2", "it has recorded nothing yet");
    for (line, name) in [("old0-2 shop cart", "old0-2"), ("old-bridge-2 shop cart", "old-bridge-2"), ("", "new0-2")] {
        mesh.state.set_about(run, line).expect("it can be written");
        assert_eq!(mesh.network_of(run).name(run), name, "{line}");
    }
}
