//! Which servers are meant, how they are reached, and how clients reach them.

use std::net::SocketAddr;

use settled::protocol::Key;
use settled_mcp::config::{HeaderError, UpstreamConfig, UrlConfig};
use settled_mcp::{Behind, Config, Fronted};
use settled_observers::Secret;

use super::McpArgs;
use crate::failure::Failure;

/// What is to be done.
pub(super) enum Choice {
    /// One server, for one client on standard input and output.
    Stdio(Box<Chosen>),
    /// Servers for clients that come over HTTP.
    Http {
        /// Where to listen.
        address: SocketAddr,
        /// The servers.
        servers: Vec<Chosen>,
    },
}

/// A server that is meant.
pub(super) struct Chosen {
    pub(super) fronted: Fronted,
    /// How the configuration says that it is reached, if it does.
    pub(super) declared: Option<UpstreamConfig>,
}

impl Choice {
    /// The configurations of all servers that are meant.
    pub(super) fn configs(&mut self) -> Vec<&mut Config> {
        match self {
            Choice::Stdio(chosen) => vec![&mut chosen.fronted.config],
            Choice::Http { servers, .. } => servers.iter_mut().map(|chosen| &mut chosen.fronted.config).collect(),
        }
    }
}

/// What the command line and the configuration mean together.
pub(super) fn choose(args: &McpArgs, config: &Config) -> Result<Choice, Failure> {
    let named_here = !args.command.is_empty() || args.upstream.is_some() || args.server.is_some();
    // A file that says where to listen can still be one of a client that starts its own proxy.
    let listen = args.listen.or(config.http.listen.filter(|_| !named_here && !args.describe));
    let mut servers = match here(args, config)? {
        Some(chosen) => vec![chosen],
        None if listen.is_some() => {
            config.servers.keys().map(|name| of_file(config, name)).collect::<Result<Vec<_>, _>>()?
        }
        None => match config.only_server().map_err(|error| Failure::input(error.to_string()))? {
            Some((name, _)) => vec![of_file(config, name)?],
            None => Vec::new(),
        },
    };
    if let Some(scope) = &args.scope {
        Key::new(scope.as_str(), "tool", "id").map_err(|error| Failure::input(format!("--scope: {error}")))?;
        match servers.as_mut_slice() {
            [only] => only.fronted.config.scope = Some(scope.clone()),
            _ => {
                return Err(Failure::input(
                    "--scope is for one server: several have scopes of their own, in the configuration",
                ));
            }
        }
    }
    match (listen, servers.len()) {
        (_, 0) => Err(Failure::input(
            "no server is named: write its command after `--`, as in `settled mcp -- npx some-server`, or use `--upstream URL`, or \
             `--config` with `[servers.NAME]`",
        )),
        (Some(address), _) => Ok(Choice::Http { address, servers }),
        (None, _) => servers
            .pop()
            .map(|chosen| Choice::Stdio(Box::new(chosen)))
            .ok_or_else(|| Failure::input("no server is named")),
    }
}

/// The server that the command line names.
fn here(args: &McpArgs, config: &Config) -> Result<Option<Chosen>, Failure> {
    if let Some(name) = &args.server {
        return of_file(config, name).map(Some);
    }
    let behind = match &args.upstream {
        Some(url) => Behind::Http(Box::new(upstream(args, url)?.options().map_err(header)?)),
        None if args.command.is_empty() => return Ok(None),
        None => Behind::Command(args.command.clone(), config.env.clone()),
    };
    if let Some(name) = config.servers.keys().next() {
        return Err(Failure::input(format!(
            "the configuration names its servers, and nothing of it would hold for another one: pick one by `--server {name}`, or \
             write another configuration, with `[tools.…]` only"
        )));
    }
    let fronted = Fronted { name: None, config: config.clone(), behind };
    Ok(Some(Chosen { fronted, declared: None }))
}

/// A server that the configuration names.
fn of_file(config: &Config, name: &str) -> Result<Chosen, Failure> {
    let own = config.for_server(name).map_err(|error| Failure::input(format!("--server: {error}")))?;
    let declared = config.servers.get(name).map(|server| server.upstream.clone());
    let behind = match &declared {
        Some(UpstreamConfig::Command { command, env }) => {
            Behind::Command(command.iter().map(Into::into).collect(), env.clone())
        }
        Some(UpstreamConfig::Url(server)) => {
            let options = server.options().map_err(|error| Failure::input(format!("servers.{name}: {error}")))?;
            Behind::Http(Box::new(options))
        }
        None => return Err(Failure::internal("a server is there and is not there")),
    };
    let fronted = Fronted { name: Some(name.to_owned()), config: own, behind };
    Ok(Chosen { fronted, declared })
}

/// The server of `--upstream`.
fn upstream(args: &McpArgs, url: &str) -> Result<UrlConfig, Failure> {
    let url = url.parse().map_err(|error| {
        Failure::input(format!(
            "--upstream: `{url}` is not a URL ({error}): write one such as https://shop.example/mcp"
        ))
    })?;
    let mut server = UrlConfig::new(url);
    server.ca = args.upstream_ca.clone();
    for text in &args.upstream_header {
        let (name, value) = text.split_once(':').ok_or_else(|| {
            Failure::input(format!("--upstream-header: `{text}` has no colon: write it such as 'X-Api-Key: env:KEY'"))
        })?;
        let name = name
            .trim()
            .parse()
            .map_err(|_| Failure::input(format!("--upstream-header: `{}` is not the name of a header", name.trim())))?;
        server.headers.push((name, Secret::new(value.trim())));
    }
    Ok(server)
}

fn header(error: HeaderError) -> Failure {
    Failure::input(format!("--upstream-header: {error}"))
}
