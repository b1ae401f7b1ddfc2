#!/usr/bin/env bash
# Starts Glassbox with its demo agent and prints one sign-in link. Arguments go to `glassbox serve`.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
exec target/debug/glassbox serve --demo "$@"
