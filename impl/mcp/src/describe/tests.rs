use super::*;
use proptest::prelude::*;

fn listing(tools: &[&str]) -> Listing {
    let mut listing = Listing::of(Some(r#"{"name":"shop","version":"1.0"}"#));
    tools.iter().for_each(|tool| listing.add(tool));
    listing
}

fn accepted(tools: &[&str]) -> (String, Config) {
    let listing = listing(tools);
    let text = template::write(&listing, None);
    check(&text, &listing, None).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
    let config = Config::parse("settled.toml".as_ref(), &text).unwrap();
    (text, config)
}

const CHARGE: &str = r#"{"name":"charge","description":"\n  Charges a card.\nAt once.","inputSchema":{"type":"object",
    "properties":{"orderId":{"type":"string"},"amount":{"type":"integer"},"cardNumber":{"type":"string"},
    "timestamp":{},"idempotency_key":{"type":"string"}},"required":["orderId","amount","cardNumber"]},
    "annotations":{"title":"Charge","readOnlyHint":false,"destructiveHint":true}}"#;

#[test]
fn what_is_said_of_a_tool() {
    let read = r#"{"name":"balance","annotations":{"readOnlyHint":true}}"#;
    let (text, config) = accepted(&[CHARGE, read]);
    for line in [
        "# settled.toml for shop 1.0: 2 tools.",
        "# Charges a card.",
        "# claimed, not checked: readOnlyHint = false, destructiveHint = true",
        "[tools.charge]",
        "# kind = \"read-only\"              # if it is true that it only reads",
        "#   charge    destructive              ?         ?             ?",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
    for part in [
        "# key = [\"orderId\"]",
        "# orderId (string), amount (integer), cardNumber (string), timestamp (any, optional)",
        "# pass_key_as = \"idempotency_key\"",
        "# ephemeral = [\"timestamp\"]",
        "# encrypt = [\"cardNumber\"]",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("Charge\n") && !text.contains("At once"), "{text}");
    // Whatever is claimed, nothing passes.
    assert!(config.tools.values().all(|tool| tool.kind == crate::config::Kind::Opaque));
    assert_eq!(config.new_tools, crate::config::NewTools::Guard);
    // The order of the list does not matter.
    assert_eq!(text, accepted(&[read, CHARGE]).0);
}

/// Every suggestion can be taken as it stands.
#[test]
fn what_is_suggested_is_accepted() {
    let (text, _) = accepted(&[CHARGE, r#"{"name":"balance","annotations":{"readOnlyHint":true}}"#]);
    for option in ["key = ", "pass_key_as = ", "ephemeral = ", "outside = ", "mode = ", "scope = "] {
        let taken = text.replacen(&format!("# {option}"), option, 1);
        assert_ne!(taken, text, "{option}");
        let config = Config::parse("settled.toml".as_ref(), &taken);
        assert!(config.is_ok(), "{option}: {config:?}");
    }
    let read =
        text.replacen("kind = \"opaque\" ", "# ", 1).replacen("# kind = \"read-only\"", "kind = \"read-only\"", 1);
    let config = Config::parse("settled.toml".as_ref(), &read).unwrap();
    assert_eq!(config.tools["balance"].kind, crate::config::Kind::Passed);
}

#[test]
fn odd_servers() {
    let names = [
        "",
        "a.b",
        "a\"b",
        "a\nb",
        "a'b",
        "]",
        "[tools.x]\nguard = false",
        "#",
        "日本語",
        "\u{202e}evil",
        "\u{0}",
        "tools",
        "\\",
        " ",
    ];
    let tools: Vec<String> = names.iter().map(|name| format!(r#"{{"name":{}}}"#, quoted(name))).collect();
    let (text, config) = accepted(&tools.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(config.tools.len(), names.len());
    assert!(!text.contains('\u{202e}') && text.contains("日本語"));
    // Whatever a server says stays within its comment.
    let said = quoted("x\r[tools.y]\n\u{b}[tools.z]\u{2028}[tools.u]\u{0}");
    let loud = format!(
        r#"{{"name":"t","description":{said},"annotations":{{{said}:{said}}},"inputSchema":{{"properties":{{{said}:{{"type":{said}}}}},"required":[{said}]}}}}"#
    );
    assert_eq!(accepted(&[&loud]).1.tools.keys().collect::<Vec<_>>(), ["t"]);
    let many: Vec<String> = (0..1000).map(|n| format!(r#"{{"name":"tool {n}"}}"#)).collect();
    assert_eq!(accepted(&many.iter().map(String::as_str).collect::<Vec<_>>()).1.tools.len(), 1000);
    let (text, config) = accepted(&[]);
    assert!(config.tools.is_empty() && text.contains("0 tools"));
    let nameless = listing(&["{}", r#"{"name":7}"#, r#"{"name":"\ud800"}"#, "3"]);
    assert!(template::write(&nameless, None).contains("4 more have no name"));
}

#[test]
fn several_tools_of_one_name() {
    let read = r#"{"name":"t","annotations":{"readOnlyHint":true}}"#;
    let write = r#"{"name":"t","annotations":{"readOnlyHint":false}}"#;
    let (text, config) = accepted(&[read, write]);
    assert!(text.contains("lists 2 tools of this name") && !text.contains("if it is true"), "{text}");
    assert_ne!(config.tools["t"].seen, accepted(&[read]).1.tools["t"].seen);
}

#[test]
fn a_server_of_several() {
    let listing = listing(&[CHARGE]);
    let command = ["npx", "shop \"server\""].map(str::to_owned).to_vec();
    let env = [("KEY".to_owned(), "secret".to_owned())].into();
    for upstream in [
        UpstreamConfig::Command { command, env },
        UpstreamConfig::Url(Box::new(crate::config::UrlConfig::new("https://shop.example/mcp?a=b".parse().unwrap()))),
    ] {
        let named = ("my.shop".to_owned(), upstream);
        let text = template::write(&listing, Some(&named));
        check(&text, &listing, Some("my.shop")).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
        assert!(!text.contains("secret"), "{text}");
        let config = Config::parse("settled.toml".as_ref(), &text).unwrap();
        let printed = match &config.servers["my.shop"].upstream {
            UpstreamConfig::Command { command, .. } => command[1].clone(),
            UpstreamConfig::Url(server) => server.url.to_string(),
        };
        assert!(["shop \"server\"", "https://shop.example/mcp?a=b"].contains(&printed.as_str()), "{printed}");
    }
}

proptest! {
    /// Any text in any place: the file is accepted, and has that very tool.
    #[test]
    fn any_server(name in any::<String>(), said in any::<String>(), other in "\\PC{0,10}") {
        let (name_text, said) = (quoted(&name), quoted(&said));
        let tool = format!(
            r#"{{"name":{name_text},"description":{said},"annotations":{{{said}:true}},"inputSchema":{{"properties":{{{said}:{{}},{}:{{}}}}}}}}"#,
            quoted(&other)
        );
        let (_, config) = accepted(&[&tool]);
        prop_assert_eq!(config.tools.keys().collect::<Vec<_>>(), [&name]);
    }
}
