#!/usr/bin/env python3
"""An agent's loop in the message format of Anthropic's API: schemas, model, tool call, result, and again.

    GLASSBOX_URL=http://127.0.0.1:7070 GLASSBOX_API_KEY=… examples/anthropic_loop.py

The model is a stand-in beside this file. A real one: MODEL_URL, MODEL_KEY and MODEL_NAME.
"""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

import model

GLASSBOX = os.environ.get("GLASSBOX_URL", "http://127.0.0.1:7070") + "/v1"
GLASSBOX_KEY = os.environ.get("GLASSBOX_API_KEY") or sys.exit("GLASSBOX_API_KEY is not set; `glassbox keys create --role agent`")
MODEL = (os.environ.get("MODEL_URL") or model.start()) + "/v1/messages"
MODEL_HEADERS = {"x-api-key": os.environ.get("MODEL_KEY", ""), "anthropic-version": "2023-06-01"}
QUESTION = "What is the sum of the numbers from 0 to 100?"


def send(method, url, headers, body=None):
    """One request with a JSON body, and the JSON that is answered."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers}, method=method)
    try:
        # A tool answers after the time that its call asks for, 60 s unless the model says otherwise.
        with urllib.request.urlopen(request, timeout=3700) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {url}: {error.code} {error.read().decode(errors='replace')}")


def glassbox(method, path, body=None):
    return send(method, GLASSBOX + path, {"X-API-Key": GLASSBOX_KEY}, body)


session = glassbox("POST", "/sessions", {"profile": "open", "name": "anthropic_loop.py"})["session_id"]
try:
    tools = glassbox("GET", "/tools?format=anthropic")
    messages = [{"role": "user", "content": QUESTION}]
    while True:
        asked = {"model": os.environ.get("MODEL_NAME", "stand-in"), "max_tokens": 4096, "tools": tools, "messages": messages}
        answer = send("POST", MODEL, MODEL_HEADERS, asked)
        messages.append({"role": "assistant", "content": answer["content"]})
        results = []
        for block in answer["content"]:
            if block["type"] == "text":
                print("model:", block["text"])
            if block["type"] == "tool_use":
                print("calls:", block["name"], json.dumps(block["input"]))
                # Whatever the model wrote, the answer has a text that it can read.
                path = f"/sessions/{session}/tools/{urllib.parse.quote(block['name'], safe='')}?agent=anthropic_loop"
                said = glassbox("POST", path, block["input"])
                print("reads:", said["text"].rstrip())
                results.append(
                    {"type": "tool_result", "tool_use_id": block["id"], "content": said["text"], "is_error": said["is_error"]}
                )
        if answer["stop_reason"] != "tool_use":
            break
        messages.append({"role": "user", "content": results})
finally:
    glassbox("DELETE", f"/sessions/{session}")
