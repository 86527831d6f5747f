%shebang%
# Starts %target% as Bazel's own start-up program does, which is Python, and takes 80 ms for it; and
# finds the packages that came packed (tools/pip/README.md). Bazel fills in what stands between %.
set -euf

fail() { echo "%target%: $*" >&2 && exit 1; }

[ '%is_zipfile%' = False ] || fail "leave out --build_python_zip: tools/python/start.sh starts no zip file"

main='%main%'
imports='%imports%'
manifest=${RUNFILES_MANIFEST_FILE:-}
runfiles=${RUNFILES_DIR:-}
case $runfiles:$manifest in
  :*.runfiles_manifest | :*.runfiles/MANIFEST) runfiles=${manifest%?????????} ;;
esac
# What another program's environment names holds our main only if that one has us among its data.
if [ ! -e "$runfiles/$main" ]; then
  program=$0
  while :; do
    case $program in /*) ;; *) program=$PWD/$program ;; esac
    runfiles=$program.runfiles
    [ ! -d "$runfiles" ] || break
    case $program in *.runfiles/*) runfiles=${program%.runfiles/*}.runfiles && break ;; esac
    [ -L "$program" ] || fail "no folder $0.runfiles: run it by 'bazel run %target%'"
    target=$(readlink "$program")
    case $target in /*) program=$target ;; *) program=${program%/*}/$target ;; esac
  done
  unset RUNFILES_MANIFEST_FILE
fi
[ -r "$runfiles/$main" ] || fail "no file $runfiles/$main: run it by 'bazel run %target%'"

# What a worker says of itself: another place of python; that this python holds the packages already.
python=${PLUMBLINE_WORKER_PYTHON:-%python_binary%}
image=${PLUMBLINE_WORKER_IMAGE:-}
[ -x "$python" ] || fail "no python at $python on $(uname -n) for $(id -un): wanted there, as on the" \
  "client, or where the worker's PLUMBLINE_WORKER_PYTHON says"

# rules_python's import path; a packed wheel's part of it lies in a cache of the worker.
search() {
  path=$runfiles packs='' own=''
  IFS=:
  for folder in $imports; do
    pack=$runfiles/${folder%/site-packages}/wheel.pack
    if [ ! -e "$pack" ]; then
      path=$path:$runfiles/$folder own=-S
    elif [ -z "$image" ]; then
      read -r digest <"$pack.sha256"
      path=$path:$wheels/$digest own=-S
      packs=$packs:$pack
      { [ -d "$wheels/$digest" ] && true >"$wheels/$digest.used"; } 2>/dev/null || missing=yes
    fi
  done
  unset IFS
}

wheels='' missing=''
unpack=$runfiles/%workspace_name%/tools/pip/unpack.py
if [ -z "$image" ] && [ -e "$unpack" ]; then
  cache=${PLUMBLINE_WHEELS:-/var/tmp/plumbline-wheels-$(id -u)}
  # What was unpacked before the machine last started may be half on its disk.
  read -r boot </proc/sys/kernel/random/boot_id
  wheels=$cache/$boot
fi
search
if [ -n "$packs" ]; then
  # Nobody else may put there what we would run.
  { [ -O "$cache" ] && [ ! -L "$cache" ]; } || missing=yes
fi
if [ -n "$missing" ]; then
  wheels=$("$python" -I "$unpack" "$cache" "$boot" "${packs#:}") || fail "cannot unpack the wheels in $cache"
  search
fi

export PYTHONPATH="$path:$runfiles/%workspace_name%${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONSAFEPATH=1
export RUNFILES_DIR="$runfiles"
# Where packages come from wheels, those that this python holds itself stay out of sight.
exec "$python" ${own:+"$own"} "$runfiles/$main" "$@"
