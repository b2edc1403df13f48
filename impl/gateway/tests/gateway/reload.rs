//! A configuration that is read again.

use settled_gateway::{Config, GatewayOptions, Reload, Told};

use crate::support::*;

#[tokio::test]
async fn a_new_configuration_counts_from_now_on_and_a_bad_one_never() {
    let (server, upstream) = server().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("settled.toml");
    let with = |text: &str| std::fs::write(&file, format!("upstream = \"http://{upstream}\"\n{text}")).unwrap();
    with("");
    let config = Config::load(&file).unwrap();
    let engine = engine(&config, &ledger()).await;
    let reload = Reload { file: file.clone(), adapt: Box::new(|config| config) };
    let gateway = start(GatewayOptions { config, reload: Some(reload), engine }).await;
    let status = async || post(&gateway, "/charges", "").await.status;
    assert_eq!(status().await, 201);

    let under_way = tokio::spawn(raw(gateway.address, request("/gated", "\"k\"", "", "{}")));
    until(|| server.effects("/gated") == 1).await;
    with("[[routes]]\npath = \"/charges\"\nkey = \"required\"");
    gateway.tell.send(Told::Reload).unwrap();
    for _ in 0..3000 {
        if status().await == 400 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(status().await, 400);

    let bad = [
        "[[routes]]\npath = \"/charges\"\nkey = \"sometimes\"",
        "upstream_ca = \"/nowhere\"",
        // With other keys, a repeat would be a new request.
        "scope = \"other\"",
        "[gateway]\nprincipal_headers = [\"X-User\"]",
    ];
    for text in bad {
        with(text);
        gateway.tell.send(Told::Reload).unwrap();
        for _ in 0..20 {
            assert_eq!(status().await, 400, "{text} changes something");
        }
    }
    server.gate.0.add_permits(1);
    assert_eq!(under_way.await.unwrap().status, 200, "what is under way goes on");
}

#[test]
fn errors_name_the_line_and_what_is_allowed() {
    for (text, problem) in [
        ("\nlisten = 5", "settled.toml:2: "),
        ("x = 1", "settled.toml:1: "),
        ("upstream = \"ftp://x\"", "settled.toml:1: the upstream must be `https://HOST`"),
        ("[limits]\nbody_bytes = \"many\"", "settled.toml:2: "),
        ("[gateway]\nconflict_status = 500", "write 422 or 409"),
        ("[gateway]\n\nin_flight = \"maybe\"", "settled.toml:3: "),
        ("[[routes]]\npath = \"v1\"", "settled.toml:1: `path` can't be `v1`"),
        ("[[routes]]\npath = \"/a/**/b\"", "`**` at the end"),
        ("[[routes]]\npath = \"/a\"\nmethods = [\"post\"]", "`post` in `methods`"),
        ("[[routes]]\npath = \"/a\"\nkind = \"keyed\"", "`remembers` is missing"),
        ("[[routes]]\npath = \"/a\"\nremembers = \"1h\"", "belongs to `kind = \"keyed\"`"),
        ("[[routes]]\npath = \"/a\"\nkind = \"keyed\"\nremembers = \"48h\"", "`retention` must not be shorter"),
        ("[[routes]]\npath = \"/a\"\nkind = \"observable\"", "`settling` is missing"),
        (
            "[[routes]]\npath = \"/a\"\nkind = \"observable\"\nsettling = \"1s\"\nobserve = { http = \"https://x/y\" }",
            "the same about every request",
        ),
        (
            "[[routes]]\npath = \"/a\"\n\n[[routes]]\npath = \"/a\"",
            "settled.toml:4: another route has the name `POST /a`",
        ),
        ("[[routes]]\npath = \"/a\"\nstatuses = { done = [500], busy = [500] }", "names 500 twice"),
        ("[[routes]]\npath = \"/a\"\nretention = \"soon\"", "settled.toml:3: "),
    ] {
        let error = Config::parse("settled.toml".as_ref(), text).unwrap_err().to_string();
        assert!(error.contains(problem), "{text:?}: {error}");
    }
}
