//! A client with a key.

use std::time::Duration;

use glassbox_shared::actor::Role;
use glassbox_shared::id::{KeyId, SessionId};
use glassbox_shared::session::{CreateSession, SessionList, SessionView};
use reqwest::{Method, RequestBuilder};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::answer::{Answer, Refusal};
use crate::session::Session;
use crate::viewer::Viewer;

/// Longer than anything that a server may take to answer: ending a session after a fork bomb.
const REQUEST_DEADLINE: Duration = Duration::from_secs(200);

/// Talks to one server with one key, or with none.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
}

/// A key as it is shown once.
#[derive(Debug, Clone, Deserialize)]
pub struct NewKey {
    /// Its name in lists.
    pub key_id: KeyId,
    /// The secret.
    pub api_key: String,
}

impl Client {
    /// A client of the server at `base` (`http://127.0.0.1:PORT`).
    pub fn new(base: &str, key: Option<&str>) -> Self {
        let http = reqwest::Client::builder()
            .timeout(REQUEST_DEADLINE)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            // Reading the system's takes longer than many a test.
            .tls_built_in_root_certs(false)
            .build()
            .expect("a plain HTTP client can be made");
        Self { http, base: base.to_owned(), key: key.map(str::to_owned) }
    }

    /// The same server with another key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self.clone() }
    }

    /// The same server without a key.
    #[must_use]
    pub fn without_key(&self) -> Self {
        Self { key: None, ..self.clone() }
    }

    /// The server's address.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The key.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// A request with the key on it, to be dressed further and given to [`Client::send`].
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.header("x-api-key", key),
            None => request,
        }
    }

    /// Sends a request and reads its answer, whatever it is; `Err`: no answer came.
    pub async fn try_send(&self, request: RequestBuilder) -> Result<Answer, reqwest::Error> {
        let request = request.build()?;
        let asked = format!("{} {}", request.method(), request.url().path());
        let response = self.http.execute(request).await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Answer { asked, status, headers, body: response.bytes().await?.to_vec() })
    }

    /// Sends a request, to which some answer must come.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        self.try_send(request).await.unwrap_or_else(|error| panic!("the server did not answer: {error:?}"))
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// POST with a JSON body.
    pub async fn post(&self, path: &str, body: &(impl Serialize + Sync)) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// Makes a session.
    pub async fn try_create_session(&self, request: &CreateSession) -> Result<Session, Refusal> {
        let view: SessionView = self.post("/v1/sessions", request).await.ok()?;
        Ok(self.session(&view.session_id))
    }

    /// Makes a session, which must work.
    pub async fn create_session(&self, request: CreateSession) -> Session {
        self.try_create_session(&request).await.expect("a session can be made")
    }

    /// A session that exists.
    pub fn session(&self, id: &SessionId) -> Session {
        Session::new(self.clone(), id.clone())
    }

    /// The tenant's live sessions.
    pub async fn sessions(&self) -> Vec<SessionView> {
        let list: SessionList = self.get("/v1/sessions").await.ok().expect("sessions can be listed");
        list.sessions
    }

    /// Makes a key of the tenant; this client must be an operator.
    pub async fn create_key(&self, role: Role, name: &str) -> NewKey {
        self.post("/v1/keys", &json!({"role": role, "name": name})).await.ok().expect("an operator makes keys")
    }

    /// The same server with a new key of this role.
    pub async fn with_role(&self, role: Role) -> Self {
        let name = format!("test-{}-{}", role.as_str(), crate::random_name());
        self.with_key(&self.create_key(role, &name).await.api_key)
    }

    /// Opens the live socket.
    pub async fn viewer(&self) -> Viewer {
        Viewer::connect(self).await
    }
}
