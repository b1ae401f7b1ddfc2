//! What goes with an ended session that is removed for good.

use super::past::Record;
use super::words;

/// Its commands and their output. `record`: what the history said of it; `None`: it was not answered yet.
pub fn doomed(commands: u64, record: Option<&Result<Record, String>>) -> String {
    let theirs = if commands == 1 { "it" } else { "they" };
    let output = match record {
        Some(Ok(record)) => format!(": {}", words::bytes(record.output_bytes)),
        Some(Err(why)) => format!(". How much that is could not be read: {why}"),
        None => "; how much that is, is being read".to_owned(),
    };
    format!("{}, and all that {theirs} wrote{output}", words::count(commands, "command", "commands"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_much_goes_is_said_or_why_it_is_not_known() {
        let record = Record { ended_by: None, kept_until: None, output_bytes: 29, commands_failed: 0 };
        assert_eq!(doomed(1, Some(&Ok(record))), "1 command, and all that it wrote: 29 B");
        assert_eq!(doomed(2, None), "2 commands, and all that they wrote; how much that is, is being read");
        assert_eq!(
            doomed(2, Some(&Err("The server cannot be reached.".to_owned()))),
            "2 commands, and all that they wrote. How much that is could not be read: The server cannot be reached."
        );
    }
}
