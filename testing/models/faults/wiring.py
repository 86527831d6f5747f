"""Models put together wrongly, in ways that no layer's own test would see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
import torch

from layers.attention.choice import ChosenAttention
from layers.models.causal_lm import CausalLM
from layers.models.config.deepseek import DeepseekConfig
from testing.oracles.models.configs import DEEPSEEK, GPT_OSS, LLAMA

Patch: TypeAlias = pytest.MonkeyPatch
Fault: TypeAlias = Callable[[CausalLM, Patch], None]


def _first(model: CausalLM) -> Any:
    return model.model.layers[0]


def _last(model: CausalLM) -> Any:
    return model.model.decoder_layers[-1]


def _draft(model: CausalLM) -> Any:
    return model.model.layers[-1]


def positions_of_the_call(model: CausalLM, patch: Patch) -> None:
    """Tokens rotated by their place in the call, not in the text."""
    forward = model.model.forward

    def wrong(ids: torch.Tensor, positions: torch.Tensor, *rest: Any) -> Any:
        return forward(ids, torch.arange(len(positions)).to(positions), *rest)

    patch.setattr(model.model, "forward", wrong)


def keys_not_rotated(model: CausalLM, patch: Patch) -> None:
    """Queries alone are rotated."""
    rotary = _first(model).self_attn.rotary
    forward = rotary.forward
    patch.setattr(rotary, "forward", lambda p, q, k: (forward(p, q)[0], k.contiguous()))


def values_of_another_head(model: CausalLM, patch: Patch) -> None:
    """Each group of heads has its neighbour's values."""
    attn = _first(model).self_attn.attn
    forward = attn.forward
    patch.setattr(attn, "forward", lambda q, k, v, *rest: forward(q, k, v.roll(1, 1), *rest))


def heads_out_of_order(model: CausalLM, patch: Patch) -> None:
    """The output projection takes each head for its neighbour."""
    attention = _last(model).self_attn
    forward, width = attention.attn.forward, attention.head_dim
    patch.setattr(attention.attn, "forward", lambda *given: forward(*given).roll(width, 1))


def caches_swapped_after_prompts(model: CausalLM, patch: Patch) -> None:
    """Each layer reads another's cache, once there is one token a request."""
    forward = model.model.forward

    def wrong(ids: torch.Tensor, positions: torch.Tensor, caches: Any, metadata: Any) -> Any:
        return forward(
            ids, positions, caches[::-1] if metadata.mode == "decode" else caches, metadata
        )

    patch.setattr(model.model, "forward", wrong)


def residual_lost(model: CausalLM, patch: Patch) -> None:
    """The stream before a layer's attention does not reach its feed-forward part."""
    norm = _last(model).post_attention_layernorm
    patch.setattr(norm, "add", lambda x, residual: (norm.forward(x), x))


def norm_before_the_sum(model: CausalLM, patch: Patch) -> None:
    """A norm of the attention's output alone."""
    norm = _last(model).post_attention_layernorm
    patch.setattr(norm, "add", lambda x, residual: (norm.forward(x), x + residual))


def final_norm_skipped(model: CausalLM, patch: Patch) -> None:
    """Hidden states go to the head as they are."""
    patch.setattr(model.model.norm, "add", lambda x, residual: (x + residual, x + residual))


