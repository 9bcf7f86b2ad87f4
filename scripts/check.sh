#!/usr/bin/env bash
# The whole gate, the same for you and for CI. A failed stage does not stop the others; the end says what
# passed, how many tests ran and what could not be checked.
# usage: scripts/check.sh
# Needs rustup, a C compiler, python3 and pip. From a clean clone: under 30 minutes on 2 cores.
set -euo pipefail
[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."

NEXTEST_VERSION=0.9.151
DENY_VERSION=0.20.2
MODEL=qwen2.5-coder-0.5b-instruct-q4_k_m
EMBEDDER=all-minilm-l6-v2

target=$(cargo metadata --no-deps --locked --format-version 1 |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
tools=$target/tools
export PATH="$tools/bin:$PATH"
export INSTA_UPDATE=no # the gate compares snapshots and never writes them

features=$(scripts/setup.sh)
fast=(${features:+--features "mem-cli/$features"})

failed=0
stages=()
notes=()

# stage TITLE COMMAND…
stage() {
    local title=$1 start=$SECONDS result=passed
    shift
    printf '\n== %s (%s)\n' "$title" "$(date +%H:%M:%S)"
    if ! "$@"; then
        result=FAILED
        failed=1
    fi
    stages+=("$(printf '%-6s %5d s  %s' "$result" $((SECONDS - start)) "$title")")
}

# What could not be checked, said now and again at the end.
note() {
    echo "note: $1"
    notes+=("$1")
}

# tool PROGRAM VERSION [CARGO-INSTALL-FLAG…]: unless the program is there, builds it below the target folder.
tool() {
    local program=$1 version=$2
    shift 2
    if command -v "$program" >/dev/null; then
        echo "$program is at $(command -v "$program")"
        return
    fi
    # It runs for seconds: building it quickly counts more than what the optimiser could do.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        cargo install --quiet --locked --root "$tools" --target-dir "$tools/build" "$@" "$program@$version" &&
        rm -rf "$tools/build"
}

# Licences, duplicates and sources need no network; advisories need their database.
dependencies() {
    tool cargo-deny "$DENY_VERSION" || return
    local checks=(bans licenses sources)
    if timeout 120 cargo deny --locked fetch db; then
        checks+=(advisories)
    else
        note "advisories: their database could not be fetched, so dependencies were not looked up in it"
    fi
    cargo deny --locked check "${checks[@]}"
}

build_tests() {
    tool cargo-nextest "$NEXTEST_VERSION" --no-default-features --features default-no-update &&
        cargo nextest run --workspace --locked "${fast[@]}" --no-run
}

# fetch_model VARIABLE NAME: some tests compare with real models; without one they say `skipped:`.
fetch_model() {
    local variable=$1 name=$2 path
    if [[ -n ${!variable:-} ]]; then
        echo "$variable is set: ${!variable}"
    elif [[ ! -x $target/debug/memtrain ]]; then
        echo "error: there is no $target/debug/memtrain"
        return 1
    elif path=$("$target/debug/memtrain" models fetch "$name"); then
        export "$variable=$path"
        echo "$path"
    else
        note "real model: $name could not be fetched"
    fi
}

junit=target/nextest/default/junit.xml # nextest keeps its reports here, whatever CARGO_TARGET_DIR says
doctests=$target/doctests.log
rm -f "$junit" "$doctests"

unit_tests() { cargo nextest run --workspace --locked "${fast[@]}" --no-fail-fast; }
fallback_tests() {
    # The report of the tests above is the one that is counted.
    mv "$junit" "$junit.fast" &&
        cargo nextest run --workspace --locked --no-fail-fast -E 'package(mem-model) | package(mem-train)'
    local result=$?
    mv "$junit.fast" "$junit"
    return $result
}
doc_tests() { cargo test --workspace --locked "${fast[@]}" --doc --no-fail-fast 2>&1 | tee "$doctests"; }
data() { python3 datasets/check_scenario.py datasets/scenarios/*.json; }
docs() { RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --locked "${fast[@]}" --no-deps; }

stage "Formatting" cargo fmt --all --check
stage "Data (check_scenario.py)" data
stage "Dependencies (cargo deny)" dependencies
stage "Lints (clippy)" cargo clippy --workspace --locked "${fast[@]}" --all-targets -- -D warnings
stage "Documentation" docs
stage "Build of the tests" build_tests
stage "Real model for the tests" fetch_model MEMLOOM_TEST_GGUF "$MODEL"
stage "Real embedder for the tests" fetch_model MEMLOOM_TEST_MINILM "$EMBEDDER"
stage "Tests (nextest)" unit_tests
if [[ $features ]]; then
    stage "Tests of the model without oneDNN" fallback_tests
else
    note "oneDNN: not found, so the products through it were not tested"
fi
stage "Tests in the documentation" doc_tests

printf '\n== Result\n'
printf '%s\n' "${stages[@]}"
for line in ${notes[@]+"${notes[@]}"}; do echo "note: $line"; done
python3 - "$junit" "$doctests" <<'PYTHON'
import os, re, sys
from xml.etree import ElementTree

junit, doctests = sys.argv[1:]
passed = failed = 0
skipped = {}
if os.path.exists(junit):
    for case in ElementTree.parse(junit).iter("testcase"):
        bad = case.find("failure") is not None or case.find("error") is not None
        passed, failed = passed + (not bad), failed + bad
        output = "".join(case.findtext(part) or "" for part in ("system-out", "system-err"))
        for line in re.findall(r"^.*?(skipped: .*)$", output, re.MULTILINE):
            skipped.setdefault(line, []).append(case.get("name"))
for line, tests in sorted(skipped.items()):
    print(f"{line} ({', '.join(sorted(set(tests)))})")
print(f"tests: {passed} passed, {failed} failed")
if os.path.exists(doctests):
    counts = re.findall(r"(\d+) passed; (\d+) failed", open(doctests).read())
    print(f"tests in the documentation: {sum(int(p) for p, _ in counts)} passed, "
          f"{sum(int(f) for _, f in counts)} failed")
PYTHON
if ((failed)); then
    echo "the gate FAILED"
    exit 1
fi
echo "the gate passed"
