"""Stands in for a language model, so that the examples run without one.

It answers `POST /v1/messages` as Anthropic's API does and `POST /v1/chat/completions` as OpenAI's, on a port of this
machine, and follows a script. It reads the tools' answers only as far as it needs for that.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROGRAM = "import time; print(sum(range(101)), flush=True); time.sleep(3); print('done')"


def next_step(tools, read):
    """What it says, and the call that it asks for, if any. `read` is every answer of a tool so far."""
    if not read:
        assert "shell_exec" in tools, "a model calls what it was shown"
        return "I let Python add them.", ("shell_exec", {"command": f'python3 -c "{PROGRAM}"', "timeout": 1})
    if read[-1].startswith("still running"):
        return "It is still at it.", ("shell_wait", {"timeout": 30})
    total = re.search(r"^\d+$", "\n".join(read), re.MULTILINE)
    if read[-1].startswith("exit=0") and total:
        return f"The sum is {total.group()}.", None
    return "That did not work.", None


def messages(asked):
    """Anthropic's form."""
    tools = [tool["name"] for tool in asked["tools"]]
    blocks = [block for message in asked["messages"] if isinstance(message["content"], list) for block in message["content"]]
    read = [block["content"] for block in blocks if block["type"] == "tool_result"]
    says, call = next_step(tools, read)
    content = [{"type": "text", "text": says}]
    if call:
        content.append({"type": "tool_use", "id": f"toolu_{len(read)}", "name": call[0], "input": call[1]})
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use" if call else "end_turn"}


def chat_completions(asked):
    """OpenAI's form."""
    tools = [tool["function"]["name"] for tool in asked["tools"]]
    read = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
    says, call = next_step(tools, read)
    message = {"role": "assistant", "content": says}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        message["tool_calls"] = [{"id": f"call_{len(read)}", "type": "function", "function": function}]
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}]}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        forms = {"/v1/messages": messages, "/v1/chat/completions": chat_completions}
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(forms[self.path](asked)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def start():
    """Starts it in this process; the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
