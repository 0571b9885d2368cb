use super::*;

#[test]
fn a_namespace_joins_its_mesh_and_no_other_one() {
    for mesh in Mesh::ALL {
        let marks: Vec<(String, String)> = mesh.annotations().into_iter().chain(mesh.labels()).collect();
        let joined: Vec<&str> = marks
            .iter()
            .filter(|(_, value)| value == "enabled" || value == "ambient")
            .map(|(name, _)| name.as_str())
            .collect();
        let expected: &[&str] = match mesh {
            Mesh::None => &[],
            Mesh::Leno => &["leno.dev/inject"],
            Mesh::Linkerd => &["linkerd.io/inject"],
            Mesh::Istio => &["istio-injection"],
            Mesh::Ambient => &["istio.io/dataplane-mode"],
            Mesh::Kuma => &["kuma.io/sidecar-injection"],
        };
        assert_eq!(joined, expected, "{mesh}");
    }
}

#[test]
fn every_mesh_has_a_target_and_a_namespace_of_its_own() {
    let mut targets: Vec<_> = Mesh::ALL.map(Mesh::target).to_vec();
    targets.sort();
    targets.dedup();
    assert_eq!(targets.len(), Mesh::ALL.len());
    assert_eq!(Mesh::None.namespace(), "leno-lab-none");
    assert_eq!(Mesh::Leno.namespace(), "leno-lab-leno");
}

#[test]
fn only_ambient_is_recognized_by_its_proxies() {
    assert_eq!(Mesh::Ambient.sign(), Some("app=ztunnel"));
    assert_eq!(Mesh::Istio.sign(), Mesh::Istio.control_labels());
    assert_eq!(Mesh::None.sign(), None);
}
