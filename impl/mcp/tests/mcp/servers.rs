//! `settled.toml`: many servers, HTTP, limits, modes; what is accepted, and what an error says.

use std::time::Duration;

use settled_mcp::Config;
use settled_mcp::config::{
    ArgumentPath, Encrypt, Kind, LimitsConfig, Mode, NewTools, PickError, Principal, Repeats, UpstreamConfig, UrlConfig,
};

fn parse(text: &str) -> Result<Config, String> {
    Config::parse("dir/settled.toml".as_ref(), text).map_err(|error| error.to_string())
}

/// An error names the file, the line, the field, and what is allowed.
#[track_caller]
fn refused(text: &str, line: usize, parts: &[&str]) {
    let error = match parse(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error,
    };
    assert!(error.starts_with(&format!("dir/settled.toml:{line}: ")), "{text}\n{error}");
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    assert_eq!(error.lines().count(), 1, "{error}");
}

const TWO: &str = r#"
ledger = "/var/lib/settled"
mode = "observe"

[defaults]
window = "2h"
timeout = "1m"

[servers.shop]
command = ["npx", "shop-server", "--live"]
env = { SHOP_KEY = "k=1" }
scope = "shop-eu"
mode = "enforce"

[servers.shop.defaults]
repeat = "replay"
window = "3h"

[servers.shop.tools.charge]
kind = "opaque"
mode = "observe"

[servers.shop.tools.refund]

[servers.bank]
url = "https://bank.example/mcp"
"#;

#[test]
fn each_server_has_its_own() {
    let config = parse(TWO).unwrap();
    let shop = config.for_server("shop").unwrap();
    assert_eq!((shop.scope.as_deref(), shop.mode), (Some("shop-eu"), Mode::Enforce));
    assert_eq!(shop.ledger.as_deref(), Some("/var/lib/settled"));
    let defaults = &shop.defaults;
    assert_eq!((defaults.window, defaults.timeout), (Duration::from_secs(3 * 3600), Duration::from_secs(60)));
    assert_eq!(defaults.repeat, Some(Repeats::Replay));
    assert_eq!((shop.tools["charge"].mode, &shop.tools["charge"].kind), (Mode::Observe, &Kind::Opaque));
    assert_eq!((shop.tools["refund"].mode, shop.tools["refund"].retention.window), (Mode::Enforce, defaults.window));
    assert!(shop.servers.is_empty());
    let command = ["npx", "shop-server", "--live"].map(str::to_owned).to_vec();
    let env = [("SHOP_KEY".to_owned(), "k=1".to_owned())].into();
    assert_eq!(config.servers["shop"].upstream, UpstreamConfig::Command { command, env });

    let bank = config.for_server("bank").unwrap();
    assert_eq!((bank.mode, bank.defaults.repeat, bank.tools.len()), (Mode::Observe, None, 0));
    let UpstreamConfig::Url(server) = &config.servers["bank"].upstream else { panic!("a URL") };
    assert_eq!(**server, UrlConfig::new("https://bank.example/mcp".parse().unwrap()));
    let more = "headers = { X-Key = 'env:NO_SUCH_VARIABLE_HERE', X-Plain = 'a' }\nca = 'ca.pem'\nhttp_not_run = [503]";
    let config = parse(&format!("[servers.a]\nurl = 'https://a/'\n{more}")).unwrap();
    let UpstreamConfig::Url(mut server) = config.servers["a"].upstream.clone() else { panic!("a URL") };
    assert!(server.options().unwrap_err().to_string().contains("NO_SUCH_VARIABLE_HERE"));
    server.headers.remove(0);
    let options = server.options().unwrap();
    assert_eq!((options.headers["x-plain"].to_str().unwrap(), &options.not_run[..]), ("a", &[503][..]));
    assert_eq!(options.ca, Some("ca.pem".into()));
}

#[test]
fn scopes_that_nobody_chose() {
    let scope = |text: &str| parse(text).unwrap().for_server("a").unwrap().scope.unwrap();
    let by_command = scope("[servers.a]\ncommand = ['x', 'y']");
    assert!(by_command.starts_with("a-") && by_command.len() == "a-".len() + 12, "{by_command}");
    assert_eq!(by_command, scope("[servers.a]\ncommand = ['x', 'y']\n[servers.b]\ncommand = ['z']"));
    assert_ne!(by_command, scope("[servers.a]\ncommand = ['x y']"));
    let by_url = scope("[servers.a]\nurl = 'https://a/mcp'");
    assert_ne!(by_url, scope("[servers.a]\nurl = 'https://b/mcp'"));
}