def gate_taken_for_up(model: CausalLM, patch: Patch) -> None:
    """The activation is applied to the other half."""
    mlp = _first(model).mlp
    activate = mlp.activate
    patch.setattr(mlp, "activate", lambda x: activate(x.roll(x.shape[1] // 2, 1)))


def shared_experts_left_out(model: CausalLM, patch: Patch) -> None:
    """Routed experts alone."""
    patch.setitem(_last(model).mlp._modules, "shared_experts", None)


def scaling_without_yarn(model: CausalLM, patch: Patch) -> None:
    """Logits lack YaRN's factor."""
    assert isinstance(model.config, DeepseekConfig)
    for layer in model.model.decoder_layers:
        chosen = layer.self_attn.attn._chosen
        factor = model.config.softmax_scale * 48**0.5
        attend, unabsorbed = chosen.__call__, chosen.unabsorbed
        attn = layer.self_attn.attn
        patch.setattr(attn, "attend", lambda q, *r, a=attend, f=factor: a(q / f, *r))
        patch.setattr(attn, "attend_unabsorbed", lambda q, *r, a=unabsorbed, f=factor: a(q / f, *r))


def latents_not_normed(model: CausalLM, patch: Patch) -> None:
    """The cache holds latents as they are projected."""
    norm = _last(model).self_attn.kv_a_layernorm
    patch.setattr(norm, "forward", lambda x: x.contiguous())


def rotated_key_of_the_latent(model: CausalLM, patch: Patch) -> None:
    """The rotated key is cut from the wrong end of its projection."""
    linear = _last(model).self_attn.kv_a_proj_with_mqa
    forward = linear.forward
    patch.setattr(linear, "forward", lambda x: forward(x).roll(16, 1))


def windows_one_layer_on(model: CausalLM, patch: Patch) -> None:
    """Layers with a window have none, and the others have it; each keeps its sinks."""
    attentions = [layer.self_attn.attn for layer in model.model.decoder_layers]
    windows = [attn.spec.sliding_window for attn in attentions]
    for attn, window in zip(attentions, windows[-1:] + windows[:-1], strict=True):
        spec = replace(attn.spec, sliding_window=window)
        chosen = ChosenAttention(attn.prefix, spec, attn.device, attn.requested_backend)
        for name, value in {"spec": spec, "_chosen": chosen, "attend": chosen}.items():
            patch.setattr(attn, name, value)


def router_without_bias(model: CausalLM, patch: Patch) -> None:
    """Logits of experts lack their bias."""
    router = _last(model).mlp.router
    forward = router.forward
    patch.setattr(router, "forward", lambda x: forward(x) - router.bias)


def experts_without_bias(model: CausalLM, patch: Patch) -> None:
    """The down projections' biases are not added."""
    bias = _last(model).mlp.experts._parameters["w2_bias"]
    patch.setattr(bias, "data", torch.zeros_like(bias.data))


def hidden_states_not_normed(model: CausalLM, patch: Patch) -> None:
    """The draft takes hidden states as the main model's final norm leaves them."""
    patch.setattr(_draft(model).hnorm, "forward", lambda x: x.contiguous())


def draft_joined_the_other_way_round(model: CausalLM, patch: Patch) -> None:
    """The draft joins the hidden state with the embedding behind it."""
    layer = _draft(model)
    join, width = layer.eh_proj.forward, model.config.hidden_size
    patch.setattr(layer.eh_proj, "forward", lambda both: join(both.roll(width, 1)))


def main_norm_of_drafts(model: CausalLM, patch: Patch) -> None:
    """Drafts go through the main model's final norm to the head."""
    patch.setitem(_draft(model).shared_head._modules, "norm", model.model.norm)


def drafts_experts_of_the_layer_before(model: CausalLM, patch: Patch) -> None:
    """The draft's router sends tokens to the last decoder layer's experts."""
    patch.setitem(_draft(model).mlp._modules, "experts", _last(model).mlp.experts)


def draft_absorbed_by_the_layer_before(model: CausalLM, patch: Patch) -> None:
    """The draft's attention multiplies latents by the last decoder layer's kv_b_proj."""
    ours, theirs = _draft(model).self_attn.attn, _last(model).self_attn.attn
    for name in ("w_kc", "w_vc"):
        patch.setattr(ours.get_parameter(name), "data", theirs.get_parameter(name).data)


# Of the module that drafts, `DEEPSEEK`'s.
DRAFT_FAULTS: list[Fault] = [
    hidden_states_not_normed,
    draft_joined_the_other_way_round,
    main_norm_of_drafts,
    drafts_experts_of_the_layer_before,
    draft_absorbed_by_the_layer_before,
]

FAULTS: list[tuple[dict[str, Any], Fault]] = [
    *(
        (LLAMA, fault)
        for fault in (
            positions_of_the_call,
            keys_not_rotated,
            values_of_another_head,
            heads_out_of_order,
            caches_swapped_after_prompts,
            residual_lost,
            norm_before_the_sum,
            final_norm_skipped,
            gate_taken_for_up,
        )
    ),
    *(
        (DEEPSEEK, fault)
        for fault in (
            positions_of_the_call,
            shared_experts_left_out,
            scaling_without_yarn,
            latents_not_normed,
            rotated_key_of_the_latent,
            caches_swapped_after_prompts,
        )
    ),
    *(
        (GPT_OSS, fault)
        for fault in (
            windows_one_layer_on,
            router_without_bias,
            experts_without_bias,
            values_of_another_head,
        )
    ),
]
