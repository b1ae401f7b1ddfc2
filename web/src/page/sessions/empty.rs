//! The list before there is anything in it: what a session is, and three ways to get one.

use leptos::prelude::*;

use crate::page::interop::browser;
use crate::page::parts::copy::Snippet;

fn curl(origin: &str) -> String {
    format!(
        "curl {origin}/v1/sessions -H \"X-API-Key: $GLASSBOX_KEY\" \\\n  -H 'Content-Type: application/json' \\\n  \
         -d '{{\"name\": \"first\", \"profile\": \"open\"}}'"
    )
}

fn python(origin: &str) -> String {
    format!(
        "import json, os, urllib.request\n\n\
         def post(path, **body):\n    \
             request = urllib.request.Request(\"{origin}\" + path, json.dumps(body).encode(),\n        \
                 {{\"X-API-Key\": os.environ[\"GLASSBOX_KEY\"], \"Content-Type\": \"application/json\"}})\n    \
             return json.load(urllib.request.urlopen(request))\n\n\
         session = post(\"/v1/sessions\", name=\"first\", profile=\"open\")\n\
         post(f\"/v1/sessions/{{session['session_id']}}/commands\", command=\"uname -a\")"
    )
}

/// The empty list.
#[component]
pub fn Empty(creating: RwSignal<bool>, #[prop(into)] may: Signal<bool>) -> impl IntoView {
    let origin = browser::origin();
    view! {
        <section class="empty" data-testid="empty">
            <h2>"No sessions yet"</h2>
            <p class="lead">
                "A session is one sandbox, with its files and its whole history. An agent makes one and runs commands in it; "
                "here you see each of them as it runs, and can stop it."
            </p>
            <ol class="ways">
                <li>
                    <h3>"Watch a demo agent"</h3>
                    <p class="small muted">"On this machine, in another terminal."</p>
                    <Snippet text="glassbox demo" what="the command" />
                </li>
                <li>
                    <h3>"Make one by curl"</h3>
                    <p class="small muted">"A key for an agent: "<code>"glassbox keys create --role agent"</code></p>
                    <Snippet text=curl(&origin) what="the command" />
                </li>
                <li>
                    <h3>"From Python"</h3>
                    <p class="small muted">"Nothing to install. Makes a session and runs a command in it."</p>
                    <Snippet text=python(&origin) what="the program" />
                </li>
            </ol>
            <Show when=move || may.get()>
                <p>"Or "<button type="button" class="link" on:click=move |_| creating.set(true)>"make one here"</button>" and run the commands yourself."</p>
            </Show>
        </section>
    }
}
