#!/usr/bin/env bash
# The wasm target where rustup cannot fetch it: builds std for wasm32-unknown-unknown from Debian's Rust sources and puts it
# where Debian's compiler looks for it. Called by setup.sh; two to three minutes. Leaves the name of the toolchain to use
# for the page in target/setup/wasm-toolchain (empty where there is no rustup and Debian's compiler is the only one).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
source scripts/lib.sh

# Debian's packages of a recent Rust (made for its browsers, hence "web"); it is newer than its `rustc`.
# clippy with it: `make check` lints the page with the compiler that builds it.
packages=(rustc-web cargo-web rust-web-src rust-web-clippy)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | cut -c1-2)" = ii ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq update
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq -y --no-install-recommends install "${missing[@]}"
fi

host="$(/usr/bin/rustc -vV | sed -n 's/^host: //p')"
lib=/usr/lib/rustlib/wasm32-unknown-unknown/lib
# Debian's sysroot may be elsewhere in another release.
sysroot="$(/usr/bin/rustc --print sysroot)"
[ "$sysroot" = /usr ] || lib="$sysroot/lib/rustlib/wasm32-unknown-unknown/lib"
target_libdir="$(/usr/bin/rustc --print target-libdir --target wasm32-unknown-unknown 2>/dev/null || true)"
[ -z "$target_libdir" ] || lib="$target_libdir"

if ! compgen -G "$lib/libstd-*.rlib" >/dev/null; then
  work="$(mktemp -d)"
  # shellcheck disable=SC2064 # the folder's name is known now
  trap "rm -rf '$work'" EXIT
  mkdir -p "$work/src"
  printf '[package]\nname = "empty"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n' >"$work/Cargo.toml"
  : >"$work/src/lib.rs"
  # Bitcode so that the page can be linked with LTO. RUSTC_BOOTSTRAP: building std is an unstable feature of a stable compiler.
  (cd "$work" && env -u RUSTUP_TOOLCHAIN RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Cembed-bitcode=yes CARGO_TARGET_DIR="$work/target" \
    /usr/bin/cargo build --release -Zbuild-std=std,panic_abort --target wasm32-unknown-unknown)
  echo "copying the standard library to $lib"
  as_root mkdir -p "$lib"
  for rlib in "$work"/target/wasm32-unknown-unknown/release/deps/*.rlib; do
    case "$(basename "$rlib")" in libempty-*) ;; *) as_root cp "$rlib" "$lib/" ;; esac
  done
fi

# Debian's compiler has no linker for wasm of its own. It looks for `rust-lld`, which is LLVM's generic driver under another
# name: the package lld of the same LLVM as the compiler has it, and so has a rustup toolchain. An older lld may not
# understand what a newer LLVM wrote.
lld_dir="$sysroot/lib/rustlib/$host/bin"
if [ ! -e "$lld_dir/rust-lld" ] && [ ! -e /usr/bin/rust-lld ]; then
  lld=""
  if have rustup; then
    rustup_sysroot="$(env -u RUSTUP_TOOLCHAIN rustup run stable rustc --print sysroot 2>/dev/null || true)"
    [ -z "$rustup_sysroot" ] || lld="$(find "$rustup_sysroot" -name rust-lld -type f 2>/dev/null | head -1)"
  fi
  if [ -z "$lld" ]; then
    llvm="$(/usr/bin/rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')"
    lld="/usr/lib/llvm-$llvm/bin/lld"
    [ -x "$lld" ] || as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq -y --no-install-recommends install "lld-$llvm"
  fi
  [ -x "$lld" ] || die "no linker for wasm found; install the package lld of the same LLVM as 'rustc -vV' names."
  echo "linking $lld to $lld_dir/rust-lld"
  as_root mkdir -p "$lld_dir"
  as_root ln -sf "$lld" "$lld_dir/rust-lld"
fi

mkdir -p target/setup
if have rustup; then
  # Under a name of its own; the machine's default toolchain stays what it was.
  rustup toolchain link debian /usr
  echo debian >target/setup/wasm-toolchain
fi
echo "the wasm target is ready in $lib"
