//! An agent's loop: a model is shown the tools, asks for calls, and reads what came of them, until it has nothing more to
//! ask for. In a checkout that `make build` has been through:
//!
//! ```sh
//! cargo run -p glassbox --example tool_loop
//! ```
//!
//! The messages are those of Anthropic's API. The model is a stand-in that follows a script, so that this runs without one;
//! [`Model::answer`] is the place of the request to a real one.

use glassbox::{Format, Sandbox, SandboxConfig};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), glassbox::SandboxError> {
    let sandbox = Sandbox::start(SandboxConfig::default()).await?;
    let tools = sandbox.tools(Format::Anthropic);
    let mut model = Model::default();
    let mut messages = vec![json!({"role": "user", "content": "Which prime numbers are there up to 30?"})];
    loop {
        let answer = model.answer(&tools, &messages);
        messages.push(json!({"role": "assistant", "content": answer["content"]}));
        let mut results = Vec::new();
        for block in answer["content"].as_array().into_iter().flatten() {
            if block["type"] == "text" {
                println!("model: {}", block["text"].as_str().unwrap_or_default());
            }
            if block["type"] == "tool_use" {
                println!("calls: {} {}", block["name"].as_str().unwrap_or_default(), block["input"]);
                // Whatever the model wrote, there is an answer that it can read.
                let said = sandbox.dispatch(block["name"].as_str().unwrap_or_default(), &block["input"]).await;
                println!("reads: {}", said.text.trim_end().replace('\n', "\n       "));
                results.push(json!({
                    "type": "tool_result", "tool_use_id": block["id"], "content": said.text, "is_error": said.is_error,
                }));
            }
        }
        if answer["stop_reason"] != "tool_use" {
            break;
        }
        messages.push(json!({"role": "user", "content": results}));
    }
    sandbox.stop().await
}

/// Follows a script, and reads only as much of the answers as it needs for that.
#[derive(Debug, Default)]
struct Model {
    turn: usize,
}

impl Model {
    fn answer(&mut self, tools: &[Value], messages: &[Value]) -> Value {
        self.turn += 1;
        let call = |says: &str, name: &str, input: Value| {
            let id = format!("toolu_{}", self.turn);
            let called = json!({"type": "tool_use", "id": id, "name": name, "input": input});
            json!({"stop_reason": "tool_use", "content": [{"type": "text", "text": says}, called]})
        };
        let end = |says: String| json!({"stop_reason": "end_turn", "content": [{"type": "text", "text": says}]});
        let last = messages.last().map(|message| &message["content"][0]["content"]);
        let read = last.and_then(Value::as_str).unwrap_or_default();
        match self.turn {
            1 => call(
                &format!("I have {} tools. I write a program.", tools.len()),
                "write_file",
                json!({"path": "primes.py", "content": PROGRAM}),
            ),
            // A slip, as models make them.
            2 => call("Now I run it.", "run", json!({"command": "python3 primes.py"})),
            _ if read.starts_with("ERROR: there is no tool") => {
                let input = json!({"command": "python3 primes.py | tee primes.txt", "timeout": 1});
                call("So the tool has another name.", "shell_exec", input)
            }
            _ if read.starts_with("still running") => call("It takes its time.", "shell_wait", json!({})),
            _ if read.starts_with("exit=0") => call("All of it, please.", "read_file", json!({"path": "primes.txt"})),
            _ if read.starts_with('2') => {
                end(format!("They are {}.", read.split_whitespace().collect::<Vec<_>>().join(", ")))
            }
            _ => end("That did not work.".to_owned()),
        }
    }
}

/// It is slow on purpose.
const PROGRAM: &str = "import time
for n in range(2, 31):
    if all(n % d for d in range(2, n)):
        print(n, end=' ', flush=True)
        time.sleep(0.3)
";
