#!/usr/bin/env bash
# Fails when a file of the repository names the host of a package registry. Where packages come from is the business of the
# machine that builds; a host written here would go around its mirror, its cache and its rules.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
source scripts/lib.sh

# Assembled, so that this file does not name them itself.
dot='\.'
patterns=(
  "registry${dot}npmjs${dot}" "registry${dot}yarnpkg${dot}" "npmjs${dot}org"
  "static${dot}crates${dot}io" "index${dot}crates${dot}io" "crates${dot}io/api"
  "files${dot}pythonhosted${dot}" "pypi${dot}org"
  "deb${dot}debian${dot}" "ftp${dot}[a-z.]*debian${dot}" "security${dot}debian${dot}" "snapshot${dot}debian${dot}"
  "archive${dot}ubuntu${dot}" "security${dot}ubuntu${dot}"
  "registry-1${dot}docker${dot}" "index${dot}docker${dot}" "docker${dot}io/" "ghcr${dot}io" "gcr${dot}io" "quay${dot}io"
  "static${dot}rust-lang${dot}" "proxy${dot}golang${dot}"
)
expression="$(IFS='|'; echo "${patterns[*]}")"

# What is committed, and what would be: untracked files that nothing ignores.
found="$(git ls-files -z --cached --others --exclude-standard | xargs -0 -r grep -IniE "$expression" -- 2>/dev/null || true)"
# Cargo.lock names the crates index as "registry+https://github.com/…", the one form that cargo writes; no pattern meets it.
if [ -n "$found" ]; then
  printf '%s\n' "$found" | cut -c1-200 | head -20 >&2
  die "these lines name a package registry's host; take it from the machine's configuration instead."
fi
say "no registry host is named"
