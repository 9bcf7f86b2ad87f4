#!/usr/bin/env bash
# From a fresh clone to memories: builds memloom, fetches the models, fine-tunes a small one for some minutes
# and lets it extract records from a conversation. Run again, it does only what is missing; interrupted, it
# goes on where it stopped.
# usage: scripts/quickstart.sh [TRANSCRIPT…]    (else a sample conversation)
# Needs a Rust toolchain, a C compiler, python3 with pip and 4 GB of memory. Under 25 minutes on 2 cores.
set -euo pipefail
[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit; }

transcripts=()
for file in "$@"; do
    [[ -f $file ]] || { echo "error: there is no file \`$file\`" >&2; exit 2; }
    transcripts+=("$(realpath "$file")")
done
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -gt 0 ]] || transcripts=(datasets/samples/dialogue.txt)

MODEL=qwen2.5-coder-0.5b-instruct-q4_k_m
EMBEDDER=all-minilm-l6-v2
RUN=runs/quickstart
ADAPTER=$RUN/adapter

missing() {
    echo "error: $1" >&2
    exit 2
}

# step TITLE COMMAND…
step() {
    local title=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$title"
    "$@"
    printf -- '-- %s: %d s\n' "$title" $((SECONDS - start))
}

check_machine() {
    command -v cargo >/dev/null || missing "cargo is not installed: get Rust from https://rustup.rs"
    command -v cc >/dev/null || missing "there is no C compiler \`cc\`: install one, on Debian and Ubuntu \`build-essential\`"
    command -v python3 >/dev/null || missing "python3 is not installed: on Debian and Ubuntu \`apt install python3 python3-pip\`"
    python3 -m pip --version >/dev/null 2>&1 ||
        echo "note: pip is not installed; should the model hub be out of reach, models cannot be fetched otherwise"
    local free_mb available_mb
    free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
    ((free_mb >= 4000)) || missing "$free_mb MB are free here; the build and the models take 4000 MB"
    available_mb=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo 2>/dev/null || true)
    ((${available_mb:-4000} >= 4000)) ||
        echo "note: $available_mb MB of memory are free; the fine-tune takes more than 3000 MB and may be ended by the system"
}

build() {
    cargo build --release --locked --package mem-cli --features "$(scripts/setup.sh)"
    target=$(cargo metadata --no-deps --locked --format-version 1 |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
    PATH=$target/release:$PATH
}

fetch_models() {
    model_path=$(memtrain models fetch "$MODEL")
    embedder_path=$(memtrain models fetch "$EMBEDDER")
}

# The weights are the last file that a fine-tune writes.
fine_tune() {
    if [[ -f $ADAPTER/adapter_model.safetensors ]]; then
        echo "the adapter is there already; remove $RUN to train it anew"
    else
        memtrain sft --config training/quickstart.toml
    fi
}

# extract TRANSCRIPT RECORDS
extract() {
    local status=0
    if [[ $2 -nt $ADAPTER/adapter_model.safetensors && $2 -nt $1 ]]; then
        echo "$2 is there already"
        return
    fi
    memextract "$1" --adapter "$ADAPTER" --out "$2" --resume || status=$?
    ((status <= 1)) || exit "$status" # 1: something is missing, and the summary says what
}

show() {
    python3 - "$1" <<'PYTHON'
import json, sys

records = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
print(f"{len(records)} records")
for record in records:
    dimension = record["dimension"]
    print(f"* {record['content']}")
    parts = [dimension["memory_type"]] + [f"{name} {dimension[name]}" for name in
             ("time", "location", "reason", "purpose") if dimension[name]]
    print(f"    {'; '.join(filter(None, parts))}")
    print(f"    {', '.join(dimension['keywords'])}  [turn {record['source']['turn']}, {record['source_speaker']}]")
PYTHON
}

step "Checking the machine" check_machine
step "Building (cargo build --release)" build
step "Fetching the models" fetch_models
step "Fine-tuning (training/quickstart.toml)" fine_tune
outputs=()
for transcript in "${transcripts[@]}"; do
    name=$(basename "$transcript")
    output=$RUN/${name%.*}.records.jsonl
    step "Extracting from $name" extract "$transcript" "$output"
    printf '\n'
    show "$output"
    outputs+=("$output")
done

printf '\n== Where everything lies\n'
printf '%-10s %s\n' programs "$target/release/memtrain" "" "$target/release/memextract" \
    model "$model_path" "" "$embedder_path" metrics "$RUN/metrics.jsonl" adapter "$ADAPTER"
printf '%-10s %s\n' records "${outputs[0]}"
for output in "${outputs[@]:1}"; do printf '%-10s %s\n' "" "$output"; done
printf '\nall in %d min %02d s\n' $((SECONDS / 60)) $((SECONDS % 60))
