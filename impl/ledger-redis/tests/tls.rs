//! Connections over TLS.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{claim, key, open, store};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use settled::Ledger;
use settled_test_services::redis::Redis;

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

#[tokio::test]
async fn the_server_s_certificate_must_come_from_the_named_authority_and_be_for_its_name() {
    let (right, wrong) = (authority(), authority());
    let key_pair = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key_pair, &right).unwrap();
    let server = Redis::with().certificate(&certificate.pem(), &key_pair.serialize_pem()).start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, authority: &CertifiedIssuer<'_, KeyPair>| {
        let path = directory.path().join(name);
        std::fs::write(&path, authority.pem()).unwrap();
        path.display().to_string()
    };
    let (right, wrong) = (file("right.pem", &right), file("wrong.pem", &wrong));

    let ledger = open(&format!("{}?ca={right}", server.tls_url())).await.unwrap();
    assert!(store(&ledger, claim(&key(1))).await);
    // Those who wait for changes use TLS, too.
    ledger.changed(&key(1), None).await.unwrap();

    for url in [
        format!("{}?ca={wrong}", server.tls_url()),
        server.tls_url(),
        format!("{}?ca={right}", server.tls_url().replace("localhost", "127.0.0.1")),
    ] {
        let mut refused = open(&url).await.unwrap_err().to_string();
        // A machine that is busy with other things may not get as far as the certificate in time.
        for _ in 0..20 {
            if !refused.contains("does not answer") {
                break;
            }
            refused = open(&url).await.unwrap_err().to_string();
        }
        assert!(refused.contains("certificate") && !refused.contains("s3cret"), "{url}: {refused}");
    }
    // And TLS is not spoken to a port that does not speak it.
    assert!(open(&format!("{}?ca={right}", server.url().replace("redis:", "rediss:"))).await.is_err());
}
