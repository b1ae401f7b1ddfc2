//! What an address of the page means.

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// `/`
    Sessions,
    /// `/sessions/{id}`
    Session,
    /// `/history`
    History,
    /// Nothing is there.
    Nowhere,
}

/// Which page a path shows.
pub fn page(path: &str) -> Page {
    match path.split('/').skip(1).collect::<Vec<_>>()[..] {
        [""] => Page::Sessions,
        ["history"] => Page::History,
        ["sessions", id] | ["sessions", id, ""] if !id.is_empty() => Page::Session,
        _ => Page::Nowhere,
    }
}

/// The id in `/sessions/{id}…`.
pub fn session(path: &str) -> Option<&str> {
    path.strip_prefix("/sessions/")?.split('/').next().filter(|id| !id.is_empty())
}

/// Where an address really leads, if elsewhere. `/sessions/{id}/commands/{command}?at=OFFSET` is the stable link to a
/// command, or to a place in its output.
pub fn redirect(path: &str, at: Option<&str>) -> Option<String> {
    match path.split('/').skip(1).collect::<Vec<_>>()[..] {
        ["sign-in" | "sessions"] => Some("/".to_owned()),
        ["sessions", id, "commands", command] => {
            let at = at.and_then(|at| at.parse::<u64>().ok()).map(|at| format!("&at={at}")).unwrap_or_default();
            Some(format!("/sessions/{id}?command={command}{at}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_pages() {
        assert_eq!(
            ["/", "/history", "/sessions/sbx_a", "/sessions/", "/x", "/sessions/a/b"].map(page),
            [Page::Sessions, Page::History, Page::Session, Page::Nowhere, Page::Nowhere, Page::Nowhere]
        );
        assert_eq!(session("/sessions/sbx_a/commands/cmd_b"), Some("sbx_a"));
        assert_eq!(session("/"), None);
    }

    #[test]
    fn stable_links_lead_to_a_command_and_a_place_in_its_output() {
        let link = "/sessions/sbx_a/commands/cmd_b";
        assert_eq!(redirect(link, Some("4096")).as_deref(), Some("/sessions/sbx_a?command=cmd_b&at=4096"));
        assert_eq!(redirect(link, Some("<x>")).as_deref(), Some("/sessions/sbx_a?command=cmd_b"));
        assert_eq!(redirect("/sessions/sbx_a", None), None);
    }
}
