//! nginx, as a bare reverse proxy and with the usual pattern for keys in Redis.
//!
//! The pattern, as tutorials have it, in Lua: `SET key pending NX EX`; who was first asks the API and then writes the answer over
//! it; everybody else gets that answer, or 409 while it is pending. It says nothing when the answer is lost: the key stays
//! `pending` until it expires, or is deleted and the request sent again. Redis writes its log without waiting for the disk
//! (`appendfsync everysec`).

use std::path::{Path, PathBuf};

use tokio::process::Child;

use crate::error::BenchError;
use crate::mcp::process;

/// Where Debian has the modules.
const MODULES: &str = "/usr/lib/nginx/modules";

/// What is installed.
#[derive(Clone, Debug)]
pub struct Installed {
    nginx: PathBuf,
    redis: Option<PathBuf>,
    lua: bool,
}

impl Installed {
    /// Looks for it; the error says what is missing.
    ///
    /// # Errors
    /// What to install.
    pub fn find() -> Result<Installed, String> {
        let nginx = program("nginx").ok_or("not installed: apt-get install nginx")?;
        let lua = Path::new(MODULES).join("ngx_http_lua_module.so").is_file()
            && ["nginx/redis.lua", "resty/redis.lua"]
                .iter()
                .any(|file| Path::new("/usr/share/lua/5.1").join(file).is_file());
        Ok(Installed { nginx, redis: program("redis-server"), lua })
    }

    /// Whether the pattern with Redis can run.
    ///
    /// # Errors
    /// What to install.
    pub fn pattern(&self) -> Result<(), String> {
        match (self.lua, &self.redis) {
            (true, Some(_)) => Ok(()),
            _ => Err("not installed: apt-get install libnginx-mod-http-lua lua-nginx-redis redis-server".to_owned()),
        }
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    places.map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// nginx, running, and what it needs. All of it ends when this is dropped.
#[derive(Debug)]
pub struct Nginx {
    /// Its URL.
    pub url: String,
    nginx: Child,
    redis: Option<Child>,
}

impl Nginx {
    /// Starts it in front of an API, in a directory of its own.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(
        installed: &Installed,
        with_redis: bool,
        api: &str,
        directory: &Path,
    ) -> Result<Nginx, BenchError> {
        std::fs::create_dir_all(directory).map_err(BenchError::file(directory))?;
        let text = |path: &Path| path.display().to_string();
        let redis = match installed.redis.as_ref().filter(|_| with_redis) {
            Some(redis) => {
                let port = process::free_port()?;
                let settings =
                    ["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"];
                let mut words = vec![text(redis), "--port".to_owned(), port.to_string()];
                words.extend(["--dir".to_owned(), text(directory)]);
                words.extend(settings.map(str::to_owned));
                let running = process::start(process::command(&words)?)?;
                process::listens(port).await?;
                Some((running, port))
            }
            None => None,
        };
        let port = process::free_port()?;
        let configuration = configuration(directory, port, api, redis.as_ref().map(|(_, port)| *port));
        let file = directory.join("nginx.conf");
        std::fs::write(&file, configuration).map_err(BenchError::file(&file))?;
        let log = directory.join("error.log");
        let words = [text(&installed.nginx), "-e".to_owned(), text(&log), "-p".to_owned(), text(directory)];
        let words = [words.as_slice(), &["-c".to_owned(), text(&file)]].concat();
        let mut nginx = process::start(process::command(&words)?)?;
        let listens = tokio::select! {
            listens = process::listens(port) => listens.is_ok(),
            _ = nginx.wait() => false,
        };
        if !listens {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(BenchError::Other(format!("nginx does not start: {}", log.trim())));
        }
        Ok(Nginx { url: format!("http://127.0.0.1:{port}"), nginx, redis: redis.map(|(running, _)| running) })
    }

    /// Ends it. What it writes to may go away then.
    pub async fn end(mut self) {
        // Its workers end with it only if it is told to end.
        if let Some(pid) = self.nginx.id() {
            let words = ["kill", "-TERM", &pid.to_string()].map(str::to_owned);
            if let Ok(mut kill) = process::command(&words).and_then(process::start) {
                let _ = kill.wait().await;
            }
        }
        let _ = tokio::time::timeout(std::time::Duration::from_secs(10), self.nginx.wait()).await;
        let _ = self.nginx.kill().await;
        if let Some(redis) = &mut self.redis {
            let _ = redis.kill().await;
        }
    }
}

fn configuration(directory: &Path, port: u16, api: &str, redis: Option<u16>) -> String {
    let api = api.strip_prefix("http://").unwrap_or(api);
    let directory = directory.display();
    let (modules, location) = match redis {
        None => (String::new(), "location / { proxy_pass http://api; }".to_owned()),
        Some(redis) => {
            let load = ["ndk_http_module", "ngx_http_lua_module"];
            (load.map(|module| format!("load_module {MODULES}/{module}.so;\n")).concat(), pattern(redis))
        }
    };
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|what| format!("  {what}_temp_path {directory}/{what};\n")).concat();
    format!(
        "{modules}daemon off;\nworker_processes auto;\npid {directory}/nginx.pid;\nerror_log {directory}/error.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n  access_log off;\n{temporary}  keepalive_requests 1000000000;\n\
         \x20 upstream api {{ server {api}; keepalive 256; keepalive_requests 1000000000; }}\n\
         \x20 proxy_http_version 1.1;\n  proxy_set_header Connection \"\";\n\
         \x20 server {{\n    listen 127.0.0.1:{port} backlog=4096;\n    {location}\n  }}\n}}\n"
    )
}

fn pattern(redis: u16) -> String {
    format!(
        r#"location /api/ {{ internal; proxy_pass http://api/; }}
    location / {{
      content_by_lua_block {{
        local there, redis = pcall(require, "resty.redis")
        if not there then redis = require "nginx.redis" end
        local client = redis:new()
        client:set_timeouts(1000, 1000, 1000)
        if not client:connect("127.0.0.1", {redis}) then return ngx.exit(503) end
        local key = "idempotency:" .. (ngx.var.http_idempotency_key or "")
        ngx.header["Content-Type"] = "application/json"
        local first = client:set(key, "pending", "NX", "EX", 86400)
        if first == ngx.null then
          local known = client:get(key)
          client:set_keepalive(60000, 256)
          if known == "pending" then return ngx.exit(409) end
          ngx.header["Idempotency-Replayed"] = "true"
          ngx.print(known)
          return
        end
        ngx.req.read_body()
        local answer = ngx.location.capture("/api" .. ngx.var.request_uri,
          {{ method = ngx.HTTP_POST, body = ngx.req.get_body_data() }})
        client:set(key, answer.body, "EX", 86400)
        client:set_keepalive(60000, 256)
        ngx.status = answer.status
        ngx.print(answer.body)
      }}
    }}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pattern_needs_redis() {
        let bare = configuration(Path::new("/tmp/x"), 80, "http://127.0.0.1:1", None);
        assert!(bare.contains("proxy_pass http://api;") && !bare.contains("lua"), "{bare}");
        let pattern = configuration(Path::new("/tmp/x"), 80, "http://127.0.0.1:1", Some(6379));
        assert!(
            pattern.contains(r#"client:connect("127.0.0.1", 6379)"#) && pattern.contains("load_module"),
            "{pattern}"
        );
        for text in [bare, pattern] {
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        }
    }
}
