#!/usr/bin/env bash
# Builds the parts: scripts/build.sh [web] [helper] [server] [tests]; all but tests without an argument.
#
#   helper  glassbox-inside, static, into target/helper/glassbox-inside
#   web     the page, by trunk, into web/dist (left alone while none of its inputs changed)
#   server  the program `glassbox`, dev profile: the one that runs, and the one that the tests use; and the library's examples
#   tests   the test programs, without running them
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
source scripts/lib.sh

# Lock files are part of the repository: a build that would change one should fail where nobody looks at the diff.
LOCKED=()
[ -z "${CI:-}" ] || [ ! -f Cargo.lock ] || LOCKED=(--locked)

build_helper() {
  local host
  host="$(rustc -vV | sed -n 's/^host: //p')"
  # --target even for the host: only then are build scripts and procedural macros spared from crt-static.
  RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build "${LOCKED[@]}" -p glassbox-inside --profile helper --target "$host" --target-dir target/helper
  # Renamed into place: a server that is reading the old one keeps it whole.
  cp "target/helper/$host/helper/glassbox-inside" target/helper/glassbox-inside.new
  mv target/helper/glassbox-inside.new target/helper/glassbox-inside
  # A dynamic helper works here and fails in the next image. ELF programs that need a loader name it in a PT_INTERP header.
  local headers
  headers="$(have readelf && readelf -l target/helper/glassbox-inside || true)"
  if [[ "$headers" == *INTERP* ]]; then
    die "the helper was linked dynamically; this toolchain lacks a static C library (Debian: package libc6-dev)."
  fi
}

# Everything that the page is made of. The lock files stand for the crates and packages.
web_checksum() {
  {
    checksum_of web/src web/index.html web/Cargo.toml shared/src shared/Cargo.toml Cargo.toml Cargo.lock Trunk.toml package-lock.json
    (cd web && find . -type f -not -path './dist/*' -not -path './target/*' -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum)
    trunk --version
    wasm-bindgen --version
    echo "${GLASSBOX_WASM_TOOLCHAIN:-default}"
  } | sha256sum | cut -d' ' -f1
}

build_web() (
  local stamp=target/setup/web.stamp now
  mkdir -p target/setup
  have trunk || die "trunk is not installed; run 'make setup' first."
  now="$(web_checksum)"
  if [ -f web/dist/index.html ] && [ "$(cat "$stamp" 2>/dev/null)" = "$now" ]; then
    say "   the page is up to date"
    return 0
  fi
  [ -z "${GLASSBOX_WASM_TOOLCHAIN:-}" ] || export RUSTUP_TOOLCHAIN="$GLASSBOX_WASM_TOOLCHAIN"
  # Size: panics without the places they come from, and no derived Debug texts. Both flags are unstable, and only change
  # what a crash writes into the console; hence the bootstrap switch, for this build alone.
  export RUSTC_BOOTSTRAP=1
  export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="$CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS -Zlocation-detail=none -Zfmt-debug=none"
  # A target folder of its own: other profile, other target, and no waiting for the server's build lock.
  CARGO_TARGET_DIR="$REPO/target/web" trunk build --config Trunk.toml --release --cargo-profile web --skip-version-check "${LOCKED[@]}"
  web_checksum >"$stamp"
)

# --workspace with one program, not -p: cargo then chooses the same crate features as for the tests, and the two share what
# they compiled.
build_server() { cargo build "${LOCKED[@]}" --workspace --bin glassbox --example quickstart --example tool_loop; }

build_tests() { cargo nextest run "${LOCKED[@]}" --workspace --no-run; }

# The server embeds the page, so the page comes first.
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(helper web server)
for part in "${parts[@]}"; do
  case "$part" in
    helper | web | server | tests) timed "building: $part" "build_$part" ;;
    *) die "scripts/build.sh knows web, helper, server and tests, not '$part'." ;;
  esac
done
