use super::*;
use crate::cluster::clock::BootInstant;
use crate::cluster::reader::News;
use crate::cluster::scrape::Scrape;
use crate::cluster::source::tests::proxy_of;

/// The readings of a mesh whose proxies counted these calls within one second. Each argument has a workload's name, and
/// its proxy's metrics page.
pub(in crate::cluster::dashboard) fn readings(pages: &[(&str, &str)]) -> Readings {
    let (mut readings, start) = (Readings::default(), BootInstant::now());
    let proxies = pages.iter().map(|(workload, _)| proxy_of(workload, "pod"));
    readings.take(News::Proxies(proxies.collect()));
    for (workload, page) in pages {
        readings.take(News::Page(proxy_of(workload, "pod"), Scrape::default(), start));
        readings.take(News::Page(proxy_of(workload, "pod"), Scrape::parse(page), start + SECOND));
    }
    readings
}

const WEB: &str = "request_total{direction=\"outbound\",dst_namespace=\"shop\",dst_service=\"cart\",dst_port=\"80\",tls=\"true\"} 8\n";
const CART: &str = "request_total{direction=\"inbound\",target_port=\"80\",tls=\"true\",client_id=\"spiffe://x/ns/shop/sa/web\"} 8\n\
                    request_total{direction=\"inbound\",target_port=\"80\",tls=\"no_identity\"} 2\n";

#[test]
fn a_service_and_its_workload_are_one_node_with_the_figures_of_the_side_that_counted_more() {
    let mesh = Mesh::of(&readings(&[("web", WEB), ("cart", CART)]));
    let (counts, by) = mesh.nodes["shop/cart"].counts();
    assert_eq!((counts.calls, by, counts.tls_share()), (10.0, "workload", Some(0.8)));
    let alone = Mesh::of(&readings(&[("web", WEB)]));
    assert_eq!(alone.nodes["shop/cart"].counts().1, "callers");
}

#[test]
fn an_edge_that_both_sides_count_is_one_edge() {
    let mesh = Mesh::of(&readings(&[("web", WEB), ("cart", CART)]));
    let edges = mesh.edges(|_, to| to == "shop/cart");
    assert_eq!(edges.iter().map(|edge| edge.from).collect::<Vec<_>>(), ["shop/web", "no identity"]);
}

#[test]
fn policies_deny_calls_and_an_applications_own_refusals_count_only_if_nobody_else_counts() {
    let denied = "inbound_http_authz_deny_total{target_port=\"80\",client_id=\"spiffe://x/ns/shop/sa/web\"} 4\n";
    let own =
        "response_total{direction=\"inbound\",target_port=\"80\",status_code=\"401\",classification=\"success\"} 3\n";
    let seen = "response_total{direction=\"outbound\",dst_namespace=\"shop\",dst_service=\"cart\",dst_port=\"80\",\
                status_code=\"403\",classification=\"success\"} 5\n";
    let (cart, web) = (format!("{CART}{denied}{own}"), format!("{WEB}{seen}"));
    let figures = |pages: &[(&str, &str)]| {
        let mesh = Mesh::of(&readings(pages));
        let edges = mesh.edges(|from, to| from == "shop/web" && to == "shop/cart");
        (mesh.nodes["shop/cart"].row("shop/cart").denied_per_second, edges[0].denied_per_second)
    };
    assert_eq!(figures(&[("web", &web), ("cart", &cart)]), (4.0, 4.0), "a policy of the called workload");
    assert_eq!(figures(&[("web", &web), ("cart", &format!("{CART}{own}"))]), (0.0, 0.0), "no policy");
    assert_eq!(figures(&[("web", &web)]), (5.0, 5.0), "only the caller is read");
}

#[test]
fn nodes_beyond_the_limit_are_left_out_and_counted() {
    let line = |n: usize| WEB.replace("cart", &format!("cart-{n}"));
    let page: String = (0..NODES_MAX + 5).map(line).collect();
    let mesh = Mesh::of(&readings(&[("web", &page)]));
    assert_eq!((mesh.nodes.len(), mesh.omitted), (NODES_MAX, 6));
}

#[test]
fn as_many_edges_as_the_limit_allows_are_kept_even_if_all_have_the_same_number_of_calls() {
    let counts = |calls: f64| Counts { calls, ..Counts::default() };
    let mut mesh = Mesh::default();
    for (caller, server) in (0..150).flat_map(|caller| (0..150).map(move |server| (caller, server))) {
        let (from, to) = (format!("caller-{caller}"), format!("server-{server}"));
        mesh.node(&from);
        mesh.node(&to);
        mesh.edge(from, to, counts(if caller == 149 { 2.0 } else { 1.0 }));
    }
    mesh.limit();
    assert_eq!(mesh.edges.len(), EDGES_MAX);
    let busiest = mesh.edges.keys().filter(|(from, _)| from == "caller-149").count();
    assert_eq!(busiest, 150, "the edges with the most calls are kept");
}
