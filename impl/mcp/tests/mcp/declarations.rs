//! `settled.toml`: observers, resources, care, budgets and retention; what is accepted, and what an error says.

use std::time::Duration;

use settled::RetryBudget;
use settled_mcp::Config;
use settled_mcp::config::{Ask, Kind, Repeats, Retention};
use settled_observers::Way;

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

const CHARGE: &str = r#"
    [tools.charge]
    kind = "observable"
    settling = "30s"
    resource = "account:{account_id}"
    queue_timeout = "5m"
    outside = true
    irrevocable = true
    exclusive = true
    timeout = "20s"
    call_timeout = "1m"
    attempts = 3
    total = "10m"
    final_errors = [{ at = "/structuredContent/code", is = "card_declined" }]
    busy_errors = { code = -32001 }
    retry_after_at = "/data/retry_after"
    window = "2h"
    retry_horizon = "1h"
    expired = "refuse"
    tombstone = "10d"
    [tools.charge.observe]
    tool = "get_charge"
    arguments = { order_id = "{order_id}" }
    applied = { at = "/structuredContent/status", is = "charged" }
    not_applied = { at = "/structuredContent/status", is = ["absent", "refused"] }
    result = "/structuredContent"
    timeout = "5s"
    within = "10s"
    every = "2s"
    at_most_every = "10m"
    checks = 20
"#;

#[test]
fn everything_about_a_tool() {
    let config = parse(CHARGE).unwrap();
    let charge = &config.tools["charge"];
    let Kind::Observable { settling, observe } = &charge.kind else { panic!("{:?}", charge.kind) };
    assert_eq!((*settling, &charge.pass_key_as), (Duration::from_secs(30), &None));
    assert!(matches!(&observe.ask, Ask::Tool { name, allow_unannotated: false, .. } if name == "get_charge"));
    assert_eq!((observe.timeout, observe.within), (Duration::from_secs(5), Duration::from_secs(10)));
    assert_eq!((observe.every, observe.at_most_every), (Duration::from_secs(2), Duration::from_secs(600)));
    assert_eq!((observe.checks, charge.attempts), (20, Some(3)));
    assert_eq!((charge.call_timeout, charge.total), (Some(Duration::from_secs(60)), Some(Duration::from_secs(600))));
    assert_eq!((charge.resource.is_some(), charge.queue_timeout), (true, Some(Duration::from_secs(300))));
    assert_eq!((charge.answers.final_errors.len(), charge.answers.busy_errors.len()), (1, 1));
    let kept = Some(Duration::from_secs(10 * 86_400));
    assert_eq!(charge.retention, Retention { window: Duration::from_secs(7200), own_keys: kept, derived_keys: kept });
}

