#!/usr/bin/env bash
# Compiles the CUDA code without a GPU, without root and without an installed toolkit: fetches NVIDIA's compiler
# and headers from PyPI into the target folder and runs `cargo check --features cuda` there.
# usage: scripts/cuda-toolkit.sh [COMMAND…]    (else cargo check; `env` prints the environment)
#   CUDA_COMPUTE_CAP  architecture to build for [default: 90, Hopper]
# Needs python3 with pip. Fetches some 700 MB once, most of it cuBLAS. What is built runs with a driver that
# reads CUDA 13.0 (580 or newer) and finds libcublas.so.13 and its like on LD_LIBRARY_PATH.
set -euo pipefail
[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# All of one minor version: parts of different ones do not fit together.
PACKAGES=(nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-crt==13.0.* nvidia-cuda-runtime==13.0.*
    nvidia-cuda-nvrtc==13.0.* nvidia-cublas==13.0.* nvidia-cuda-cccl==13.0.* nvidia-curand==10.4.0.*)

target=$(cargo metadata --no-deps --locked --format-version 1 |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
folder=$target/cuda-toolkit
toolkit=$folder/nvidia/cu13

# The wheels share folders, so they are unpacked into one: pip's own `--target` would lose files.
fetch() {
    echo "== Fetching the CUDA compiler into $folder" >&2
    rm -rf "$folder"
    mkdir -p "$folder/wheels"
    python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$folder/wheels" "${PACKAGES[@]}" >&2
    for wheel in "$folder"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$folder"; done
    rm -r "$folder/wheels"
    chmod +x "$toolkit"/bin/* "$toolkit"/nvvm/bin/*
}

# What a linker looks for: names without versions, `lib64`, and a driver library that only the target machine has.
link() {
    local library
    for library in "$toolkit"/lib/lib{cublas,cublasLt,cudart,curand,nvrtc}.so.*; do
        ln -sf "$(basename "$library")" "${library%%.so.*}.so"
    done
    ln -sfn lib "$toolkit/lib64"
    mkdir -p "$toolkit/lib/stubs"
    cc -shared -o "$toolkit/lib/stubs/libcuda.so" -Wl,-soname,libcuda.so.1 -x c /dev/null
}

[[ -f $folder/ready && $(<"$folder/ready") == "${PACKAGES[*]}" ]] || {
    fetch
    link
    echo "${PACKAGES[*]}" >"$folder/ready"
}
export CUDA_HOME=$toolkit CUDA_PATH=$toolkit CUDA_ROOT=$toolkit NVCC=$toolkit/bin/nvcc PATH=$toolkit/bin:$PATH
export CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP:-90}
export RUSTFLAGS="-L $toolkit/lib -L $toolkit/lib/stubs -C link-arg=-Wl,--unresolved-symbols=ignore-all"
[[ $# -gt 0 ]] || set -- cargo check --release --locked --workspace --features mem-cli/cuda
exec "$@"
