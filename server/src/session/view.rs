//! How a session looks to those who may see it.

use glassbox_shared::session::SessionView;

use super::settings::SessionSettings;
use crate::store::SessionRecord;

/// What changes without a change of the record.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Last use, Unix seconds.
    pub last_used_at: f64,
    /// Commands that have not ended.
    pub running: u64,
}

/// Puts a view together; `clients` and `latest_command` are left to the caller.
pub fn view(record: &SessionRecord, now: Now, settings: &SessionSettings) -> SessionView {
    let end_of_life = record.created_at + settings.lifetime.as_secs_f64();
    let idle_end = now.last_used_at + settings.idle.as_secs_f64();
    let over = record.ended_at.is_some();
    SessionView {
        session_id: record.id.clone(),
        tenant_id: record.tenant.clone(),
        name: record.name.clone(),
        profile: record.profile,
        persistent: true,
        template: record.template.clone(),
        state: record.state,
        limits: record.limits,
        disk_quota_mb: 0,
        egress: Vec::new(),
        created_by: record.created_by.clone(),
        created_at: record.created_at,
        last_accessed_at: now.last_used_at,
        expires_at: (!over).then(|| if now.running > 0 { end_of_life } else { idle_end.min(end_of_life) }),
        ended_at: record.ended_at,
        control: record.control.clone(),
        commands_total: record.commands_total,
        commands_running: now.running,
        restarts: record.restarts.clone(),
        metadata: record.metadata.clone(),
        clients: Vec::new(),
        latest_command: None,
    }
}
