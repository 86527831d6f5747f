"""The attention oracle against torch's scaled_dot_product_attention in float64."""

import numpy as np
import pytest
import torch

from testing.oracles.attention.dense import Request, Rule, attend
from testing.oracles.attention.masks import depths, tree_of


def by_torch(request: Request, rule: Rule) -> torch.Tensor:
    """(S, Hq, Dv); a sink as one more key whose query has a coordinate of its own."""
    q, k, v = (torch.from_numpy(a).transpose(0, 1) for a in (request.q, request.k, request.v))
    seen = torch.from_numpy(request.visible(rule.window))
    group = rule.heads // rule.kv_heads
    k, v = (a.repeat_interleave(group, dim=0) for a in (k, v))
    if rule.sinks is not None:
        logits = torch.from_numpy(rule.sinks / rule.scaling)[:, None, None]
        q = torch.cat([q, logits.expand(-1, q.shape[1], 1)], dim=2)
        k = torch.nn.functional.pad(k, (0, 1, 0, 1))
        k[:, -1, -1] = 1
        v = torch.nn.functional.pad(v, (0, 0, 0, 1))
        seen = torch.nn.functional.pad(seen, (0, 1), value=True)
    out = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=seen, scale=rule.scaling
    )
    return out.transpose(0, 1)


@pytest.mark.parametrize("window", [None, 1, 5, 64])
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_extend(window: int | None, sinks: bool, kv_heads: int) -> None:
    rng = np.random.default_rng(kv_heads)
    q, k, v = (rng.standard_normal(s) for s in ((9, 6, 16), (20, kv_heads, 16), (20, kv_heads, 24)))
    rule = Rule(6, kv_heads, 0.3, window, sinks=rng.standard_normal(6) if sinks else None)
    request = Request(q, k, v)
    np.testing.assert_allclose(
        attend(request, rule).output, by_torch(request, rule).numpy(), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("window", [None, 3])
def test_drafts(window: int | None) -> None:
    rng = np.random.default_rng(8)
    tree = tree_of([-1, 0, 0, 1, 3])
    q, k, v = (rng.standard_normal(s) for s in ((5, 4, 8), (12, 2, 8), (12, 2, 8)))
    request = Request(q, k, v, tree, 7 + depths(tree))
    rule = Rule(4, 2, 0.4, window)
    np.testing.assert_allclose(
        attend(request, rule).output, by_torch(request, rule).numpy(), rtol=1e-12, atol=1e-14
    )
