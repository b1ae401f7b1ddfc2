//! The order of the helper's frames, as a plain state machine: no I/O, no clock.
//!
//! What the helper says is hostile. A frame that is malformed, out of order or claims what nobody asked for is
//! [`Nonsense`], and the driver then trusts that helper with nothing more.

use glassbox_shared::helper::{Channel, EndCause, Ended, ExitStatus, FrameBuffer, FromHelper};

/// What a frame means to the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// The process lives.
    Started {
        /// Its PID inside the sandbox.
        pid: i32,
    },
    /// It could not be started.
    FailedToStart(String),
    /// Output.
    Output(Channel, Vec<u8>),
    /// The command's own process ended.
    Ended(Ended),
    /// No more output will come.
    OutputClosed,
}

/// The helper said what it cannot truthfully say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the helper sent nonsense: {0}")]
pub struct Nonsense(pub String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Silent,
    Running,
    Ended,
    Over,
}

/// Reads one helper.
#[derive(Debug)]
pub struct Conversation {
    tag: u64,
    split: bool,
    kill_asked: bool,
    phase: Phase,
    buffer: FrameBuffer,
}

/// Longest text of the helper that is kept for people.
const MAX_MESSAGE: usize = 500;

impl Conversation {
    /// Begins; `split` says which channels are possible.
    pub fn new(tag: u64, split: bool) -> Self {
        Self { tag, split, kill_asked: false, phase: Phase::Silent, buffer: FrameBuffer::default() }
    }

    /// A kill was asked for: from now on an end may be its work.
    pub fn kill_was_asked(&mut self) {
        self.kill_asked = true;
    }

    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.push(bytes);
    }

    /// Has the command's own process been seen to start?
    pub fn has_started(&self) -> bool {
        self.phase != Phase::Silent
    }

    /// Did everything come that can come?
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The next frame's meaning.
    pub fn hear(&mut self) -> Result<Option<Heard>, Nonsense> {
        let frame = match self.buffer.next_frame() {
            Ok(None) => return Ok(None),
            Ok(Some((kind, body))) => FromHelper::decode(self.tag, kind, body),
            Err(error) => Err(error),
        };
        let frame = frame.map_err(|error| Nonsense(error.to_string()))?;
        let out_of_order = |what: &str, phase: Phase| Err(Nonsense(format!("{what} while {phase:?}")));
        match (frame, self.phase) {
            (FromHelper::Started { pid }, Phase::Silent) if pid > 0 => {
                self.phase = Phase::Running;
                Ok(Some(Heard::Started { pid }))
            }
            (FromHelper::FailedToStart { message }, Phase::Silent) => {
                self.phase = Phase::Over;
                Ok(Some(Heard::FailedToStart(
                    glassbox_shared::text::plain(&message).chars().take(MAX_MESSAGE).collect(),
                )))
            }
            (FromHelper::Output { channel, bytes }, Phase::Running | Phase::Ended) if self.fits(channel) => {
                Ok(Some(Heard::Output(channel, bytes)))
            }
            (FromHelper::Ended(ended), Phase::Running) => {
                let ended = tame(ended);
                self.check_end(&ended)?;
                self.phase = Phase::Ended;
                Ok(Some(Heard::Ended(ended)))
            }
            (FromHelper::OutputClosed, Phase::Ended) => {
                self.phase = Phase::Over;
                Ok(Some(Heard::OutputClosed))
            }
            (FromHelper::Started { .. }, phase) => out_of_order("started", phase),
            (FromHelper::FailedToStart { .. }, phase) => out_of_order("failed to start", phase),
            (FromHelper::Output { channel, .. }, phase) => out_of_order(&format!("output on {channel:?}"), phase),
            (FromHelper::Ended(_), phase) => out_of_order("ended", phase),
            (FromHelper::OutputClosed, phase) => out_of_order("output closed", phase),
        }
    }

    fn fits(&self, channel: Channel) -> bool {
        match channel {
            Channel::Merged => !self.split,
            Channel::Stdout | Channel::Stderr => self.split,
            Channel::Terminal => false,
        }
    }

    fn check_end(&self, ended: &Ended) -> Result<(), Nonsense> {
        match (ended.cause, ended.status) {
            (EndCause::Kill, _) if !self.kill_asked => Err(Nonsense("an end by a kill that nobody asked for".into())),
            (EndCause::Own, ExitStatus::Unknown) => Err(Nonsense("an end of its own without a status".into())),
            (_, ExitStatus::Code(code)) if !(0..=255).contains(&code) => Err(Nonsense(format!("exit code {code}"))),
            (_, ExitStatus::Signal(signal)) if !(1..=64).contains(&signal) => Err(Nonsense(format!("signal {signal}"))),
            (EndCause::Kill | EndCause::Limit, _) if !(0..=64).contains(&ended.signal) => {
                Err(Nonsense(format!("kill signal {}", ended.signal)))
            }
            _ => Ok(()),
        }
    }
}

