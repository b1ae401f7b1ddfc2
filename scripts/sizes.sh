#!/usr/bin/env bash
# The size bars: what the browser downloads, and what every sandbox carries.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
source scripts/lib.sh

# Bytes. Gzipped for the page, for that is how the server sends it.
MAX_WASM_GZ=500000
MAX_JS_GZ=400000
MAX_HELPER=3000000

over=0
gate() { # gate NAME BYTES LIMIT
  local verdict=ok
  if [ "$2" -gt "$3" ]; then verdict="TOO BIG"; over=1; fi
  printf '%-34s %9d of %9d bytes  %s\n' "$1" "$2" "$3" "$verdict"
}
gzipped() { # sum over files, each compressed on its own as each is sent on its own
  local total=0 size
  while IFS= read -r -d '' file; do
    size="$(gzip -9 -c "$file" | wc -c)"
    total=$((total + size))
  done
  echo "$total"
}

[ -f web/dist/index.html ] || die "web/dist is empty; run scripts/build.sh web first."
[ -f target/helper/glassbox-inside ] || die "no helper; run scripts/build.sh helper first."
gate "page: wasm, gzipped" "$(find web/dist -name '*.wasm' -print0 | gzipped)" "$MAX_WASM_GZ"
gate "page: JavaScript, gzipped" "$(find web/dist \( -name '*.js' -o -name '*.mjs' \) -print0 | gzipped)" "$MAX_JS_GZ"
gate "helper" "$(stat -c %s target/helper/glassbox-inside)" "$MAX_HELPER"
exit "$over"
