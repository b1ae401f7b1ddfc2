//! What the server answered.

use glassbox_shared::error::{ErrorBody, ErrorCode};
use reqwest::header::HeaderMap;
use serde::de::DeserializeOwned;

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What was asked, for messages.
    pub asked: String,
    /// Status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Vec<u8>,
}

/// An answer that is not a success, in the one error shape.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{asked}: {status} {:?}: {}", body.code, body.detail)]
pub struct Refusal {
    /// What was asked.
    pub asked: String,
    /// Status.
    pub status: u16,
    /// `detail`, `code` and `request_id`.
    pub body: ErrorBody,
    /// The header of that name.
    pub retry_after: Option<String>,
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        self.body.code
    }
}

impl Answer {
    /// A header's text; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON, whatever the status.
    pub fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{}: {} with a body that is not as expected ({error}): {}", self.asked, self.status, self.text())
        })
    }

    /// The body of a success, or the refusal.
    pub fn ok<T: DeserializeOwned>(self) -> Result<T, Refusal> {
        self.success().map(|answer| answer.json())
    }

    /// A success, or the refusal.
    pub fn success(self) -> Result<Self, Refusal> {
        if (200..300).contains(&self.status) { Ok(self) } else { Err(self.refusal()) }
    }

    /// The refusal that this must be. Checks the shape that every refusal has.
    pub fn refusal(self) -> Refusal {
        assert!(self.status >= 400, "{}: expected a refusal, got {}: {}", self.asked, self.status, self.text());
        let body: ErrorBody = self.json();
        assert_eq!(body.code.status(), self.status, "{}: code and status belong together", self.asked);
        assert!(!body.detail.is_empty(), "{}: a refusal says why", self.asked);
        assert_eq!(body.request_id, self.header("x-request-id"), "{}: one request id", self.asked);
        let retry_after = self.headers.get("retry-after").map(|_| self.header("retry-after").to_owned());
        Refusal { asked: self.asked, status: self.status, body, retry_after }
    }
}
