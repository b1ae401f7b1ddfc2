//! Server-sent events, as far as MCP uses them: the data of each.

/// Longest event, in bytes: the longest answer is some 30,000 characters, each escaped, and room to spare.
const MAX_EVENT: usize = 4 * 1024 * 1024;

/// Takes a stream in pieces, gives events.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    after_return: bool,
}

/// An event that no server of ours would send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Events {
    /// Takes what came; answers the data of the events that are whole now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut events = Vec::new();
        for byte in bytes {
            // A line ends with CR, LF, or both.
            let is_second = std::mem::replace(&mut self.after_return, *byte == b'\r') && *byte == b'\n';
            match byte {
                b'\n' if is_second => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                other => self.line.push(*other),
            }
            if self.line.len() + self.data.len() > MAX_EVENT {
                return Err(TooLong);
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return (!data.is_empty()).then_some(data);
        }
        // Names, ids and comments are of no use here.
        let data = line.strip_prefix(b"data:")?;
        if !self.data.is_empty() {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_whatever_the_pieces() {
        let text = ": hello\n\nid: 1\r\ndata: {\"a\":\r\ndata:1}\r\n\r\ndata:\n\nevent: message\rdata: two\r\rdata: unfinished";
        for size in 1..text.len() {
            let mut events = Events::default();
            let all: Vec<Vec<u8>> =
                text.as_bytes().chunks(size).flat_map(|piece| events.take(piece).expect("short")).collect();
            assert_eq!(all, [b"{\"a\":\n1}".to_vec(), b"two".to_vec()], "{size}");
        }
    }

    #[test]
    fn an_event_without_end_is_not_kept() {
        let mut events = Events::default();
        let piece = vec![b'x'; 1 << 20];
        assert!((0..8).any(|_| events.take(&piece) == Err(TooLong)));
    }
}
