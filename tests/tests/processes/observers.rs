//! Unknown outcomes that are found out, with the real program: one way of asking after the other, where the effect had
//! happened and where it had not; and one that nobody can find out.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use settled_test_services::ports;
use settled_test_services::postgres::Postgres;
use settled_tests::{Reply, Server, Session, Stage};

/// The configuration of an observable `charge`, asked about in this way.
fn observable(observe: &str) -> String {
    format!(
        "[tools.charge]\nkind = \"observable\"\nsettling = \"300ms\"\nkey = [\"customer\", \"cents\"]\n\n[tools.charge.observe]\n{observe}\n\
         every = \"100ms\"\nat_most_every = \"500ms\"\n"
    )
}

/// The server dies once at each of these: the call is settled by asking, or is sent again, once.
fn expect_found_out(prepare: impl Fn(&mut Stage) -> String) {
    for (die_at, servers_effect) in [("after-effect", 0), ("before-effect", 1)] {
        let mut stage = Stage::new();
        let observe = prepare(&mut stage);
        stage.configure(&observable(&observe)).set("SERVER_DIE_AT", die_at);
        let command = stage.proxy(&Server::Quick.command());
        let mut session = Session::open(&stage, &command);
        let reply = session.charge();
        assert!(
            matches!(reply, Reply::Success(_)) && reply.status() == "done",
            "{die_at}: {reply:?}\n{}",
            stage.story()
        );
        let effects = stage.expect_effects(1);
        assert_eq!(stage.kills().len(), 1, "{}", stage.story());
        let by = stage.servers().iter().position(|pid| effects[0].contains(&format!(" {pid} ")));
        assert_eq!(by, Some(servers_effect), "{die_at}: {}", stage.story());
        if die_at == "after-effect" {
            assert!(reply.text().contains("took effect"), "{reply:?}");
        } else {
            assert_eq!(reply.receipt().as_ref(), Some(&effects[0]), "{reply:?}");
        }
        let again = session.charge();
        assert!(again.is_replayed() && again.text() == reply.text(), "{again:?}");
        session.end();
        assert!(stage.operation().has_succeeded(), "{}", stage.story());
        stage.expect_effects(1);
    }
}

#[test]
fn another_tool_is_asked() {
    expect_found_out(|_| {
        "tool = \"balance\"\narguments = { customer = \"{customer}\" }\napplied = { at = \"/content/0/text\", is = \"1\" }\n\
         not_applied = { at = \"/content/0/text\", is = \"0\" }"
            .to_owned()
    });
}

#[test]
fn a_command_is_asked() {
    expect_found_out(|stage| {
        let effects = stage.path("effects").display().to_string();
        format!(
            "command = [\"sh\", \"-c\", 'grep -qs \"^charge $1 $2 \" \"$3\" || exit 1', \"sh\", \"{{customer}}\", \"{{cents}}\", \"{effects}\"]"
        )
    });
}

#[test]
fn an_http_service_is_asked() {
    expect_found_out(|stage| {
        let address = charges_over_http(stage.path("effects"));
        stage.set("BANK_TOKEN", "s3cret");
        format!(
            "http = \"http://{address}/charges/{{customer}}/{{cents}}\"\nheaders = {{ Authorization = \"Bearer env:BANK_TOKEN\" }}"
        )
    });
}

#[test]
fn a_sqlite_database_is_asked() {
    expect_found_out(|stage| {
        let file = stage.path("bank.db").display().to_string();
        let create = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('create table charges (customer text, cents int)')";
        let made = std::process::Command::new("python3").args(["-c", create, &file]).status().unwrap();
        assert!(made.success());
        stage.set("SERVER_DATABASE", &file);
        sql(&format!("sqlite:{file}"))
    });
}

#[test]
fn a_postgresql_database_is_asked() {
    let server = Postgres::start().unwrap();
    server.sql("create table charges (customer text, cents bigint); grant all on charges to settled").unwrap();
    expect_found_out(|stage| {
        server.sql("delete from charges").unwrap();
        stage.set("SERVER_DATABASE", server.url()).set("BANK", server.url());
        sql("env:BANK")
    });
}

