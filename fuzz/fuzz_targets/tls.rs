//! Fuzzes a TLS handshake: the target splits and changes the handshake's bytes, delivers them at any moment, or
//! replaces them with garbage. Whatever a peer sends, the worst result must be an error.
#![no_main]

use std::sync::OnceLock;
use std::time::SystemTime;

use leno_identity::authority::{Authority, SVID_LIFETIME};
use leno_identity::bundle::TrustBundle;
use leno_identity::svid::Request;
use leno_identity::{TlsIdentity, Validity};
use leno_model::spiffe::SpiffeId;
use leno_proxy::worker::tls::Tls;
use libfuzzer_sys::fuzz_target;

const RAW_BYTES: usize = 65_536;

fn identity() -> &'static TlsIdentity {
    static IDENTITY: OnceLock<TlsIdentity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let now = SystemTime::now();
        let authority = Authority::create("example.org".parse().expect("a trust domain"), now).expect("an authority");
        let id: SpiffeId = "spiffe://example.org/ns/shop/sa/cart".parse().expect("an id");
        let request = Request::new(id.clone()).expect("a request");
        let certificate =
            authority.sign(&id, request.csr(), Validity::starting(now, SVID_LIFETIME), now).expect("a certificate");
        let bundle = TrustBundle::from_pem(authority.certificate_pem().as_bytes()).expect("a bundle");
        TlsIdentity::new(&request.accept(vec![certificate], &bundle, now).expect("an SVID"), &bundle)
    })
}

/// Delivers bytes to one end. Returns `false` if this end has failed, or if the bytes do not fit into its buffer.
fn deliver(bytes: &[u8], to: &mut Tls) -> bool {
    let mut raw = vec![0; RAW_BYTES];
    let start = to.lend_partial(&mut raw);
    let end = start + bytes.len();
    let Some(place) = raw.get_mut(start..end) else { return false };
    place.copy_from_slice(bytes);
    to.open(&mut raw[..end], &mut Vec::new()).is_ok()
}

fuzz_target!(|input: &[u8]| {
    let identity = identity();
    let mut ends =
        [Tls::connect(&identity.client, 8080).expect("a client"), Tls::accept(&identity.server).expect("a server")];
    let mut sealed = Vec::new();
    ends[0].seal(b"hello", &mut sealed);
    // Each step is three bytes: an action, an amount, and a value.
    for step in input.chunks_exact(3) {
        let from = usize::from(step[0] & 1);
        let amount = usize::from(step[1]) * 8 + 1;
        match step[0] >> 1 & 7 {
            // Deliver part of the pending output, unchanged or with one bit flipped.
            0..=3 => {
                let mut bytes: Vec<u8> = ends[from].pending().iter().copied().take(amount).collect();
                ends[from].advance(bytes.len());
                if step[0] & 0x80 != 0
                    && let Some(byte) = bytes.get_mut(usize::from(step[2]))
                {
                    *byte ^= 1;
                }
                deliver(&bytes, &mut ends[1 - from]);
            }
            // Deliver all of the pending output.
            4 => {
                let bytes = ends[from].pending().to_vec();
                ends[from].advance(bytes.len());
                deliver(&bytes, &mut ends[1 - from]);
            }
            // Deliver content, perhaps before the handshake has ended.
            5 | 6 => {
                let length = ends[from].seal(&vec![step[2]; amount], &mut sealed);
                let content: Vec<u8> = sealed[..length].to_vec();
                deliver(&content, &mut ends[1 - from]);
            }
            // Deliver a meaningless record.
            _ => {
                let content = vec![step[2]; amount % 64];
                let header = [20 + step[2] % 5, 3, 3, 0, content.len() as u8];
                deliver(&[header.as_slice(), &content].concat(), &mut ends[from]);
            }
        }
    }
});
