//! Runs whose guards are MCP proxies: each between a simulated client and a simulated server.

mod answers;
mod client;
mod input;
mod server;

use std::sync::Arc;

use fastrand::Rng;
use settled::Engine;
use settled::protocol::{Ends, Millis};
use settled_mcp::{Config, ProxyOptions};
use tokio::sync::mpsc;

use crate::fault::{Fault, FaultAt};
use crate::guard;
use crate::plan::{Kind, LONGEST_QUEUE, LONGEST_STOP, LONGEST_STORE, Plan, ToolPlan};
use crate::process::Process;
use crate::violation::Property;
use crate::world::{SCOPE, World};

pub(crate) use client::{Connection, once};
pub(crate) use server::Life;

use server::SimulatedServer;

/// The error code of a busy tool.
const BUSY: i64 = -32001;

/// Faults that only such runs have.
pub(crate) const FAULTS: [&str; 5] = [
    "MCP server died",
    "MCP server can't be started",
    "MCP server does not end by itself",
    "MCP server's pipe is full",
    "line to the MCP server is torn",
];

/// What such a tool remembers a key for must be longer than that.
fn margin(tool: &ToolPlan) -> Millis {
    LONGEST_STOP + LONGEST_STORE + LONGEST_QUEUE + tool.timeout + tool.transit + tool.takes + 200
}

/// Makes a plan one of proxies.
pub(crate) fn draw(random: &mut Rng, mut plan: Plan) -> Plan {
    plan.proxied = true;
    plan.guards = plan.guards.min(2);
    for tool in &mut plan.tools {
        tool.kind = if random.u8(..3) == 0 { Kind::Deduplicates } else { Kind::Opaque };
        (tool.window, tool.tombstone, tool.resource, tool.remembers) = (None, None, false, false);
        tool.limit = tool.limit.max(margin(tool) + 1_000);
        if is_undeclared(tool) {
            tool.attempts = 5;
        }
    }
    for call in &mut plan.calls {
        call.guard %= plan.guards;
        // Other arguments are another wish where the key is made of them.
        call.other &= plan.tools.get(call.tool).is_some_and(|tool| tool.ends == Ends::WithWindow);
    }
    for fault in &mut plan.faults {
        fault.fault.at_most(plan.guards);
    }
    for _ in 0..random.usize(..=4) {
        let (guard, down) = (random.usize(..plan.guards), random.u64(10..3_000));
        let fault = match random.u8(..3) {
            0 => Fault::HangUp { guard, down },
            1 => Fault::EndProxy { guard },
            _ => Fault::KillServer { guard },
        };
        plan.faults.push(FaultAt { at: random.u64(..plan.load), fault });
    }
    plan.faults.sort_by_key(|fault| fault.at);
    plan
}

/// Whether neither the configuration nor the server says what the tool is.
fn is_undeclared(tool: &ToolPlan) -> bool {
    tool.kind == Kind::Opaque && tool.ends == Ends::OnDelivery && !tool.errors_final
}

/// The `settled.toml` of a plan.
fn settings(plan: &Plan) -> String {
    let timeout = plan.tools.first().map_or(1_000, |tool| tool.timeout);
    let mut text = format!("scope = \"{SCOPE}\"\n[defaults]\ntimeout = \"{timeout}ms\"\n");
    for (n, tool) in plan.tools.iter().enumerate().filter(|(_, tool)| !is_undeclared(tool)) {
        let repeat = if tool.ends == Ends::OnDelivery { "new-after-delivery" } else { "replay" };
        text += &format!(
            "[tools.tool-{n}]\nrepeat = \"{repeat}\"\ntimeout = \"{}ms\"\nattempts = {}\nbusy_errors = [{{ code = {BUSY} }}]\n",
            tool.timeout, tool.attempts
        );
        if tool.errors_final {
            text += "errors = \"final\"\n";
        }
        text += &match tool.kind {
            Kind::Deduplicates => format!(
                "kind = \"deduplicates\"\npass_key_as = \"key\"\nlimit = \"{}ms\"\nmargin = \"{}ms\"\n",
                tool.limit,
                margin(tool)
            ),
            _ => "kind = \"opaque\"\n".to_owned(),
        };
    }
    text
}

/// Is the proxy, until its client is gone.
pub(crate) async fn run(world: Arc<World>, process: Arc<Process>, engine: Engine) {
    let config = match Config::parse("settled.toml".as_ref(), &settings(&world.plan)) {
        Ok(config) => config,
        Err(error) => return world.violated(Property::Opens, format!("the configuration is refused: {error}")),
    };
    let (to_proxy, stdin) = tokio::io::duplex(4 << 10);
    let (stdout, from_proxy) = tokio::io::duplex(4 << 10);
    let (tell, told) = mpsc::unbounded_channel();
    let connection = Connection::open(&world, to_proxy, from_proxy);
    world.with_guard(process.guard, |place| {
        place.client = Some(connection);
        place.tell = Some(tell);
    });
    let starts = Arc::new(SimulatedServer { world: world.clone(), process: process.clone() });
    let options = ProxyOptions { config, command: vec!["server".into()], engine };
    let ended = settled_mcp::serve(options, starts, told, stdin, stdout).await;
    world.note(format_args!("the proxy of guard {} ends (life {}): {ended:?}", process.guard, process.life));
    // Not a task of the process.
    tokio::spawn(async move {
        guard::kill_process(&world, &process);
        world.delay(10..=500).await;
        guard::start_again(&world, process.guard);
    });
}
