#!/usr/bin/env bash
# Makes the image sandbox-base:latest: from the Dockerfile where an image registry is reachable, else by debootstrap from
# the machine's own apt mirror and `docker import`.
#
#   build.sh          makes it, unless it is there with the content that this folder describes
#   build.sh --check  exit 0 when it is there, else 1; changes nothing
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/env.sh
source scripts/lib.sh

IMAGE=sandbox-base:latest
LABEL=dev.glassbox.image-source
# How long a registry may take to answer before it counts as unreachable.
REGISTRY_DEADLINE=8

source_checksum="$(checksum_of images/sandbox-base)"
current() { docker image inspect --format "{{index .Config.Labels \"$LABEL\"}}" "$IMAGE" 2>/dev/null || true; }

if [ "$(current)" = "$source_checksum" ]; then
  [ "${1:-}" = --check ] || echo "$IMAGE is there already"
  exit 0
fi
[ "${1:-}" != --check ] || exit 1

registry_answers() {
  DOCKER_CLI_EXPERIMENTAL=enabled timeout "$REGISTRY_DEADLINE" docker manifest inspect debian:bookworm-slim >/dev/null 2>&1
}

from_dockerfile() {
  docker build --label "$LABEL=$source_checksum" --tag "$IMAGE" images/sandbox-base
}

packages() { grep -vE '^#|^$' images/sandbox-base/packages.txt; }

from_debootstrap() {
  have debootstrap || as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq -y --no-install-recommends install debootstrap
  local suite distribution components sources root
  suite="$(. /etc/os-release && echo "$VERSION_CODENAME")"
  distribution="$(. /etc/os-release && echo "$ID")"
  components=main
  # Ubuntu keeps half of the list in universe.
  [ "$distribution" != ubuntu ] || components="main universe"
  # The mirrors that this machine's apt uses for this suite, its updates and its security fixes: "suite uri" lines.
  sources="$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$suite" '($1 == suite || $1 == suite "-updates" || $1 == suite "-security") && !seen[$1]++')"
  local mirror
  mirror="$(awk -v suite="$suite" '$1 == suite { print $2 }' <<<"$sources")"
  [ -n "$mirror" ] || { echo "apt has no source for $suite"; return 1; }

  root="$(mktemp -d "${TMPDIR:-/var/tmp}/glassbox-image.XXXXXX")"
  # shellcheck disable=SC2064 # the folder's name is known now
  trap "as_root umount '$root/proc' 2>/dev/null || true; as_root rm -rf --one-file-system '$root'" EXIT
  as_root debootstrap --variant=minbase --components="${components// /,}" "$suite" "$root" "$mirror"

  # The rest by apt inside: debootstrap cannot order the dependencies of npm's hundreds of small packages.
  awk -v components="$components" '{ print "deb " $2 " " $1 " " components }' <<<"$sources" | as_root tee "$root/etc/apt/sources.list" >/dev/null
  {
    apt-config dump | grep -iE '^Acquire::(https?|ftp)::Proxy' || true
    # A half-written image is thrown away, so nothing needs syncing; and no documentation that is deleted again at once.
    echo 'Acquire::Retries "3"; APT::Install-Recommends "false"; Acquire::Languages "none";'
    echo 'DPkg::Options { "--force-unsafe-io"; "--path-exclude=/usr/share/man/*"; "--path-exclude=/usr/share/locale/*"; };'
  } | as_root tee "$root/etc/apt/apt.conf.d/99build-proxy" >/dev/null
  as_root cp /etc/resolv.conf "$root/etc/resolv.conf"
  as_root cp /etc/hosts "$root/etc/hosts"
  # A mirror over https needs certificates before the package that brings them.
  if [ -e /etc/ssl/certs/ca-certificates.crt ]; then as_root install -D /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"; fi
  # No service may start in there.
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$root/usr/sbin/policy-rc.d" >/dev/null
  as_root chmod 755 "$root/usr/sbin/policy-rc.d"
  as_root mount -t proc proc "$root/proc"
  as_root chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 apt-get -qq update
  # shellcheck disable=SC2046 # one word a package
  as_root chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 apt-get -qq -y install $(packages)
  as_root umount "$root/proc"
  as_root rm -f "$root/usr/sbin/policy-rc.d"
  as_root sh images/sandbox-base/finish.sh "$root"
  echo "importing into Docker"
  as_root tar -C "$root" --numeric-owner --exclude='./dev/*' -c . |
    docker import \
      --change "LABEL $LABEL=$source_checksum" \
      --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
      --change 'ENV LANG=C.UTF-8' \
      --change 'WORKDIR /workspace' \
      --change 'CMD ["bash"]' \
      - "$IMAGE"
}

if registry_answers; then
  echo "making $IMAGE from the Dockerfile"
  from_dockerfile || { echo "that failed; making it by debootstrap instead"; from_debootstrap; }
else
  echo "no image registry answered within $REGISTRY_DEADLINE s; making $IMAGE by debootstrap"
  from_debootstrap
fi
# Show once what is inside; a broken image should fail here and not in a user's first command.
docker run --rm --network none "$IMAGE" bash -c 'python3 --version && node --version && gcc --version | head -1 && git --version && id sandbox'
docker image inspect --format 'size: {{.Size}} bytes' "$IMAGE"
