//! Encrypted connections: the right server is accepted, a wrong one refused.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use settled::Ledger;
use settled_ledger_postgres::{PostgresLedger, PostgresOptions};
use settled_test_services::postgres::{Postgres, Setup};

use crate::support::*;

/// An authority: its certificate, and one that it has signed for this host, with its key.
fn authority(host: &str) -> (String, (String, String)) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, format!("authority of {host}"));
    let key = KeyPair::generate().unwrap();
    let root = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let server_key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&server_key, &issuer).unwrap();
    (root, (signed.pem(), server_key.serialize_pem()))
}

#[tokio::test]
async fn the_right_server_is_accepted_and_a_wrong_one_refused() {
    let (root, certificate) = authority("localhost");
    let (other_root, _) = authority("localhost");
    let dir = tempfile::tempdir().unwrap();
    let (right, wrong) = (dir.path().join("right.pem"), dir.path().join("wrong.pem"));
    std::fs::write(&right, root).unwrap();
    std::fs::write(&wrong, other_root).unwrap();
    let server = Postgres::start_with(Setup { certificate: Some(certificate), ..Setup::default() }).unwrap();
    let (right, wrong) = (right.display(), wrong.display());
    let at = |host: &str, mode: &str| server.url().replace("127.0.0.1", host).replace("disable", mode);

    for (host, mode, accepted, encrypted) in [
        ("localhost", format!("verify-full&sslrootcert={right}"), true, true),
        ("localhost", format!("verify-full&sslrootcert={wrong}"), false, true),
        // The certificate is not this name's.
        ("127.0.0.1", format!("verify-full&sslrootcert={right}"), false, true),
        ("127.0.0.1", format!("verify-ca&sslrootcert={right}"), true, true),
        ("127.0.0.1", format!("verify-ca&sslrootcert={wrong}"), false, true),
        ("127.0.0.1", format!("require&sslrootcert={wrong}"), false, true),
        ("127.0.0.1", "require".to_owned(), true, true),
        ("127.0.0.1", "prefer".to_owned(), true, true),
        ("127.0.0.1", "disable".to_owned(), true, false),
        // The system knows no such authority.
        ("localhost", "verify-full".to_owned(), false, true),
    ] {
        let opened = PostgresLedger::connect(&at(host, &mode), PostgresOptions::default()).await;
        match opened {
            Ok(ledger) => {
                assert!(accepted, "{host} {mode} was accepted");
                ledger.time().await.unwrap();
                let sql = "SELECT bool_and(ssl)::text FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                           WHERE usename = 'settled'";
                assert_eq!(server.sql(sql).unwrap(), encrypted.to_string(), "{host} {mode}");
            }
            Err(error) => {
                let error = error.to_string();
                assert!(!accepted && error.to_lowercase().contains("certificate"), "{host} {mode}: {error}");
            }
        }
        tokio::time::sleep(SECOND / 10).await;
    }

    let plain = crate::support::server();
    let opened = PostgresLedger::connect(&plain.url().replace("disable", "require"), PostgresOptions::default()).await;
    let error = opened.unwrap_err().to_string();
    assert!(error.to_lowercase().contains("tls"), "{error}");
    open(&plain.url().replace("disable", "prefer")).await;
}
