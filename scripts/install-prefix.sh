# SPDX-License-Identifier: Apache-2.0
# Sourced by the checks of what is installed. install_prefix BUILD WORK: BUILD as it installs itself, under WORK/prefix; sets
# prefix, libdir and PKG_CONFIG_PATH.

install_prefix() {
  rm -rf "$2"
  mkdir -p "$2"
  # The build folder has a prefix already; what it installs there is copied to ours.
  conf=$(meson introspect "$1" --buildoptions | tr '{' '\n' | sed -n 's/.*"name": "prefix", "value": "\([^"]*\)".*/\1/p' | head -1)
  DESTDIR=$2/dest meson install -C "$1" --no-rebuild --quiet >"$2/install.log" 2>&1 || { cat "$2/install.log"; return 1; }
  prefix=$2/prefix
  mv "$2/dest$conf" "$prefix"
  pc=$(find "$prefix" -name tenon.pc)
  [ -n "$pc" ] || { echo "no tenon.pc"; return 1; }
  sed -i "s|^prefix=.*|prefix=$prefix|" "$pc"
  PKG_CONFIG_PATH=$(dirname "$pc")
  export PKG_CONFIG_PATH
  libdir=$(pkg-config --variable=libdir tenon)
}
