# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts: what Tenon needs from Debian, and a build folder. Source it; do not run it.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build_packages="gcc libc6-dev meson ninja-build pkg-config protobuf-c-compiler libprotobuf-c-dev libltdl-dev libyaml-dev
  libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev libmd-dev libpng-dev libjpeg62-turbo-dev
  libmicrohttpd-dev libedit-dev opencl-headers"
test_packages="libcunit1-dev python3-venv libonnx-testdata ocl-icd-libopencl1 ocl-icd-opencl-dev pocl-opencl-icd
  oclgrind abigail-tools strace valgrind xz-utils libdnnl-dev
  libxnnpack-dev libpthreadpool-dev"

say() { printf '== %s\n' "$*" >&2; }

# as_root NAMES: sets sudo to what comes before a command of root's; where there is none, says that NAMES are wanted and ends.
as_root() {
  sudo=
  [ "$(id -u)" -ne 0 ] || return 0
  command -v sudo >/dev/null || { say "run as root, or install these packages: $*"; exit 1; }
  sudo=sudo
}

# install_packages NAME...: apt-get install of those that are missing.
install_packages() {
  local missing=() p sudo
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${missing[*]}"
  as_root "${missing[@]}"
  $sudo apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# pip_install VENV FILE: the packages of FILE, in the versions that it names; where this Python has these no more, the newest.
pip_install() {
  local done=$1/${2##*/} names
  # An environment whose making was interrupted has a python, and no pip.
  "$1/bin/python" -m pip --version >/dev/null 2>&1 || { python3 -m venv --clear "$1" && rm -f "$done"; } || return
  ! cmp -s "$2" "$done" || return 0
  mapfile -t names < <(sed 's/#.*//; s/==.*//; /^$/d' "$2")
  say "Python packages for the tests: ${names[*]}"
  "$1/bin/pip" install -q --disable-pip-version-check -r "$2" ||
    { say "not in the versions of $2; taking the newest"; "$1/bin/pip" install -q --disable-pip-version-check "${names[@]}"; } || return
  cp "$2" "$done"
}

# configure DIR [meson options]: sets a build folder up, or leaves one that is.
configure() {
  local dir=$1
  shift
  [ -f "$dir/build.ninja" ] || meson setup "$dir" "$root" "$@" >/dev/null || { meson setup "$dir" "$root" "$@"; exit 1; }
}

# build_quietly DIR: ninja; on a terminal one line that counts, and all of the output only where it fails.
build_quietly() {
  if [ -t 2 ]; then
    if ! NINJA_STATUS='%f of %t ' ninja -C "$1" 2>&1 | tee "$1/build.log" | sed -un 's/^\([0-9]* of [0-9]*\) .*/\1/p' |
      while read -r count; do printf '\r== %s ' "$count" >&2; done; then
      cat "$1/build.log" >&2
      return 1
    fi
    printf '\r%30s\r' '' >&2
  else
    ninja -C "$1" >"$1/build.log" 2>&1 || { cat "$1/build.log" >&2; return 1; }
  fi
}

# tenon_env DIR: runs the tenon of a build folder with that folder's plugins and profiles.
tenon_env() {
  local folders
  folders=$(find "$1/plugins" -mindepth 2 -maxdepth 2 -name '*.so' -printf ':%h')
  export TENON_PLUGIN_PATH="${folders#:}" TENON_PROFILE_PATH="$root/configs"
}