fn sql(database: &str) -> String {
    format!(
        "sql = \"select customer, cents from charges where customer = $1 and cents = $2\"\ndatabase = \"{database}\"\n\
         parameters = [\"{{customer}}\", \"{{cents}}\"]"
    )
}

/// A service that tells of the charges in an effects file: `/charges/CUSTOMER/CENTS`, for those who have the token.
fn charges_over_http(effects: PathBuf) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let head: Vec<String> =
                BufReader::new(&connection).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let path = head[0].split(' ').nth(1).unwrap();
            let charge = path.trim_start_matches("/charges/").replace('/', " ");
            let known = std::fs::read_to_string(&effects).unwrap_or_default();
            let is_there = known.lines().any(|line| line.starts_with(&format!("charge {charge} ")));
            let may_ask = head.iter().any(|line| line == "authorization: Bearer s3cret");
            let answer = match (may_ask, is_there) {
                (false, _) => "401 Unauthorized",
                (true, true) => "200 OK",
                (true, false) => "404 Not Found",
            };
            let _ = write!(connection, "HTTP/1.1 {answer}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
        }
    });
    address
}

#[test]
fn what_nobody_can_find_out_is_a_persons() {
    let mut stage = Stage::new();
    let nobody = ports::free().unwrap();
    let observe = format!("http = \"http://127.0.0.1:{nobody}/charges/{{customer}}\"\nchecks = 3");
    stage.configure(&observable(&observe)).set("SERVER_DIE_AT", "before-effect");
    let command = stage.proxy(&Server::Quick.command());
    let mut session = Session::open(&stage, &command);
    let reply = session.charge();
    assert_eq!(reply.status(), "unknown", "{reply:?}\n{}", stage.story());
    let ended = session.end();
    assert!(ended.stderr.contains("it is not known whether this operation happened"), "the alert: {ended:?}");
    // The three that count, and those while the settling time runs, which don't.
    assert!(ended.stderr.matches("could not find out").count() >= 3, "each failed question: {ended:?}");
    stage.expect_effects(0);
    let operation = stage.operation();
    assert!(operation.is_unknown() && operation.state == "escalated", "{operation:?}");

    let decided = stage.resolve(&operation.key, &["--as", "failed", "--nothing-pending"]);
    assert!(decided.status.success(), "{decided:?}");
    let mut session = Session::open(&stage, &command);
    let reply = session.charge();
    let effects = stage.expect_effects(1);
    assert_eq!(reply.receipt().as_ref(), Some(&effects[0]), "{reply:?}");
}

#[test]
fn the_next_proxy_finds_out_what_a_killed_one_left() {
    let mut stage = Stage::new();
    let effects = stage.path("effects").display().to_string();
    let observe = format!(
        "command = [\"sh\", \"-c\", 'grep -qs \"^charge $1 \" \"$2\" || exit 1', \"sh\", \"{{customer}}\", \"{effects}\"]"
    );
    stage.configure(&observable(&observe)).set("SERVER_DELAY_MS", 60_000).set("SERVER_DELAY_FIRST", 1);
    let command = stage.proxy(&Server::Quick.command());
    let mut session = Session::open(&stage, &command);
    session.ask_tool("charge", &serde_json::json!({ "customer": "alice", "cents": 500 }));
    stage.wait_for_effects(1);
    session.kill().expect("it still ran");

    let mut session = Session::open(&stage, &command);
    // Without being asked for it, and without the tool being called.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !stage.operation().has_succeeded() {
        assert!(std::time::Instant::now() < deadline, "{}", stage.story());
        std::thread::sleep(Duration::from_millis(200));
    }
    let reply = session.charge();
    assert!(reply.is_replayed() && reply.text().contains("took effect"), "{reply:?}");
    session.end();
    stage.expect_effects(1);
}
