use super::*;

#[test]
fn a_probe_is_a_port_and_the_time_of_the_kubelet() {
    let probe: TcpProbe = "8080/5s".parse().expect("a probe");
    assert_eq!((probe.port, probe.timeout()), (8080, Duration::from_secs(5)));
    for text in ["1/1s", "65535/10s"] {
        assert_eq!(text.parse::<TcpProbe>().expect("a probe").to_string(), text);
    }
    for text in ["", "8080", "8080/", "8080/1", "0/1s", "65536/1s", "+1/1s", "8080/0s", "8080/11s", "http/1s", "8080/s"]
    {
        assert_eq!(text.parse::<TcpProbe>(), Err(BadTcpProbe), "{text}");
    }
    assert_eq!(BadTcpProbe.to_string(), "write a port and a time of 1s to 10s, for example 8080/1s");
}
