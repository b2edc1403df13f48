//! A proxy in front of a server behind HTTP.

use settled::{Engine, EngineOptions};
use settled_mcp::Config;
use settled_mcp::HttpProxyOptions;
use settled_mcp::upstream::HttpOptions;
use tokio::io::BufReader;

pub use super::http_server::Server;
use super::{Client, INITIALIZE, INITIALIZED, World};

impl World {
    /// Starts a proxy and a client that has said nothing yet.
    pub async fn connect_over_http(&self, config: &str, options: HttpOptions) -> Client {
        let config = Config::parse("settled.toml".as_ref(), config).unwrap();
        let engine = Engine::start(self.ledger.clone(), EngineOptions::default()).await.unwrap();
        let (to_proxy, stdin) = tokio::io::duplex(1 << 16);
        let (stdout, from_proxy) = tokio::io::duplex(1 << 16);
        let options = HttpProxyOptions { config, upstream: options, engine };
        let proxy = tokio::spawn(settled_mcp::run_http(options, stdin, stdout));
        Client { to_proxy: Some(to_proxy), from_proxy: BufReader::new(from_proxy), proxy }
    }

    /// And has opened its session.
    pub async fn open_over_http(&self, config: &str, server: &Server) -> Client {
        let mut client = self.connect_over_http(config, options(server)).await;
        client.initialize().await;
        client
    }
}

impl Client {
    /// Opens a session.
    pub async fn initialize(&mut self) {
        self.say(INITIALIZE).await;
        let answer = self.hear().await;
        assert!(answer.contains("serverInfo"), "{answer}");
        self.say(INITIALIZED).await;
    }
}

/// How a server is reached, with nothing configured.
pub fn options(server: &Server) -> HttpOptions {
    HttpOptions::new(server.url.parse().unwrap())
}
