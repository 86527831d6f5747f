"""What the paged caches refuse as they are made."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from layers.attention.metadata_checks import PAGE_SIZES
from layers.sharding import check_integers

CACHE_DTYPES = (torch.bfloat16, torch.float16, torch.float8_e4m3fn)


def check_cache(
    cache: str, sizes: Mapping[str, int], dtype: torch.dtype, scales: Mapping[str, float]
) -> None:
    """Refuses a cache that no kernel could read.

    Args:
        cache: what messages call it.
        sizes: by name, `page_size` among them.
        dtype: of the pages.
        scales: of float8_e4m3fn, by name.

    Raises:
        ValueError: a size below 1 or no integer, pages of another number of tokens, a dtype that no
            kernel reads, a scale that is not positive, or one without codes to scale.
    """
    check_integers(cache, **sizes)
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{cache}: {name} is {size}, wanted at least 1.")
    if sizes["page_size"] not in PAGE_SIZES:
        raise ValueError(
            f"{cache}: page_size is {sizes['page_size']}, wanted one of {PAGE_SIZES} tokens."
        )
    if dtype not in CACHE_DTYPES:
        wanted = ", ".join(str(d) for d in CACHE_DTYPES)
        raise ValueError(f"{cache}: dtype is {dtype}, wanted one of {wanted}.")
    for name, scale in scales.items():
        if not 0 < scale < float("inf"):
            raise ValueError(f"{cache}: {name} is {scale!r}, wanted a positive number.")
        if scale != 1 and dtype is not torch.float8_e4m3fn:
            raise ValueError(
                f"{cache}: {name} is {scale!r}, but a cache of {dtype} holds no codes that it "
                f"would scale. Leave it at 1.0, or make the cache of torch.float8_e4m3fn."
            )
