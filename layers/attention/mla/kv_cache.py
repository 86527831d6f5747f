"""The paged cache of latents that one MLA layer reads and writes."""

from __future__ import annotations

import torch

from layers.attention.cache_checks import check_cache
from layers.kernels.capability import Problem, select_backend
from layers.kernels.mla.write_latents import WRITE_LATENTS


class MLAKVCache:
    """Pages of latents, [kv_c | rotated k_pe] a token; `page_size` tokens of one request a page.

    All heads and all ranks of a tensor parallel group hold the same latents. With float8_e4m3fn the
    pages hold codes, e4m3(x / scale) rounded half to even and saturating, and a value is
    code · scale. Slot s is offset s % page_size of page s // page_size.

    Args:
        num_pages: of the pool.
        page_size: tokens a page: 1, 16, 32 or 64.
        kv_lora_rank: R, values of kv_c.
        qk_rope_head_dim: values of k_pe.
        dtype: bfloat16, float16 or float8_e4m3fn.
        device: of the pages; None is torch's default device.
        scale: of float8_e4m3fn, 1.0 otherwise.

    Attributes:
        pages: (num_pages, page_size, R + rope) of dtype.

    Raises:
        ValueError: a size below 1, another page size, a dtype that no kernel reads, a scale that is
            not positive, or one without fp8.
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        kv_lora_rank: int,
        qk_rope_head_dim: int,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str | None = None,
        scale: float = 1.0,
    ) -> None:
        sizes = {
            "num_pages": num_pages,
            "page_size": page_size,
            "kv_lora_rank": kv_lora_rank,
            "qk_rope_head_dim": qk_rope_head_dim,
        }
        check_cache("MLAKVCache", sizes, dtype, {"scale": scale})
        self.page_size = page_size
        self.kv_lora_rank = kv_lora_rank
        self.qk_rope_head_dim = qk_rope_head_dim
        self.dtype = dtype
        self.scale = float(scale)
        shape = (num_pages, page_size, kv_lora_rank + qk_rope_head_dim)
        self.pages = torch.zeros(shape, dtype=dtype, device=device)
        computed = torch.float32 if self.is_fp8 else dtype
        backend = select_backend(WRITE_LATENTS, self.device, Problem(computed, shape[-1]))
        self._write = backend.load()

    @property
    def device(self) -> torch.device:
        """Where the pages are."""
        return self.pages.device

    @property
    def is_fp8(self) -> bool:
        """Whether the pages hold codes."""
        return self.dtype is torch.float8_e4m3fn

    def write(self, slots: torch.Tensor, kv_c: torch.Tensor, k_pe: torch.Tensor) -> None:
        """Puts new latents in their slots.

        Args:
            slots: (T,) int64, distinct.
            kv_c: (T, R), k_pe: (T, rope) and rotated; of the cache's dtype, or float16 or bfloat16
                for codes.
        """
        self._write(self.pages, slots, kv_c, k_pe, self.scale)
