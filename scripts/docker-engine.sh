# The Docker engine: is it there, is it running, does it know runsc. Sourced by setup.sh; needs lib.sh.

DOCKER_DAEMON_JSON="${DOCKER_DAEMON_JSON:-/etc/docker/daemon.json}"
# Beside the system's own logs, for one of a checkout that is deleted would vanish while the engine still writes to it.
DOCKERD_LOG=/var/log/glassbox-dockerd.log
# A cold start on a slow disk with many containers to restore; a usual one takes 2 to 5 s.
DOCKERD_DEADLINE=60

# The engine's own API rather than `docker info`: a twentieth of a second, and no client plugins are asked. `docker info`
# exits 0 with some clients even where the engine is unreachable; `docker version` with a server field does not.
engine_answers() {
  timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
}

engine_knows_runsc() {
  # Not piped into `grep -q`: that leaves early, the writer may die of it, and with pipefail a yes becomes a no.
  local runtimes
  runtimes="$(timeout 10 docker info --format '{{range $name, $_ := .Runtimes}}{{$name}}{{"\n"}}{{end}}' 2>/dev/null)" || return 1
  grep -qx runsc <<<"$runtimes"
}

# is_live PID NAME: a process of that name has that PID. A pid file that outlived a reboot or a `kill -9` may name a PID
# that something else has by now; the engine then refuses to start, or waits for a containerd that is not there.
is_live() {
  [ -n "$1" ] && [ "$(cat "/proc/$1/comm" 2>/dev/null)" = "$2" ]
}

# The PID of the dockerd that we started, empty where systemd did.
dockerd_pid=""

# Removes what a killed engine leaves behind and what stops the next one from starting. Only called while no engine answers.
clear_stale_engine_files() {
  local file pid
  for file in /var/run/docker.pid /run/docker.pid; do
    [ -e "$file" ] || continue
    pid="$(cat "$file" 2>/dev/null || true)"
    is_live "$pid" dockerd || { note "removing stale $file"; as_root rm -f "$file"; }
  done
  for file in /run/docker/containerd/containerd.pid /var/run/docker/containerd/containerd.pid /run/containerd/containerd.pid; do
    [ -e "$file" ] || continue
    pid="$(cat "$file" 2>/dev/null || true)"
    is_live "$pid" containerd || { note "removing stale $file"; as_root rm -f "$file"; }
  done
  # A socket without anybody behind it: dockerd takes the mere presence of the system's containerd socket for a running
  # containerd and then waits for it in vain.
  if ! pgrep -x containerd >/dev/null; then
    for file in /run/containerd/containerd.sock /run/containerd/containerd.sock.ttrpc /run/containerd/debug.sock \
      /run/docker/containerd/containerd.sock /run/docker/containerd/containerd.sock.ttrpc /run/docker/containerd/containerd-debug.sock; do
      [ -e "$file" ] && { note "removing stale $file"; as_root rm -f "$file"; }
    done
  fi
  if ! pgrep -x dockerd >/dev/null && [ -S /run/docker.sock ] && [ ! -d /run/systemd/system ]; then
    as_root rm -f /run/docker.sock
  fi
  return 0
}

start_dockerd_once() {
  local waited=0
  dockerd_pid=""
  if [ -d /run/systemd/system ]; then
    as_root systemctl start docker || return 1
  else
    # setsid and closed descriptors: the engine must outlive this script, its terminal and its lock, and must not hold the
    # pipe that a CI runner waits for.
    dockerd_pid="$(as_root sh -c "setsid nohup dockerd >>'$DOCKERD_LOG' 2>&1 </dev/null 8>&- 9>&- & echo \$!")"
  fi
  while ! engine_answers; do
    sleep 0.3
    waited=$((waited + 1))
    if [ -n "$dockerd_pid" ] && [ ! -d "/proc/$dockerd_pid" ]; then
      return 1 # it died; no use in waiting for the deadline
    fi
    [ $((waited * 3 / 10)) -lt "$DOCKERD_DEADLINE" ] || return 1
  done
}

# After a hard kill of the engine its sandboxes may live on (their shims are children of init), invisible to `docker ps`
# and holding memory. Those of containers that the new engine does not call running are ended. Only runsc processes that
# name this engine's own state folder count; another engine's are not touched.
sweep_leaked_sandboxes() {
  local running pid id command
  running="$(docker ps -q --no-trunc 2>/dev/null)" || return 0
  for pid in $(pgrep -f 'runsc' || true); do
    command="$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null || true)"
    case "$command" in
      *containerd-shim-runsc*' -namespace moby '* | *runsc*/moby/* | *runsc*/moby\ *) ;;
      *) continue ;;
    esac
    id="$(grep -oE '\b[0-9a-f]{64}\b' <<<"$command" | tail -n 1)"
    [ -n "$id" ] || continue
    grep -qx "$id" <<<"$running" && continue
    note "ending leaked sandbox process $pid of container ${id:0:12}"
    as_root kill -9 "$pid" 2>/dev/null || true
  done
}

