//! The end: the only place that writes a final state, and the end of the output.

use std::time::Duration;

use glassbox_shared::actor::Actor;
use glassbox_shared::command::{CommandState, CommandView, Interruption, KillReport};
use glassbox_shared::helper::{EndCause, Ended, ExitStatus};

use super::Driver;
use crate::clock;
use crate::store::StoreError;

/// A final state, and what belongs to it.
pub(super) struct End {
    pub(super) state: CommandState,
    pub(super) kill: Option<KillReport>,
    /// For how long the command's own process lived, as the helper says.
    pub(super) ran: Option<Duration>,
}

impl From<CommandState> for End {
    fn from(state: CommandState) -> Self {
        Self { state, kill: None, ran: None }
    }
}

impl Driver {
    /// The helper reported the end of the command's own process.
    pub(super) async fn ended(&mut self, ended: Ended) {
        let Ended { status, cause, signal, took_ms, ran_ms, survivors } = ended;
        let report = |by: Actor| KillReport { signal, took_ms, by, survivors: survivors.clone() };
        let kill_by = self.kill.as_ref().map(|kill| kill.by.clone());
        let (state, kill) = match (cause, status) {
            (EndCause::Own, ExitStatus::Code(code)) => (CommandState::Exited { code }, None),
            (EndCause::Own, ExitStatus::Signal(signal)) => (CommandState::Signaled { signal }, None),
            (EndCause::Limit, _) => (CommandState::TimedOut, Some(report(Actor::Server))),
            (EndCause::Kill, _) => {
                let by = kill_by.unwrap_or(Actor::Server);
                (CommandState::Killed { signal, by: by.clone() }, Some(report(by)))
            }
            (EndCause::Own, ExitStatus::Unknown) => (CommandState::Interrupted(Interruption::HelperLost), None),
        };
        self.settle(End { state, kill, ran: ran_ms.map(Duration::from_millis) }).await;
    }

    /// Stores a final state, then shows it. Goes on trying until it is stored; `false`: the server stops first.
    pub(super) async fn settle(&mut self, end: End) -> bool {
        let mut view = self.current();
        view.state = end.state;
        view.kill = end.kill;
        (view.started_at, view.ended_at) = times(view.started_at, clock::now(), end.ran, self.asked.elapsed());
        if !self.store(&view).await {
            return false;
        }
        self.kill = None;
        // The engine's word may have come while it was stored; the output's end stores it.
        view.out_of_memory |= self.view.borrow().out_of_memory;
        self.view.send_replace(view);
        self.announce();
        true
    }

    /// The last step: no more output will come.
    pub(super) async fn close_output(&mut self) {
        for (channel, rest) in self.filter.flush() {
            self.append(channel, &rest);
        }
        // The last words of a quick command, which no regular report has told.
        if self.progress.take().is_some() {
            self.announce_progress();
        }
        let Some(writer) = self.writer.take() else { return };
        let state = writer.finish(self.conversation.is_over());
        // An order that was taken is heard: the engine's word on memory comes in just these moments. Whoever comes later is
        // refused, and the owner tells it.
        self.inbox.close();
        while let Ok(order) = self.inbox.try_recv() {
            self.obey(order, None);
        }
        let mut view = self.current();
        view.output_closed = true;
        view.output_complete = state.complete;
        if self.store(&view).await {
            self.view.send_replace(view);
            self.announce();
        }
    }

    /// Stores a view, for as long as it takes. `false`: the server stops first, or the store holds another end already,
    /// which then is the one that counts.
    async fn store(&mut self, view: &CommandView) -> bool {
        loop {
            match self.shared.store.update_command(view).await {
                Ok(()) => return true,
                Err(error @ StoreError::Corrupt(_)) => {
                    tracing::error!(%error, command = %self.command_id, "the store refuses the end of a command");
                    return false;
                }
                Err(error) => {
                    tracing::warn!(%error, command = %self.command_id, "the end of a command could not be stored; trying again");
                    self.unstored(error);
                }
            }
            if !self.wait_for_retry().await {
                return false;
            }
        }
    }
}

/// When a command began and ended. Our clock tells when frames came, and the frames of a quick command come together; so
/// what the helper says of the time between counts, as far as our clock allows it: nothing begins before it was asked for,
/// and nothing has ended later than now.
fn times(heard: Option<f64>, now: f64, ran: Option<Duration>, since_asked: Duration) -> (Option<f64>, Option<f64>) {
    let (Some(started), Some(ran)) = (heard, ran) else { return (heard, Some(now)) };
    let ran = ran.min(since_asked).as_secs_f64();
    if started + ran <= now { (heard, Some(started + ran)) } else { (Some(now - ran), Some(now)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: f64 = 1_000.0;

    fn between(heard: f64, ran_ms: u64) -> (f64, f64) {
        let asked = Duration::from_secs(8);
        let (started, ended) = times(Some(heard), NOW, Some(Duration::from_millis(ran_ms)), asked);
        (started.expect("it began"), ended.expect("it ended"))
    }

    #[test]
    fn a_command_that_is_told_all_at_once_ran_as_long_as_its_helper_says() {
        assert_eq!(between(NOW, 250), (999.75, 1_000.0));
    }

    #[test]
    fn an_end_that_is_told_late_was_when_its_helper_says() {
        assert_eq!(between(994.0, 1_500), (994.0, 995.5));
    }

    #[test]
    fn a_helper_that_lies_moves_nothing_out_of_what_our_clock_saw() {
        assert_eq!(between(994.0, u64::MAX), (992.0, 1_000.0), "not before it was asked for");
        assert_eq!(between(994.0, 0), (994.0, 994.0), "no end before the start");
        // Somebody set our clock back.
        assert_eq!(between(1_100.0, 2_000), (998.0, 1_000.0));
    }

    #[test]
    fn without_the_helpers_word_our_clock_counts() {
        assert_eq!(times(Some(994.0), NOW, None, Duration::ZERO), (Some(994.0), Some(NOW)));
        assert_eq!(times(None, NOW, Some(Duration::from_secs(1)), Duration::ZERO), (None, Some(NOW)));
    }
}
