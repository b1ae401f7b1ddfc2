//! Copies and deletions that are under way, in words; and what stopping one means.

use glassbox_shared::actor::Role;
use glassbox_shared::files::{JobKind, JobView};
use glassbox_shared::text::plain;
use serde_json::Value;

use crate::state::fields::{Fields, unknown};
use crate::state::session::may_act;
use crate::state::words;

/// The jobs of `GET …/fs/jobs`; one that this page does not know is left out.
pub fn read_all(mut list: Value) -> Vec<JobView> {
    let jobs = list.get_mut("jobs").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
    jobs.into_iter().filter_map(|job| read(job).ok()).collect()
}

/// One of them.
pub fn read(job: Value) -> serde_json::Result<JobView> {
    let mut from = Fields(job);
    let kind: String = from.take("kind")?;
    Ok(JobView {
        job_id: from.take("job_id")?,
        kind: match kind.as_str() {
            "copy" => JobKind::Copy,
            "delete" => JobKind::Delete,
            other => return unknown(other),
        },
        path: from.take("path")?,
        name: from.take("name")?,
        to: from.take("to")?,
        to_name: from.take("to_name")?,
        by: from.take("by")?,
        since: from.take("since")?,
        done: from.take("done")?,
        bytes: from.take("bytes")?,
    })
}

/// `Deleting src`, `Copying src to old`. Names come from the sandbox and are for text only.
pub fn what(job: &JobView) -> String {
    match (job.kind, &job.to_name) {
        (JobKind::Delete, _) => format!("Deleting {}", plain(&job.name)),
        (JobKind::Copy, Some(to)) => format!("Copying {} to {}", plain(&job.name), plain(to)),
        (JobKind::Copy, None) => format!("Copying {}", plain(&job.name)),
    }
}

/// `1,204 entries so far · 14 s · by agent-7`
pub fn so_far(job: &JobView, now: f64) -> String {
    let entries = words::count(job.done, "entry", "entries");
    let bytes = if job.bytes == 0 { String::new() } else { format!(", {}", words::bytes(job.bytes)) };
    format!("{entries}{bytes} so far · {} · by {}", words::duration(now - job.since), plain(job.by.name()))
}

/// May this role stop somebody else's? If not, why, in words. As killing a command, it needs no control.
pub fn may_stop(role: Role) -> Result<(), String> {
    match role {
        _ if may_act(role) => Ok(()),
        Role::Viewer => Err("You are signed in to watch. An operator's key can stop this.".to_owned()),
        _ => Err("An admin's key has no sandboxes.".to_owned()),
    }
}

/// Asked before it is stopped.
pub fn question(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Delete => "Stop? What is gone stays gone.",
        JobKind::Copy => "Stop? Nothing of the copy stays.",
    }
}

/// What came of stopping it.
pub fn stopped(job: &JobView) -> String {
    let name = plain(&job.name);
    match job.kind {
        JobKind::Delete => {
            let gone =
                if job.done == 1 { "1 entry was" } else { &format!("{} entries were", words::thousands(job.done)) };
            format!("The deletion of {name} was stopped; {gone} gone by then.")
        }
        JobKind::Copy => format!("The copying of {name} was stopped; nothing of the copy is left."),
    }
}

#[cfg(test)]
mod tests {
    use glassbox_shared::files::JobList;

    use super::*;
    use crate::state::samples::deletion;

    fn copy() -> JobView {
        JobView {
            kind: JobKind::Copy,
            to_name: Some("old\u{1b}[1m".to_owned()),
            bytes: 2_100_000,
            ..deletion("src", 3)
        }
    }

    #[test]
    fn jobs_are_read_as_the_server_writes_them() {
        let jobs = vec![deletion("src", 3), copy()];
        let mut written = serde_json::to_value(JobList { jobs: jobs.clone() }).expect("JSON");
        assert_eq!(read_all(written.clone()), jobs);
        written["jobs"][0]["kind"] = "levitation".into();
        assert_eq!(read_all(written), jobs[1..], "one of a newer server's");
        assert_eq!(read_all(Value::Null), []);
    }

    #[test]
    fn a_job_says_what_it_does_how_far_it_is_and_who_began_it() {
        assert_eq!(what(&deletion("/root/a%20b", 0)), "Deleting /root/a b");
        assert_eq!(what(&copy()), "Copying src to old");
        assert_eq!(so_far(&deletion("src", 1204), 24.0), "1,204 entries so far · 14 s · by agent-7");
        assert_eq!(so_far(&copy(), 9.0), "3 entries, 2.1 MB so far · 0 s · by agent-7");
    }

    #[test]
    fn what_is_gone_is_said_and_a_copy_leaves_nothing() {
        assert_eq!(stopped(&deletion("src", 1)), "The deletion of src was stopped; 1 entry was gone by then.");
        assert_eq!(
            stopped(&deletion("src", 1204)),
            "The deletion of src was stopped; 1,204 entries were gone by then."
        );
        assert_eq!(stopped(&copy()), "The copying of src was stopped; nothing of the copy is left.");
    }

    #[test]
    fn whoever_may_not_stop_one_reads_why() {
        assert_eq!((may_stop(Role::Operator), may_stop(Role::Agent)), (Ok(()), Ok(())));
        assert!(may_stop(Role::Viewer).is_err_and(|why| why.contains("An operator's key can stop this.")));
    }
}
