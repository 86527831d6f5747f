# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The gated delta rule of one token a request, by Triton; see `layers.kernels.gdn.recurrent`.

A program holds some rows (values) of one head's state in registers, reads and writes them once, and
computes gates and norms itself, so that a step is one kernel. Float32 throughout.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.attention.gdn.metadata import GDNMetadata
from layers.kernels.gdn.gates import Gates
from layers.kernels.gdn.heads import Heads

# Of those tried on an H200 with states of 128 x 128: 3.6 TB/s for 256 requests of 32 heads.
_VALUES, _WARPS = 4, 1


@triton.jit
def _softplus(x):
    small = tl.exp(tl.minimum(x, 20.0))
    # log(1 + e) would lose a small e: what 1 + e rounds away is put back by e / ((1 + e) - 1).
    more = 1.0 + small
    log1p = tl.where(more == 1.0, small, tl.log(more) * (small / (more - 1.0)))
    return tl.where(x > 20.0, x, log1p)


@triton.jit
def _normalised(x):
    return x * tl.rsqrt(tl.sum(x * x) + 1e-6)


# One kernel for all numbers of heads: a model of another size compiles nothing anew.
@triton.jit(do_not_specialize=["k_heads", "v_heads", "a_stride", "b_stride"])
def _decode_kernel(
    mixed, a, b, a_log, dt_bias, ssm, out, slots, scale, k_heads, v_heads, a_stride, b_stride,
    K_DIM: tl.constexpr, V_DIM: tl.constexpr, KEYS: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    key = tl.arange(0, KEYS)
    value = tl.program_id(2) * VALUES + tl.arange(0, VALUES)
    has_key, has_value = key < K_DIM, value < V_DIM
    row = mixed + request * (2 * k_heads * K_DIM + v_heads * V_DIM)
    k_head = head // (v_heads // k_heads)
    q = tl.load(row + k_head * K_DIM + key, mask=has_key, other=0.0).to(tl.float32)
    k = tl.load(row + (k_heads + k_head) * K_DIM + key, mask=has_key, other=0.0).to(tl.float32)
    v = tl.load(row + 2 * k_heads * K_DIM + head * V_DIM + value, mask=has_value, other=0.0)
    q, k = _normalised(q), _normalised(k)
    raw = tl.load(a + request * a_stride + head).to(tl.float32) + tl.load(dt_bias + head)
    decay = tl.exp(-tl.exp(tl.load(a_log + head)) * _softplus(raw))
    beta = 1.0 / (1.0 + tl.exp(-tl.load(b + request * b_stride + head).to(tl.float32)))
    slot = tl.load(slots + request).to(tl.int64)
    place = ((slot * v_heads + head) * V_DIM + value)[:, None] * K_DIM + key[None, :]
    mask = has_value[:, None] & has_key[None, :]
    state = tl.load(ssm + place, mask=mask, other=0.0) * decay
    update = beta * (v.to(tl.float32) - tl.sum(state * k[None, :], axis=1))
    state += update[:, None] * k[None, :]
    tl.store(ssm + place, state, mask=mask)
    o = tl.sum(state * q[None, :], axis=1) * scale
    at = (request * v_heads + head) * V_DIM + value
    tl.store(out + at, o.to(out.dtype.element_ty), mask=has_value)


def decode(
    mixed: torch.Tensor, gates: Gates, ssm: torch.Tensor, metadata: GDNMetadata, heads: Heads
) -> torch.Tensor:
    """As `layers.kernels.gdn.recurrent.decode`, but the kernel computes the gates itself."""
    mixed = mixed.contiguous()
    a, b = (x if x.stride(1) == 1 else x.contiguous() for x in (gates.a, gates.b))
    tokens = mixed.shape[0]
    out = mixed.new_empty(tokens, heads.num_v_heads, heads.head_v_dim)
    values = min(_VALUES, triton.next_power_of_2(heads.head_v_dim))
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(mixed):
        _decode_kernel[tokens, heads.num_v_heads, triton.cdiv(heads.head_v_dim, values)](
            *(mixed, a, b, gates.a_log, gates.dt_bias, ssm, out, metadata.state_indices),
            *(heads.scale, heads.num_k_heads, heads.num_v_heads, a.stride(0), b.stride(0)),
            K_DIM=heads.head_k_dim,
            V_DIM=heads.head_v_dim,
            KEYS=triton.next_power_of_2(heads.head_k_dim),
            VALUES=values,
            num_warps=_WARPS,
        )
    return out
