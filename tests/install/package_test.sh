#!/usr/bin/env bash
# package_test.sh BUILD CMAKE GENERATOR COMPILER: installs BUILD, moves what was installed, and uses it from outside
# the tree: builds and runs examples/my_model, opens what it leaves with the installed programs, and compiles every
# installed header.
set -euo pipefail
build=$1 cmake=$2 generator=$3 compiler=$4
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() { echo "package_test: $1" >&2; exit 1; }
build_outside() {  # NAME: configures and builds $folder/NAME against the package
  "$cmake" -S "$folder/$1" -B "$folder/build_$1" -G "$generator" -DCMAKE_PREFIX_PATH="$package" \
    -DCMAKE_CXX_COMPILER="$compiler" >"$folder/log" || { cat "$folder/log"; fail "$1 cannot be configured"; }
  "$cmake" --build "$folder/build_$1" >"$folder/log" || { cat "$folder/log"; fail "$1 cannot be built"; }
}

"$cmake" --install "$build" --prefix "$folder/installed" >"$folder/log" || { cat "$folder/log"; fail "cannot install"; }
package=$folder/moved
mv "$folder/installed" "$package"

# The package names no folder of this machine's build, and hands on none of the build's own compiler flags.
if grep -rnE -e "$source|$build|$folder" -e 'INTERFACE_(COMPILE|LINK)_OPTIONS' "$package/lib/cmake"; then
  fail "the package has the lines above"
fi

cp -r "$source/examples/my_model" "$folder/my_model"
build_outside my_model
mkdir "$folder/out"
"$folder/build_my_model/my_model" "$folder/out"
"$package/bin/zero1" trace summary "$folder/out/run.trace" | grep -F '"model":"convnet"' >/dev/null ||
  fail "zero1 trace summary does not show the model's recording"
"$package/bin/zero1" ckpt verify "$folder/out/checkpoints"

cp -r "$source/tests/install/headers" "$folder/headers"
(cd "$package/include/zero1_lab" && find . -name '*.h' -printf '#include "%P"\n' | sort) >"$folder/headers/all_headers.h"
(($(wc -l <"$folder/headers/all_headers.h") > 50)) || fail "only $(wc -l <"$folder/headers/all_headers.h") headers"
build_outside headers
"$folder/build_headers/headers"
"$folder/build_headers/trace_only" "$folder/out/run.trace"
