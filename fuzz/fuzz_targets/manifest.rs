//! A manifest is a person's: any text becomes a mesh or problems that name a line of it.
#![no_main]

use std::net::SocketAddr;

use leno_model::manifest::{FINDINGS_MAX, SourceFile, parse_file};
use leno_model::mesh::Mesh;
use leno_model::translate::translate;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let file = SourceFile {
        path: "fuzz.yaml".to_owned(),
        text: text.to_owned(),
    };
    match parse_file(&file, "default") {
        Ok(manifest) => check_mesh(&translate(&manifest.objects, "default").mesh),
        Err(problems) => {
            assert!((1..=FINDINGS_MAX).contains(&problems.len()));
            for problem in problems {
                assert!(problem.place.mark.line >= 1 && problem.place.mark.column >= 1);
                assert!(!problem.to_string().contains('\n'), "{problem}");
            }
        }
    }
});

/// Whatever the objects were, clusters and endpoints are sorted and unique, and each is found by its name.
fn check_mesh(mesh: &Mesh) {
    assert!(mesh.clusters().is_sorted_by(|a, b| a.key < b.key));
    for cluster in mesh.clusters() {
        assert!(cluster.endpoints.is_sorted_by(|a, b| a.address < b.address));
        for endpoint in cluster.endpoints.iter().chain(&cluster.unready_endpoints) {
            let found = mesh.endpoint_by_address(endpoint.address);
            let ip = endpoint.address.ip().to_canonical();
            assert!(found.is_some_and(|(_, found)| found.address.ip().to_canonical() == ip));
        }
        let found = mesh.cluster_by_authority(cluster.key.to_string().as_bytes());
        assert_eq!(found.map(|found| &found.key), Ok(&cluster.key));
        for ip in &cluster.cluster_ips {
            assert!(
                mesh.cluster_by_address(SocketAddr::new(*ip, cluster.key.port))
                    .is_some()
            );
        }
    }
}
