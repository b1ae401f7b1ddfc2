#!/bin/sh
# An agent's sandbox in three calls: make a session, fetch the tools' schemas, do a call that a model asked for.
#
#   GLASSBOX_URL=http://127.0.0.1:7070 GLASSBOX_API_KEY=… examples/curl.sh
set -eu
url="${GLASSBOX_URL:-http://127.0.0.1:7070}/v1"
glassbox() { curl --silent --show-error --fail-with-body -H "X-API-Key: $GLASSBOX_API_KEY" -H 'Content-Type: application/json' "$@"; }

session=$(glassbox "$url/sessions" -d '{"profile": "open", "name": "curl.sh"}' | grep -o '"session_id":"[^"]*"' | head -n 1 | cut -d '"' -f 4)
trap 'glassbox -X DELETE "$url/sessions/$session" >/dev/null' EXIT
glassbox "$url/tools?format=anthropic"; echo
glassbox "$url/sessions/$session/tools/shell_exec" -d '{"command": "dmesg | head -n 1; pwd"}'; echo
