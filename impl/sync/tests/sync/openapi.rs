//! The description holds against the types and the routes, and the other way round.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};
use settled_protocol::merge::{Change, HybridTime, View};
use settled_sync::server::OPENAPI;
use settled_sync::wire::{
    Answer, Applied, Became, ClockCheck, DeviceSeen, Devices, Health, Problem, Pulled, Refusal, Target, Targets,
    Upload, Uploaded,
};

use crate::common::{field, name, operation, schema, upload};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_saphyr::from_str(OPENAPI).unwrap());

/// A validator of a schema within the description.
fn validator(schema: &Value) -> Validator {
    let whole = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "allOf": [schema], "components": DOCUMENT["components"] });
    jsonschema::validator_for(&whole).unwrap()
}

fn of(component: &str) -> Validator {
    assert!(DOCUMENT["components"]["schemas"][component].is_object(), "there is no {component}");
    validator(&json!({ "$ref": format!("#/components/schemas/{component}") }))
}

fn valid<T: serde::Serialize>(component: &str, value: &T) {
    let value = serde_json::to_value(value).unwrap();
    let errors: Vec<String> =
        of(component).iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{component}: {value}: {errors:?}");
}

/// The part of the description that a path leads to, also through a reference.
fn resolved(at: &Value) -> &Value {
    match at["$ref"].as_str() {
        Some(place) => DOCUMENT.pointer(place.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("no {place}")),
        None => at,
    }
}

/// Checks an answer of the server against the description of what was asked.
pub fn check(method: &str, path: &str, status: u16, kind: &str, body: &str) {
    let template = match path.split('?').next().unwrap() {
        target if target.starts_with("/v1/targets/") => "/v1/targets/{target}",
        path => path,
    };
    let described = &DOCUMENT["paths"][template][method.to_lowercase()]["responses"];
    let described = resolved(&described[status.to_string()]);
    assert!(described.is_object(), "{method} {path} is not described to answer {status}: {body}");
    let content = &described["content"][kind];
    assert!(content.is_object(), "{method} {path} {status} is not described to be {kind}");
    if kind.ends_with("json") {
        let body: Value = serde_json::from_str(body).unwrap();
        let errors: Vec<String> = validator(&content["schema"]).iter_errors(&body).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{method} {path} {status}: {body}: {errors:?}");
    }
}

/// What of the description can be asked.
pub fn routes() -> BTreeSet<(String, String)> {
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    let routes = paths.flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(move |method| (path.clone(), method.to_uppercase()))
    });
    routes.collect()
}

#[test]
fn the_types_are_as_described() {
    let observed = [operation("a", 1, 5, "x", Change::Count(1)).operation.op_id].into();
    let changes = [
        Change::Set(settled_protocol::merge::Value::Null),
        Change::Add("x".into()),
        Change::Remove { value: 4.into(), observed },
        Change::Count(-1),
        field("a", field("b", Change::Set(settled_protocol::merge::Value::Bool(true)))),
    ];
    let sent: Vec<_> = (0..).zip(changes).map(|(n, change)| operation("a", n, 7, "task/1", change)).collect();
    valid("Upload", &upload("a", 5, &sent));
    let time = HybridTime { millis: 5, count: u32::MAX };
    let applied = |redated, repeated| Became::Applied { cursor: 4, time, redated, repeated };
    let refused = |reason| Became::Refused { reason, message: "no".to_owned() };
    let all = [
        applied(false, false),
        applied(true, true),
        refused(Refusal::Unfit),
        refused(Refusal::Conflict),
        refused(Refusal::NotYours),
        refused(Refusal::TooLarge),
        Became::Held { message: "later".to_owned() },
    ];
    let op_id = sent[0].operation.op_id;
    let answers = all.into_iter().map(|is| Answer { op_id, is }).collect();
    let clock = ClockCheck { ahead: -5, believed: false, bound: 3 };
    valid("Uploaded", &Uploaded { answers, head: 4, now: 5, clock, most: 7 });
    let operations = sent.iter().map(|sent| Applied { cursor: 4, operation: sent.operation.clone(), redated: true });
    valid("Pulled", &Pulled { operations: operations.collect(), cursor: 4, head: 4 });
    let set = View::Set(["a".into(), 1.into()].into());
    let fields = [(name("a"), Box::new(View::Count(1 << 60))), (name("b"), Box::new(set))].into();
    let target = Target { target: name("x"), view: View::Map(fields), cursor: 4 };
    valid("Targets", &Targets { targets: vec![target.clone()], more: true });
    valid("Target", &target);
    valid("Schema", &schema());
    let device = DeviceSeen { device: name("a"), seen: 4, ahead: -1, believed: true, applied: 1, redated: 0 };
    valid("Devices", &Devices { devices: vec![device], more: false });
    valid("Health", &Health { head: 4, now: 5, schema: 1 });
    let (kind, text) = ("urn:settled:sync:busy".to_owned(), || "x".to_owned());
    valid("Problem", &Problem { kind, title: text(), status: 429, detail: text() });
}

