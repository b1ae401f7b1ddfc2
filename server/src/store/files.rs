//! What was done to files through the API, as rows of the time line.

use glassbox_shared::actor::Actor;
use glassbox_shared::files::path;
use glassbox_shared::history::{FileAct, Happening};
use glassbox_shared::id::SessionId;
use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

use super::{Store, StoreError, from_json, to_json};

/// Changes of files that a session's time line holds: more than anybody reads, and some megabytes at most. What comes then
/// is counted in one entry more. (Commands are bounded by the time that they take; a program can write a file in
/// milliseconds.)
const CHANGES: i64 = 10_000;
/// Bytes of all their paths: a path can be as long as 12 KiB as text, and those of honest programs are forty bytes.
const PATH_BYTES: i64 = 4 * 1024 * 1024;

/// Something that was done to a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileChange {
    /// When, in Unix seconds.
    pub at: f64,
    /// Who did it.
    pub by: Actor,
    /// What.
    pub act: FileAct,
    /// The file's path.
    pub path: String,
    /// Where to, of a rename or a copy.
    pub to: Option<String>,
    /// Bytes, where known.
    pub bytes: Option<u64>,
    /// Entries, where known.
    pub entries: Option<u64>,
}

impl Store {
    /// Writes down what was done to a file, or counts it where the session's time line holds enough of that.
    pub async fn add_file_change(&self, session: &SessionId, change: &FileChange) -> Result<(), StoreError> {
        let (session, change) = (session.clone(), change.clone());
        self.write(move |connection| add(connection, &session, &change)).await
    }
}

fn add(connection: &Connection, session: &SessionId, change: &FileChange) -> Result<(), StoreError> {
    let mut last = connection.prepare_cached(
        "SELECT number, path_bytes, actor IS NULL FROM file_changes WHERE session_id = ?1 ORDER BY number DESC LIMIT 1",
    )?;
    let last = last.query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let (number, path_bytes, only_counts): (i64, i64, bool) = last.unwrap_or_default();
    if only_counts {
        connection
            .prepare_cached("UPDATE file_changes SET entries = entries + 1 WHERE session_id = ?1 AND number = ?2")?
            .execute(params![session.as_str(), number])?;
        return Ok(());
    }
    let length = change.path.len() + change.to.as_ref().map_or(0, String::len);
    let path_bytes = path_bytes.saturating_add(i64::try_from(length).unwrap_or(i64::MAX));
    let fits = number < CHANGES && path_bytes <= PATH_BYTES;
    let kept = fits.then_some(change);
    // Beyond what an INTEGER holds there are no files.
    let integer = |number: Option<u64>| number.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    connection
        .prepare_cached(
            "INSERT INTO file_changes (session_id, number, at, actor, act, path, to_path, bytes, entries, path_bytes)
             VALUES (:session_id, :number, :at, :actor, :act, :path, :to_path, :bytes, :entries, :path_bytes)",
        )?
        .execute(named_params! {
            ":session_id": session.as_str(),
            ":number": number + 1,
            ":at": change.at,
            ":actor": kept.map(|change| to_json(&change.by)).transpose()?,
            ":act": kept.map(|change| to_json(&change.act)).transpose()?,
            ":path": kept.map_or("", |change| &change.path),
            ":to_path": kept.and_then(|change| change.to.as_ref()),
            ":bytes": kept.and_then(|change| integer(change.bytes)),
            ":entries": kept.map_or(Some(1), |change| integer(change.entries)),
            ":path_bytes": path_bytes,
        })?;
    Ok(())
}

/// An entry of the time line, from a row that has the actor as `json` and the act as `more`.
pub(super) fn happening(row: &Row<'_>) -> Result<Happening, StoreError> {
    let number = |name| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(name)?.map(i64::cast_unsigned));
    let (Some(by), Some(act)) = (row.get::<_, Option<String>>("json")?, row.get::<_, Option<String>>("more")?) else {
        return Ok(Happening::FileChangesLeftOut { changes: number("entries")?.unwrap_or_default() });
    };
    let path: String = row.get("id")?;
    let to: Option<String> = row.get("text")?;
    Ok(Happening::FileChanged {
        act: from_json(&act)?,
        name: shown(&path),
        to_name: to.as_deref().map(shown),
        path,
        to,
        bytes: number("bytes")?,
        entries: number("entries")?,
        by: from_json(&by)?,
    })
}

