//! A neighbour that attacks a mesh from its own Pod, with all attacks at once, for a given time.
//!
//! `neighbour ROLE SECONDS --proxy IP... --control IP...` attacks the Pods with these addresses. The roles:
//!
//! - `stranger`: has no certificate, and attacks every port.
//! - `member`: attacks through its own proxy.
//! - `insider`: gets a certificate as a proxy does. Then, without a proxy, connects directly to the ports of other
//!   Pods' proxies and of the control plane.
//! - `prober`: makes no attack. It sends probes to the attacked Pods, and prints the times until the answers.
//!
//! Every role waits for a file `go` beside the program, so that all roles begin and end together. At the end, an
//! attacker prints a line for each attack: the name of the attack, and the number of its attempts.
//!
//! Each attack is limited in connections and in rate. So if other clients lose calls, the reason is the attack, and not
//! a machine that is too small for the load.

mod certificate;
mod encrypted;
mod frames;
mod insider;
mod prober;
mod requests;
mod reviews;
mod sockets;
mod xds;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// The application's port to which a policy denies neighbours access.
const CLOSED_PORT: u16 = 50051;
/// The application's port that the policy leaves open to neighbours.
const OPEN_PORT: u16 = 50052;
/// Pause between two attempts of an attack.
const REST: Duration = Duration::from_millis(100);

/// Number of attempts of an attack.
type Count = Arc<AtomicU64>;

/// All attacks, and their counts.
struct Campaign {
    until: Instant,
    counts: Vec<(&'static str, Count)>,
    tasks: JoinSet<()>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Campaign {
    fn count(&mut self, name: &'static str) -> Count {
        let count = Count::default();
        self.counts.push((name, count.clone()));
        count
    }

    /// Runs the future `life` until the campaign ends.
    fn spawn(&mut self, life: impl Future<Output = ()> + Send + 'static) {
        let until = self.until.into();
        self.tasks.spawn(async move { tokio::time::timeout_at(until, life).await.unwrap_or_default() });
    }

    /// Starts `times` futures of `life` for each address, spread evenly over `time`. A thousand connections at once
    /// would keep the kernel from all other work.
    fn spawn_each<F>(&mut self, addresses: &[SocketAddr], times: u32, time: Duration, life: impl Fn(SocketAddr) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        for address in addresses.iter().copied() {
            for number in 0..times {
                let (start, life) = (time * number / times, life(address));
                self.spawn(async move {
                    tokio::time::sleep(start).await;
                    life.await;
                });
            }
        }
    }

    async fn end(mut self) {
        while self.tasks.join_next().await.is_some() {}
        for thread in self.threads {
            thread.join().expect("an attack's thread ends");
        }
        for (name, count) in self.counts {
            println!("{name} {}", count.load(Ordering::Relaxed));
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [who, seconds, rest @ ..] = &arguments[..] else {
        panic!("usage: neighbour stranger|member|insider|prober SECONDS --proxy IP.. --control IP..")
    };
    let seconds = seconds.parse().expect("a number of seconds");
    let (mut proxies, mut controls, mut is_control) = (Vec::new(), Vec::new(), false);
    for word in rest {
        match word.as_str() {
            "--proxy" => is_control = false,
            "--control" => is_control = true,
            ip => if is_control { &mut controls } else { &mut proxies }.push(ip.parse::<IpAddr>().expect("an address")),
        }
    }
    let go = std::env::current_exe().expect("a program has a file").with_file_name("go");
    while !go.exists() {
        tokio::time::sleep(REST).await;
    }
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut campaign = Campaign { until, counts: Vec::new(), tasks: JoinSet::new(), threads: Vec::new() };
    match who.as_str() {
        "stranger" => {
            sockets::attack(&mut campaign, &proxies, &controls);
            encrypted::attack(&mut campaign, &proxies, &controls);
            reviews::attack(&mut campaign, &controls);
            frames::attack(&mut campaign, &proxies);
        }
        "member" => {
            sockets::dial_ever_new_addresses(&mut campaign, &proxies);
            frames::call_what_policy_denies(&mut campaign, &proxies);
        }
        "insider" => insider::attack(&mut campaign, &proxies, &controls).await,
        "prober" => prober::probe(until, &proxies, &controls).await,
        who => panic!("{who} is neither stranger, member, insider nor prober"),
    }
    campaign.end().await;
}

fn at(ips: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    ips.iter().map(|ip| (*ip, port).into()).collect()
}