/// Longest name of a survivor: the kernel's own are 15 bytes.
const MAX_NAME: usize = 64;

/// Makes the names of survivors fit to be shown and sent to everyone.
pub fn tame(mut ended: Ended) -> Ended {
    for survivor in &mut ended.survivors {
        survivor.name = glassbox_shared::text::plain(&survivor.name).chars().take(MAX_NAME).collect();
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ended(cause: EndCause, status: ExitStatus) -> FromHelper {
        FromHelper::Ended(Ended { status, cause, signal: 15, took_ms: 1, ran_ms: Some(1), survivors: vec![] })
    }

    fn hear_all(conversation: &mut Conversation, frames: &[FromHelper]) -> Result<Vec<Heard>, Nonsense> {
        let mut heard = Vec::new();
        for frame in frames {
            conversation.push(&frame.encode(5));
            while let Some(one) = conversation.hear()? {
                heard.push(one);
            }
        }
        Ok(heard)
    }

    #[test]
    fn an_ordinary_life_is_heard_in_order() {
        let mut conversation = Conversation::new(5, false);
        let frames = [
            FromHelper::Started { pid: 7 },
            FromHelper::Output { channel: Channel::Merged, bytes: b"x".to_vec() },
            ended(EndCause::Own, ExitStatus::Code(0)),
            FromHelper::Output { channel: Channel::Merged, bytes: b"late".to_vec() },
            FromHelper::OutputClosed,
        ];
        assert_eq!(hear_all(&mut conversation, &frames).map(|heard| heard.len()), Ok(5));
        assert!(conversation.is_over());
    }

    #[test]
    fn a_kill_that_nobody_asked_for_is_nonsense() {
        let frames = [FromHelper::Started { pid: 7 }, ended(EndCause::Kill, ExitStatus::Signal(15))];
        assert!(hear_all(&mut Conversation::new(5, false), &frames).is_err());
        let mut asked = Conversation::new(5, false);
        asked.kill_was_asked();
        assert!(hear_all(&mut asked, &frames).is_ok());
    }

    #[test]
    fn nothing_comes_before_the_start_or_twice() {
        for frames in [
            vec![FromHelper::OutputClosed],
            vec![ended(EndCause::Own, ExitStatus::Code(0))],
            vec![FromHelper::Started { pid: 7 }, FromHelper::Started { pid: 7 }],
            vec![FromHelper::Started { pid: 0 }],
            vec![
                FromHelper::Started { pid: 7 },
                ended(EndCause::Own, ExitStatus::Code(0)),
                ended(EndCause::Own, ExitStatus::Code(1)),
            ],
            vec![FromHelper::Started { pid: 7 }, ended(EndCause::Own, ExitStatus::Code(256))],
            vec![FromHelper::Started { pid: 7 }, FromHelper::Output { channel: Channel::Stderr, bytes: vec![] }],
        ] {
            assert!(hear_all(&mut Conversation::new(5, false), &frames).is_err(), "{frames:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_frames_or_nonsense(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let mut conversation = Conversation::new(5, true);
            conversation.push(&bytes);
            while let Ok(Some(_)) = conversation.hear() {}
        }
    }
}
