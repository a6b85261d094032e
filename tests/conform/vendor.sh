#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vendor.sh ROOT TENON DIR [WORKER]: compiles examples/vendor-backend and what `tenon new-plugin` writes into DIR, as a vendor does:
# one file each, public headers alone. With WORKER it also asks the vendor kit of both, in its quick depth.
set -eu
root=$1 tenon=$(realpath "$2") dir=$3 worker=${4:+$(realpath "$4")}
machine=$(uname -m)
[ "$machine" != x86_64 ] || machine=x86-64
rm -rf "$dir"
mkdir -p "$dir"
(cd "$dir" && "$tenon" new-plugin skeleton > new-plugin.txt)
mv "$dir/skeleton" "$dir/written"
cp "$dir/written/skeleton.c" "$root/examples/vendor-backend/acme.c" "$dir"
sed "s/@ARCH@/$machine/" "$dir/written/skeleton.yaml" > "$dir/skeleton.yaml"
sed "s/@ARCH@/$machine/" "$root/examples/vendor-backend/acme.yaml.in" > "$dir/acme.yaml"
for p in acme skeleton; do
  ${CC:-cc} -std=gnu11 -O2 -shared -fPIC -fvisibility=hidden -I"$root/include" "$dir/$p.c" -o "$dir/$p.so" -Wl,-z,now -Wl,-z,defs -lm
done
[ -n "$worker" ] || exit 0
"$tenon" conform "$dir/acme.so" --worker "$worker" --level matmul --seed 1 --jobs 2 --patience 4
# What a driver may do a library of C++ does not excuse.
sed 's/^static tn_status enumerate(.*{$/&\n  fputs("hello", stderr);/' "$dir/acme.c" > "$dir/speaks.c"
sed 's/^name: acme/name: speaks/' "$dir/acme.yaml" > "$dir/speaks.yaml"
sed -i 's/"acme"/"speaks"/' "$dir/speaks.c"
${CC:-cc} -std=gnu11 -O2 -shared -fPIC -fvisibility=hidden -I"$root/include" "$dir/speaks.c" -o "$dir/speaks.so" -Wl,-z,now -Wl,-z,defs -lm \
  -Wl,--no-as-needed -l:libstdc++.so.6
if "$tenon" conform "$dir/speaks.so" --worker "$worker" --case abi/calls/thread-state > "$dir/speaks.txt" ||
  ! grep -q 'to standard error' "$dir/speaks.txt"; then
  echo "what a plugin with a library of C++ writes to standard error is not found:"
  cat "$dir/speaks.txt"
  exit 1
fi
"$tenon" conform "$dir/skeleton.so" --worker "$worker" --level abi --seed 1 --jobs 2 --patience 4
