#!/usr/bin/env bash
# On a machine with an NVIDIA GPU, in one go: builds with CUDA, checks everything that the model computes there
# against the CPU, and prints a table of speeds beside transformers and PEFT on the same card.
# Progress goes to standard error, the checks and the table to standard output.
# usage: scripts/gpu-check.sh [--device cuda|cpu] [--minutes N] [-- OPTION…]    (options of scripts/bench/gpu_table.py)
#   --device cpu   the same steps without a GPU: operations of devices in host memory, a tiny shape
#   --minutes N    for all of it; speeds that do not fit are left out [default: 10]
#   MEMLOOM_BENCH_PROGRAMS  folder of a release build of ours with its examples, else it is built here
#   MEMLOOM_BENCH_PYTHON    Python with torch, transformers and peft [default: python3]; without them our side alone
# Needs python3. Where there is no CUDA toolkit, scripts/cuda-toolkit.sh fetches one (700 MB, needs driver 580 or newer).
# Exits 1 if a check fails.
set -euo pipefail
[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."

device=cuda minutes=10
while (($#)); do
    case $1 in
    --device) device=$2 && shift 2 ;;
    --minutes) minutes=$2 && shift 2 ;;
    --) shift && break ;;
    *)
        sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
    esac
done
[[ $device == cuda || $device == cpu ]] || {
    echo "error: --device is cuda or cpu, not \`$device\`" >&2
    exit 2
}
python=${MEMLOOM_BENCH_PYTHON:-python3}

say() { echo "== $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))) $1" >&2; }

# What the build runs in, and where our programs find CUDA's libraries: the machine's own toolkit, else one that is
# fetched. PyTorch is left with the libraries that it brings.
with_toolkit=() libraries=
if [[ $device == cuda ]]; then
    command -v nvidia-smi >/dev/null || {
        echo "error: nvidia-smi is not here: is this a machine with an NVIDIA GPU? \`--device cpu\` tries the steps without" >&2
        exit 2
    }
    nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader >&2
    CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP:-$(nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader | tr -d .)}
    export CUDA_COMPUTE_CAP
    home=${CUDA_HOME:-/usr/local/cuda}
    if [[ -x $home/bin/nvcc ]]; then
        export CUDA_HOME=$home PATH=$home/bin:$PATH
        libraries=$home/lib64
    elif command -v nvcc >/dev/null; then
        say "CUDA is that of $(command -v nvcc)"
    elif [[ -n ${MEMLOOM_BENCH_PROGRAMS:-} ]]; then
        libraries=$("$python" -c 'import glob, nvidia
print(":".join(lib for root in nvidia.__path__ for lib in glob.glob(root + "/*/lib")))' || true)
        say "No CUDA toolkit is installed: our programs take PyTorch's libraries (${libraries:-none found})"
    else
        say "No CUDA toolkit is installed: scripts/cuda-toolkit.sh lends one"
        with_toolkit=(scripts/cuda-toolkit.sh)
        libraries=$(scripts/cuda-toolkit.sh env | sed -n 's/^CUDA_HOME=//p')/lib
    fi
fi

programs=${MEMLOOM_BENCH_PROGRAMS:-}
if [[ -z $programs ]]; then
    features=()
    [[ $device == cuda ]] && features+=(mem-cli/cuda)
    onednn=$(scripts/setup.sh)
    features+=(${onednn:+"mem-cli/$onednn"})
    say "Building with ${features[*]:-no features} (CUDA takes some minutes the first time)"
    ${with_toolkit[@]+"${with_toolkit[@]}"} cargo build --release --locked --workspace --features "${features[*]}" --bins --examples >&2
    target=$(cargo metadata --no-deps --locked --format-version 1 |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
    programs=$target/release
fi

say "Checking what is computed on $device"
checks=passed
LD_LIBRARY_PATH=$libraries:${LD_LIBRARY_PATH:-} "$programs/examples/device_check" --device "$device" || checks=FAILED

say "Measuring speeds on $device"
small=()
[[ $device == cpu ]] && small=(--shapes tiny --lora-tokens 64 --rows 1,4 --prompt 64 --new-tokens 16)
left=$((minutes * 60 - SECONDS))
echo
PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 python3 scripts/bench/gpu_table.py --device "$device" \
    --programs "$programs" --libraries "$libraries" --python "$python" --seconds "$left" ${small[@]+"${small[@]}"} "$@"

say "Done: the checks $checks"
[[ $checks == passed ]]