start_engine() {
  engine_answers && return 0
  if [ "$(id -u)" != 0 ] && [ -S /run/docker.sock ] && as_root docker version >/dev/null 2>&1; then
    die "the Docker engine runs, but this user may not use it: run 'sudo usermod -aG docker $(id -un)' and sign in again."
  fi
  local started=$SECONDS
  say "== Docker engine: starting it$([ -d /run/systemd/system ] && echo ' by systemd' || echo " in the background (log: $DOCKERD_LOG)")"
  # An engine that is just starting, or one that hangs: give it a moment before anything is cleaned.
  if pgrep -x dockerd >/dev/null; then
    local waited=0
    until engine_answers || [ "$waited" -ge 20 ] || ! pgrep -x dockerd >/dev/null; do sleep 1; waited=$((waited + 1)); done
    engine_answers && { say "== Docker engine: up, $((SECONDS - started)) s"; return 0; }
    pgrep -x dockerd >/dev/null && die "a dockerd process is there (PID $(pgrep -x dockerd | head -1)) but does not answer after 20 s. Look at its log, stop it, and run this again."
  fi
  clear_stale_engine_files
  if ! start_dockerd_once; then
    note "the first start failed; cleaning up and trying once more"
    if [ -n "$dockerd_pid" ] && is_live "$dockerd_pid" dockerd; then
      as_root kill "$dockerd_pid" 2>/dev/null || true
      sleep 2
    fi
    clear_stale_engine_files
    if ! start_dockerd_once; then
      {
        echo "error: the Docker engine did not come up within $DOCKERD_DEADLINE s. The end of its log:"
        if [ -d /run/systemd/system ]; then as_root journalctl -u docker -n 20 --no-pager; else as_root tail -n 20 "$DOCKERD_LOG"; fi | sed 's/^/   | /'
        echo "   What to do: mend what the last lines name, then run this again."
      } >&2
      return 1
    fi
  fi
  sweep_leaked_sandboxes
  say "== Docker engine: up, $((SECONDS - started)) s"
}

# Adds the runtime to the engine's configuration, unless the configuration already has one of that name.
configure_runsc() {
  local runsc merged
  runsc="$(command -v runsc)"
  if [ -s "$DOCKER_DAEMON_JSON" ] && grep -q '"runsc"' "$DOCKER_DAEMON_JSON"; then
    return 0
  fi
  say "== runsc: adding it as a runtime to $DOCKER_DAEMON_JSON (with --network=none: sandboxes have a loopback interface and nothing else)"
  if [ -s "$DOCKER_DAEMON_JSON" ]; then
    as_root cp -p "$DOCKER_DAEMON_JSON" "$DOCKER_DAEMON_JSON.before-glassbox"
    note "the file as it was: $DOCKER_DAEMON_JSON.before-glassbox"
    if have python3; then
      merged="$(python3 - "$DOCKER_DAEMON_JSON" "$runsc" <<'PY'
import json, sys
path, runsc = sys.argv[1:]
try:
    with open(path) as source:
        config = json.load(source)
except ValueError:
    sys.exit(1)
config.setdefault("runtimes", {})["runsc"] = {"path": runsc, "runtimeArgs": ["--network=none"]}
print(json.dumps(config, indent=2))
PY
      )" || die "$DOCKER_DAEMON_JSON is not valid JSON; mend it and run this again."
    elif have jq; then
      merged="$(jq --arg runsc "$runsc" '.runtimes.runsc = {path: $runsc, runtimeArgs: ["--network=none"]}' "$DOCKER_DAEMON_JSON")" ||
        die "$DOCKER_DAEMON_JSON is not valid JSON; mend it and run this again."
    else
      die "add \"runtimes\": {\"runsc\": {\"path\": \"$runsc\", \"runtimeArgs\": [\"--network=none\"]}} to $DOCKER_DAEMON_JSON (neither python3 nor jq is here to do it)."
    fi
  else
    merged="{
  \"runtimes\": {
    \"runsc\": {
      \"path\": \"$runsc\",
      \"runtimeArgs\": [\"--network=none\"]
    }
  }
}"
  fi
  as_root mkdir -p "$(dirname "$DOCKER_DAEMON_JSON")"
  # Written beside and renamed: an engine that starts at this moment never sees half a file.
  printf '%s\n' "$merged" | as_root tee "$DOCKER_DAEMON_JSON.new" >/dev/null
  as_root mv "$DOCKER_DAEMON_JSON.new" "$DOCKER_DAEMON_JSON"
}

# The running engine must know the runtime too: SIGHUP makes it read its configuration again.
reload_engine_for_runsc() {
  local waited=0
  engine_knows_runsc && return 0
  note "telling the running engine about runsc (SIGHUP)"
  if [ -d /run/systemd/system ]; then as_root systemctl kill -s HUP docker; else as_root kill -HUP "$(cat /run/docker.pid)"; fi
  until engine_knows_runsc; do
    sleep 0.3
    waited=$((waited + 1))
    [ "$waited" -lt 30 ] || { echo "error: the Docker engine does not list the runtime runsc, though $DOCKER_DAEMON_JSON names it. What to do: restart the engine and run this again." >&2; return 1; }
  done
}
