//! `settled.toml`: what is accepted, and what an error says.

use std::time::Duration;

use settled_mcp::Config;
use settled_mcp::config::{KeyFrom, Kind, Repeats};

fn parse(text: &str) -> Result<Config, String> {
    Config::parse("dir/settled.toml".as_ref(), text).map_err(|error| error.to_string())
}

/// An error names the file, the line, the field, and what is allowed.
#[track_caller]
fn refused(text: &str, line: usize, parts: &[&str]) {
    let error = parse(text).expect_err("refused");
    assert!(error.starts_with(&format!("dir/settled.toml:{line}: ")), "{error}");
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_full_configuration() {
    let config = parse(
        r#"
        scope = "shop"
        ledger = "/var/lib/settled"
        [defaults]
        window = "12h"
        timeout = "5m"
        repeat = "new-after-delivery"
        slow_answer = "2s"
        retry_doubt = "20s"
        [tools.charge]
        key = ["order_id", "customer"]
        errors = "final"
        repeat = "replay"
        window = "48h"
        timeout = "30s"
        [tools.pay]
        kind = "deduplicates"
        pass_key_as = "idempotency_key"
        limit = "24h"
        [tools.read]
        kind = "read-only"
        [tools.note]
        guard = false
        "#,
    )
    .unwrap();
    assert_eq!(config.scope.as_deref(), Some("shop"));
    assert_eq!(config.ledger.as_deref(), Some("/var/lib/settled"));
    assert_eq!(config.defaults.slow_answer, Duration::from_secs(2));
    assert_eq!(config.defaults.retry_doubt, Duration::from_secs(20));
    let charge = &config.tools["charge"];
    assert_eq!(charge.key, Some(KeyFrom::Arguments(vec!["customer".to_owned(), "order_id".to_owned()])));
    assert_eq!((charge.repeat, charge.answers.errors_final), (Some(Repeats::Replay), true));
    assert_eq!((charge.retention.window, charge.timeout), (Duration::from_secs(172_800), Duration::from_secs(30)));
    let pay = &config.tools["pay"];
    let (limit, margin) = (Duration::from_secs(86_400), Duration::from_secs(60));
    assert_eq!(pay.kind, Kind::Deduplicates { limit, margin });
    assert_eq!(pay.pass_key_as.as_deref(), Some("idempotency_key"));
    // A tool must not meet its key again as a new operation before it has forgotten the old one.
    assert_eq!(pay.retention.window, limit);
    assert_eq!(pay.repeat, Some(Repeats::NewAfterDelivery));
    assert_eq!((&config.tools["read"].kind, &config.tools["note"].kind), (&Kind::Passed, &Kind::Passed));
}

#[test]
fn nothing_is_a_configuration_too() {
    let config = parse("").unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.defaults.window, Duration::from_secs(86_400));
    assert_eq!(config.defaults.timeout, Duration::from_secs(600));
}

#[test]
fn unknown_fields_and_wrong_types() {
    refused("scoop = 'x'", 1, &["scoop", "scope", "ledger", "tools"]);
    refused("\n[tools.charge]\nkeys = ['a']", 3, &["keys", "`key`"]);
    refused("[defaults]\nwindows = '1h'", 2, &["windows", "`window`"]);
    refused("[tools.charge]\n\nguard = 'yes'", 3, &["string", "boolean", "guard"]);
    refused("[tools.charge]\nkey = 'order_id'", 2, &["names no argument", "key", "`{order_id}`"]);
    refused("[tools.charge]\nwindow = 24", 2, &["24", "string", "window"]);
    refused("scope = ", 1, &[]);
    refused("scope = 'a'\nscope = 'b'", 2, &["scope", "duplicate"]);
}

#[test]
fn values_that_mean_nothing() {
    refused("scope = ''", 1, &["`scope`", "empty"]);
    refused("ledger = ''", 1, &["`ledger`", "directory"]);
    refused("[defaults]\nwindow = '0s'", 2, &["`defaults.window`", "at least"]);
    refused("[defaults]\ntimeout = '-5m'", 2, &["`defaults.timeout`", "10m"]);
    refused("[defaults]\nslow_answer = 'soon'", 2, &["`defaults.slow_answer`"]);
    refused("[defaults]\nrepeat = 'always'", 2, &["`defaults.repeat`", "`replay`", "`new-after-delivery`"]);
    refused(
        "[tools.a]\nkind = 'magic'",
        2,
        &["`tools.a.kind`", "`opaque`", "`deduplicates`", "`idempotent`", "`read-only`"],
    );
    refused("[tools.a]\nerrors = 'maybe'", 2, &["`tools.a.errors`", "`final`"]);
    refused("[tools.a]\nkey = []", 2, &["`tools.a.key`", "at least one"]);
    refused("[tools.a]\nkey = ['x', 'x']", 2, &["`tools.a.key`", "twice"]);
    refused("[tools.a]\nkey = ['']", 2, &["`tools.a.key`", "empty"]);
    refused("[tools.a]\nkind = 'transactional'", 2, &["transactional", "no part of", "`observable`"]);
}

