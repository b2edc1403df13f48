//! Configurations of the gateway.

/// The four endpoints of the fake API, each with these lines more, after these tables.
pub fn routes(tables: &str, lines: &str) -> String {
    let routes = [
        ("/v1/charges", ""),
        ("/v1/chat/completions", "preset = \"chat-completions\"\n"),
        ("/v1/responses", "preset = \"responses\"\n"),
        ("/v1/messages", "preset = \"messages\"\n"),
    ];
    let routes = routes.map(|(path, preset)| {
        format!("[[routes]]\npath = \"{path}\"\nmethods = [\"POST\"]\nkey = \"required\"\n{preset}{lines}\n")
    });
    format!("{tables}\n{}", routes.concat())
}

/// For an API that knows no keys: nothing is to be waited for when it is unknown what happened.
pub const OPAQUE: &str = "kind = \"opaque\"\nsettle = \"100ms\"";

/// For an API that knows keys.
pub const KEYED: &str = "kind = \"keyed\"\nremembers = \"24h\"";

/// A repeat waits for the first one.
pub const WAIT: &str = "[gateway]\nin_flight = \"wait\"";

/// What the fake API says of its charge of this number.
pub fn says(charge: usize) -> String {
    format!("charge {charge} is done: zwölf Äpfel für 3 € and a ☃")
}

/// A request for a stream of a chat.
pub const STREAM: &str = r#"{"model":"fake-1","messages":[{"role":"user","content":"charge me"}],"stream":true}"#;

/// What the deltas of a stream of a chat say together.
pub fn said(body: &str) -> String {
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter_map(|data| serde_json::from_str::<serde_json::Value>(data).ok());
    events.filter_map(|event| Some(event.pointer("/choices/0/delta/content")?.as_str()?.to_owned())).collect()
}
