//! Whatever the values of a call are, they stay values.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use serde_json::{Value, json};
use settled_observers::{Given, Shape, Template, Where};

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[{}$'\"`;|&<>/\\\\%?#. -]{0,12}",
        Just("{$key}".to_owned()),
        Just("{other}".to_owned()),
        Just("{{".to_owned()),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any_text().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        prop::collection::vec(any_text(), 0..3).prop_map(Value::from),
        (any_text(), any_text()).prop_map(|(name, value)| json!({ name: value })),
    ]
}

proptest! {
    /// A filled-in value is never read as a template again, and keeps its type and every character.
    #[test]
    fn a_value_comes_out_as_it_went_in(value in any_value(), other in any_value()) {
        let arguments = json!({ "a": value, "other": other }).to_string();
        let given = Given { key: "KEY", attempt: 1, scope: None, arguments: &arguments };
        let shape = Shape::parse(json!({ "x": "{a}", "y": ["{other}"] }), Where::Observation).unwrap();
        prop_assert_eq!(shape.value(&given).unwrap(), json!({ "x": value, "y": [other] }));
    }

    /// As text it is what it is, between what the template has around it.
    #[test]
    fn a_text_comes_out_as_it_went_in(text in any_text(), before in "[a-z ]{0,5}", after in "[a-z ]{0,5}") {
        let arguments = json!({ "a": text }).to_string();
        let given = Given { key: "KEY", attempt: 1, scope: None, arguments: &arguments };
        let template = Template::parse(&format!("{before}{{a}}{after}{{$key}}"), Where::Observation).unwrap();
        prop_assert_eq!(template.text(&given).unwrap(), format!("{before}{text}{after}KEY"));
    }

    /// No text makes it panic, and what it accepts it gives back with its braces escaped.
    #[test]
    fn templates_are_total(text in any_text()) {
        let _ = Template::parse(&text, Where::Resource);
        let escaped = text.replace('{', "{{").replace('}', "}}");
        let given = Given { key: "", attempt: 1, scope: None, arguments: "{}" };
        prop_assert_eq!(Template::parse(&escaped, Where::Resource).unwrap().text(&given).unwrap(), text);
    }
}
