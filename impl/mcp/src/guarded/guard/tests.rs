use super::*;

fn config(text: &str) -> Config {
    Config::parse("settled.toml".as_ref(), text).unwrap()
}

fn claims(read_only: Option<bool>, idempotent: Option<bool>, destructive: Option<bool>) -> Annotations {
    Annotations { read_only, idempotent, destructive, ..Annotations::default() }
}

fn ends_of(decision: Decision) -> Option<Ends> {
    match decision {
        Decision::Pass | Decision::Watch => None,
        Decision::Guard(terms) => Some(terms.policy(Origin::Arguments).repeat.ends),
    }
}

#[test]
fn defaults_by_annotation() {
    let none = config("");
    let by = |claims: Option<Annotations>| ends_of(decide(&none, "t", claims.as_ref()));
    assert_eq!(by(Some(claims(Some(true), None, None))), None);
    assert_eq!(by(Some(claims(None, Some(true), Some(true)))), None);
    assert_eq!(by(Some(claims(None, Some(false), None))), Some(Ends::OnFailure));
    assert_eq!(by(Some(claims(Some(false), None, Some(true)))), Some(Ends::OnFailure));
    assert_eq!(by(Some(claims(Some(false), None, Some(false)))), Some(Ends::OnDelivery));
    assert_eq!(by(Some(Annotations::default())), Some(Ends::OnDelivery));
    assert_eq!(by(None), Some(Ends::OnDelivery));
    assert!(undeclared(&none, "t", &Annotations::default()));
    assert!(!undeclared(&none, "t", &claims(None, None, Some(true))));
}

#[test]
fn the_configuration_overrides() {
    let read = claims(Some(true), None, None);
    let by = |text: &str| ends_of(decide(&config(text), "t", Some(&read)));
    assert_eq!(by("[tools.t]\nguard = true"), Some(Ends::OnDelivery));
    assert_eq!(by("[tools.t]\nkind = 'opaque'\nrepeat = 'replay'"), Some(Ends::OnFailure));
    assert_eq!(by("[tools.t]\nkey = ['a']"), Some(Ends::OnFailure));
    assert_eq!(by("[tools.t]\nguard = false"), None);
    let harmful = claims(None, None, Some(true));
    let passed = config("[tools.t]\nkind = 'idempotent'");
    assert_eq!(decide(&passed, "t", Some(&harmful)), Decision::Pass);
    let fresh = config("[defaults]\nrepeat = 'new-after-delivery'\nwindow = '1h'");
    let Decision::Guard(terms) = decide(&fresh, "t", Some(&harmful)) else { panic!("guarded") };
    let policy = terms.policy(Origin::Arguments);
    assert_eq!(policy.repeat, Repeat { ends: Ends::OnDelivery, window: Some(3_600_000) });
    assert_eq!(terms.policy(Origin::Meta).repeat.ends, Ends::WithWindow);
    assert_eq!(policy.rules, settled_protocol::Rules::SOUND);
}

