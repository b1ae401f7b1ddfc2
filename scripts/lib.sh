# Small shell functions that the scripts share. Sourced, never run.

# Seconds since the script started, for durations.
elapsed() { echo "$SECONDS"; }

say() { printf '%s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }

# One clear sentence and a non-zero exit.
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root: directly, or by sudo where we are not root.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# timed NAME COMMAND...: runs it in the foreground and prints how long it took. Keeps the command's exit code. A function
# ends at its first failure, but not where `timed` itself stands in a condition: there bash ignores `set -e` all the way down.
timed() {
  local name="$1" started=$SECONDS code options=$-
  shift
  say "== $name"
  set +e
  (
    set -e
    "$@"
  )
  code=$?
  [[ "$options" != *e* ]] || set -e
  if [ "$code" = 0 ]; then
    say "== $name: ok, $((SECONDS - started)) s"
  else
    say "== $name: FAILED (exit $code), $((SECONDS - started)) s"
  fi
  return "$code"
}

# Background jobs. Each has a log in $JOB_LOGS; wait_jobs shows progress and fails when one of them failed.
declare -A JOB_PID JOB_STARTED JOB_HELP
JOB_ORDER=()
JOB_LOGS="${JOB_LOGS:-$REPO/target/setup}"

# start_job NAME HELP FUNCTION [ARGS...]: HELP says what to do when it fails.
start_job() {
  local name="$1" help="$2"
  shift 2
  case " ${GLASSBOX_SETUP_SKIP:-} " in *" $name "*) note "left out: $name"; return 0 ;; esac
  mkdir -p "$JOB_LOGS"
  rm -f "$JOB_LOGS/$name.seconds"
  JOB_STARTED[$name]=$SECONDS
  JOB_HELP[$name]="$help"
  JOB_ORDER+=("$name")
  (
    # Not in a condition: there `set -e` would be ignored.
    set -e
    started=$SECONDS
    "$@"
    echo "$((SECONDS - started))" >"$JOB_LOGS/$name.seconds"
  ) >"$JOB_LOGS/$name.log" 2>&1 </dev/null &
  JOB_PID[$name]=$!
}

# wait_jobs [NAME...]: waits for these jobs (all without a name).
wait_jobs() {
  local names=("$@") name failed=0 last_shown=$SECONDS code
  [ ${#names[@]} -gt 0 ] || names=("${JOB_ORDER[@]}")
  local waiting=()
  for name in "${names[@]}"; do
    [ -n "${JOB_PID[$name]:-}" ] && waiting+=("$name")
  done
  while [ ${#waiting[@]} -gt 0 ]; do
    local still=()
    for name in "${waiting[@]}"; do
      if kill -0 "${JOB_PID[$name]}" 2>/dev/null; then
        still+=("$name")
        continue
      fi
      code=0
      wait "${JOB_PID[$name]}" || code=$?
      unset "JOB_PID[$name]"
      if [ "$code" = 0 ]; then
        say "   done: $name ($(cat "$JOB_LOGS/$name.seconds" 2>/dev/null || echo '?') s)"
      else
        failed=1
        {
          printf 'error: %s failed (exit %s). The end of %s:\n' "$name" "$code" "$JOB_LOGS/$name.log"
          tail -n 20 "$JOB_LOGS/$name.log" | sed 's/^/   | /'
          printf '   What to do: %s\n' "${JOB_HELP[$name]}"
        } >&2
      fi
    done
    waiting=("${still[@]}")
    if [ ${#waiting[@]} -gt 0 ]; then
      if [ $((SECONDS - last_shown)) -ge 20 ]; then
        last_shown=$SECONDS
        for name in "${waiting[@]}"; do
          note "still at it: $name ($((SECONDS - JOB_STARTED[$name])) s): $(tail -n 1 "$JOB_LOGS/$name.log" 2>/dev/null | tr -d '\r' | tail -c 100)"
        done
      fi
      sleep 0.2
    fi
  done
  return "$failed"
}

# Ends what is still running in the background when the script ends early.
stop_jobs() {
  local name
  for name in "${!JOB_PID[@]}"; do kill "${JOB_PID[$name]}" 2>/dev/null || true; done
}

# The checksum of some files' or folders' contents and names, for stamps.
checksum_of() {
  (cd "$REPO" && find "$@" -type f -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0 -r sha256sum | sha256sum | cut -d' ' -f1)
}