#[test]
fn contradictions() {
    refused("[tools.a]\nguard = true\nkind = 'read-only'", 2, &["`tools.a.guard`", "leave out"]);
    refused("[tools.a]\nkind = 'opaque'\nguard = false", 3, &["`tools.a.guard`"]);
    refused("[tools.a]\nguard = false\nkey = ['x']", 3, &["`tools.a.key`", "unguarded"]);
    refused("[tools.a]\nkind = 'idempotent'\ntimeout = '1m'", 3, &["`tools.a.timeout`", "unguarded"]);
    refused("[tools.a]\nlimit = '1h'", 2, &["`tools.a.limit`", "deduplicates"]);
    let pay = "[tools.a]\nkind = 'deduplicates'\n";
    refused(&format!("{pay}limit = '1h'"), 1, &["`tools.a.pass_key_as`", "missing"]);
    refused(&format!("{pay}pass_key_as = 'k'"), 1, &["`tools.a.limit`", "missing"]);
    let pay = "[tools.a]\nkind = 'deduplicates'\npass_key_as = 'k'\nlimit = '1h'\n";
    refused(&format!("{pay}margin = '1h'"), 5, &["`tools.a.margin`", "shorter"]);
    refused(&format!("{pay}key = ['k']"), 3, &["`tools.a.pass_key_as`", "key"]);
    refused(&format!("{pay}window = '30m'"), 5, &["`tools.a.window`", "limit"]);
    refused("[tools.a]\nkind = 'deduplicates'\npass_key_as = 'k'\nlimit = '30s'", 4, &["margin"]);
}

#[test]
fn a_file_that_is_not_there() {
    let error = Config::load("/nonexistent/settled.toml".as_ref()).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/settled.toml: can't be read"), "{error}");
}

#[test]
fn keys_by_template_and_what_is_ephemeral() {
    let config = parse(
        "[tools.a]\nkey = '{customer.id}:{order}'\nephemeral = ['timestamp', '/auth/token']\npass_key_as = 'k'\n\
         [tools.b]\nephemeral = ['/a~1b/c']",
    )
    .unwrap();
    let Some(KeyFrom::Template(template)) = &config.tools["a"].key else { panic!("a template") };
    assert_eq!(template.text(), "{customer.id}:{order}");
    assert_eq!(template.arguments(), [vec!["customer".to_owned(), "id".to_owned()], vec!["order".to_owned()]]);
    assert_eq!((config.tools["a"].kind.clone(), config.tools["a"].repeat), (Kind::Opaque, Some(Repeats::Replay)));
    assert_eq!(config.tools["b"].ephemeral[0].steps(), ["a/b", "c"]);

    refused("[tools.a]\nkey = 'order'", 2, &["`tools.a.key`", "names no argument"]);
    refused("[tools.a]\nkey = '{order'", 2, &["`tools.a.key`", "without its partner"]);
    refused("[tools.a]\nkey = '{$key}'", 2, &["`tools.a.key`", "name of an argument"]);
    refused("[tools.a]\nkey = 7", 2, &["`tools.a.key`", "`[\"order_id\"]`"]);
    refused("[tools.a]\nkey = [7]", 2, &["`tools.a.key`", "a list of arguments' names"]);
    refused("[tools.a]\nephemeral = ['']", 2, &["`tools.a.ephemeral`", "empty name"]);
    for key in ["['t']", "'{t}'", "'{t.x}'"] {
        refused(&format!("[tools.a]\nkey = {key}\nephemeral = ['t']"), 3, &["`tools.a.ephemeral`", "part of `key`"]);
    }
    refused("[tools.a]\nkey = '{k}'\npass_key_as = 'k'", 3, &["`tools.a.pass_key_as`", "also named in `key`"]);
    refused("[tools.a]\nguard = false\nephemeral = ['t']", 3, &["`tools.a.ephemeral`", "unguarded"]);
    refused("[tools.a]\nkind = 'read-only'\npass_key_as = 'k'", 3, &["`tools.a.pass_key_as`", "unguarded"]);
}

#[test]
fn how_long_the_client_waits() {
    let config =
        parse("status_tool = true\ntasks = true\n[defaults]\nclient_timeout = '60s'\nkeep_alive = true").unwrap();
    assert_eq!(config.defaults.client_timeout, Some(Duration::from_secs(60)));
    assert!(config.defaults.keep_alive && config.status_tool && config.tasks);
    refused("[defaults]\nclient_timeout = '1 apple'", 2, &["`defaults.client_timeout`", "span of time"]);
    refused("[defaults]\nkeep_alive = true", 2, &["`defaults.keep_alive`", "`client_timeout`"]);
}
