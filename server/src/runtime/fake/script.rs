//! What a command of the engine "runs": statements, separated by `;` or a line's end.
//!
//! | statement | does |
//! | --- | --- |
//! | `print TEXT`, `echo TEXT` | writes the text and a line end |
//! | `error TEXT` | the same to stderr, when the command is split |
//! | `flood BYTES` | writes so many bytes, in pieces, as fast as they are taken |
//! | `env NAME`, `cwd` | writes what the command was given |
//! | `sleep MILLISECONDS` | waits |
//! | `hang` | waits until it is ended |
//! | `stubborn` | as `hang`, ends only by KILL after the grace |
//! | `immortal` | as `hang`, survives even KILL, and is named as a survivor |
//! | `deaf` | as `hang`, with a helper that ignores orders: only a sweep ends it |
//! | `exit CODE` | ends with the code; without it a script ends with 0 |
//! | `signal NUMBER` | ends as by somebody's signal |
//! | `leave MILLISECONDS TEXT` | at the end, a child goes on to hold the output open, writes the text and ends |
//! | `claim MILLISECONDS` | at the end, the helper says that it ran so long |
//! | `fail TEXT` | cannot be started, as the first statement |
//! | `vanish` | the helper is gone without a word |
//! | `nonsense` | the helper says something that is no frame |
//! | `die`, `die oom` | the whole sandbox dies |
//!
//! Anything else is an unknown command, as bash has it: exit code 127.

use std::time::Duration;

use bytes::Bytes;
use glassbox_shared::command::Survivor;
use glassbox_shared::helper::{Channel, EndCause, Ended, ExitStatus, FromHelper, MAX_OUTPUT, Start, ToHelper};
use glassbox_shared::session::DeathCause;
use tokio::time::{Instant, sleep, sleep_until};

use super::FOREVER;
use super::helper::{Helper, PID};

/// SIGTERM and SIGKILL.
const TERM: i32 = 15;
pub(super) const KILL: i32 = 9;

/// How much a command resists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resistance {
    None,
    Stubborn,
    Immortal,
    Deaf,
}

/// How a script went.
pub(super) struct Played {
    /// How the command ended.
    pub(super) ended: Ended,
    /// After so long a child that it left writes this.
    pub(super) left: Option<(Duration, String)>,
}

impl Helper {
    /// Runs the script to its end. `None`: the helper is over without a word.
    pub(super) async fn play(&mut self, script: &str, start: &Start, limit: Instant) -> Option<Played> {
        let began = Instant::now();
        let mut claimed = None;
        let mut left = None;
        let mut ended = None;
        for statement in script.split([';', '\n']).map(str::trim).filter(|statement| !statement.is_empty()) {
            let (word, rest) = statement.split_once(' ').unwrap_or((statement, ""));
            let number = rest.parse::<u64>().unwrap_or_default();
            ended = match word {
                "print" | "echo" => self.line(start, Channel::Stdout, rest).await?,
                "error" => self.line(start, Channel::Stderr, rest).await?,
                "env" => self.line(start, Channel::Stdout, start.env.get(rest).map_or("", String::as_str)).await?,
                "cwd" => self.line(start, Channel::Stdout, start.cwd.as_deref().unwrap_or("")).await?,
                "flood" => self.flood(start, number, limit).await?,
                "sleep" => {
                    self.wait(start, Instant::now() + Duration::from_millis(number), limit, Resistance::None).await?
                }
                "hang" => self.wait(start, Instant::now() + FOREVER, limit, Resistance::None).await?,
                "stubborn" => self.wait(start, Instant::now() + FOREVER, limit, Resistance::Stubborn).await?,
                "immortal" => self.wait(start, Instant::now() + FOREVER, limit, Resistance::Immortal).await?,
                "deaf" => self.wait(start, Instant::now() + FOREVER, limit, Resistance::Deaf).await?,
                "exit" => Some(own_end(ExitStatus::Code(number as i32))),
                "signal" => Some(own_end(ExitStatus::Signal(number as i32))),
                "leave" => {
                    let (pause, text) = rest.split_once(' ').unwrap_or((rest, ""));
                    left = Some((Duration::from_millis(pause.parse().unwrap_or_default()), text.to_owned()));
                    None
                }
                "claim" => {
                    claimed = Some(number);
                    None
                }
                "vanish" => return None,
                "nonsense" => {
                    self.raw(b"this is no frame".as_slice()).await?;
                    return None;
                }
                "die" => {
                    let cause = if rest == "oom" { DeathCause::Oom } else { DeathCause::Exit };
                    self.engine.kill_container(&self.container, cause);
                    return None;
                }
                unknown => {
                    self.line(start, Channel::Stderr, &format!("bash: {unknown}: command not found")).await?;
                    Some(own_end(ExitStatus::Code(127)))
                }
            };
            if ended.is_some() {
                break;
            }
        }
        let mut ended = ended.unwrap_or_else(|| own_end(ExitStatus::Code(0)));
        if ended.status != ExitStatus::Unknown {
            ended.ran_ms = claimed.or(Some(began.elapsed().as_millis() as u64));
        }
        Some(Played { ended, left })
    }

