use super::*;
use crate::cluster::clock::BootInstant;
use crate::cluster::scrape::Scrape;
use crate::cluster::source::tests::proxy_of;

const CART: &str =
    "direction=\"outbound\",dst_namespace=\"shop\",dst_service=\"cart\",dst_port=\"80\",grpc_service=\"shop.v1.Cart\"";
const BANK: &str = "direction=\"outbound\",dst_namespace=\"bank\",dst_service=\"payments\",dst_port=\"443\",grpc_service=\"bank.payments.v1.Payments\",grpc_method=\"Authorize\"";
const OWN: &str = "direction=\"inbound\",target_port=\"8080\",http_method=\"GET\"";

/// The figures of the workload `shop/web` with four methods, from two readings that are 10 s apart.
pub(in crate::cluster::stat::top) fn shop() -> Snapshot {
    board(&shop_page()).snapshot()
}

/// The figures of [`shop`], while the proxy of another workload does not answer.
pub(in crate::cluster::stat::top) fn shop_with_a_dead_proxy() -> Snapshot {
    let mut board = board(&shop_page());
    let (web, dead) = (proxy_of("web", "web-1"), proxy_of("mail", "mail-1"));
    board.take(News::Proxies([web, dead.clone()].into()));
    board.take(News::Silent(dead, "port 4191 of Pod shop/mail-1 gave no answer: refused".to_owned()));
    board.snapshot()
}

/// The figures of `count` methods `m.S/M000`, `m.S/M001` and so on. Each method has more calls than the previous
/// method.
pub(in crate::cluster::stat::top) fn many(count: usize) -> Snapshot {
    let line = |n: usize| {
        let labels = format!("direction=\"inbound\",target_port=\"80\",grpc_service=\"m.S\",grpc_method=\"M{n:03}\"");
        format!("leno_method_requests_total{{{labels}}} {}\n", 10 * (n + 1))
    };
    board(&(0..count).map(line).collect::<String>()).snapshot()
}

fn shop_page() -> String {
    format!(
        "leno_method_requests_total{{{OWN}}} 1000\n\
         leno_method_responses_total{{{OWN},classification=\"success\"}} 1000\n\
         leno_method_duration_seconds_bucket{{{OWN},le=\"0.002\"}} 1000\n\
         leno_method_duration_seconds_bucket{{{OWN},le=\"+Inf\"}} 1000\n\
         leno_method_requests_total{{{CART},grpc_method=\"Add\"}} 2000\n\
         leno_method_responses_total{{{CART},grpc_method=\"Add\",classification=\"failure\"}} 40\n\
         leno_method_responses_total{{{CART},grpc_method=\"Add\",classification=\"success\"}} 1960\n\
         leno_method_duration_seconds_bucket{{{CART},grpc_method=\"Add\",le=\"0.01\"}} 2000\n\
         leno_method_duration_seconds_bucket{{{CART},grpc_method=\"Add\",le=\"+Inf\"}} 2000\n\
         leno_method_messages_total{{{CART},grpc_method=\"Add\",side=\"request\"}} 2000\n\
         leno_method_messages_total{{{CART},grpc_method=\"Add\",side=\"response\"}} 2000\n\
         leno_method_time_left_seconds_bucket{{{CART},grpc_method=\"Add\",at=\"ended\",le=\"0.0\"}} 10\n\
         leno_method_time_left_seconds_count{{{CART},grpc_method=\"Add\",at=\"ended\"}} 2000\n\
         leno_method_requests_total{{{CART},grpc_method=\"Watch\"}} 0\n\
         leno_method_messages_total{{{CART},grpc_method=\"Watch\",side=\"response\"}} 4000\n\
         leno_method_requests_total{{{CART},grpc_method=\"Never\"}} 0\n\
         leno_method_requests_total{{{BANK}}} 100\n\
         leno_method_responses_total{{{BANK},classification=\"failure\"}} 40\n\
         leno_method_responses_total{{{BANK},classification=\"success\"}} 60\n\
         leno_method_duration_seconds_bucket{{{BANK},le=\"0.5\"}} 100\n\
         leno_method_duration_seconds_bucket{{{BANK},le=\"+Inf\"}} 100\n"
    )
}