#[test]
fn tools_that_somebody_has_looked_at() {
    let digest = Digest::of(b"a");
    let seen = format!("seen = 'sha256:{digest}'\n");
    let now = |definition: &[u8]| Annotations { definition: Some(Digest::of(definition)), ..claims(None, None, None) };
    let read = config(&format!("[tools.t]\nkind = 'read-only'\n{seen}"));
    assert_eq!(decide_by_configuration(&read, "t"), None, "it has to be compared first");
    assert_eq!(decide(&read, "t", Some(&now(b"a"))), Decision::Pass);
    for other in [Some(now(b"b")), Some(Annotations::default()), None] {
        assert_eq!(ends_of(decide(&read, "t", other.as_ref())), Some(Ends::OnDelivery), "{other:?}");
    }
    let pay = "kind = 'deduplicates'\npass_key_as = 'id'\nlimit = '48h'\nkey = ['order']\nerrors = 'final'\n";
    let pay = config(&format!("[tools.t]\n{pay}{seen}"));
    let terms = |annotations: &Annotations| match decide(&pay, "t", Some(annotations)) {
        Decision::Guard(terms) => terms,
        other => panic!("{other:?}"),
    };
    let (same, other) = (terms(&now(b"a")), terms(&now(b"b")));
    assert!(matches!(same.tool, ToolKind::Deduplicates { .. }));
    assert_eq!(other.tool, ToolKind::Opaque);
    let errors_final = |terms: &Terms| terms.policy(Origin::Named).errors_final;
    assert!(errors_final(&same) && !errors_final(&other));
    // A repeated call is still recognised.
    assert_eq!(other.rule().key, same.rule().key);
    assert_eq!((other.retention, other.derived_keys_end), (same.retention, same.derived_keys_end));

    let guard = config("new_tools = 'guard'\n[tools.t]");
    let read = claims(Some(true), None, None);
    assert_eq!(ends_of(decide(&guard, "new", Some(&read))), Some(Ends::OnDelivery));
    assert_eq!(ends_of(decide(&guard, "new", Some(&claims(None, None, Some(true))))), Some(Ends::OnFailure));
    assert!(is_new(&guard, "new") && !is_new(&guard, "t") && !is_new(&config(""), "new"));
    assert_eq!(decide(&config(""), "new", Some(&read)), Decision::Pass);
}

#[test]
fn what_is_only_observed() {
    let observed = config("mode = 'observe'\n[tools.t]\n[tools.u]\nmode = 'enforce'\n[tools.r]\nkind = 'read-only'");
    for tool in ["t", "undeclared"] {
        assert_eq!(decide_by_configuration(&observed, tool), Some(Decision::Watch), "{tool}");
    }
    assert_eq!(decide(&observed, "r", None), Decision::Pass);
    assert!(matches!(decide(&observed, "u", None), Decision::Guard(_)));
    // What was guarded when it was sent is looked after all the same.
    assert!(matches!(enforced(&observed, "t", None), Decision::Guard(_)));
    assert_eq!(enforced(&observed, "undeclared", Some(&claims(Some(true), None, None))), Decision::Pass);
}

#[test]
fn two_definitions_of_one_name() {
    let (read, write) = (claims(Some(true), Some(true), None), claims(None, Some(true), Some(true)));
    assert_eq!(read.of_both(write), claims(Some(false), Some(true), Some(true)));
    let none = config("");
    assert_eq!(decide(&none, "t", Some(&read.of_both(read))), Decision::Pass);
    let odd = claims(Some(true), None, None).of_both(claims(None, None, None));
    assert!(matches!(decide(&none, "t", Some(&odd)), Decision::Guard(_)));
}

#[test]
fn deduplicating_tools() {
    let text = "[tools.t]\nkind = 'deduplicates'\npass_key_as = 'id'\nlimit = '48h'\nrepeat = 'replay'";
    let Some(Decision::Guard(terms)) = decide_by_configuration(&config(text), "t") else { panic!("guarded") };
    let policy = terms.policy(Origin::Arguments);
    let (limit, margin) = (48 * 3_600_000, 60_000);
    assert_eq!(policy.tool, ToolKind::Deduplicates { limit, margin, remembers_rejections: false });
    assert_eq!((policy.retry.total, policy.repeat.window), (limit, Some(limit)));
}

#[test]
fn scopes_of_commands() {
    let command = |parts: &[&str]| parts.iter().map(Into::into).collect::<Vec<std::ffi::OsString>>();
    let here = std::path::Path::new("/srv/a");
    let one = default_scope(&command(&["/usr/bin/node", "a b"]), here);
    assert!(one.starts_with("node-") && one.len() == "node-".len() + 12, "{one}");
    assert_ne!(one, default_scope(&command(&["/usr/bin/node", "a", "b"]), here));
    assert_eq!(one, default_scope(&command(&["/usr/bin/node", "a b"]), here));
    assert_ne!(one, default_scope(&command(&["/usr/bin/node", "a b"]), "/srv/b".as_ref()));
}
