//! What models were told: each call of a tool, and the very text that answered it, of a command or of a whole session.

use crate::page::parts::part::part;
use leptos::prelude::*;

use glassbox_shared::command::CommandView;
use glassbox_shared::id::CommandId;
use serde::Deserialize;

use super::here::use_here;
use crate::page::api;
use crate::page::parts::modal::Modal;
use crate::page::parts::paged::{Page, Paged, Stage};
use crate::page::parts::time::Ago;
use crate::state::{visible, words};

/// Calls that are asked for at a time: each can have 30,000 characters.
const PAGE: usize = 10;

/// A call; `glassbox_shared::tools::ToolCallView` as this page reads it.
#[derive(Debug, Clone, Deserialize)]
struct Call {
    tool: String,
    input: String,
    at: f64,
    ended_at: f64,
    text: String,
}

/// A page of them.
#[derive(Debug, Deserialize)]
struct Calls {
    calls: Vec<Call>,
    next: Option<u64>,
}

/// The button, for a command that an agent runs, and what it opens.
#[component]
pub fn Told(command: Memo<Option<CommandView>>, id: CommandId) -> impl IntoView {
    let open = RwSignal::new(false);
    let by_agent =
        Memo::new(move |_| command.with(|command| command.as_ref().is_some_and(|command| !command.actor.is_human())));
    let id = StoredValue::new(id);
    view! {
        <Show when=move || by_agent.get()>
            <button type="button" class="quiet" title="What the model was told of this command" on:click=move |_| open.set(true) data-testid="told">
                "As told"
            </button>
        </Show>
        <Modal open label="What the model was told" class="sheet told"><List command=Some(id.get_value()) open /></Modal>
    }
}

/// The button for all that models were told in this session, also what was about no command.
#[component]
pub fn ToldInSession() -> impl IntoView {
    let open = RwSignal::new(false);
    view! {
        <button type="button" class="link" on:click=move |_| open.set(true) data-testid="told-all">"What models were told"</button>
        <Modal open label="What the model was told" class="sheet told"><List command=None open /></Modal>
    }
}

/// What the model gave, as far as there is something.
fn asked(input: &str) -> Option<AnyView> {
    let line = (!matches!(input, "" | "{}")).then(|| visible::visible_line(input))?;
    Some(view! { <p class="told-input mono small muted" title=line.clone()>{line.clone()}</p> }.into_any())
}

#[component]
fn List(command: Option<CommandId>, open: RwSignal<bool>) -> impl IntoView {
    let here = use_here();
    let session = here.id();
    let nothing = if command.is_some() {
        "Nothing: it was not started by a tool, or no call has been answered yet."
    } else {
        "Nothing yet: no model has called a tool here."
    };
    let of = command.map_or_else(String::new, |id| format!("&command_id={id}"));
    let told = Paged::new(move |before: Option<String>| {
        let before = before.map_or_else(String::new, |before| format!("&before={before}"));
        let address = format!("/v1/history/{session}/tool-calls?limit={PAGE}{of}{before}");
        async move {
            let page: Calls = api::get(&address).await?;
            Page::Ok((page.calls, page.next.map(|next| next.to_string())))
        }
    });
    view! {
        <header class="told-head">
            <h2>"What the model was told"</h2>
            <button type="button" on:click=move |_| open.set(false)>"Close"</button>
        </header>
        <ol class="told-list" tabindex="0" aria-label="Calls, the newest first">
            {part(move || told.items.with(|calls| calls.iter().map(|call| {
                let took = words::short_duration_ms(((call.ended_at - call.at).max(0.0) * 1000.0).round() as u64);
                view! {
                    <li>
                        <p class="small muted"><code>{visible::visible_line(&call.tool)}</code>" answered "<Ago at=call.ended_at />", after "{took}</p>
                        {asked(&call.input)}
                        <pre class="text" data-testid="told-text">{visible::visible(&call.text)}</pre>
                    </li>
                }
            }).collect_view()))}
        </ol>
        <p class="muted" role="status">
            {part(move || match told.stage.get() {
                Stage::Loading => view! { "Reading…" }.into_any(),
                Stage::All if told.items.with(Vec::is_empty) => nothing.into_any(),
                Stage::All => ().into_any(),
                Stage::More => view! { <button type="button" class="link" on:click=move |_| told.more()>"Earlier calls"</button> }.into_any(),
                Stage::Failed(why) => view! {
                    {why}" "<button type="button" class="link" on:click=move |_| told.more()>"Try again"</button>
                }.into_any(),
            })}
        </p>
    }
}
