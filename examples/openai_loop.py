#!/usr/bin/env python3
"""An agent's loop in the message format of OpenAI's chat completions: schemas, model, tool call, result, and again.

    GLASSBOX_URL=http://127.0.0.1:7070 GLASSBOX_API_KEY=… examples/openai_loop.py

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
MODEL = (os.environ.get("MODEL_URL") or model.start()) + "/v1/chat/completions"
MODEL_HEADERS = {"Authorization": "Bearer " + os.environ.get("MODEL_KEY", "")}
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


def call_tool(session, function):
    """The text for the model. In this format arguments are JSON in a text, which a model may get wrong."""
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        return "ERROR: the arguments are not valid JSON; call the tool again"
    path = f"/sessions/{session}/tools/{urllib.parse.quote(function['name'], safe='')}?agent=openai_loop"
    return glassbox("POST", path, arguments)["text"]


session = glassbox("POST", "/sessions", {"profile": "open", "name": "openai_loop.py"})["session_id"]
try:
    tools = glassbox("GET", "/tools?format=openai")
    messages = [{"role": "user", "content": QUESTION}]
    while True:
        asked = {"model": os.environ.get("MODEL_NAME", "stand-in"), "tools": tools, "messages": messages}
        message = send("POST", MODEL, MODEL_HEADERS, asked)["choices"][0]["message"]
        messages.append(message)
        if message["content"]:
            print("model:", message["content"])
        for call in message.get("tool_calls") or []:
            print("calls:", call["function"]["name"], call["function"]["arguments"])
            text = call_tool(session, call["function"])
            print("reads:", text.rstrip())
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        if not message.get("tool_calls"):
            break
finally:
    glassbox("DELETE", f"/sessions/{session}")
