#!/usr/bin/env bash
# An installed tree works from any place, with nothing of the build beside it: package_test.sh BUILD_FOLDER
set -euo pipefail
build=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

cmake --install "$build" --prefix "$place/before" >/dev/null
mv "$place/before" "$place/after"
cd /

fail() {
  echo "package_test: $*" >&2
  exit 1
}
alone() { env -i PATH=/usr/bin:/bin HOME="$place" "$@"; }

libraries=$(alone ldd "$place/after/bin/trireme-trainer")
if grep 'not found' <<<"$libraries"; then fail "libraries are missing"; fi
for library in libtorch_cpu.so libc10.so libarrow.so libparquet.so; do
  grep -q "$library[.0-9]* => $place/after/" <<<"$libraries" || fail "$library is not the package's own"
done
# shellcheck disable=SC2016
if readelf -d "$place"/after/bin/* | grep -E 'R(UN)?PATH' | grep -vF '$ORIGIN'; then fail "a path of the build is left"; fi

versions=$(alone "$place/after/bin/trireme" --version)
grep -q '^torch: ' <<<"$versions" || fail "trireme --version printed: $versions"
alone "$place/after/bin/trireme" config check "$place/after/share/trireme/configs/quickstart.toml" ||
  fail "the quickstart's configuration does not pass"
for file in LICENSE THIRD_PARTY_NOTICES.md licences/torch/LICENSE licences/pyarrow/LICENSE.txt; do
  [[ -e $place/after/share/doc/trireme/$file ]] || fail "share/doc/trireme/$file is missing"
done
