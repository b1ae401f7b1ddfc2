#!/usr/bin/env bash
# Builds what the tests use and runs all of them: unit, property and integration tests by nextest, then the real page in a
# real browser, then the size bars. A failure does not stop what comes after it; the end names everything that failed.
#
#   GLASSBOX_TEST_LONG=1   repeats what repeats as often as it should (make test-long); otherwise a tenth of it
#   CI=true                the profile `ci` of .config/nextest.toml
# Arguments go to nextest: scripts/test.sh -E 'test(kill)' runs some, and then leaves the browser and the sizes out.
set -uo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
source scripts/lib.sh

LOCKED=()
[ -z "${CI:-}" ] || [ ! -f Cargo.lock ] || LOCKED=(--locked)
PROFILE=default
[ -z "${CI:-}" ] || PROFILE=ci

# The tests use what was just built and nothing else; without it every one of them would fail with the same sentence.
scripts/build.sh helper web server || die "the build failed; no test was run."

# Test programs lie elsewhere than the server, so the helper is named to them; the browser tests start the server themselves.
export GLASSBOX_HELPER="$REPO/target/helper/glassbox-inside" GLASSBOX_BINARY="$REPO/target/debug/glassbox"

# A killed test run leaves containers that count against the machine's memory; the tests' own labels make them recognisable,
# and each TestServer sweeps its own. Here only the engine is asked whether it answers at all, for one clear sentence.
timeout 20 docker version >/dev/null 2>&1 || warn "the Docker engine does not answer; the integration tests will say so one by one. Run 'make setup'."

failed=()
# Some tests wait for minutes; they are marked as ignored and run with the long ones.
LONG=()
[ -z "${GLASSBOX_TEST_LONG:-}" ] || LONG=(--run-ignored all)
timed "tests" cargo nextest run "${LOCKED[@]}" --workspace --profile "$PROFILE" "${LONG[@]}" "$@" || failed+=("tests (nextest)")
if [ $# = 0 ]; then
  if [ -f tests/browser/run.mjs ]; then
    timed "browser tests" node tests/browser/run.mjs || failed+=("browser tests")
  else
    failed+=("browser tests (tests/browser/run.mjs is missing)")
  fi
  timed "sizes" scripts/sizes.sh || failed+=("sizes")
fi

if [ ${#failed[@]} -gt 0 ]; then
  printf '\ntest FAILED:\n' >&2
  printf '   - %s\n' "${failed[@]}" >&2
  exit 1
fi
say "test: all passed, $SECONDS s"
