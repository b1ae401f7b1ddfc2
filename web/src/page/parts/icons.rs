//! The one set of icons: 16 px, drawn with the current colour. States have a shape of their own each.

use crate::page::parts::part::part;
use leptos::prelude::*;

use crate::state::look::Glyph;

/// The icon of a state.
#[component]
pub fn StateIcon(#[prop(into)] glyph: Signal<Glyph>) -> impl IntoView {
    view! { <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{part(move || draw(glyph.get()))}</svg> }
}

fn draw(glyph: Glyph) -> AnyView {
    let stroke = |d: &'static str| view! { <path class="stroke" d=d /> }.into_any();
    match glyph {
        Glyph::Dot => view! { <circle cx="8" cy="8" r="4.5" fill="currentColor" /> }.into_any(),
        Glyph::Hollow => view! { <circle class="stroke" cx="8" cy="8" r="4" /> }.into_any(),
        Glyph::Half => view! {
            <circle class="stroke" cx="8" cy="8" r="4.5" />
            <path d="M8 3.5a4.5 4.5 0 0 0 0 9z" fill="currentColor" />
        }
        .into_any(),
        Glyph::Triangle => view! { <path d="M8 2.6 14 13H2z" fill="currentColor" /> }.into_any(),
        Glyph::Square => {
            view! { <rect x="3.75" y="3.75" width="8.5" height="8.5" rx="1.5" fill="currentColor" /> }.into_any()
        }
        Glyph::Check => stroke("m3.5 8.5 3 3 6-7"),
        Glyph::Cross => stroke("m4.25 4.25 7.5 7.5m0-7.5-7.5 7.5"),
        Glyph::Hourglass => stroke(
            "M4.5 2.75h7m-7 10.5h7M5.25 3c0 2.5 2.75 3.5 2.75 5s-2.75 2.5-2.75 5m5.5-10c0 2.500-2.750 3.500-2.750 5s2.750 2.500 2.750 5",
        ),
        Glyph::Waves => stroke(
            "M2.500 6.250q1.375-2 2.750 0t2.750 0 2.750 0 2.750 0M2.500 10.250q1.375-2 2.750 0t2.750 0 2.750 0 2.750 0",
        ),
        Glyph::Dash => stroke("M4 8h8"),
        Glyph::Turn => stroke(
            "M12.500 5.500A5 5 0 0 0 3.250 6.800M3.500 10.500a5 5 0 0 0 9.250-1.300M12.750 2.750v3h-3M3.250 13.250v-3h3",
        ),
    }
}

/// Names of the other icons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// Back.
    Back,
    /// Copy.
    Copy,
    /// Done.
    Done,
    /// Download.
    Download,
    /// Facts.
    Info,
    /// A list.
    List,
    /// Add.
    Plus,
    /// Search.
    Search,
    /// Terminal.
    Terminal,
    /// Delete.
    Trash,
    /// Close.
    Close,
    /// Down.
    Down,
    /// Sun, moon, both: the theme.
    Theme,
    /// Keyboard.
    Keys,
    /// A small arrow for menus.
    Caret,
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A new folder.
    FolderPlus,
    /// A link.
    Link,
    /// Edit.
    Pencil,
    /// Upload.
    Upload,
    /// What was.
    History,
    /// More than one in one place.
    Together,
}

/// One of the other icons.
#[component]
pub fn Icon(name: Name) -> impl IntoView {
    let d = match name {
        Name::Back => "M9.500 3.500 5 8l4.500 4.500",
        Name::Copy => {
            "M5.750 5.750v-2c0-.6.400-1 1-1h5.500c.6 0 1 .400 1 1v5.500c0 .6-.400 1-1 1h-2M3.750 5.750h5.500c.6 0 1 .400 1 1v5.500c0 .6-.400 1-1 1h-5.500c-.6 0-1-.400-1-1v-5.500c0-.6.400-1 1-1z"
        }
        Name::Done => "m3.500 8.500 3 3 6-7",
        Name::Download => "M8 2.750v7.500m-3-3 3 3 3-3M3 13.250h10",
        Name::Info => "M8 7.250v4M8 4.600v.2M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0z",
        Name::List => "M5.500 4h8m-8 4h8m-8 4h8M2.750 4h.1m-.1 4h.1m-.1 4h.1",
        Name::Plus => "M8 3v10M3 8h10",
        Name::Search => "M11.500 7A4.500 4.500 0 1 1 2.500 7a4.500 4.500 0 0 1 9 0zm-1.300 3.200L13.500 13.500",
        Name::Terminal => {
            "M2.750 3.250h10.500c.3 0 .5.200.5.500v8.500c0 .3-.200.500-.500.500H2.750c-.3 0-.5-.200-.5-.500v-8.500c0-.3.200-.500.500-.500zM4.750 6l2 2-2 2m4 .250h2.500"
        }
        Name::Trash => {
            "M2.750 4.250h10.500M6.250 4v-1.250h3.500V4M4.250 4.500l.5 8.750h6.500l.5-8.750M6.750 7v3.750M9.250 7v3.750"
        }
        Name::Close => "m4 4 8 8m0-8-8 8",
        Name::Down => "M8 3v9.500m-4-4 4 4 4-4",
        Name::Theme => {
            "M13.500 8a5.500 5.500 0 1 1-11 0 5.500 5.500 0 0 1 11 0zM8 2.500v11M10.500 3.500v9M12.500 5.500v5"
        }
        Name::Keys => "M2.250 4.250h11.500v7.500H2.250zM4.500 6.500h.1m2.300 0h.1m2.300 0h.1m2.100 0h.1M5 9.500h6",
        Name::Caret => "m5 6.500 3 3 3-3",
        Name::File => "M4.250 2.250h5l2.500 2.750v8.750h-7.500zM9 2.500v2.750h2.750",
        Name::Folder => {
            "M2.250 4c0-.4.300-.750.750-.750h3l1.500 1.750h5.500c.4 0 .750.300.750.750v6.250c0 .4-.300.750-.750.750H3c-.4 0-.750-.300-.750-.750z"
        }
        Name::FolderPlus => {
            "M2.250 4c0-.4.300-.750.750-.750h3l1.500 1.750h5.500c.4 0 .750.300.750.750v6.250c0 .4-.300.750-.750.750H3c-.4 0-.750-.300-.750-.750zM8 7.250v3.500m-1.750-1.750h3.500"
        }
        Name::Link => "M6.750 9.250 12.750 3.250m-4 0h4v4M11 9.500v3.250H3.250V5H6.500",
        Name::Pencil => "m3 13 .6-2.700 7.100-7.100 2.100 2.100-7.100 7.100z",
        Name::Upload => "M8 10.250v-7.500m-3 3 3-3 3 3M3 13.250h10",
        Name::Together => {
            "M8.750 8A3.250 3.250 0 1 1 2.250 8a3.250 3.250 0 0 1 6.500 0zM13.750 8A3.250 3.250 0 1 1 7.250 8a3.250 3.250 0 0 1 6.500 0z"
        }
        Name::History => "M3 8a5 5 0 1 0 1.500-3.600M3 3v2.500h2.500M8 5.250V8l2 1.250",
    };
    view! { <svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path class="stroke" d=d /></svg> }
}
