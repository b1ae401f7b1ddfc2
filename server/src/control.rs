//! Who may do what: one table, asked on every way in.
//!
//! [`Principal`] says who asks; [`Act`] what for; [`may`] decides from the role alone, [`may_act_in`] also from who is in
//! control of the session. Plain functions without a clock, a lock or I/O.

use glassbox_shared::actor::{Actor, Role};
use glassbox_shared::error::ErrorCode;
use glassbox_shared::id::KeyId;
use glassbox_shared::session::ControlView;
use glassbox_shared::text::plain;

use crate::error::DomainError;

/// Who asks: the tenant and role of a valid key or sign-in, and the name to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Whose sessions can be seen.
    pub tenant: String,
    /// What may be done.
    pub role: Role,
    /// Who is written down.
    pub actor: Actor,
    /// The key behind it, which tells those who use it apart from others; one given by configuration has an id, too.
    pub key_id: Option<KeyId>,
}

/// Longest name that an agent gives itself, in characters: a client's name and version.
const MAX_LABEL: usize = 60;

impl Principal {
    /// The same under the name that an agent gives itself, if it gives one.
    pub fn called_as(&self, label: Option<&str>) -> Result<Self, DomainError> {
        label.map_or_else(|| Ok(self.clone()), |label| self.clone().called(label))
    }

    /// The same under the name that an agent gives itself, for the record; people and the server keep theirs.
    pub fn called(mut self, label: &str) -> Result<Self, DomainError> {
        let label = plain(label).trim().to_owned();
        if !(1..=MAX_LABEL).contains(&label.chars().count()) {
            return Err(DomainError::invalid(format!("agent is a name of 1 to {MAX_LABEL} characters")));
        }
        if let Actor::Agent { name } = &mut self.actor {
            *name = label;
        }
        Ok(self)
    }
}

/// Something that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// See sessions, commands, output, history.
    Watch,
    /// Make a session.
    CreateSession,
    /// End a session.
    DeleteSession,
    /// Run a command.
    Run,
    /// Kill or signal a command, stop a copy or a deletion.
    Kill,
    /// Remove an ended session from the history for good.
    Purge,
    /// List, create and revoke the tenant's keys.
    ManageKeys,
}

/// Every act, for tests and documents.
pub const ACTS: [Act; 7] =
    [Act::Watch, Act::CreateSession, Act::DeleteSession, Act::Run, Act::Kill, Act::Purge, Act::ManageKeys];

/// May this role ask for this at all?
pub fn role_may(role: Role, act: Act) -> bool {
    match role {
        Role::Agent => !matches!(act, Act::Purge | Act::ManageKeys),
        Role::Viewer => act == Act::Watch,
        Role::Operator => true,
        Role::Admin => false,
    }
}

/// Refuses what the role does not allow.
pub fn may(principal: &Principal, act: Act) -> Result<(), DomainError> {
    if role_may(principal.role, act) {
        return Ok(());
    }
    let detail = match act {
        Act::Watch => "an admin key manages keys and sees no sandboxes; use a key of the tenant",
        Act::ManageKeys => "only operators manage keys; use an operator's key",
        Act::Purge => "only operators remove sessions from the history; use an operator's key",
        Act::Kill => "viewers cannot kill or stop anything; use an agent's or operator's key",
        _ => "viewers only watch; use an agent's or operator's key",
    };
    Err(DomainError::new(ErrorCode::Forbidden, detail))
}

/// Refuses also what needs control of the session that someone else has.
///
/// Killing and stopping, and deleting by an operator, never need control: they are the brakes.
pub fn may_act_in(principal: &Principal, act: Act, control: &ControlView) -> Result<(), DomainError> {
    may(principal, act)?;
    let needs_control = match act {
        Act::Run => true,
        Act::DeleteSession => principal.role == Role::Agent,
        _ => false,
    };
    if !needs_control || in_control(principal, control) {
        return Ok(());
    }
    let detail = match &control.holder {
        Actor::Human { name } => format!("{name} is in control of this session; wait until it is handed back"),
        _ => "an agent is in control of this session; watching and killing are possible, running commands is not"
            .to_owned(),
    };
    Err(DomainError::new(ErrorCode::NotInControl, detail))
}

/// An agent's session is used by any agent of its tenant, a human's by that human.
fn in_control(principal: &Principal, control: &ControlView) -> bool {
    match (&control.holder, &principal.actor) {
        (Actor::Agent { .. }, Actor::Agent { .. }) => true,
        (Actor::Human { name }, Actor::Human { name: own }) => name == own,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(role: Role, human: Option<&str>) -> Principal {
        let actor = human.map_or(Actor::Agent { name: "agent-7".into() }, |name| Actor::Human { name: name.into() });
        Principal { tenant: "acme".into(), role, actor, key_id: None }
    }

    fn held_by(actor: Actor) -> ControlView {
        ControlView { holder: actor, since: 0.0 }
    }

    #[test]
    fn the_role_table_is_the_one_in_the_states_page() {
        let allowed = |role| ACTS.into_iter().filter(|act| role_may(role, *act)).count();
        assert_eq!(allowed(Role::Operator), ACTS.len());
        assert_eq!(allowed(Role::Agent), ACTS.len() - 2);
        assert!(!role_may(Role::Agent, Act::Purge));
        assert!(!role_may(Role::Agent, Act::ManageKeys));
        assert_eq!(allowed(Role::Viewer), 1);
        assert!(role_may(Role::Viewer, Act::Watch));
        assert_eq!(allowed(Role::Admin), 0);
    }

    #[test]
    fn an_operator_cannot_run_in_an_agents_session_but_can_kill_and_delete_there() {
        let operator = principal(Role::Operator, Some("Ann"));
        let control = held_by(Actor::Agent { name: "a".into() });
        assert_eq!(may_act_in(&operator, Act::Run, &control).map_err(|e| e.code), Err(ErrorCode::NotInControl));
        assert!(may_act_in(&operator, Act::Kill, &control).is_ok());
        assert!(may_act_in(&operator, Act::DeleteSession, &control).is_ok());
    }

    #[test]
    fn an_agent_cannot_run_or_delete_in_a_humans_session_but_can_kill_there() {
        let agent = principal(Role::Agent, None);
        let control = held_by(Actor::Human { name: "Ann".into() });
        assert!(may_act_in(&agent, Act::Run, &control).is_err());
        assert!(may_act_in(&agent, Act::DeleteSession, &control).is_err());
        assert!(may_act_in(&agent, Act::Kill, &control).is_ok());
    }

    #[test]
    fn a_humans_control_is_one_named_human() {
        let control = held_by(Actor::Human { name: "Ann".into() });
        assert!(may_act_in(&principal(Role::Operator, Some("Ann")), Act::Run, &control).is_ok());
        assert!(may_act_in(&principal(Role::Operator, Some("Bob")), Act::Run, &control).is_err());
    }
}
