//! A log's files as they are at one moment, for a copy that is made while the log is being written.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{segment, status};

/// A file of the copy: read so many bytes and no more.
#[derive(Debug)]
pub struct CopiedFile {
    /// Its name in the log's directory.
    pub name: String,
    /// Open, at its beginning; it can be read also when the log removes it meanwhile.
    pub file: File,
    /// What belongs to the copy; the file may be longer by now.
    pub bytes: u64,
}

/// Opens what belongs to a copy; empty where there is no log.
///
/// The order matters. What `status` says of the end was true of the files before it was written, so it comes first; then
/// each segment's bytes, then its index, which has a record for every byte before that is written. What is in the copy is
/// therefore a log as a crash at this moment would have left it, and [`super::Log::open`] takes it for one.
pub fn copy(directory: &Path) -> io::Result<Vec<CopiedFile>> {
    let mut files = Vec::new();
    files.extend(open(directory, status::NAME)?);
    let spans = match segment::list(directory) {
        Ok(spans) => spans,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    for span in spans {
        let [bytes, index] = segment::names(span.start);
        // The oldest of the tail may go between the two; then neither is in the copy.
        if let (Some(bytes), Some(index)) = (open(directory, &bytes)?, open(directory, &index)?) {
            files.push(bytes);
            files.push(index);
        }
    }
    Ok(files)
}

fn open(directory: &Path, name: &str) -> io::Result<Option<CopiedFile>> {
    match File::open(directory.join(name)) {
        Ok(file) => Ok(Some(CopiedFile { name: name.to_owned(), bytes: file.metadata()?.len(), file })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
