//! Reading JSON objects field by field. What serde derives for enums with a tag inside is the largest code that there is in
//! the page; the few that come in great variety are read by hand instead, and tests compare with what the server writes.

use serde::de::{DeserializeOwned, Error};
use serde_json::Value;

/// The fields of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields(pub Value);

impl Fields {
    /// Takes one out; one that is not there is null.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str) -> serde_json::Result<T> {
        serde_json::from_value(self.0.get_mut(name).map(Value::take).unwrap_or_default())
    }
}

/// It is of a kind that this page does not know.
pub fn unknown<T>(kind: &str) -> serde_json::Result<T> {
    Err(serde_json::Error::custom(format_args!("unknown: {kind}")))
}
