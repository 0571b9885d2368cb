use super::*;

#[test]
fn a_log_that_is_removed_with_the_run_is_not_named() {
    let error = |kept_log| Error::ProxyNotReady { waited_s: 10, log_end: "no authority".to_owned(), kept_log };
    let start = "the proxy was not ready after 10 s; its log ends with: no authority; ";
    let removed = error(None).to_string();
    assert_eq!(removed, format!("{start}to keep the whole log, repeat the command with --proxy-log FILE"));
    let kept = error(Some("/run/kept.log".into())).to_string();
    assert_eq!(kept, format!("{start}the whole log is /run/kept.log"));
}