#[test]
fn every_way_to_ask() {
    let observe = |lines: &str| format!("[tools.a]\nkind = 'observable'\nsettling = '1s'\n[tools.a.observe]\n{lines}");
    let way = |lines: &str| match &parse(&observe(lines)).unwrap().tools["a"].kind {
        Kind::Observable { observe, .. } => observe.ask.clone(),
        other => panic!("{other:?}"),
    };
    let http = "http = 'https://bank/orders/{id}'\nheaders = { Authorization = 'Bearer env:BANK_TOKEN' }";
    assert!(matches!(way(http), Ask::Way(Way::Http(_))));
    let by_key = observe("http = 'https://bank/orders/{$key}'");
    refused(&by_key, 4, &["`tools.a.observe`", "pass_key_as"]);
    assert!(parse(&by_key.replace("[tools.a.observe]", "pass_key_as = 'k'\n[tools.a.observe]")).is_ok());
    // An equal wish would be seen as applied as soon as the first one is.
    let new_wishes = |observe: String| observe.replace("settling", "repeat = 'new-after-delivery'\nsettling");
    refused(&new_wishes(observe("http = 'https://bank/{id}'")), 3, &["`tools.a.repeat`", "{$key}"]);
    assert_eq!(parse(&observe("http = 'https://bank/{id}'")).unwrap().tools["a"].repeat, Some(Repeats::Replay));
    let sql = "sql = 'select 1 from orders where id = $1'\ndatabase = 'env:BANK'\nparameters = ['{id}']";
    assert!(matches!(way(sql), Ask::Way(Way::Sql(_))));
    assert!(matches!(way("command = ['ask', '--', '{id}']"), Ask::Way(Way::Command(_))));
    let seal = "[tools.a]\nkind = 'sealable'\npass_key_as = 'k'\npass_attempt_as = 'n'\n[tools.a.seal]\n\
                command = ['seal', '{$key}', '{$attempt}', '{$scope}']\napplied = { exit = 0 }\nsealed = { exit = 3 }";
    assert!(matches!(&parse(seal).unwrap().tools["a"].kind, Kind::Sealable { .. }));

    refused(&observe("every = '1s'"), 4, &["`tools.a.observe.tool`", "`http`", "`sql`", "`command`"]);
    refused(&observe("http = 'https://x/{id}'\ncommand = ['x']"), 6, &["`tools.a.observe.command`", "`http`"]);
    refused(&observe("http = 'https://x/{id}'\narguments = {}"), 6, &["`tools.a.observe.arguments`", "`tool`"]);
    refused(&observe("command = ['x', '{id}']\ndatabase = 'sqlite:x'"), 6, &["database", "`sql`"]);
    refused(&observe("http = 'https://x/y'"), 4, &["`tools.a.observe.http`", "the same about every call", "{$key}"]);
    refused(&observe("http = 'https://{id}/y'"), 5, &["`tools.a.observe.http`", "host"]);
    refused(&observe("http = 'https://x/{$id}'"), 5, &["{$id}", "not known"]);
    refused(&observe("http = 'https://x/{id'"), 5, &["partner"]);
    refused(&observe("sql = 'select $1'\nparameters = ['{id}']"), 4, &["`tools.a.observe.database`", "missing"]);
    refused(&observe("sql = 'select $1'\ndatabase = 'x'\nparameters = ['{id}']"), 5, &["`postgres://…`"]);
    refused(&observe("command = ['{id}']"), 5, &["name of a program"]);
    let tool = "tool = 'get'\n";
    refused(&observe(tool), 4, &["`tools.a.observe.arguments`", "missing"]);
    let tool = "tool = 'get'\narguments = { id = '{id}' }\n";
    refused(&observe(tool), 4, &["`tools.a.observe.applied`", "missing"]);
    let tool = format!("{tool}applied = {{ at = '/x', is = 1 }}\n");
    refused(&observe(&tool), 4, &["`tools.a.observe.not_applied`", "missing"]);
    refused(&observe(&format!("{tool}not_applied = {{ status = 404 }}")), 8, &["`status`"]);
    refused(&observe(&format!("{tool}not_applied = {{ att = 404 }}")), 8, &["`att`", "`at`"]);
    let tool = format!("{tool}not_applied = {{ at = '/x', is = 2 }}\n");
    refused(&observe(&format!("{tool}sealed = {{ at = '/x', is = 2 }}")), 9, &["`tools.a.observe.sealed`", "`seal`"]);
    refused(&observe(&format!("{tool}result = 'x'")), 9, &["`tools.a.observe.result`", "`/x`"]);
    refused(&observe(&format!("{tool}checks = 0")), 9, &["`tools.a.observe.checks`", "at least 1"]);
    refused(&observe(&format!("{tool}every = '1h'\nat_most_every = '1m'")), 10, &["shorter than `every`"]);
    refused(&observe(&tool.replace("'get'", "'a'")), 5, &["`tools.a.observe.tool`", "the tool itself"]);
    let guarded = format!("{}\n[tools.get]\nkind = 'opaque'", observe(&tool));
    refused(&guarded, 5, &["`tools.a.observe.tool`", "`get`", "must not change anything"]);
    assert!(parse(&guarded.replace("opaque", "read-only")).is_ok());

    refused(&seal.replace("{$scope}", "x"), 5, &["`tools.a.seal.command`", "{$scope}"]);
    refused(&seal.replace("sealed = ", "not_applied = "), 8, &["`tools.a.seal.not_applied`"]);
    refused(&seal.replace("command = [", "sql = '' #"), 6, &["`tools.a.seal.sql`", "only reads"]);
    refused(&seal.replace("pass_attempt_as = 'n'\n", ""), 1, &["`tools.a.pass_attempt_as`", "missing"]);
}

