//! The bearer token (RFC 6750).

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use settled_protocol::Digest;
use subtle::ConstantTimeEq;

use super::Server;
use super::problem::Problem;

/// What devices have to show. Only its digest is kept.
#[derive(Clone)]
pub struct Token(Digest);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A token that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// There is none.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// Where it was looked for.
        path: std::path::PathBuf,
        /// Why it can't be read.
        error: std::io::Error,
    },
    /// It can't be one.
    #[error("a token is one line of 16 to 1,024 letters, digits and `-._~+/=`: make one with `openssl rand -hex 32`")]
    Unfit,
}

impl Token {
    /// A token.
    ///
    /// # Errors
    /// If it could not be sent, or could be guessed.
    pub fn new(token: &str) -> Result<Token, TokenError> {
        let good = (16..=1_024).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
        if good { Ok(Token(Digest::of(token.as_bytes()))) } else { Err(TokenError::Unfit) }
    }

    /// Reads a token from a file.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if there is none.
    pub fn load(path: &Path) -> Result<Token, TokenError> {
        let unreadable = |error| TokenError::Unreadable { path: path.to_owned(), error };
        Token::new(std::fs::read_to_string(path).map_err(unreadable)?.trim())
    }

    /// Takes the same time whatever was shown: it tells nothing of how much was right.
    fn is(&self, shown: &str) -> bool {
        Digest::of(shown.as_bytes()).as_bytes().ct_eq(self.0.as_bytes()).into()
    }
}

/// Lets nobody through who does not show the token.
pub(super) async fn check(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let Some(token) = &server.options.token else {
        return next.run(request).await;
    };
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown =
        shown.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    if shown.is_some_and(|(_, shown)| token.is(shown.trim())) {
        return next.run(request).await;
    }
    let detail = "this server wants to see its token: send `Authorization: Bearer TOKEN`; who runs it has the token";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "The token is missing or wrong", detail).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_the_token() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is("0123456789abcdef"));
        assert!(!token.is("0123456789abcdeF") && !token.is("") && !token.is("0123456789abcdef0"));
        for unfit in ["short", "0123456789abcde\n", "0123456789 abcdef", ""] {
            assert!(Token::new(unfit).is_err(), "{unfit:?}");
        }
        assert!(!format!("{token:?}").contains("0123"));
    }
}
