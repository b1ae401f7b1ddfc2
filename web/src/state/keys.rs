//! What a key means. Never called while a terminal or a text field has the focus, except for those that work everywhere.

/// What someone wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Next row.
    Down,
    /// Previous row.
    Up,
    /// Open the row.
    Open,
    /// Go to the filter.
    Filter,
    /// Sessions, commands, actions.
    Palette,
    /// The history.
    History,
    /// Files of the session.
    Files,
    /// Facts about the session.
    Facts,
    /// Back to the newest command.
    Newest,
    /// Ask whether to kill the shown command.
    Kill,
    /// The list of keys.
    Help,
}

/// A key press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Press<'a> {
    /// `KeyboardEvent.key`.
    pub key: &'a str,
    /// Control or Command.
    pub command: bool,
    /// Shift.
    pub shift: bool,
    /// Alt.
    pub alt: bool,
    /// Does a text field, a terminal or a dialog have the focus?
    pub typing: bool,
}

/// What a key press means, if anything.
pub fn wish(press: Press<'_>) -> Option<Wish> {
    if press.command && !press.alt && !press.shift && press.key.eq_ignore_ascii_case("k") {
        return Some(Wish::Palette);
    }
    if press.typing || press.command || press.alt {
        return None;
    }
    match press.key {
        "j" => Some(Wish::Down),
        "k" => Some(Wish::Up),
        "Enter" => Some(Wish::Open),
        "/" => Some(Wish::Filter),
        "h" => Some(Wish::History),
        "f" => Some(Wish::Files),
        "i" => Some(Wish::Facts),
        "." => Some(Wish::Newest),
        "X" if press.shift => Some(Wish::Kill),
        "?" => Some(Wish::Help),
        _ => None,
    }
}

/// Keys and what they do, for the help sheet.
pub const HELP: [(&str, &str); 16] = [
    ("j  k", "next, previous row"),
    ("Enter", "open the row"),
    ("/", "filter the list; in the history: search"),
    ("Ctrl K", "find a session, a command, an action"),
    ("h", "history: search everything, ended sessions"),
    (".", "back to the newest command"),
    ("f", "files of the session"),
    ("i", "facts about the session"),
    ("Shift X", "kill the shown command (asks first)"),
    ("Esc", "close; twice: leave the output"),
    ("Home  End", "in the output: to its start, to live"),
    ("← →", "in the files: close, open a folder"),
    ("F2  Del", "in the files: rename, delete (both ask)"),
    ("Backspace", "in the files: to the folder above"),
    ("Ctrl S", "in the editor: save"),
    ("?", "this list"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn press(key: &str) -> Press<'_> {
        Press { key, command: false, shift: false, alt: false, typing: false }
    }

    #[test]
    fn letters_work_only_where_nobody_types() {
        assert_eq!(wish(press("j")), Some(Wish::Down));
        assert_eq!(wish(Press { typing: true, ..press("j") }), None);
        assert_eq!(wish(Press { command: true, ..press("f") }), None, "the browser's own search");
        assert_eq!(wish(press("q")), None);
    }

    #[test]
    fn the_palette_opens_from_everywhere_and_a_kill_needs_shift() {
        assert_eq!(wish(Press { command: true, typing: true, ..press("k") }), Some(Wish::Palette));
        assert_eq!(wish(press("x")), None);
        assert_eq!(wish(Press { shift: true, ..press("X") }), Some(Wish::Kill));
    }
}
