//! Fuzzes `:authority`, which a peer chooses: any bytes select a cluster, or get a short error in printable ASCII.
#![no_main]

use std::sync::LazyLock;

use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::Mesh;
use leno_model::translate::translate;
use libfuzzer_sys::fuzz_target;

static MESH: LazyLock<Mesh> = LazyLock::new(|| {
    let file =
        SourceFile { path: "echo.yaml".to_owned(), text: include_str!("../../examples/echo/echo.yaml").to_owned() };
    let manifest = parse_file(&file, "default").expect("the example has no mistake");
    translate(&manifest.objects, "default").mesh
});

fuzz_target!(|authority: &[u8]| {
    match MESH.cluster_by_authority(authority) {
        Ok(cluster) => {
            let again = MESH.cluster_by_authority(cluster.key.to_string().as_bytes());
            assert_eq!(again.map(|found| &found.key), Ok(&cluster.key));
        }
        Err(refusal) => {
            let text = refusal.to_string();
            assert!(text.len() < 512 && text.bytes().all(|b| (b' '..=b'~').contains(&b)), "{text:?}");
        }
    }
});