/// What the description allows, the types can read, and what it forbids, they can't.
#[test]
fn the_description_is_no_wider_than_the_types() {
    let good = serde_json::to_value(upload("a", 5, &[operation("a", 0, 5, "votes", Change::Count(1))])).unwrap();
    let with = |place: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(place).unwrap() = value;
        changed
    };
    let both = |value: &Value| (of("Upload").is_valid(value), serde_json::from_value::<Upload>(value.clone()).is_ok());
    assert_eq!(both(&good), (true, true));
    for (place, value) in [
        ("/device", json!("")),
        ("/device", json!(4)),
        ("/schema", json!(-1)),
        ("/now", json!("now")),
        ("/operations/0/op_id", json!("no uuid")),
        ("/operations/0/time", json!({ "millis": 4 })),
        ("/operations/0/time/count", json!(1_u64 << 32)),
        ("/operations/0/change", json!({ "set": 1.5 })),
        ("/operations/0/change", json!({ "set": 1, "add": 1 })),
        ("/operations/0/change", json!({ "put": 1 })),
        ("/operations/0/change", json!({ "remove": { "value": 1 } })),
        ("/operations/0/change", json!({ "field": ["a"] })),
        ("/operations/0/after", json!(4)),
    ] {
        assert_eq!(both(&with(place, value.clone())), (false, false), "{place}: {value}");
    }
    for (place, value) in [("/operations/0/change", json!({ "set": null })), ("/operations", json!([]))] {
        assert_eq!(both(&with(place, value.clone())), (true, true), "{place}: {value}");
    }
}

/// The examples are what they are examples of, and read back as the types.
#[test]
fn the_examples_are_valid() {
    fn walk(at: &Value, found: &mut usize) {
        if let Some(schema) = at.get("schema").filter(|_| at.get("example").or(at.get("examples")).is_some()) {
            let several = at["examples"].as_object().into_iter().flatten().map(|(_, example)| &example["value"]);
            for example in several.chain(at.get("example")) {
                let errors: Vec<String> =
                    validator(schema).iter_errors(example).map(|error| error.to_string()).collect();
                assert!(errors.is_empty(), "{example}: {errors:?}");
                *found += 1;
            }
        }
        match at {
            Value::Object(fields) => fields.values().for_each(|at| walk(at, found)),
            Value::Array(items) => items.iter().for_each(|at| walk(at, found)),
            _ => {}
        }
    }
    let mut found = 0;
    walk(&DOCUMENT, &mut found);
    assert!(found >= 17, "only {found} examples");
    let uploads = &DOCUMENT["paths"]["/v1/operations"]["post"];
    let example = |at: &Value, which: &str| at["content"]["application/json"]["examples"][which]["value"].clone();
    serde_json::from_value::<Upload>(example(&uploads["requestBody"], "one")).unwrap();
    serde_json::from_value::<Uploaded>(example(&uploads["responses"]["200"], "each")).unwrap();
}
