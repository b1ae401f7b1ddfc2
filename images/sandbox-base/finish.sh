#!/bin/sh
# The last touches of the sandbox image, the same for both ways of making it. Argument: the root of its file system.
set -eu
root="${1%/}"

# The user of hardened sandboxes. By hand, for the tools may be missing from a half-made root.
if ! grep -q '^sandbox:' "$root/etc/passwd"; then
  echo 'sandbox:x:1000:1000:sandbox:/tmp:/bin/bash' >>"$root/etc/passwd"
  echo 'sandbox:x:1000:' >>"$root/etc/group"
  echo 'sandbox:!:19000:0:99999:7:::' >>"$root/etc/shadow"
fi
mkdir -p "$root/workspace"
chown 1000:1000 "$root/workspace"
chmod 755 "$root/workspace"

# pip may install beside the system's packages: the sandbox is the user's to break, and a refusal only costs an agent a turn.
rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED
# Agents type `python`.
[ -e "$root/usr/bin/python" ] || ln -s python3 "$root/usr/bin/python"

# No package lists and no mirror's address: sandboxes have no network, and the mirror is the builder's business.
rm -rf "$root/var/lib/apt/lists/"* "$root/var/cache/apt/"* "$root/var/cache/debconf/"*-old "$root/var/log/"*.log "$root/var/log/apt"
rm -f "$root/etc/apt/sources.list" "$root/etc/apt/sources.list.d/"* "$root/etc/apt/apt.conf.d/"*proxy* "$root/var/lib/dpkg/"*-old
echo '# Sandboxes have no network. Packages come in with the image.' >"$root/etc/apt/sources.list"
# Documentation that no agent reads, about a quarter of the image.
find "$root/usr/share/doc" -mindepth 1 -not -name copyright -not -type d -delete 2>/dev/null || true
rm -rf "$root/usr/share/man/"* "$root/usr/share/info/"* "$root/usr/share/locale/"*
# Of the machine that built it.
rm -f "$root/etc/resolv.conf" 2>/dev/null || true
echo sandbox >"$root/etc/hostname" 2>/dev/null || true
