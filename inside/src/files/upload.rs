//! Large files in pieces: each is a temporary file that waits for its name.

use std::collections::HashMap;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use glassbox_shared::error::ErrorCode;
use glassbox_shared::files::frames::{Answer, MAX_UPLOADS};

use super::Service;
use super::error::{Error, Naming as _, Result};
use super::root::{Parts, Place};
use super::talk::Talk;
use super::write::{Temporary, at_place, check_room, target};

#[derive(Debug)]
struct Upload {
    temporary: Temporary,
    parts: Parts,
    place: Place,
    size: u64,
    offset: u64,
    replace: bool,
}

/// All uploads that are under way. One that is just being added to is out of the map, so that nobody else adds to it.
#[derive(Debug, Default)]
pub struct Uploads(Mutex<HashMap<String, Option<Upload>>>);

impl Uploads {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Option<Upload>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All are given up.
    pub fn clear(&self) {
        self.lock().clear();
    }
}

fn unknown() -> Error {
    Error::new(ErrorCode::NotFound, "there is no such upload; it may have been given up for lack of use; begin again")
}

fn busy() -> Error {
    Error::new(ErrorCode::Conflict, "another request is adding to this upload; ask how far it is in a moment")
}

pub fn start(service: &Service, talk: &Talk, id: String, path: &str, size: u64, replace: bool) -> Result<Answer> {
    let parts = service.root.parts(path)?;
    let shown = parts.join(&b'/');
    let place = target(service, &parts, replace)?;
    check_room(&place.folder, size, &shown)?;
    service.temporaries.clear(talk, &place.folder, &shown)?;
    let mut uploads = service.uploads.lock();
    if uploads.len() >= MAX_UPLOADS {
        let detail = format!("{MAX_UPLOADS} uploads are under way, which is the limit; finish or delete one first");
        return Err(Error::new(ErrorCode::FileLimit, detail));
    }
    let temporary = Temporary::make(service, talk, &place.folder, &shown)?;
    uploads.insert(id, Some(Upload { temporary, parts, place, size, offset: 0, replace }));
    Ok(Answer::Upload { offset: 0, size, entry: None })
}

pub fn look(service: &Service, id: &str) -> Result<Answer> {
    match service.uploads.lock().get(id) {
        Some(Some(upload)) => Ok(Answer::Upload { offset: upload.offset, size: upload.size, entry: None }),
        Some(None) => Err(busy()),
        None => Err(unknown()),
    }
}

pub fn drop(service: &Service, id: &str) -> Result<Answer> {
    match service.uploads.lock().remove(id) {
        // Whoever is adding to one finds it gone, and lets it go.
        Some(_) => Ok(Answer::Nothing),
        None => Err(unknown()),
    }
}

pub fn append(service: &Service, talk: &Talk, id: &str, offset: u64) -> Result<Answer> {
    let mut upload = match service.uploads.lock().get_mut(id) {
        Some(held) => held.take().ok_or_else(busy)?,
        None => return Err(unknown()),
    };
    let added = if offset == upload.offset {
        add(talk, &mut upload)
    } else {
        let detail = format!("the upload is at {}; go on from there", upload.offset);
        Err(Error::new(ErrorCode::Conflict, detail))
    };
    let mut uploads = service.uploads.lock();
    if added.is_ok() && upload.offset == upload.size && uploads.contains_key(id) {
        uploads.remove(id);
        std::mem::drop(uploads);
        upload.temporary.name(&upload.place, upload.replace)?;
        let Answer::Entry(entry) = at_place(service, &upload.parts, &upload.place)? else { return Err(unknown()) };
        return Ok(Answer::Upload { offset: upload.size, size: upload.size, entry: Some(entry) });
    }
    let answer = Answer::Upload { offset: upload.offset, size: upload.size, entry: None };
    // Also after a failure: what has arrived is kept, and the client goes on from there.
    match uploads.get_mut(id) {
        Some(held) => *held = Some(upload),
        None => return Err(unknown()),
    }
    added.map(|()| answer)
}

/// Adds what comes. What a connection that breaks off has brought so far stays.
fn add(talk: &Talk, upload: &mut Upload) -> Result<()> {
    let shown = upload.parts.join(&b'/');
    upload.temporary.file.seek(SeekFrom::Start(upload.offset)).of(&shown)?;
    while let Some(bytes) = talk.receive()? {
        if upload.offset + bytes.len() as u64 > upload.size {
            let detail = format!("more came than the {} bytes that were told at the beginning", upload.size);
            return Err(Error::new(ErrorCode::TooLarge, detail));
        }
        upload.temporary.file.write_all(&bytes).of(&shown)?;
        upload.offset += bytes.len() as u64;
    }
    Ok(())
}
