//! Light or dark: as the system says, unless someone chose.

use gloo_events::EventListener;
use leptos::prelude::*;

use super::interop::browser;

const DARK_QUERY: &str = "(prefers-color-scheme: dark)";

/// What someone chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// As the system.
    System,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

impl Choice {
    /// All, in the order of the toggle.
    pub const ALL: [Choice; 3] = [Choice::System, Choice::Light, Choice::Dark];

    /// The word, also what is remembered.
    pub fn word(self) -> &'static str {
        match self {
            Choice::System => "system",
            Choice::Light => "light",
            Choice::Dark => "dark",
        }
    }
}

/// The page's theme.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    choice: RwSignal<Choice>,
    system_is_dark: RwSignal<bool>,
}

impl Theme {
    /// As remembered; follows the system's changes for the life of the page. (`boot.js` set it before the first paint.)
    pub fn start() -> Self {
        let remembered = browser::remembered("theme");
        let choice = Choice::ALL
            .into_iter()
            .find(|choice| remembered.as_deref() == Some(choice.word()))
            .unwrap_or(Choice::System);
        let theme = Self { choice: RwSignal::new(choice), system_is_dark: RwSignal::new(browser::matches(DARK_QUERY)) };
        if let Ok(Some(list)) = window().match_media(DARK_QUERY) {
            EventListener::new(&list, "change", move |_| theme.system_is_dark.set(browser::matches(DARK_QUERY)))
                .forget();
        }
        theme
    }

    /// What was chosen.
    pub fn choice(self) -> Choice {
        self.choice.get()
    }

    /// Chooses and remembers.
    pub fn choose(self, choice: Choice) {
        self.choice.set(choice);
        browser::remember("theme", choice.word());
        browser::set_theme(match choice {
            Choice::System => None,
            other => Some(other.word()),
        });
    }

    /// Is it dark now?
    pub fn dark(self) -> bool {
        match self.choice.get() {
            Choice::System => self.system_is_dark.get(),
            Choice::Light => false,
            Choice::Dark => true,
        }
    }
}

/// The page's theme.
pub fn use_theme() -> Theme {
    expect_context::<Theme>()
}