#[test]
fn picking_one() {
    let config = parse(TWO).unwrap();
    let error = config.for_server("shoq").unwrap_err();
    assert_eq!(error.to_string(), "the configuration has no server `shoq`: it has `bank`, `shop`");
    assert!(matches!(config.only_server(), Err(PickError::Several { .. })));
    assert!(config.only_server().unwrap_err().to_string().contains("`bank`, `shop`"));
    let none = parse("").unwrap();
    assert_eq!(none.only_server(), Ok(None));
    assert!(none.for_server("x").unwrap_err().to_string().contains("[servers.x]"));
    let one = parse("[servers.a]\ncommand = ['x']").unwrap();
    assert_eq!(one.only_server().unwrap().unwrap().0, "a");
}

#[test]
fn servers_that_are_refused() {
    refused("[servers.a]", 1, &["`servers.a.command`", "missing", "`command = [", "`url = "]);
    refused("[servers.a]\ncommand = ['x']\nurl = 'https://x/'", 3, &["`servers.a.url`", "`command`"]);
    refused("[servers.a]\ncommand = []", 2, &["`servers.a.command`", "empty"]);
    refused("[servers.a]\ncommand = ['']", 2, &["`servers.a.command`", "empty"]);
    refused("[servers.a]\ncommand = 'x'", 2, &["command"]);
    refused("[servers.a]\nurl = 'shop'", 2, &["`servers.a.url`", "https://"]);
    refused("[servers.a]\nurl = 'ftp://shop/x'", 2, &["`servers.a.url`", "`https://`"]);
    refused("[servers.a]\nurl = 'https://shop/x#y'", 2, &["`servers.a.url`", "fragment"]);
    refused("[servers.a]\nurl = 'https://me:pw@shop/x'", 2, &["`servers.a.url`", "Authorization"]);
    refused("[servers.a]\nurl = 'https://x/'\nheaders = { 'a b' = 'c' }", 3, &["`servers.a.headers`", "`a b`"]);
    refused("[servers.a]\nurl = 'https://x/'\nhttp_not_run = [200]", 3, &["`servers.a.http_not_run`", "300"]);
    refused("[servers.a]\ncommand = ['x']\nca = 'x'", 3, &["`servers.a.ca`", "`url`"]);
    refused("[servers.a]\nurl = 'https://x/'\nenv = { A = 'b' }", 3, &["`servers.a.env`", "`command`"]);
    refused("[servers.a]\ncommand = ['x']\nenv = { 'A=B' = 'b' }", 3, &["`servers.a.env`", "`A=B`"]);
    refused("[servers.a]\ncommand = ['x']\nscope = ''", 3, &["`servers.a.scope`"]);
    refused("[servers.a]\ncommand = ['x']\nmode = 'watch'", 3, &["`servers.a.mode`", "`enforce`", "`observe`"]);
    refused("[servers.a]\ncommand = ['x']\ntool = {}", 3, &["unknown field", "tool"]);
    refused("[servers.'a b']\ncommand = ['x']", 1, &["`servers.a b`", "letters"]);
    refused("[servers.'..']\ncommand = ['x']", 1, &["`servers...`", "letters"]);
    refused("[servers.healthz]\ncommand = ['x']", 1, &["`servers.healthz`", "another"]);
    let tool = "[servers.a]\ncommand = ['x']\n[servers.a.tools.t]\n";
    refused(&format!("{tool}kind = 'x'"), 4, &["`servers.a.tools.t.kind`", "`opaque`"]);
    refused(&format!("{tool}outside = true\nirrevocable = true"), 4, &["`servers.a.tools.t`", "`opaque = \"ask\"`"]);
    refused(
        &format!("{tool}kind = 'observable'\nsettling = '1s'\n[servers.a.tools.t.observe]\nhttp = 'x'"),
        7,
        &["`servers.a.tools.t.observe.http`"],
    );
    let defaults = "[servers.a]\ncommand = ['x']\n[servers.a.defaults]\n";
    refused(&format!("{defaults}window = '1m'"), 4, &["`servers.a.defaults.window`", "`timeout`"]);
    // What is said of "the server" would be lost on a file that names its servers.
    refused("[tools.t]\n[servers.a]\ncommand = ['x']", 1, &["`tools.t`", "[servers.a.tools.t]"]);
    refused("scope = 's'\n[servers.a]\ncommand = ['x']", 1, &["`scope`", "[servers.a]"]);
}

#[test]
fn modes() {
    let mode = |text: &str| parse(text).unwrap().tools["t"].mode;
    assert_eq!(mode("[tools.t]"), Mode::Enforce);
    assert_eq!(mode("mode = 'observe'\n[tools.t]"), Mode::Observe);
    assert_eq!(mode("mode = 'observe'\n[tools.t]\nmode = 'enforce'"), Mode::Enforce);
    refused("mode = 'dry-run'", 1, &["`mode`", "`enforce`", "`observe`"]);
    refused("[tools.t]\nguard = false\nmode = 'observe'", 3, &["`tools.t.mode`", "unguarded"]);
}

