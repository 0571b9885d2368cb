use super::*;

fn meshes(image: &str) -> Vec<(Mesh, Version)> {
    let of = |mesh: Mesh, version: &str| (mesh, Version { target: mesh.target(), version: version.to_owned() });
    vec![of(Mesh::None, "no mesh"), of(Mesh::Leno, image)]
}

#[test]
fn the_image_comes_from_where_the_control_plane_comes() {
    let image_of = |control: &str| image(&meshes(control));
    assert_eq!(image_of("registry.example/mesh/leno-control:0.2.0"), "registry.example/mesh/leno:0.2.0");
    assert_eq!(image_of("leno-control:0.1.0"), "leno:0.1.0");
    assert_eq!(image_of("r.example/leno-control:0.2.0@sha256:ab"), "r.example/leno:0.2.0");
    assert_eq!(image_of("r.example/leno-control@sha256:ab"), USUAL_IMAGE);
    assert_eq!(image_of("registry.example/other:1"), USUAL_IMAGE);
    assert_eq!(image(&[]), USUAL_IMAGE);
}
