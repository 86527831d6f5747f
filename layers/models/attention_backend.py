"""Which attention a model takes for which nobody asked for a backend."""

from __future__ import annotations

import os

import torch

from layers.kernels.capability import BACKEND_VARIABLE, device_arch, is_installed
from layers.models.config.base import ModelConfig

# FlashInfer's kernels, built before: https://docs.flashinfer.ai/installation.html
BUILT = "flashinfer_jit_cache"
# What the Triton kernels run on, and the largest latents that theirs of MLA take.
_ARCH = (8, 0)
_LATENT = (512, 64)


def attention_ready_at_once(device: torch.device, config: ModelConfig) -> str | None:
    """A backend whose kernels no C++ compiler has to build first; None leaves it to the layers.

    The layers take the fastest. Where that is FlashInfer's it is built by nvcc at the first call of
    each mode, which takes a minute or more and comes after a server has said that it is ready. Our
    Triton kernels compile in a second each.
    """
    if device.type != "cuda" or os.environ.get(BACKEND_VARIABLE):
        return None
    if not is_installed("flashinfer") or is_installed(BUILT):
        return None
    if not is_installed("triton") or device_arch(device) < _ARCH:
        return None
    latent = (getattr(config, "kv_lora_rank", 0), getattr(config, "qk_rope_head_dim", 0))
    fits = all(size <= most for size, most in zip(latent, _LATENT, strict=True))
    return "triton" if fits else None
