//! Which command a session page shows: the newest, until a person picks one.

use glassbox_shared::command::CommandView;
use glassbox_shared::id::CommandId;

use super::book::Book;

/// The choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// Whatever is newest.
    #[default]
    Newest,
    /// This one.
    Picked(CommandId),
}

impl Choice {
    /// From the address of the page.
    pub fn from_address(command: Option<&str>) -> Self {
        command.and_then(|text| text.parse().ok()).map_or(Choice::Newest, Choice::Picked)
    }

    /// What to show.
    pub fn shown(&self, book: &Book) -> Option<CommandId> {
        match self {
            Choice::Newest => book.newest().map(|command| command.command_id.clone()),
            Choice::Picked(id) => Some(id.clone()),
        }
    }

    /// The newest command, where something else is shown: the way back.
    pub fn way_back<'a>(&self, book: &'a Book) -> Option<&'a CommandView> {
        let newest = book.newest()?;
        matches!(self, Choice::Picked(id) if *id != newest.command_id).then_some(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::samples;

    #[test]
    fn the_newest_is_followed_until_one_is_picked_and_the_way_back_is_offered() {
        let mut book = Book::default();
        assert_eq!(Choice::Newest.shown(&book), None);
        book.apply(samples::command(1, "ls"));
        let picked = Choice::Picked(samples::command_id(1));
        assert_eq!(picked.way_back(&book), None, "it is the newest");
        book.apply(samples::command(2, "make test"));
        assert_eq!(Choice::Newest.shown(&book), Some(samples::command_id(2)));
        assert_eq!(picked.shown(&book), Some(samples::command_id(1)));
        assert_eq!(picked.way_back(&book).map(|command| command.command.as_str()), Some("make test"));
        assert_eq!(Choice::Newest.way_back(&book), None);
    }

    #[test]
    fn an_address_with_nonsense_follows_the_newest() {
        assert_eq!(Choice::from_address(Some("cmd_x")), Choice::Newest);
        assert_eq!(Choice::from_address(Some(samples::command_id(3).as_str())), Choice::Picked(samples::command_id(3)));
    }
}
