"""Which backend of an operation a device can run, decided before any kernel is launched.

Each operation lists its backends, best first, with what each needs. `select_backend` takes the
one asked for, or else the first whose needs the device, the installed packages and the shape meet.
No kernel is ever tried to see whether it fails.

An argument asks one operation, so a backend that it lacks is an error. The environment's
PLUMBLINE_BACKEND asks them all, and is passed over where an operation has no such backend.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

# Those that some operation has: any other name in the environment is a slip of the pen.
BACKEND_NAMES = (
    "torch",
    "triton",
    "sgl_kernel",
    "sgl_kernel_cutlass",
    "flashmla",
    "flashinfer",
    "flashinfer_cudnn",
    "flashinfer_cutlass",
    "flashinfer_trtllm",
    "torch_scaled_mm",
)
BACKEND_VARIABLE = "PLUMBLINE_BACKEND"
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
# What a package is called in an index, where that is not the name it is imported by.
DISTRIBUTIONS = {
    "flashinfer": ("flashinfer-python",),
    "sgl_kernel": ("sglang-kernel", "sgl-kernel"),
}

Arch = tuple[int, int]


class BackendUnavailable(RuntimeError):
    """A backend was asked for that this device, installation or shape rules out."""


@dataclass(frozen=True)
class Problem:
    """What a layer asks of an operation.

    dtype: of inputs and outputs.
    k, n: reduced dimension, and outputs if the operation has any.
    bias: whether a bias is to be added before the output is rounded.
    scalar_scales: x has one scale, and the weight has one.
    """

    dtype: torch.dtype
    k: int
    n: int = 0
    bias: bool = False
    scalar_scales: bool = False


@dataclass(frozen=True)
class Needs:
    """What a backend needs: package and CUDA compute capability, and the limits of its kernel.

    `extension` is a compiled module within the package, which some builds leave out. `min_arch`
    None runs on every device, the CPU included. Limits of arch and version are
    inclusive; `min_cuda` is the one that torch was built with. `bias` False cannot add one;
    `scalar_scales` True takes no others.
    """

    package: str | None = None
    extension: str | None = None
    max_version: tuple[int, ...] | None = None
    min_cuda: tuple[int, int] | None = None
    min_arch: Arch | None = None
    max_arch: Arch | None = None
    dtypes: tuple[torch.dtype, ...] = FLOATS
    k_multiple: int = 1
    n_multiple: int = 1
    k_min: int = 0
    k_max: int | None = None
    n_min: int = 0
    bias: bool = True
    scalar_scales: bool = False

    def unmet(self, device: torch.device, problem: Problem) -> str | None:
        """Why the backend cannot run, or None if it can."""
        return self._unmet_device(device) or self._unmet_problem(problem)

    def describe_device(self) -> str:
        """The devices that can run the backend, for people: "CUDA sm80 to sm90"."""
        if self.min_arch is None:
            return "any device"
        upper = f" to {arch_name(self.max_arch)}" if self.max_arch else " or newer"
        return f"CUDA {arch_name(self.min_arch)}{upper}"

    def _unmet_device(self, device: torch.device) -> str | None:
        if self.min_arch is not None:
            if device.type != "cuda":
                return f"needs a GPU ({self.describe_device()}), the layer is on '{device}'"
            arch = device_arch(device)
            if arch < self.min_arch or (self.max_arch is not None and arch > self.max_arch):
                name = torch.cuda.get_device_name(device)
                return f"needs {self.describe_device()}, '{device}' is {arch_name(arch)} ({name})"
        if self.package is not None and not is_installed(self.package):
            return f"needs the Python package '{self.package}', which is not installed"
        if self.package is not None and not has_extension(self.package, self.extension):
            return (
                f"needs '{self.package}' with its module '{self.extension}', which the one "
                f"installed lacks"
            )
        return self._unmet_version()

    def _unmet_version(self) -> str | None:
        if self.min_cuda is not None and cuda_version() < self.min_cuda:
            seen, limit = (".".join(map(str, v)) for v in (cuda_version(), self.min_cuda))
            return f"needs a torch built with CUDA {limit} or newer, this one is with {seen}"
        if self.package is None or self.max_version is None:
            return None
        version = installed_version(self.package)
        if version is None or version <= self.max_version:
            return None
        seen, limit = (".".join(map(str, v)) for v in (version, self.max_version))
        return f"needs '{self.package}' {limit} or older, which is {seen} here"

    def _unmet_problem(self, problem: Problem) -> str | None:
        if problem.dtype not in self.dtypes:
            wanted = " or ".join(str(d) for d in self.dtypes)
            return f"needs inputs and outputs of {wanted}, they are {problem.dtype}"
        if problem.k % self.k_multiple:
            return f"needs K divisible by {self.k_multiple}, K is {problem.k}"
        if self.k_max is not None and problem.k > self.k_max:
            return f"needs K of at most {self.k_max}, K is {problem.k}"
        if problem.k < self.k_min:
            return f"needs K of at least {self.k_min}, K is {problem.k}"
        if problem.n % self.n_multiple:
            return f"needs N divisible by {self.n_multiple}, N is {problem.n}"
        if problem.n < self.n_min:
            return f"needs N of at least {self.n_min}, N is {problem.n}"
        return self._unmet_form(problem)

    def _unmet_form(self, problem: Problem) -> str | None:
        if problem.bias and not self.bias:
            return "needs a layer without bias: it would be added after rounding"
        if self.scalar_scales and not problem.scalar_scales:
            return (
                "needs one scale for x and one for the weight: static activations, and shards "
                "of the same weight scale"
            )
        return None


@dataclass(frozen=True)
class Backend:
    """One implementation of an operation. `load` imports its package and returns the function."""

    name: str
    needs: Needs
    load: Callable[[], Callable[..., Any]]


@dataclass(frozen=True)
class Operation:
    """An operation with its backends, the preferred one first."""

    name: str
    backends: tuple[Backend, ...]

    def availability(self, device: torch.device | str, problem: Problem) -> dict[str, str | None]:
        """For each backend, None if it can run this problem on this device, else why not."""
        device = torch.device(device)
        return {b.name: b.needs.unmet(device, problem) for b in self.backends}


def select_backend(
    operation: Operation,
    device: torch.device | str,
    problem: Problem,
    requested: str | None = None,
) -> Backend:
    """The backend asked for, or the first that can run.

    Args:
        operation: with its backends, best first.
        device: where the layer's weights lie.
        problem: dtype and sizes.
        requested: a backend's name; None takes the environment's PLUMBLINE_BACKEND where the
            operation has that backend, else chooses.

    Raises:
        BackendUnavailable: the one asked for does not exist or cannot run here.
    """
    device = torch.device(device)
    source = "" if requested else f" (from {BACKEND_VARIABLE})"
    requested = requested or _from_environment(operation)
    availability = operation.availability(device, problem)
    usable = [name for name, reason in availability.items() if reason is None]
    for backend in operation.backends:
        if backend.name == requested or (requested is None and backend.name in usable):
            reason = availability[backend.name]
            if reason is None:
                return backend
            raise BackendUnavailable(
                f"{operation.name}: backend '{backend.name}'{source} {reason}. Backends that can "
                f"run here: {', '.join(usable) or 'none'}."
            )
    if requested is None:
        reasons = "; ".join(f"'{name}' {reason}" for name, reason in availability.items())
        raise BackendUnavailable(f"{operation.name}: no backend can run here: {reasons}.")
    known = ", ".join(f"'{b.name}' ({b.needs.describe_device()})" for b in operation.backends)
    raise BackendUnavailable(
        f"{operation.name} has no backend '{requested}'; it has {known}. Backends that can run "
        f"here: {', '.join(usable) or 'none'}."
    )


def _from_environment(operation: Operation) -> str | None:
    name = os.environ.get(BACKEND_VARIABLE) or None
    if name is not None and name not in BACKEND_NAMES:
        raise BackendUnavailable(
            f"{operation.name}: no operation has a backend '{name}' (from {BACKEND_VARIABLE}), "
            f"wanted one of {', '.join(BACKEND_NAMES)}."
        )
    return name if any(backend.name == name for backend in operation.backends) else None


def select_companion(
    operation: Operation, device: torch.device | str, problem: Problem, preferred: str
) -> Backend:
    """The backend of an operation that serves another: the preferred one if it exists and can run.

    A layer's backend is that of its matmul; the quantiser of its activations follows where it can,
    and is otherwise chosen by capability.

    Raises:
        BackendUnavailable: no backend can run.
    """
    usable = [b for b in operation.backends if b.needs.unmet(torch.device(device), problem) is None]
    for backend in usable:
        if backend.name == preferred:
            return backend
    return usable[0] if usable else select_backend(operation, device, problem)


def arch_name(arch: Arch) -> str:
    """(9, 0) -> "sm90"."""
    return f"sm{arch[0]}{arch[1]}"


@cache
def device_arch(device: torch.device) -> Arch:
    """The CUDA compute capability of a GPU, such as (9, 0) for H100 and H200."""
    major, minor = torch.cuda.get_device_capability(device)
    return major, minor


@cache
def cuda_version() -> tuple[int, int]:
    """The CUDA release that torch was built with, (13, 0) for "13.0"; (0, 0) without CUDA."""
    major, _, minor = (torch.version.cuda or "0.0").partition(".")
    return int(major), int(minor)


@cache
def is_installed(package: str) -> bool:
    """Whether a package could be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


@cache
def has_extension(package: str, extension: str | None) -> bool:
    """Whether an installed package's folder holds a compiled module of that name; None: always."""
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return extension is None or any(
        any(Path(folder).glob(f"{extension}.*so")) for folder in folders
    )


@cache
def installed_version(package: str) -> tuple[int, ...] | None:
    """The release of an installed package, (0, 4, 2) for "0.4.2.post1"; None if it says none."""
    for name in DISTRIBUTIONS.get(package, (package,)):
        for distribution in importlib.metadata.distributions(name=name):
            release = re.match(r"\d+(\.\d+)*", distribution.version)
            if release:
                return tuple(int(part) for part in release[0].split("."))
    return None
