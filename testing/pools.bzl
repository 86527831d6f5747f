"""The executor pools: which kinds of machine a test can name, and what each one is.

A worker announces its pool under the same word (`Pool=h100`), and `.bazelrc` has a config of that
name. `gpu` is False for the pool that every machine belongs to. `present` is False for one of which
no machine has run a test yet: its tests say so in a tag `machine:none`, and cover nothing till one has.
"""

POOLS = {
    "b200": struct(arch = "sm100", gpu = True, machine = "NVIDIA B200, compute capability 10.0", present = False),
    "cpu": struct(arch = "cpu", gpu = False, machine = "any x86-64 machine", present = True),
    "h100": struct(arch = "sm90", gpu = True, machine = "NVIDIA H100 or H200, compute capability 9.0", present = True),
    "rtx5090": struct(arch = "sm120", gpu = True, machine = "NVIDIA RTX 5090, compute capability 12.0", present = False),
}

# How often a test runs: on each commit, on a pull request that carries its label, each night.
CADENCES = ["labelled", "nightly", "per-commit"]

# How many GPUs of one host a test may take.
GPU_COUNTS = [1, 2, 4, 8]
