//! Are the events complete? Within an epoch sequences only grow; numbers are left out where something newer about the same
//! thing follows. What was really lost the server says itself, and then, as with another epoch, the lists are loaded again.

/// What to do with what came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Take the event in.
    Apply,
    /// Known already.
    Skip,
    /// Something is missing: load the lists (and take the event in).
    Reload,
}

/// Where the feed is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Feed {
    epoch: Option<String>,
    sequence: u64,
}

impl Feed {
    /// A connection was greeted. [`Step::Reload`] unless exactly this is where the last one ended.
    pub fn hello(&mut self, epoch: &str, sequence: u64) -> Step {
        let same = self.epoch.as_deref() == Some(epoch) && self.sequence == sequence;
        self.epoch = Some(epoch.to_owned());
        self.sequence = sequence;
        if same { Step::Skip } else { Step::Reload }
    }

    /// An event came.
    pub fn event(&mut self, sequence: u64) -> Step {
        if sequence <= self.sequence {
            return Step::Skip;
        }
        self.sequence = sequence;
        Step::Apply
    }

    /// The server dropped events.
    pub fn reload(&mut self, sequence: u64) -> Step {
        self.sequence = self.sequence.max(sequence);
        Step::Reload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reconnect_without_news_keeps_what_is_shown() {
        let mut feed = Feed::default();
        assert_eq!(feed.hello("a", 5), Step::Reload);
        assert_eq!(feed.event(6), Step::Apply);
        assert_eq!(feed.hello("a", 6), Step::Skip);
        assert_eq!(feed.hello("a", 9), Step::Reload);
        assert_eq!(feed.event(10), Step::Apply);
    }

    #[test]
    fn a_new_server_or_a_loss_loads_the_lists_again_and_a_jump_does_not() {
        let mut feed = Feed::default();
        feed.hello("a", 5);
        assert_eq!(feed.event(8), Step::Apply);
        assert_eq!(feed.event(8), Step::Skip);
        assert_eq!(feed.reload(12), Step::Reload);
        assert_eq!(feed.event(13), Step::Apply);
        assert_eq!(feed.hello("b", 0), Step::Reload);
        assert_eq!(feed.event(1), Step::Apply);
    }
}
