"""The official MCP client against a server: over HTTP, or over stdio with `glassbox mcp`.

    client.py http  URL KEY            the whole way of an agent: tools, a long command, files, run_command
    client.py stdio URL KEY PROGRAM    the same through the program
    client.py long  URL KEY            a call that would take longer than clients wait (takes 45 s)
    client.py cancel URL KEY           a call that is cancelled takes nothing away
    client.py cancel-stdio URL KEY PROGRAM

The client itself is installed by scripts/setup.sh into target/tools/python-mcp.
"""

import asyncio
import sys
import time

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

TOOLS = {
    "shell_exec", "shell_wait", "shell_kill", "shell_list", "shell_output",
    "write_file", "read_file", "list_files", "edit_file",
    "run_command", "sandbox_info", "reset_sandbox", "activity",
    "import_repo", "egress_log", "save_snapshot", "list_snapshots", "restore_snapshot",
}  # fmt: skip


def over_http(url, key, name, query=""):
    http = httpx2.AsyncClient(headers={"X-API-Key": key}, timeout=httpx2.Timeout(70))
    transport = streamable_http_client(f"{url}/mcp{query}", http_client=http)
    return Client(transport, client_info=Implementation(name=name, version="1.0"), cache=None)


def over_stdio(url, key, program, name, *more):
    # The key is in the environment: everybody on the machine sees arguments.
    environment = {"GLASSBOX_API_KEY": key, "GLASSBOX_URL": url}
    server = StdioServerParameters(command=program, args=["mcp", *more], env=environment)
    return Client(server, client_info=Implementation(name=name, version="1.0"), cache=None)


def equal(got, expected):
    assert got == expected, f"expected {expected!r}, got {got!r}"


async def text(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.content[0].text


async def an_agents_way(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    equal(set(tools), TOOLS)
    assert tools["read_file"].annotations.read_only_hint and not tools["shell_exec"].annotations.read_only_hint
    assert "shell_wait" in client.instructions

    equal(await text(client, "shell_exec", command="echo hello; id -u"), "exit=0\noutput:\nhello\n0\n")
    first = await text(client, "shell_exec", command="echo begun; sleep 3; echo done", timeout=1)
    assert first.startswith("still running after 1s; produced 6 new characters"), first
    equal(await text(client, "shell_wait"), "exit=0\noutput:\ndone\n")

    await text(client, "write_file", path="src/a.py", content="one\ntwo\n")
    await text(client, "edit_file", path="src/a.py", old_string="two", new_string="2")
    equal(await text(client, "read_file", path="src/a.py"), "one\n2\n")
    assert "src/a.py" in await text(client, "list_files")

    both = await text(client, "run_command", command="cat src/a.py; echo err >&2; exit 3")
    equal(both, "[STDOUT]:\none\n2\n[STDERR]:\nerr\n[EXIT CODE]: 3")
    late = await text(client, "run_command", command="sleep 60", timeout_seconds=1)
    assert late.endswith("[EXIT CODE]: -1") and "[TIMEOUT]" in late, late

    wrong = await client.call_tool("shell_exec", {})
    assert wrong.is_error and wrong.content[0].text.startswith("ERROR: "), wrong
    absent = await client.call_tool("import_repo", {"repo": "a/b"})
    assert absent.is_error and "not enabled" in absent.content[0].text, absent

    assert "profile open" in await text(client, "sandbox_info")
    assert "official 1.0" in await text(client, "activity"), "the client is named on what it does"
    await text(client, "reset_sandbox")
    anew = await text(client, "shell_exec", command="ls")
    assert anew.startswith("[glassbox] this is a new, empty sandbox") and anew.endswith("\n\nexit=0\noutput:\n"), anew


async def a_long_call(client):
    told = []

    async def progress(done, total, message):
        told.append(done)

    began = time.monotonic()
    result = await client.call_tool("shell_exec", {"command": "echo begun; sleep 600", "timeout": 3600}, progress_callback=progress)
    took = time.monotonic() - began
    answer = result.content[0].text
    assert 40 < took < 50, took
    assert answer.startswith("still running after 4") and "shell_wait" in answer, answer
    assert 7 <= len(told) <= 9 and told == sorted(told), told
    equal((await text(client, "shell_kill")).splitlines()[0], "killed (exit=143)")


async def a_cancelled_call(client):
    start = await text(client, "shell_exec", command="echo first; sleep 4; echo second; sleep 600", timeout=0)
    with anyio.move_on_after(2) as scope:
        await client.call_tool("shell_wait", {})
    assert scope.cancelled_caught
    rest = await text(client, "shell_wait", timeout=6)
    rest += await text(client, "shell_kill")
    both = start + rest
    equal((both.count("first\n"), both.count("second\n")), (1, 1))
    equal((await text(client, "shell_list")).splitlines()[0], "no command is running")


async def main():
    kind, url, key, *program = sys.argv[1:]
    if kind == "http":
        async with over_http(url, key, "official", "?profile=open&workspace=http") as client:
            await an_agents_way(client)
    elif kind == "stdio":
        async with over_stdio(url, key, *program, "official", "--profile", "open", "--workspace", "stdio") as client:
            await an_agents_way(client)
    elif kind == "long":
        async with over_http(url, key, "patient", "?workspace=long") as client:
            await a_long_call(client)
    elif kind == "cancel":
        async with over_http(url, key, "hasty", "?workspace=hasty") as client:
            await a_cancelled_call(client)
    elif kind == "cancel-stdio":
        async with over_stdio(url, key, *program, "hasty", "--workspace", "hasty-stdio") as client:
            await a_cancelled_call(client)
    else:
        sys.exit(f"unknown: {kind}")
    print("all as it should be")


asyncio.run(main())
