"""The machine and the peers' versions, in words."""

import datetime
import os
from importlib.metadata import PackageNotFoundError, version

FLAGS = ["avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"]
PEERS = ["llama-cpp-python", "torch", "transformers", "peft", "sentence-transformers"]


def installed(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def describe(threads):
    """Lines of Markdown: date, processor, flags, load, versions."""
    cpu = {}
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        name, _, value = line.partition(":")
        cpu.setdefault(name.strip(), value.strip())
    flags = cpu.get("flags", "").split()
    has = ", ".join(flag for flag in FLAGS if flag in flags)
    lacks = ", ".join(flag for flag in FLAGS if flag not in flags)
    model = f"{cpu.get('model name', '?')} (family {cpu.get('cpu family', '?')}, model {cpu.get('model', '?')})"
    return [
        f"- {datetime.datetime.now():%Y-%m-%d %H:%M}, load {os.getloadavg()[0]:.1f} at the start",
        f"- {model}, {os.cpu_count()} cores, {threads} threads used; has {has}; lacks {lacks or 'none of those asked for'}",
        "- " + ", ".join(f"{package} {installed(package)}" for package in PEERS),
    ]
