//! Which requests there are.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get};
use tower_http::compression::CompressionLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::decompression::RequestDecompressionLayer;

use super::problem::Problem;
use super::{Server, auth, read, upload};

/// Whose web pages may speak to the server.
#[derive(Clone, Debug, Default)]
pub enum Origins {
    /// Nobody's.
    #[default]
    Nobody,
    /// These origins', such as `https://app.example.com`.
    Of(Vec<HeaderValue>),
    /// Anybody's.
    Anybody,
}

type Route = (&'static str, MethodRouter<Arc<Server>>);

/// What needs the token, if there is one. A target may have slashes in its name.
fn guarded() -> [Route; 5] {
    [
        ("/v1/operations", get(read::operations).post(upload::upload)),
        ("/v1/targets", get(read::targets)),
        ("/v1/targets/{*target}", get(read::target)),
        ("/v1/schema", get(read::schema)),
        ("/v1/devices", get(read::devices)),
    ]
}

/// What doesn't.
fn open() -> [Route; 2] {
    [("/v1/health", get(read::health)), ("/v1/openapi", get(read::openapi))]
}

pub(super) fn router(server: Arc<Server>) -> Router {
    let add = |router: Router<Arc<Server>>, (path, route)| router.route(path, route);
    let guarded = guarded().into_iter().fold(Router::new(), add);
    let guarded = guarded.route_layer(from_fn_with_state(Arc::clone(&server), auth::check));
    let routes = open().into_iter().fold(guarded, add);
    let cors = cors(&server.options.origins);
    routes
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_so)
        // What can't be unpacked is passed on, for the upload to say so.
        .layer(RequestDecompressionLayer::new().pass_through_unaccepted(true))
        .layer(CompressionLayer::new())
        .layer(cors)
        .with_state(server)
}

fn cors(origins: &Origins) -> CorsLayer {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE, header::CONTENT_ENCODING])
        .expose_headers([header::RETRY_AFTER])
        .max_age(Duration::from_secs(3_600));
    match origins {
        Origins::Nobody => layer,
        Origins::Of(origins) => layer.allow_origin(AllowOrigin::list(origins.iter().cloned())),
        Origins::Anybody => layer.allow_origin(AllowOrigin::any()),
    }
}

async fn nothing_here(uri: Uri) -> Problem {
    let detail = format!("`{}` is nothing here: `/v1/openapi` says what there is", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "no-route", "There is nothing here", detail)
}

async fn not_so(method: Method, uri: Uri) -> Problem {
    let detail = format!("`{}` has no {method}: `/v1/openapi` says what it has", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no-method", "It can't be asked like this", detail)
}
