"""The two halves of kv_b_proj's weight, and the products of the absorbed path with them."""

from __future__ import annotations

import torch

from layers.kernels.mla.problem import MLASpec


def split_by_head(weight: torch.Tensor, spec: MLASpec) -> tuple[torch.Tensor, torch.Tensor]:
    """kv_b_proj's weight by its values -> W_UK (H, nope, R), W_UVᵀ (H, R, v) of the spec's dtype.

    Args:
        weight: (H · (nope + v), R) float32; the rows of a head are its keys', then its values'.
        spec: of the layer, with the heads of this rank.
    """
    if weight.is_cuda:
        # As for unquantised linear layers: cuBLAS would add parts of a sum in half precision.
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    by_head = weight.view(spec.num_heads, -1, spec.kv_lora_rank)
    w_uk, w_uv = by_head.split((spec.qk_nope_head_dim, spec.v_head_dim), dim=1)
    return w_uk.to(spec.dtype).contiguous(), w_uv.transpose(1, 2).to(spec.dtype).contiguous()


def absorb(q_nope: torch.Tensor, q_pe: torch.Tensor, w_kc: torch.Tensor) -> torch.Tensor:
    """q_nope (T, H, nope) times w_kc (H, nope, R), beside q_pe (T, H, rope) -> (T, H, R + rope).

    The product is summed in float32 and rounded once; it is written where it stays.
    """
    rank = w_kc.shape[2]
    q = q_nope.new_empty((*q_nope.shape[:2], rank + q_pe.shape[-1]))
    torch.bmm(q_nope.transpose(0, 1), w_kc, out=q[..., :rank].transpose(0, 1))
    q[..., rank:] = q_pe
    return q


def unabsorb(latent: torch.Tensor, w_vc: torch.Tensor) -> torch.Tensor:
    """latent (T, H, R) times w_vc (H, R, v) -> (T, H, v), summed in float32 and rounded once."""
    out = latent.new_empty((*latent.shape[:2], w_vc.shape[2]))
    torch.bmm(latent.transpose(0, 1), w_vc, out=out.transpose(0, 1))
    return out


def keys_and_values(
    made: torch.Tensor, k_pe: torch.Tensor, spec: MLASpec
) -> tuple[torch.Tensor, torch.Tensor]:
    """What kv_b_proj makes of latents, and the rotated key that all heads share.

    made (T, H · (nope + v)), k_pe (T, rope) -> k (T, H, nope + rope), v (T, H, v_head_dim).
    """
    by_head = made.view(len(made), spec.num_heads, -1)
    k_nope, v = by_head.split((spec.qk_nope_head_dim, spec.v_head_dim), dim=-1)
    shared = k_pe[:, None].expand(-1, spec.num_heads, -1)
    return torch.cat((k_nope, shared), dim=-1), v
