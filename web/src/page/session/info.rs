//! The right column: limits, times, restarts, what the maker noted.

use crate::page::parts::part::{attr, part};
use leptos::prelude::*;

use glassbox_shared::text::plain;

use super::header::TOGETHER;
use super::here::use_here;
use super::row::RestartCard;
use super::timeline::Timeline;
use super::told::ToldInSession;
use crate::page::clock::use_clock;
use crate::page::interop::browser;
use crate::page::parts::copy::Copy;
use crate::page::parts::time::Ago;
use crate::state::session::Session;
use crate::state::words;

/// The column.
#[component]
pub fn Info() -> impl IntoView {
    let here = use_here();
    let (clock, session) = (use_clock(), here.session());
    let fact = move |name: &'static str, what: fn(&Session) -> String| {
        view! { <div><dt>{name}</dt><dd>{part(move || session.with(|session| session.as_ref().map(what).unwrap_or_default()))}</dd></div> }
    };
    let at = move |what: fn(&Session) -> f64| {
        Signal::derive(move || session.with(|session| session.as_ref().map_or(0.0, what)))
    };
    let ends = move || {
        session.with(|session| {
            let session = session.as_ref()?;
            Some(match (session.view.ended_at, session.view.expires_at) {
                (Some(_), _) => return None,
                (None, Some(at)) => format!("in {} if nothing happens", words::duration(at - clock.now())),
                (None, None) => "not while it is in use".to_owned(),
            })
        })
    };
    let ends_exactly = move || {
        session.with(|session| session.as_ref().and_then(|session| session.view.expires_at).map(browser::exact_time))
    };
    let past = move || {
        let ended_at = session.with(|session| session.as_ref().and_then(|session| session.view.ended_at))?;
        let record = here.record.get();
        let (bytes, record) = match record {
            Some(Ok(record)) => (words::bytes(record.output_bytes), Some(record)),
            Some(Err(why)) => (format!("how much could not be read: {why}"), None),
            None => ("…".to_owned(), None),
        };
        let by = record.as_ref().and_then(|record| Some(format!(", by {}", plain(record.ended_by.as_ref()?.name()))));
        let kept = record.and_then(|record| record.kept_until).map(|until| {
            let left = move || format!("in the history for {}", words::duration(until - clock.now()));
            view! { <div><dt>"Kept"</dt><dd class="figures" title=browser::exact_time(until)>{part(left)}</dd></div> }
        });
        Some(view! {
            <div><dt>"Ended"</dt><dd><Ago at=ended_at />{by}</dd></div>
            {kept}
            <div><dt>"Output"</dt><dd class="figures">{bytes}</dd></div>
        })
    };
    let tab = move |time_line: bool, name: &'static str| {
        let chosen = move || here.time_line.get() == time_line;
        view! {
            <button type="button" aria-pressed=attr(move || chosen().to_string()) class:chosen=attr(chosen) on:click=move |_| here.time_line.set(time_line)>{name}</button>
        }
    };
    let together = Memo::new(move |_| session.with(|session| session.as_ref().and_then(Session::together)));
    let restarts =
        Memo::new(move |_| session.with(|session| session.as_ref().map_or(0, |session| session.view.restarts.len())));
    let metadata = Memo::new(move |_| {
        session.with(|session| session.as_ref().map(|session| session.view.metadata.clone()).unwrap_or_default())
    });
    view! {
        <section class="info" aria-label="Info">
            <h2 class="sr-only">"Info"</h2>
            <div class="segments" role="group" aria-label="Show">{tab(false, "Facts")}{tab(true, "Time line")}</div>
            {part(move || here.time_line.get().then(|| view! { <div class="scroll"><Timeline /></div> }))}
            <div class="scroll" hidden=attr(move || here.time_line.get())>
                {part(move || together.get().map(|names| view! {
                    <p class="together-note small" data-testid="clients-note"><strong>{names}</strong>" "{TOGETHER}</p>
                }))}
                <dl class="facts">
                    {fact("Made by", |session| plain(session.view.created_by.name()))}
                    <div><dt>"Made"</dt><dd><Ago at=at(|session| session.view.created_at) /></dd></div>
                    <div><dt>"Last used"</dt><dd><Ago at=at(|session| session.view.last_accessed_at) /></dd></div>
                    {part(move || ends().map(|text| view! { <div><dt>"Ends"</dt><dd class="figures" title=ends_exactly>{text}</dd></div> }))}
                    {part(past)}
                    <div><dt>"Id"</dt><dd class="mono id"><span>{here.id().to_string()}</span><Copy text=here.id().to_string() what="the id" /></dd></div>
                </dl>
                <p class="small"><ToldInSession /></p>
                <h3>"Limits"</h3>
                <dl class="facts">
                    {fact("Memory", |session| words::memory(session.view.limits.memory_bytes))}
                    {fact("CPU", |session| words::cpus(session.view.limits.cpus))}
                    {fact("Processes", |session| format!("{} with the sandbox's own", session.view.limits.pids_limit))}
                    {fact("Disk", |session| match session.view.disk_quota_mb {
                        0 => "no quota is enforced".to_owned(),
                        mb => format!("{mb} MB for the workspace"),
                    })}
                    {fact("Network", |session| if session.view.egress.is_empty() { "none".to_owned() } else { plain(&session.view.egress.join(", ")) })}
                    {fact("Profile", |session| session.view.profile.as_str().to_owned())}
                    {fact("Image", |session| plain(&session.view.template))}
                </dl>
                <Show when=move || !metadata.with(std::collections::BTreeMap::is_empty)>
                    <h3>"Metadata"</h3>
                    <dl class="facts">
                        {part(move || metadata.get().into_iter().map(|(key, value)| view! { <div><dt>{plain(&key)}</dt><dd>{plain(&value)}</dd></div> }).collect_view())}
                    </dl>
                </Show>
                <h3>"Restarts of the sandbox"</h3>
                <Show when=move || restarts.get() == 0><p class="small muted">"None. When a sandbox dies, a new one is made on the same workspace, and it is said here."</p></Show>
                <ul class="restarts">
                    <For each=move || (0..restarts.get()).rev() key=|index| *index let:index><RestartCard index /></For>
                </ul>
            </div>
        </section>
    }
}
