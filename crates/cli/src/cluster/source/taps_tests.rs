use super::*;

/// The ends of taps: after how many seconds, and the reason that the proxy names; `None` if the connection breaks off.
type Ends<'a> = &'a [(u64, Option<&'a str>)];

/// Opens taps that end like this, and then a tap that ends without a reason after a day. Returns the result, and the
/// sentences about the ends.
async fn kept_open(ends: Ends<'_>) -> (Result<(), ClusterError>, Vec<String>) {
    let (mut ends, mut gaps) = (ends.iter(), Vec::new());
    let tap = async || match ends.next() {
        Some((seconds, reason)) => {
            sleep(Duration::from_secs(*seconds)).await;
            match reason {
                Some(reason) => Ok(Some((*reason).to_owned())),
                None => Err(ClusterError::new("the connection ended", "see its log")),
            }
        }
        None => {
            sleep(Duration::from_secs(86_400)).await;
            Ok(None)
        }
    };
    let ended = keep_open("web-1", tap, |gap| gaps.push(gap)).await;
    (ended, gaps)
}

#[tokio::test(start_paused = true)]
async fn a_tap_is_opened_again_at_the_proxys_time_limit_and_not_if_it_fails_at_once() {
    let gap = |minutes: u64| {
        format!("the tap of web-1 ended after {minutes} min; trying to open it again; calls in between are not shown")
    };
    let closed = closed("web-1");
    assert_eq!(kept_open(&[]).await, (Ok(()), vec![closed.clone()]));
    let ends = [(3_610, None), (3_610, None), (600, None)];
    assert_eq!(kept_open(&ends).await, (Ok(()), vec![gap(60), gap(60), gap(10), closed]));
    let (ended, gaps) = kept_open(&[(3_610, None), (7, None)]).await;
    assert_eq!((ended.map_err(|error| error.what), gaps), (Err("the connection ended".to_owned()), vec![gap(60)]));
}

#[tokio::test(start_paused = true)]
async fn the_reason_that_a_proxy_names_is_told() {
    const UNREAD: Option<&str> = Some("the client read nothing for 30 s");
    let (ended, gaps) = kept_open(&[(130, UNREAD), (31, UNREAD)]).await;
    let gap = "the tap of web-1 ended after 2 min, because the client read nothing for 30 s; trying to open it again; \
               calls in between are not shown";
    assert_eq!(gaps, [gap]);
    let what = "the proxy of web-1 ended the tap: the client read nothing for 30 s";
    assert_eq!(ended.map_err(|error| error.what), Err(what.to_owned()));
}

#[test]
fn the_reason_stands_in_a_line_of_its_own() {
    assert_eq!(reason(r#"{"dropped":3,"ended":"it is\u001b late"}"#).as_deref(), Some("it is? late"));
    for other in [r#"{"dropped":3}"#, r#"{"time":"x","ended":"no"}"#, r#"{"dropped":"#, ""] {
        assert_eq!(reason(other), None, "{other}");
    }
}
