//! The one error shape: `{"detail": TEXT, "code": CODE, "request_id": ID}`.
//!
//! `detail` is for people and says what to do; `code` is stable and for programs.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:literal),+ $(,)?) => {
        /// Stable error codes, each with its HTTP status.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum ErrorCode { $($(#[$doc])* $name),+ }

        impl ErrorCode {
            /// The HTTP status that goes with the code.
            pub fn status(self) -> u16 {
                match self { $(ErrorCode::$name => $status),+ }
            }
        }
    };
}

codes! {
    /// The request is not HTTP as we speak it (a header that cannot be read, for example).
    BadRequest = 400,
    /// The image is not one that operators allow.
    TemplateNotAllowed = 400,
    /// A key was put into the address; addresses end up in logs.
    KeyInUrl = 400,
    /// No key, or not a valid one.
    Unauthorized = 401,
    /// The sign-in link was used already or is too old.
    LinkExpired = 401,
    /// The role does not allow this.
    Forbidden = 403,
    /// Someone else is in control of the session.
    NotInControl = 403,
    /// The session belongs to another tenant.
    OtherTenant = 403,
    /// The Host header is not one that this server answers to.
    HostNotAllowed = 421,
    /// The Origin header is foreign, or missing where it is required.
    OriginNotAllowed = 403,
    /// The path leads out of the workspace.
    OutsideWorkspace = 403,
    /// The sandbox's user may not do this to this file.
    PermissionDenied = 403,
    /// No such route or object.
    NotFound = 404,
    /// The method does not exist on this route.
    MethodNotAllowed = 405,
    /// The command has ended already.
    AlreadyEnded = 409,
    /// The state does not allow this now.
    Conflict = 409,
    /// Something of that name is there already.
    Exists = 409,
    /// The folder is not empty.
    NotEmpty = 409,
    /// The file is not the version that was expected, or is there although it was to be new.
    Changed = 412,
    /// Bytes were asked for that do not exist yet.
    OffsetBeyondEnd = 416,
    /// The body is larger than allowed.
    TooLarge = 413,
    /// Body or query of the wrong shape.
    Invalid = 422,
    /// A file name or path that cannot be.
    BadName = 422,
    /// It is a folder, a pipe, a socket or a device: only files have content.
    NotAFile = 422,
    /// It is not a folder.
    NotAFolder = 422,
    /// Links lead to links without end.
    LinkLoop = 422,
    /// Too many requests a minute.
    RateLimited = 429,
    /// The tenant's session limit.
    SessionLimit = 429,
    /// Too many commands running in this session.
    CommandLimit = 429,
    /// Too many file operations or uploads at once in this session.
    FileLimit = 429,
    /// Something broke here; the log has the request id.
    Internal = 500,
    /// Not built yet.
    NotImplemented = 501,
    /// No memory left for another sandbox, or too many removals of ended sessions wait already; later there is room.
    NoCapacity = 503,
    /// The container engine does not answer or refuses.
    EngineUnavailable = 503,
    /// The kill could not be verified; the command still counts as running.
    KillUnverified = 503,
    /// The sandbox's file service does not answer; the next request starts a new one.
    FilesUnavailable = 503,
    /// The server is shutting down.
    ShuttingDown = 503,
    /// The data disk is full.
    StorageFull = 507,
    /// The sandbox's disk is full, or its quota used up.
    WorkspaceFull = 507,
}

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// What went wrong and what to do, for people.
    pub detail: String,
    /// The stable code, for programs.
    pub code: ErrorCode,
    /// The id of the request, also in the log.
    pub request_id: String,
}