    /// Writes until the end, or until told to stop.
    async fn flood(&mut self, start: &Start, bytes: u64, limit: Instant) -> Option<Option<Ended>> {
        let channel = if start.split { Channel::Stdout } else { Channel::Merged };
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        while left > 0 {
            let piece = left.min(MAX_OUTPUT);
            let frame = FromHelper::Output { channel, bytes: vec![b'x'; piece] }.encode(self.tag);
            // Telling comes before writing: a kill must not wait behind output.
            let place = self.output.clone();
            tokio::select! {
                biased;
                told = self.told(start, limit, Resistance::None) => {
                    return Some(Some(told?.obey(Resistance::None).await));
                }
                sent = place.send(Bytes::from(frame)) => sent.ok()?,
            }
            left -= piece;
        }
        Some(None)
    }

    /// Waits until `until`; how the command ended, if it was told to meanwhile.
    pub(super) async fn wait(
        &mut self,
        start: &Start,
        until: Instant,
        limit: Instant,
        resistance: Resistance,
    ) -> Option<Option<Ended>> {
        tokio::select! {
            biased;
            told = self.told(start, limit, resistance) => Some(Some(told?.obey(resistance).await)),
            () = sleep_until(until) => Some(None),
        }
    }

    /// Waits until the command is told to end, or its limit is reached. May be dropped while waiting.
    async fn told(&mut self, start: &Start, limit: Instant, resistance: Resistance) -> Option<Told> {
        let ignores_signals = resistance != Resistance::None;
        loop {
            tokio::select! {
                biased;
                order = self.inbox.next() => match order? {
                    _ if resistance == Resistance::Deaf => {}
                    ToHelper::Kill { grace_ms } => return Some(Told::End(EndCause::Kill, grace_ms)),
                    ToHelper::Signal(number) if number == KILL || !ignores_signals => return Some(Told::Signal(number)),
                    _ => {}
                },
                () = sleep_until(limit), if resistance != Resistance::Deaf => {
                    return Some(Told::End(EndCause::Limit, start.grace_ms));
                }
            }
        }
    }
}

/// Why a command ends before its script does.
enum Told {
    Signal(i32),
    /// A kill or the limit, with the milliseconds of its grace.
    End(EndCause, u64),
}

impl Told {
    /// How the command ends, after the grace that it uses up when it resists.
    async fn obey(self, resistance: Resistance) -> Ended {
        let (cause, grace_ms) = match self {
            Told::Signal(number) => return own_end(ExitStatus::Signal(number)),
            Told::End(cause, grace_ms) => (cause, grace_ms),
        };
        let (status, signal, survivors) = match resistance {
            Resistance::None | Resistance::Deaf => (ExitStatus::Signal(TERM), TERM, Vec::new()),
            Resistance::Stubborn => (ExitStatus::Signal(KILL), KILL, Vec::new()),
            Resistance::Immortal => {
                (ExitStatus::Unknown, KILL, vec![Survivor { pid: PID, name: "immortal".to_owned() }])
            }
        };
        let took_ms = if signal == KILL { grace_ms } else { 0 };
        sleep(Duration::from_millis(took_ms)).await;
        Ended { status, cause, signal, took_ms, ran_ms: None, survivors }
    }
}

pub(super) fn own_end(status: ExitStatus) -> Ended {
    Ended { status, cause: EndCause::Own, signal: 0, took_ms: 0, ran_ms: None, survivors: Vec::new() }
}
