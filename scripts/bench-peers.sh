#!/usr/bin/env bash
# Prints one table of speeds and memory: ours beside llama.cpp, PEFT and sentence-transformers, on this machine,
# in one run, turn by turn. Progress goes to standard error, the table to standard output.
# usage: scripts/bench-peers.sh [--only limits,prefill,decode,extract,lora,embed,growth] [--repeat N]
#        [--threads N] [--sessions RANGES] [--max-new-tokens N]
#   MEMLOOM_BENCH_ENV       Python environment of the peers [default: below the target folder]
#   MEMLOOM_BENCH_PROGRAMS  folder of a release build of ours, else it is built here
#   MEMLOOM_LOCOMO          locomo10.json [default: shared/data/locomo/locomo10.json]
# Needs python3 with venv, cmake and a C++ compiler. The first run sets up the peers (some 15 minutes, 6 GB);
# a run takes about 30 minutes on 2 cores. Nothing else should run meanwhile.
set -euo pipefail
[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."

LLAMA=llama-cpp-python==0.3.36
GGUF=qwen2.5-coder-0.5b-instruct-q4_k_m
EMBEDDER=all-minilm-l6-v2
LOCOMO=${MEMLOOM_LOCOMO:-shared/data/locomo/locomo10.json}

target=$(cargo metadata --no-deps --locked --format-version 1 |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
env=${MEMLOOM_BENCH_ENV:-$target/bench-env}

say() { echo "== $1" >&2; }

build_ours() {
    if [[ -n ${MEMLOOM_BENCH_PROGRAMS:-} ]]; then
        programs=$MEMLOOM_BENCH_PROGRAMS
        return
    fi
    say "Building our programs"
    local features
    features=$(scripts/setup.sh)
    cargo build --release --locked --workspace ${features:+--features "mem-cli/$features"} --bins --examples >&2
    programs=$target/release
}

# install_llama [FLAG…]: built from source for this processor, with more flags for the compiler.
install_llama() {
    say "Building $LLAMA ${*:-for this processor}"
    CFLAGS="$*" CXXFLAGS="$*" CMAKE_ARGS=-DGGML_NATIVE=ON "$env/bin/pip" install --quiet --force-reinstall --no-deps \
        --no-cache-dir --no-binary llama-cpp-python "$LLAMA" >&2
}

llama_prefills() { "$env/bin/python" scripts/bench/llama.py --model "$gguf" prefill --tokens 64 >/dev/null; }

set_up_peers() {
    local ready=$env/memloom-ready wanted
    wanted=$(cat scripts/bench/requirements.txt && echo "$LLAMA")
    [[ -f $ready && $(<"$ready") == "$wanted" ]] && return
    say "Setting up the peers in $env"
    [[ -x $env/bin/python ]] || python3 -m venv "$env"
    "$env/bin/pip" install --quiet -r scripts/bench/requirements.txt >&2
    if ! "$env/bin/pip" show --quiet llama-cpp-python 2>/dev/null; then
        install_llama
        "$env/bin/pip" install --quiet "$LLAMA" >&2 # what it needs besides
    fi
    # With GCC 12 the AMX code of llama.cpp ends in an illegal instruction.
    if ! llama_prefills; then
        say "llama.cpp crashed at its first prefill: building it again without AMX"
        install_llama -mno-amx-tile -mno-amx-int8 -mno-amx-bf16
        llama_prefills
    fi
    echo "$wanted" >"$ready"
}

build_ours
gguf=$("$programs/memtrain" models fetch "$GGUF")
embedder=$("$programs/memtrain" models fetch "$EMBEDDER")
[[ -f $gguf ]] || gguf=$(ls "$gguf"/*.gguf)
set_up_peers
PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 "$env/bin/python" scripts/bench/table.py --programs "$programs" \
    --gguf "$gguf" --embedder "$embedder" --locomo "$LOCOMO" "$@"