#[test]
fn what_belongs_to_a_kind() {
    refused("[tools.a]\nkind = 'observable'", 1, &["`tools.a.settling`", "missing"]);
    refused("[tools.a]\nkind = 'observable'\nsettling = '1s'", 1, &["`tools.a.observe`", "missing"]);
    refused("[tools.a]\nsettling = '1s'", 2, &["`tools.a.settling`", "observable"]);
    refused(
        "[tools.a]\nkind = 'opaque'\n[tools.a.observe]\nhttp = 'https://x/{id}'",
        3,
        &["`tools.a.observe`", "observable"],
    );
    refused("[tools.a]\nkind = 'observable'\nsettling = '1s'\n[tools.a.seal]", 4, &["`tools.a.seal`", "sealable"]);
    refused("[tools.a]\npass_attempt_as = 'n'", 2, &["`tools.a.pass_attempt_as`", "sealable"]);
    refused("[tools.a]\nguard = false\nresource = 'x'", 3, &["`tools.a.resource`", "unguarded"]);
    refused("[tools.a]\nguard = false\nattempts = 1", 3, &["`tools.a.attempts`", "unguarded"]);
    refused("[tools.a]\nattempts = 0", 2, &["`tools.a.attempts`", "at least 1"]);
    refused("[tools.a]\nretry_after_at = '/x'", 2, &["`tools.a.retry_after_at`", "`busy_errors`"]);
    refused("[tools.a]\nfinal_errors = {}", 2, &["`tools.a.final_errors`", "says nothing"]);
    let pay = "[tools.a]\nkind = 'deduplicates'\npass_key_as = 'k'\nlimit = '1h'\n";
    refused(&format!("{pay}total = '2h'"), 5, &["`tools.a.total`", "`limit`"]);
}

#[test]
fn tools_that_must_not_be_left_open() {
    let observe = "\n[tools.a.observe]\nhttp = 'https://bank/{id}'";
    let two = "[tools.a]\noutside = true\nirrevocable = true\n";
    refused(two, 2, &["`tools.a`", "outside and irrevocable", "`resource`", "`observe`", "`opaque = \"ask\"`"]);
    refused(&format!("{two}resource = 'x'"), 2, &["a way to find out", "`opaque = \"ask\"`"]);
    let observable = format!("{two}kind = 'observable'\nsettling = '1s'\n");
    refused(&format!("{observable}{observe}"), 2, &["add `resource`"]);
    for fine in [
        format!("{observable}resource = 'x:{{id}}'\n{observe}"),
        format!("{two}opaque = 'ask'"),
        format!("{two}resource = 'x'\nkind = 'deduplicates'\npass_key_as = 'k'\nlimit = '24h'"),
        "[tools.a]\noutside = true\nirrevocable = false".to_owned(),
    ] {
        assert!(parse(&fine).is_ok(), "{fine}\n{:?}", parse(&fine));
    }
    refused("[tools.a]\nexclusive = true\nirrevocable = true", 3, &["irrevocable and exclusive"]);
    refused(&format!("{two}opaque = 'hold'"), 4, &["`tools.a.opaque`", "`ask`"]);
    refused(&format!("{observable}opaque = 'ask'\n{observe}"), 6, &["`tools.a.opaque`", "leave it out"]);
    // What must not overlap, and names nothing finer, has its whole tool to itself.
    assert!(parse("[tools.a]\nexclusive = true").unwrap().tools["a"].resource.is_some());
    refused("[tools.a]\nqueue_timeout = '1s'", 2, &["`tools.a.queue_timeout`", "`resource`"]);
    refused("[tools.a]\nresource = ''", 2, &["`tools.a.resource`", "empty"]);
    refused("[tools.a]\nresource = 'x:{$key}'", 2, &["`tools.a.resource`", "{$key}", "not known"]);
}

