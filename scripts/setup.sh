#!/usr/bin/env bash
# Finds or installs what the fast build needs and prints the cargo features to build with:
#   cargo build --release --package mem-cli --features "$(scripts/setup.sh)"
# oneDNN multiplies matrices several times as fast as the pure-Rust fallback. It is installed with apt-get where that is
# allowed; where it cannot be had, nothing is printed and the build works without it.
set -euo pipefail
[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit; }

compiles() {
    local program
    program=$(mktemp)
    trap 'rm -f "$program"' RETURN
    printf '#include <dnnl.hpp>\nint main() { return dnnl_version() == nullptr; }\n' |
        c++ -std=c++20 -x c++ - -ldnnl -lgomp -o "$program" 2>/dev/null
}

install() {
    local apt=(apt-get)
    command -v apt-get >/dev/null || return 1
    if ((EUID)); then
        command -v sudo >/dev/null && sudo -n true 2>/dev/null || return 1
        apt=(sudo -n apt-get)
    fi
    echo "installing oneDNN (libdnnl-dev) with apt-get" >&2
    local packages=(install --yes --no-install-recommends libdnnl-dev g++)
    DEBIAN_FRONTEND=noninteractive "${apt[@]}" "${packages[@]}" >&2 ||
        { "${apt[@]}" update >&2 && DEBIAN_FRONTEND=noninteractive "${apt[@]}" "${packages[@]}" >&2; }
}

if [[ $(uname -s) != Linux ]]; then
    echo "note: oneDNN is used on Linux alone; matrix products run in pure Rust, in f32" >&2
elif compiles || { install && compiles; }; then
    echo onednn
else
    echo "note: oneDNN was not found, so matrix products run in pure Rust, in f32, several times slower;" \
        "on Debian and Ubuntu \`apt install libdnnl-dev g++\` brings it" >&2
fi
