use super::*;

#[test]
fn istio_keeps_http1_between_its_sidecars_and_the_other_meshes_do_not() {
    assert_eq!(Protocol::Http1.mesh_wire(TargetKind::Istio), Wire::Http1);
    for kind in [TargetKind::Consul, TargetKind::Kuma, TargetKind::EnvoyMesh, TargetKind::HaproxyMesh] {
        assert_eq!(Protocol::Http1.mesh_wire(kind), Wire::Http2, "{kind}");
    }
}

#[test]
fn every_mesh_carries_other_protocols_as_they_are() {
    for kind in TargetKind::ALL {
        let wires = [Protocol::Grpc, Protocol::Http2, Protocol::Tcp].map(|protocol| protocol.mesh_wire(kind));
        assert_eq!(wires, [Wire::Http2, Wire::Http2, Wire::Opaque], "{kind}");
    }
}
