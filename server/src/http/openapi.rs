//! `/openapi.json`: what can be asked for, written beside what answers it.

use axum::Json;
use axum::response::IntoResponse;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, OpenApi as Document};
use utoipa::{Modify, OpenApi};

use super::{commands, files, health, history, keys, live, mcp, output, principal, sessions, sign_in, tools};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Glassbox",
        description = "See into, and step into, the sandboxes in which AI agents work. Times are Unix seconds as floats. \
            Every answer that is not a success is an ErrorBody: `detail` is for people, `code` for programs.",
    ),
    paths(
        sign_in::sign_in,
        sign_in::sign_out,
        sign_in::me,
        sessions::list,
        sessions::create,
        sessions::get,
        sessions::delete,
        commands::list,
        commands::run,
        commands::get,
        output::read,
        output::download,
        commands::kill,
        commands::signal,
        tools::schemas,
        tools::call,
        history::list,
        history::get,
        history::purge,
        history::timeline,
        history::tool_calls,
        history::commands,
        history::command,
        history::read,
        history::download,
        history::search,
        files::list,
        files::stat,
        files::version_watch,
        files::make_folder,
        files::rename,
        files::content::read,
        files::content::write,
        files::content::archive,
        files::uploads::start,
        files::uploads::get,
        files::uploads::append,
        files::uploads::give_up,
        files::jobs::copy,
        files::jobs::delete,
        files::jobs::list,
        files::jobs::stop,
        keys::list,
        keys::create,
        keys::revoke,
        live::upgrade,
        mcp::serve,
        health::healthz,
    ),
    modifiers(&Keys),
    security(("key" = []), ("bearer" = []), ("cookie" = [])),
)]
struct Api;

/// The three ways to say who one is.
struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut Document) {
        let components = document.components.get_or_insert_with(Components::new);
        let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-API-Key")));
        let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new(principal::COOKIE)));
        for (name, scheme) in [("key", key), ("bearer", bearer), ("cookie", cookie)] {
            components.add_security_scheme(name, scheme);
        }
    }
}

/// The document; a test holds it against the reviewed copy.
pub fn document() -> Document {
    Api::openapi()
}

/// Needs no key: it is the same for everyone.
pub(super) async fn serve() -> impl IntoResponse {
    Json(document())
}