#[test]
fn what_is_remembered() {
    let days = |days: u64| Some(Duration::from_secs(days * 86_400));
    let kept = |text: &str| {
        let retention = parse(&format!("[tools.a]\n{text}")).unwrap().tools["a"].retention;
        (retention.own_keys, retention.derived_keys)
    };
    assert_eq!(kept(""), (days(30), None));
    assert_eq!(kept("tombstone = '5d'"), (days(5), None));
    assert_eq!(kept("expired = 'refuse'"), (days(30), days(30)));
    assert_eq!(kept("expired = 'new'"), (None, None));
    refused("[tools.a]\nexpired = 'new'\ntombstone = '5d'", 3, &["`tools.a.tombstone`", "no meaning"]);
    refused("[tools.a]\nexpired = 'maybe'", 2, &["`tools.a.expired`", "`refuse`", "`new`"]);
    refused("[tools.a]\nrepeat = 'new-after-delivery'\nexpired = 'refuse'", 3, &["`tools.a.expired`", "new wish"]);

    refused("[tools.a]\nwindow = '5m'", 2, &["`tools.a.window`", "5m", "10m", "`timeout`", "carried out again"]);
    refused("[tools.a]\nwindow = '2h'\nretry_horizon = '3h'", 2, &["`tools.a.window`", "`retry_horizon`"]);
    refused("[tools.a]\ntimeout = '48h'", 2, &["`tools.a.window`", "1day", "2days"]);
    refused("[defaults]\nwindow = '5m'", 2, &["`defaults.window`", "`timeout`"]);
    refused("[defaults]\ntimeout = '25h'", 2, &["`defaults.window`"]);
    assert!(parse("[tools.a]\nwindow = '5m'\ntimeout = '1m'").is_ok());
    assert!(parse("[tools.a]\nwindow = '5m'\nretry_horizon = '1m'").is_ok());
}

#[test]
fn what_holds_for_the_whole_process() {
    let without = parse("").unwrap();
    assert_eq!((without.lease, without.patience, without.retries), (None, None, RetryBudget::default()));
    let config = parse("ledger = 'postgres://db/settled'\nlease = '30s'\nin_progress = 'answer'\npatience = '3s'\n[retries]\nbudget = '2.5%'\nburst = 7").unwrap();
    assert_eq!((config.lease, config.patience), (Some(Duration::from_secs(30)), Some(Duration::from_secs(3))));
    assert_eq!(config.retries, RetryBudget { per_mille: 25, burst: 7 });
    assert_eq!(config.ledger.as_deref(), Some("postgres://db/settled"));
    assert_eq!(parse("in_progress = 'answer'").unwrap().patience, Some(Duration::from_secs(1)));
    assert_eq!(parse("in_progress = 'wait'").unwrap().patience, None);
    assert_eq!(parse("[retries]\nbudget = '0%'\nburst = 0").unwrap().retries, RetryBudget { per_mille: 0, burst: 0 });
    assert_eq!(parse("metrics = '127.0.0.1:9464'").unwrap().metrics.unwrap().port(), 9464);
    refused("metrics = 'localhost'", 1, &["`metrics`", "`127.0.0.1:9464`"]);
    refused("lease = '10ms'", 1, &["`lease`", "`1s`"]);
    refused("in_progress = 'refuse'", 1, &["`in_progress`", "`wait`", "`answer`"]);
    refused("patience = '3s'", 1, &["`patience`", "in_progress"]);
    for bad in ["10", "101%", "x%", "-1%", "1.25%", "%", "+1%"] {
        refused(&format!("[retries]\nbudget = '{bad}'"), 2, &["`retries.budget`", "`10%`"]);
    }
}