#[test]
fn who_may_talk_over_http() {
    assert_eq!(parse("").unwrap().http, Default::default());
    let text = r#"
        [http]
        listen = "127.0.0.1:8080"
        allowed_origins = ["https://App.example", "http://localhost:3000/"]
        allowed_hosts = ["Tools.example", "tools.example:8443", "[::1]:80"]
        principal = { header = "X-User" }
        pass_headers = ["X-Request-Id"]
        reauthorise = "10s"
        sessions = 50
        sessions_per_principal = 5
        idle_timeout = "5m"
    "#;
    let http = parse(text).unwrap().http;
    assert_eq!(http.listen.unwrap().port(), 8080);
    assert_eq!(http.allowed_origins, ["https://app.example", "http://localhost:3000"]);
    assert_eq!(http.allowed_hosts, ["tools.example", "tools.example:8443", "[::1]:80"]);
    let Principal::Header(header) = &http.principal else { panic!("{:?}", http.principal) };
    assert_eq!((header.as_str(), http.pass_headers[0].as_str()), ("x-user", "x-request-id"));
    assert_eq!((http.sessions, http.sessions_per_principal), (50, 5));
    assert_eq!((http.reauthorise, http.idle_timeout), (Duration::from_secs(10), Duration::from_secs(300)));
    let principal = |text: &str| parse(&format!("[http]\nprincipal = {text}")).unwrap().http.principal;
    assert_eq!(principal("'authorization'"), Principal::Authorization);
    assert_eq!(principal("'none'"), Principal::None);

    refused("[http]\nlisten = '8080'", 2, &["`http.listen`", "127.0.0.1:8080"]);
    for bad in ["app.example", "https://app.example/x", "file:///x", "*", "null"] {
        refused(&format!("[http]\nallowed_origins = ['{bad}']"), 2, &["`http.allowed_origins`", "https://app.example"]);
    }
    for bad in ["", "*", "a@b", "https://a", "a/b", "a b"] {
        refused(&format!("[http]\nallowed_hosts = ['{bad}']"), 2, &["`http.allowed_hosts`", "tools.example"]);
    }
    for bad in ["'cookie'", "{ head = 'x' }", "{ header = 1 }", "true"] {
        refused(
            &format!("[http]\nprincipal = {bad}"),
            2,
            &["`http.principal`", "\"authorization\"", "\"none\"", "header"],
        );
    }
    refused("[http]\nprincipal = { header = 'a b' }", 2, &["`http.principal`", "`a b`"]);
    refused("[http]\npass_headers = ['Mcp-Session-Id']", 2, &["`http.pass_headers`", "protocol"]);
    refused("[http]\npass_headers = ['a b']", 2, &["`http.pass_headers`", "`a b`"]);
    refused("[http]\nsessions = 0", 2, &["`http.sessions`", "1"]);
    refused("[http]\nsessions = 5\nsessions_per_principal = 6", 3, &["`http.sessions_per_principal`", "5"]);
    refused("[http]\nidle_timeout = '0s'", 2, &["`http.idle_timeout`"]);
}

#[test]
fn how_much_may_be_asked_for() {
    assert_eq!(parse("").unwrap().limits, LimitsConfig::default());
    assert_eq!((LimitsConfig::default().frame_bytes, LimitsConfig::default().calls), (64 << 20, 4096));
    let text = "[limits]\nframe_bytes = '512KiB'\ncalls = 100\ncalls_per_session = 10\nkeys_per_scope = 5";
    let limits = LimitsConfig { frame_bytes: 512 << 10, calls: 100, calls_per_session: 10, keys_per_scope: Some(5) };
    assert_eq!(parse(text).unwrap().limits, limits);
    assert_eq!(parse("[limits]\ncalls = 7").unwrap().limits.calls_per_session, 7);
    let bytes = |text: &str| parse(&format!("[limits]\nframe_bytes = {text}")).unwrap().limits.frame_bytes;
    assert_eq!((bytes("8192"), bytes("'8192'"), bytes("'8 KiB'"), bytes("'1GiB'")), (8192, 8192, 8192, 1 << 30));
    for bad in ["'64MB'", "'x'", "'-1'", "1.5", "true", "-1", "''"] {
        refused(&format!("[limits]\nframe_bytes = {bad}"), 2, &["`limits.frame_bytes`", "64MiB"]);
    }
    refused("[limits]\nframe_bytes = 100", 2, &["`limits.frame_bytes`", "`4KiB`", "`1GiB`"]);
    refused("[limits]\ncalls = 0", 2, &["`limits.calls`", "between 1"]);
    refused("[limits]\ncalls = 5\ncalls_per_session = 6", 3, &["`limits.calls_per_session`", "(5)"]);
    refused("[limits]\nkeys_per_scope = 0", 2, &["`limits.keys_per_scope`", "at least 1"]);
}