/// A board with two readings of the proxy of `shop/web`: an empty page and, 10 s later, `page`.
fn board(page: &str) -> Board {
    let (mut board, start) = (Board::default(), BootInstant::now());
    board.take(News::Proxies([proxy_of("web", "web-1")].into()));
    read(&mut board, "web-1", "", start);
    read(&mut board, "web-1", page, start + 10 * SECOND);
    board
}

fn read(board: &mut Board, pod: &str, page: &str, at: BootInstant) {
    board.take(News::Page(proxy_of("web", pod), Scrape::parse(page), at));
}

fn calls(count: u32) -> String {
    format!("leno_method_requests_total{{{OWN}}} {count}")
}

fn calls_per_second(board: &mut Board) -> Option<f64> {
    board.snapshot().rows.first().map(|row| row.figures.calls_per_second)
}

#[test]
fn each_proxys_calls_are_divided_by_its_own_time_between_two_readings() {
    let (mut board, start) = (Board::default(), BootInstant::now());
    board.take(News::Proxies(["web-1", "web-2"].map(|pod| proxy_of("web", pod)).into()));
    read(&mut board, "web-1", &calls(1_000), start);
    read(&mut board, "web-2", &calls(1_000), start);
    assert_eq!((calls_per_second(&mut board), board.snapshot().counted), (None, 0));
    read(&mut board, "web-1", &calls(1_020), start + 2 * SECOND);
    assert_eq!((calls_per_second(&mut board), board.snapshot().counted), (Some(10.0), 1));
    read(&mut board, "web-2", &calls(1_200), start + 10 * SECOND);
    assert_eq!(calls_per_second(&mut board), Some(30.0));
    assert_eq!(board.snapshot().inbound.map(|figures| figures.calls_per_second), Some(30.0));
}

#[test]
fn a_restarted_proxy_counts_from_zero() {
    let (mut board, start) = (board(&calls(1_000)), BootInstant::now() + 10 * SECOND);
    read(&mut board, "web-1", &calls(1_000), start);
    read(&mut board, "web-1", &calls(40), start + 2 * SECOND);
    assert_eq!(calls_per_second(&mut board), Some(20.0));
}

#[test]
fn a_silent_proxy_has_no_figures_until_it_answers() {
    let (mut board, start) = (board(&calls(1_000)), BootInstant::now() + 10 * SECOND);
    read(&mut board, "web-1", &calls(1_000), start);
    board.take(News::Silent(proxy_of("web", "web-1"), "refused".to_owned()));
    let snapshot = board.snapshot();
    assert_eq!((snapshot.rows.len(), snapshot.silent), (0, vec!["refused".to_owned()]));
    read(&mut board, "web-1", &calls(1_040), start + 4 * SECOND);
    assert_eq!((calls_per_second(&mut board), board.snapshot().silent.len()), (Some(10.0), 0));
}

#[test]
fn idle_methods_stay_and_methods_that_were_never_called_do_not_appear() {
    let (mut board, start) = (board(&shop_page()), BootInstant::now() + 10 * SECOND);
    assert_eq!(board.snapshot().rows.len(), 4);
    read(&mut board, "web-1", &shop_page(), start);
    read(&mut board, "web-1", &shop_page(), start + SECOND);
    let rows = board.snapshot().rows;
    assert_eq!((rows.len(), rows.iter().all(Row::is_idle)), (4, true));
}

#[test]
fn a_pod_that_has_gone_takes_its_figures_with_it() {
    let mut board = board(&calls(1_000));
    board.take(News::Proxies([proxy_of("web", "web-2")].into()));
    let snapshot = board.snapshot();
    assert_eq!((snapshot.rows.len(), snapshot.proxies, snapshot.counted), (0, 1, 0));
    read(&mut board, "web-1", &calls(9_000), BootInstant::now());
    assert_eq!(board.snapshot().proxies, 1, "an answer that comes late is ignored");
}
