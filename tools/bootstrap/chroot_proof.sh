#!/usr/bin/env bash
# Proves on a bare Debian that a command works from a fresh clone with an empty cache.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tools/bootstrap/chroot_proof.sh SUITE [options] [-- COMMAND...]

Makes a minimal Debian SUITE (bookworm, trixie) that holds git, python3, a C compiler and the
system's certificates, clones this repository's HEAD into it, and runs each COMMAND there by
'bash -c' in the clone, with times. Needs root and debootstrap. Default: 'tools/bazel --version'.

  --user             run as a normal user instead of root
  --keep             keep the machine afterwards (default: delete it; the base system stays)
  --dir DIR          where base systems and machines are put (default: /var/tmp/plumbline-proof)
  --bind SRC[:DST]   also show this file or folder of the host, read-only (may be given often)
  --env NAME         also pass this variable of the host (may be given often)

A host that needs a proxy, its own certificates or a wheel folder to reach its package registries
passes them by --bind and --env. apt's options for reaching a mirror are always passed.
TEXT
}

suite="" user=root keep=no dir=/var/tmp/plumbline-proof
binds=() names=()
while (($#)); do
  case $1 in
    --user) user=tester ;;
    --keep) keep=yes ;;
    --dir) dir=$2; shift ;;
    --bind) binds+=("$2"); shift ;;
    --env) names+=("$2"); shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    -*) usage >&2; exit 2 ;;
    *) suite=$1 ;;
  esac
  shift
done
commands=("$@")
((${#commands[@]})) || commands=("tools/bazel --version")
[[ -n $suite ]] || { usage >&2; exit 2; }
[[ $(id -u) == 0 ]] || { echo "chroot_proof.sh: needs root, for debootstrap and mounts." >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "chroot_proof.sh: install debootstrap first." >&2; exit 2; }

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
base=$dir/$suite.base
mkdir -p "$dir"

if [[ ! -d $base ]]; then
  echo "== making the base system $base"
  mirror=$(cd "$repository" && python3 -B -m tools.bootstrap --print-mirror)
  rm -rf "$base.new"
  debootstrap --variant=minbase --include=git,python3,gcc,libc6-dev,ca-certificates \
    "$suite" "$base.new" "$mirror" >"$dir/$suite.log" || { tail -5 "$dir/$suite.log" >&2; exit 1; }
  mv "$base.new" "$base"
fi

machine=$(mktemp -d "$dir/$suite.XXXXXX")
chmod 755 "$machine"
if [[ $keep == yes ]]; then
  echo "== machine $machine"
else
  trap 'rm -rf --one-file-system "$machine"' EXIT
fi
cp -a --reflink=auto "$base/." "$machine"
cp -L /etc/resolv.conf /etc/hosts "$machine/etc/"
apt-config dump | grep '^Acquire::' >"$machine/etc/apt/apt.conf.d/99host" || true
home=/root
if [[ $user != root ]]; then
  chroot "$machine" useradd --create-home --uid 1234 "$user"
  home=/home/$user
fi
git clone -q --no-local "$repository" "$machine$home/plumbline"
chroot "$machine" chown -R "$user" "$home/plumbline"

environment=(HOME="$home" USER="$user" PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8)
for name in "${names[@]}"; do
  [[ -v $name ]] && environment+=("$name=${!name}")
done

# Runs in its own mount and process namespaces: nothing stays mounted, no server stays running.
inside() {
  set -euo pipefail
  local machine=$1 user=$2 home=$3 pairs=$4 variables=$5
  shift 5
  mount --bind "$machine" "$machine"
  mount -t proc proc "$machine/proc"
  mount --rbind /sys "$machine/sys"
  mount --rbind /dev "$machine/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$machine/dev/shm" 2>/dev/null || true
  local pair source target
  for pair in $pairs; do
    source=${pair%%:*} target=$machine${pair##*:}
    if [[ -d $source ]]; then mkdir -p "$target"; else mkdir -p "${target%/*}"; : >>"$target"; fi
    mount --bind "$source" "$target"
    mount -o remount,ro,bind "$target"
  done
  # Unlike in a chroot, user namespaces (Bazel's sandbox) are allowed after a change of root.
  mkdir -p "$machine/.host"
  cd "$machine"
  pivot_root . .host
  cd /
  umount -l /.host
  cat >/run/proof.sh <<'TEXT'
exec 2>&1
cd "$HOME/plumbline"
TIMEFORMAT='== %R s wall, %U s user'
status=0
for command in "$@"; do
  echo "== $(. /etc/os-release; echo "$PRETTY_NAME"), $(id -un), $(nproc) cores: $command"
  time bash -c "$command" || { status=$?; echo "== exit $status"; break; }
done
echo "== $(du -sm "${XDG_CACHE_HOME:-$HOME/.cache}"/plumbline/bazel 2>/dev/null || echo 'no private Bazel')"
exit $status
TEXT
  setpriv --reuid="$user" --regid="$user" --init-groups env -i "${@:1:variables}" \
    bash /run/proof.sh "${@:1+variables}"
}
export -f inside
unshare --mount --pid --fork --kill-child bash -c 'inside "$@"' inside \
  "$machine" "$user" "$home" "${binds[*]}" ${#environment[@]} "${environment[@]}" "${commands[@]}"