/// A path for people.
fn shown(path: &str) -> String {
    path::display(&path::decode(path).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{open, session};

    fn change(number: u32) -> FileChange {
        FileChange {
            at: 2_000_000_000.0 + f64::from(number),
            by: Actor::Human { name: "Ann".into() },
            act: FileAct::Saved,
            path: format!("src/a%20{number}"),
            to: None,
            bytes: Some(u64::from(number)),
            entries: None,
        }
    }

    /// All that the time line tells of files.
    async fn told(store: &Store, session: &SessionId) -> Vec<Happening> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (entries, next) = store.timeline(session, after, 5_000).await.expect("a time line");
            assert!(entries.is_sorted_by_key(|entry| entry.at));
            all.extend(
                entries.into_iter().map(|entry| entry.what).filter(|what| {
                    matches!(what, Happening::FileChanged { .. } | Happening::FileChangesLeftOut { .. })
                }),
            );
            after = next;
            if after.is_none() {
                return all;
            }
        }
    }

    #[tokio::test]
    async fn what_was_done_to_files_is_told_as_it_was_written_down() {
        let store = open();
        let session = session();
        store.insert_session(&session).await.expect("stored");
        let renamed = FileChange {
            act: FileAct::Renamed,
            path: "a%FF".into(),
            to: Some("b%0A".into()),
            bytes: None,
            by: Actor::Agent { name: "agent-7".into() },
            ..change(1)
        };
        let deleted = FileChange { act: FileAct::Deleted, bytes: None, entries: Some(12), ..change(2) };
        for change in [&change(0), &renamed, &deleted] {
            store.add_file_change(&session.id, change).await.expect("stored");
        }
        let store = store.reopen().await;
        let text = |text: &str| text.to_owned();
        let expected = [
            Happening::FileChanged {
                act: FileAct::Saved,
                path: text("src/a%200"),
                name: text("src/a 0"),
                to: None,
                to_name: None,
                bytes: Some(0),
                entries: None,
                by: change(0).by,
            },
            Happening::FileChanged {
                act: FileAct::Renamed,
                path: text("a%FF"),
                name: text("a\\xff"),
                to: Some(text("b%0A")),
                to_name: Some(text("b\\n")),
                bytes: None,
                entries: None,
                by: renamed.by,
            },
            Happening::FileChanged {
                act: FileAct::Deleted,
                path: text("src/a%202"),
                name: text("src/a 2"),
                to: None,
                to_name: None,
                bytes: None,
                entries: Some(12),
                by: change(0).by,
            },
        ];
        assert_eq!(told(&store, &session.id).await, expected);
    }

    #[tokio::test]
    async fn beyond_so_many_changes_they_are_only_counted_and_a_removal_takes_them_all() {
        let store = open();
        let (mut session, other) = (session(), session());
        session.state =
            glassbox_shared::session::SessionState::Ended { reason: glassbox_shared::session::EndReason::Deleted };
        for record in [&session, &other] {
            store.insert_session(record).await.expect("stored");
        }
        let id = session.id.clone();
        store
            .write(move |connection| (0..10_003).try_for_each(|number| add(connection, &id, &change(number))))
            .await
            .expect("stored");
        store.add_file_change(&other.id, &change(7)).await.expect("stored");
        let all = told(&store, &session.id).await;
        assert_eq!(all.len(), 10_001);
        assert_eq!(all.last(), Some(&Happening::FileChangesLeftOut { changes: 3 }));
        store.add_file_change(&session.id, &change(10_003)).await.expect("counted");
        assert_eq!(told(&store, &session.id).await.last(), Some(&Happening::FileChangesLeftOut { changes: 4 }));

        store.begin_purge("acme", &session.id, 1.0).await.expect("begun");
        store.purge_rows(&session.id).await.expect("removed");
        store.end_purge(&session.id).await.expect("nothing is left");
        assert!(told(&store, &session.id).await.is_empty());
        assert_eq!(told(&store, &other.id).await.len(), 1, "another session's stay");
    }

    #[tokio::test]
    async fn very_long_paths_use_up_the_room_sooner() {
        let store = open();
        let session = session();
        store.insert_session(&session).await.expect("stored");
        let id = session.id.clone();
        let long = FileChange { path: "x".repeat(1024 * 1024), to: Some("y".repeat(1024 * 1024)), ..change(1) };
        store.write(move |connection| (0..5).try_for_each(|_| add(connection, &id, &long))).await.expect("stored");
        let all = told(&store, &session.id).await;
        assert_eq!(all.len(), 3);
        assert_eq!(all.last(), Some(&Happening::FileChangesLeftOut { changes: 3 }));
    }
}