#[test]
fn the_whole_example() {
    let config = parse(include_str!("support/settled.toml")).unwrap();
    assert_eq!(config.servers.keys().collect::<Vec<_>>(), ["files", "shop"]);
    let files = config.for_server("files").unwrap();
    assert_eq!((files.mode, files.tools["write_file"].mode), (Mode::Observe, Mode::Enforce));
    assert!(config.for_server("shop").unwrap().tools["charge"].confidential.is_any());
}

#[test]
fn what_is_confidential() {
    let tool = |lines: &str| format!("[encryption]\nkey_file = 'k'\n[tools.t]\n{lines}");
    let confidential = |lines: &str| parse(&tool(lines)).unwrap().tools["t"].confidential.clone();
    let steps = |paths: &[ArgumentPath]| paths.iter().map(|path| path.steps().join("|")).collect::<Vec<_>>();
    let both = confidential("encrypt = ['card.number', '/a.b/c~1d']\nredact = ['pin']");
    let Encrypt::Arguments(paths) = &both.encrypt else { panic!("{both:?}") };
    assert_eq!(
        (steps(paths), steps(&both.redact)),
        (vec!["card|number".to_owned(), "a.b|c/d".to_owned()], vec!["pin".to_owned()])
    );
    assert_eq!(confidential("encrypt = ['*']").encrypt, Encrypt::Everything);
    assert!(!confidential("").is_any());

    refused("[tools.t]\nencrypt = ['a']", 2, &["`tools.t.encrypt`", "[encryption]", "key_file"]);
    refused("[tools.t]\nredact = ['a']", 2, &["`tools.t.redact`", "[encryption]"]);
    refused("[encryption]", 1, &["`encryption.key_file`", "missing", "/dev/urandom"]);
    refused("[encryption]\nkey_file = ''", 2, &["`encryption.key_file`", "empty"]);
    refused(
        "[encryption]\nkey_file = 'b'\nold_key_files = ['a']",
        1,
        &["`encryption.digest_key_file`", "carried out again"],
    );
    assert!(parse("[encryption]\nkey_file = 'b'\nold_key_files = ['a']\ndigest_key_file = 'a'").is_ok());
    for (lines, part) in [
        ("encrypt = []", "empty"),
        ("encrypt = ['']", "`card.number`"),
        ("encrypt = ['a..b']", "`a..b`"),
        ("encrypt = ['a', 'a.b']", "a part of it"),
        ("encrypt = ['*', 'a']", "`*`"),
    ] {
        refused(&tool(lines), 4, &["`tools.t.encrypt`", part]);
    }
    refused(&tool("encrypt = ['a']\nredact = ['a.b']"), 5, &["`tools.t.redact`", "`encrypt`"]);
    refused(&tool("encrypt = ['*']\nredact = ['a']"), 5, &["`tools.t.redact`", "`encrypt"]);
    refused(&tool("encrypt = ['a']\nresource = 'x:{a}'"), 4, &["`tools.t.encrypt`", "`resource`"]);
    refused(&tool("encrypt = ['*']\nresource = 'x:{a}'"), 4, &["`tools.t.encrypt`", "`resource`"]);
    refused(&tool("redact = ['a']\nresource = 'x:{a.b}'"), 4, &["`tools.t.redact`", "`resource`"]);
    let again = "kind = 'deduplicates'\npass_key_as = 'k'\nlimit = '24h'\nredact = ['a']";
    refused(&tool(again), 7, &["`tools.t.redact`", "`encrypt`"]);
    refused(&tool("guard = false\nencrypt = ['a']"), 5, &["`tools.t.encrypt`", "unguarded"]);
}

#[test]
fn tools_that_were_looked_at() {
    let seen = |digest: &str| format!("new_tools = 'guard'\n[tools.t]\nseen = '{digest}'");
    let digest = "0123456789abcdef".repeat(4);
    let config = parse(&seen(&format!("sha256:{digest}"))).unwrap();
    assert_eq!((config.new_tools, config.tools["t"].seen.unwrap().to_string()), (NewTools::Guard, digest.clone()));
    for bad in ["", "sha256:", "sha256:12", &digest] {
        refused(&seen(bad), 3, &["`tools.t.seen`", "--describe"]);
    }
    refused("new_tools = 'refuse'", 1, &["`new_tools`", "`annotations`", "`guard`"]);
    let server =
        "new_tools = 'guard'\n[servers.a]\ncommand = ['x']\n[servers.b]\ncommand = ['x']\nnew_tools = 'annotations'";
    let config = parse(server).unwrap();
    let of = |name| config.for_server(name).unwrap().new_tools;
    assert_eq!((of("a"), of("b")), (NewTools::Guard, NewTools::Annotations));
}
