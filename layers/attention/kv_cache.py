"""The paged cache of keys and values that one layer reads and writes."""

from __future__ import annotations

import torch

from layers.attention.cache_checks import check_cache
from layers.kernels.attention.write_kv import WRITE_KV
from layers.kernels.capability import Problem, select_backend


class PagedKVCache:
    """Pages of keys and values; a page holds `page_size` tokens of one request, or of a prefix.

    With float8_e4m3fn the pages hold codes, e4m3(x / scale) rounded half to even and saturating,
    and a key or value is code · scale. Slot s is offset s % page_size of page s // page_size.

    Args:
        num_pages: of the pool.
        page_size: tokens a page: 1, 16, 32 or 64.
        num_kv_heads, head_dim: of a key on this rank.
        v_head_dim: of a value; None is head_dim.
        dtype: bfloat16, float16 or float8_e4m3fn.
        device: of the pages; None is torch's default device.
        k_scale, v_scale: of float8_e4m3fn, 1.0 otherwise.

    Attributes:
        k: (num_pages, page_size, num_kv_heads, head_dim) of dtype.
        v: (num_pages, page_size, num_kv_heads, v_head_dim) of dtype.

    Raises:
        ValueError: a size below 1, another page size, a dtype that no kernel reads, a scale that is
            not positive, or one without fp8.
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        num_kv_heads: int,
        head_dim: int,
        v_head_dim: int | None = None,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str | None = None,
        k_scale: float = 1.0,
        v_scale: float = 1.0,
    ) -> None:
        v_head_dim = head_dim if v_head_dim is None else v_head_dim
        sizes = {
            "num_pages": num_pages,
            "page_size": page_size,
            "num_kv_heads": num_kv_heads,
            "head_dim": head_dim,
            "v_head_dim": v_head_dim,
        }
        check_cache("PagedKVCache", sizes, dtype, {"k_scale": k_scale, "v_scale": v_scale})
        self.page_size = page_size
        self.dtype = dtype
        self.k_scale = float(k_scale)
        self.v_scale = float(v_scale)
        keys = (num_pages, page_size, num_kv_heads, head_dim)
        self.k = torch.zeros(keys, dtype=dtype, device=device)
        self.v = torch.zeros((*keys[:3], v_head_dim), dtype=dtype, device=device)
        computed = torch.float32 if self.is_fp8 else dtype
        backend = select_backend(WRITE_KV, self.device, Problem(computed, num_kv_heads * head_dim))
        self._write = backend.load()

    @property
    def num_kv_heads(self) -> int:
        """Key-value heads of this rank."""
        return int(self.k.shape[2])

    @property
    def head_dim(self) -> int:
        """Of a key."""
        return int(self.k.shape[3])

    @property
    def v_head_dim(self) -> int:
        """Of a value."""
        return int(self.v.shape[3])

    @property
    def device(self) -> torch.device:
        """Where the pages are."""
        return self.k.device

    @property
    def is_fp8(self) -> bool:
        """Whether the pages hold codes."""
        return self.dtype is torch.float8_e4m3fn

    def write(self, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """Puts new keys and values in their slots.

        Args:
            slots: (T,) int64, distinct.
            k: (T, num_kv_heads, head_dim), v: (T, num_kv_heads, v_head_dim), of the cache's dtype,
                or float16 or bfloat16 for codes.
        """
        self._write(self.k, self.v, slots, k, v, self.k_scale, self.v_scale)
