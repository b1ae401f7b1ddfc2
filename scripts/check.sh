#!/usr/bin/env bash
# All that can be judged without running Glassbox. Goes on after a failure and names everything that failed at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
source scripts/lib.sh

LOCKED=()
[ -z "${CI:-}" ] || [ ! -f Cargo.lock ] || LOCKED=(--locked)
# The server embeds this folder; for lints it may be empty.
mkdir -p web/dist

failed=()
check() { timed "$@" || failed+=("$1"); }

check_shell() {
  local file code=0
  for file in scripts/*.sh images/*/*.sh examples/*.sh .ci/run; do bash -n "$file" || code=1; done
  if have shellcheck; then shellcheck -x -S warning scripts/*.sh images/*/build.sh .ci/run || code=1; fi
  return "$code"
}

# The page's crate has two faces: pure state, which the host's clippy above sees, and components, which only exist for wasm.
check_clippy_wasm() {
  [ -z "${GLASSBOX_WASM_TOOLCHAIN:-}" ] || export RUSTUP_TOOLCHAIN="$GLASSBOX_WASM_TOOLCHAIN"
  cargo clippy "${LOCKED[@]}" -p glassbox-web --features page --target wasm32-unknown-unknown --target-dir target/web -- -D warnings
}

check_deny() {
  cargo deny --log-level error check licenses bans sources || return 1
  # Advisories live in a git repository, which not every machine reaches. Said, not skipped in silence.
  if timeout 120 cargo deny --log-level error fetch db >/dev/null 2>&1; then
    say "   advisories: database fetched"
    cargo deny --log-level error check advisories
  else
    say "   advisories: NOT checked, their database cannot be reached from this machine"
  fi
}

check_directions() { cargo nextest run "${LOCKED[@]}" -p glassbox-tests architecture; }

check_docs() { RUSTDOCFLAGS="-D warnings" cargo doc "${LOCKED[@]}" --workspace --no-deps; }

check "registry hosts" scripts/no-hosts.sh
check "shell scripts" check_shell
check "format" cargo fmt --all --check
check "licences, sources" check_deny
check "clippy" cargo clippy "${LOCKED[@]}" --workspace --all-targets --features glassbox-tests/idle -- -D warnings
check "clippy, wasm" check_clippy_wasm
check "rustdoc" check_docs
if [ -f tests/Cargo.toml ]; then check "dependency directions" check_directions; fi

if [ ${#failed[@]} -gt 0 ]; then
  printf '\ncheck FAILED: %s\n' "$(IFS=,; echo "${failed[*]}" | sed 's/,/, /g')" >&2
  exit 1
fi
say "check: all passed, $SECONDS s"
