"""Reference models against the numpy oracles of their parts, and what their structure promises."""

from typing import Any

import numpy as np
import pytest
import torch

from testing.oracles.attention.dense import Request, Rule
from testing.oracles.attention.dense import attend as attend_by_definition
from testing.oracles.attention.rope.rope import Llama3, Rope, Yarn, rotate
from testing.oracles.models.build import build
from testing.oracles.models.configs import ALL, DEEPSEEK, GPT_OSS, LLAMA
from testing.oracles.models.deepseek import DeepseekV3
from testing.oracles.models.experts import Gate
from testing.oracles.models.gpt_oss import Experts
from testing.oracles.models.parts import RMSNorm, Rotary, attend, scaling_of
from testing.oracles.moe.activation import swiglu_oai
from testing.oracles.moe.routing import Routing, choose

# What published checkpoints have in one layer.
LAYERS = {
    "LlamaForCausalLM": """input_layernorm post_attention_layernorm self_attn.q_proj
        self_attn.k_proj self_attn.v_proj self_attn.o_proj mlp.gate_proj mlp.up_proj mlp.down_proj
        """,
    "DeepseekV3ForCausalLM": """input_layernorm post_attention_layernorm self_attn.q_a_proj
        self_attn.q_a_layernorm self_attn.q_b_proj self_attn.kv_a_proj_with_mqa
        self_attn.kv_a_layernorm self_attn.kv_b_proj self_attn.o_proj mlp.gate
        mlp.experts.0.gate_proj mlp.experts.7.up_proj mlp.experts.7.down_proj
        mlp.shared_experts.gate_proj mlp.shared_experts.up_proj mlp.shared_experts.down_proj""",
    "GptOssForCausalLM": """input_layernorm post_attention_layernorm self_attn.q_proj
        self_attn.k_proj self_attn.v_proj self_attn.o_proj mlp.router""",
}


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def random_model(config: dict[str, Any]) -> Any:
    """Also its norms, biases and sinks differ from what they start with."""
    model = build(config, torch.float64)
    model.initialise(1)
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter += 0.1 * drawn(*parameter.shape, seed=index)
    return model


def is_moved(difference: torch.Tensor) -> list[bool]:
    """Beyond float64's last bits, which the number of an expert's rows changes."""
    return [bool(d > 1e-9) for d in difference]


@pytest.mark.parametrize("config", ALL, ids=lambda c: c["architectures"][0])
def test_tensors_have_the_names_of_published_checkpoints(config: dict[str, Any]) -> None:
    names = set(build(config).state_dict())
    kind = config["architectures"][0]
    wanted = {f"model.layers.1.{name}.weight" for name in LAYERS[kind].split()}
    wanted |= {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}
    if kind == "GptOssForCausalLM":
        at = "model.layers.1."
        wanted |= {f"{at}self_attn.sinks", f"{at}mlp.router.bias", f"{at}self_attn.o_proj.bias"}
        for name in ("gate_up_proj", "gate_up_proj_bias", "down_proj", "down_proj_bias"):
            wanted.add(f"{at}mlp.experts.{name}")
    if kind == "DeepseekV3ForCausalLM":
        wanted.add("model.layers.1.mlp.gate.e_score_correction_bias")
        for name in ("enorm", "hnorm", "eh_proj", "shared_head.norm", "mlp.experts.7.down_proj"):
            wanted.add(f"model.layers.2.{name}.weight")
    assert wanted <= names, sorted(wanted - names)
    assert not any(".out" in name or "rotary" in name for name in names)


@pytest.mark.parametrize("config", ALL, ids=lambda c: c["architectures"][0])
def test_a_token_changes_its_own_logits_and_later_ones_alone(config: dict[str, Any]) -> None:
    model = random_model(config)
    ids = torch.randint(0, 192, (2, 12), generator=torch.Generator().manual_seed(0))
    other = ids.clone()
    other[:, 5] = (other[:, 5] + 1) % 192
    with torch.no_grad():
        moved = (model(ids) - model(other)).abs().amax(dim=(0, 2))
    assert is_moved(moved) == [False] * 5 + [True] * 7


@pytest.mark.parametrize("config", ALL, ids=lambda c: c["architectures"][0])
def test_every_weight_can_be_trained(config: dict[str, Any]) -> None:
    model = build(config)
    model.initialise(0)
    ids = torch.randint(0, 192, (8, 32), generator=torch.Generator().manual_seed(0))
    if isinstance(model, DeepseekV3):
        loss = sum(logits.logsumexp(-1).sum() for logits in model.forward_with_draft(ids))
    else:
        loss = model(ids).logsumexp(-1).sum()
    loss.backward()
    idle = {n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    assert {name.rpartition(".")[2] for name in idle} <= {"e_score_correction_bias"}


@pytest.mark.parametrize(("window", "has_sinks"), [(None, False), (4, True)])
def test_attention_is_that_of_the_definition(window: int | None, has_sinks: bool) -> None:
    q, k, v = drawn(1, 9, 6, 8), drawn(1, 9, 2, 8, seed=1), drawn(1, 9, 2, 5, seed=2)
    sinks = drawn(6, seed=3) if has_sinks else None
    rule = Rule(6, 2, 0.3, window, sinks=None if sinks is None else sinks.numpy())
    want = attend_by_definition(Request(q[0].numpy(), k[0].numpy(), v[0].numpy()), rule).output
    got = attend(q, k, v, 0.3, window, sinks)[0]
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-14)


# What the configurations say, written out once more by hand.
SCALINGS: list[tuple[dict[str, Any], str, Yarn | Llama3]] = [
    (LLAMA, "neox", Llama3(8.0, 32, 1.0, 4.0)),
    (
        DEEPSEEK,
        "gptj",
        Yarn(40.0, 512, beta_fast=32.0, beta_slow=1.0, mscale=0.9, mscale_all_dim=0.7),
    ),
    (GPT_OSS, "neox", Yarn(32.0, 512, beta_fast=32.0, beta_slow=1.0, truncate=False)),
]


@pytest.mark.parametrize(("config", "style", "scaling"), SCALINGS)
def test_rotations_are_those_of_the_definition(
    config: dict[str, Any], style: str, scaling: Yarn | Llama3
) -> None:
    rope = Rope(16, 100.0, style, scaling)
    x = drawn(1, 9, 3, 16)
    want = rotate(x[0].numpy(), np.arange(9), rope)
    got = Rotary(16, config, style)(x)[0].numpy()
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_no_key_of_a_scaling_is_lost() -> None:
    others = {
        **{"factor": 3.0, "original_max_position_embeddings": 64, "beta_fast": 20.0},
        **{"beta_slow": 2.0, "mscale": 0.8, "mscale_all_dim": 0.5, "truncate": False},
    }
    found = scaling_of({"rope_scaling": {"type": "yarn", **others}})
    assert found == Yarn(3.0, 64, 20.0, 2.0, mscale=0.8, mscale_all_dim=0.5, truncate=False)
    llama3 = {"low_freq_factor": 2.0, "high_freq_factor": 5.0}
    others = {"factor": 3.0, "original_max_position_embeddings": 64, **llama3}
    found = scaling_of({"rope_scaling": {"rope_type": "llama3", **others}})
    assert found == Llama3(3.0, 64, 2.0, 5.0)
    assert scaling_of({}) is None and scaling_of({"rope_scaling": {"type": "default"}}) is None


def test_the_softmax_s_scale_has_yarn_s_factor_twice() -> None:
    # 0.1 · 0.7 · ln 40 + 1 = 1.258222, squared 1.583122; without mscale_all_dim there is none.
    attention = build(DEEPSEEK).model.layers[0].self_attn
    assert attention.scaling == pytest.approx(1.583122 / 48**0.5, rel=1e-6)
    plain = {k: v for k, v in DEEPSEEK["rope_scaling"].items() if k != "mscale_all_dim"}
    attention = build({**DEEPSEEK, "rope_scaling": plain}).model.layers[0].self_attn
    assert attention.scaling == pytest.approx(48**-0.5, rel=1e-12)
    attention = build({**DEEPSEEK, "rope_scaling": None}).model.layers[0].self_attn
    assert attention.scaling == pytest.approx(48**-0.5, rel=1e-12)


def test_a_norm_by_hand() -> None:
    norm = RMSNorm(2, 0.5).double()
    norm.weight.data = torch.tensor([1.0, 10.0], dtype=torch.float64)
    # The mean of 9 and 16 is 12.5; with eps it is 13.
    want = torch.tensor([3.0, 40.0], dtype=torch.float64) / 13**0.5
    torch.testing.assert_close(norm(torch.tensor([3.0, 4.0], dtype=torch.float64)), want)


def test_experts_are_chosen_as_the_definition_has_it() -> None:
    gate = Gate(DEEPSEEK).double()
    gate.weight.data, gate.e_score_correction_bias.data = drawn(8, 128) * 0.1, drawn(8) * 0.3
    x = drawn(40, 128, seed=4)
    rule = Routing(3, "sigmoid", groups=4, kept_groups=2, factor=2.5)
    logits = (x @ gate.weight.t()).detach().numpy()
    want = choose(logits, rule, gate.e_score_correction_bias.numpy())
    weights, chosen = gate(x)
    np.testing.assert_array_equal(chosen.numpy(), want.ids)
    np.testing.assert_allclose(weights.detach().numpy(), want.weights, rtol=1e-12)


def test_balancing_raises_what_got_few_tokens() -> None:
    moe = build(DEEPSEEK).model.layers[1].mlp
    moe.gate.counts = torch.tensor([9, 0, 4, 4, 4, 4, 4, 3])
    moe.balance(0.01)
    want = torch.tensor([-1, 1, 0, 0, 0, 0, 0, 1]) * 0.01
    torch.testing.assert_close(moe.gate.e_score_correction_bias.data, want)


def test_the_clamped_activation_is_that_of_the_definition() -> None:
    experts = Experts({**GPT_OSS, "hidden_size": 32, "intermediate_size": 16}).double()
    for index, parameter in enumerate(experts.parameters()):
        parameter.data = drawn(*parameter.shape, seed=index)
    x = drawn(7, 32, seed=9)
    kept: list[torch.Tensor] = []
    experts.h.register_forward_hook(lambda _m, _i, out: kept.append(out.detach()))
    experts(x, 2)
    both = (x @ experts.gate_up_proj[2] + experts.gate_up_proj_bias[2]).detach().numpy()
    # Values of both signs lie beyond the limits.
    assert both.max() > 7 and both.min() < -7
    want = swiglu_oai(both[:, 0::2], both[:, 1::2]).value
    np.testing.assert_allclose(kept[0].numpy(), want, rtol=1e-12)


def test_the_draft_joins_a_hidden_state_with_the_token_after_it() -> None:
    model = random_model(DEEPSEEK)
    ids = torch.randint(0, 192, (1, 10), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        _, before = model.forward_with_draft(ids)
        ids[0, 6] = (ids[0, 6] + 1) % 192
        _, after = model.forward_with_draft(ids)
    moved = (after - before).abs().amax(dim=(0, 2))
    # Row 5 has token 6's embedding.
    assert before.shape == (1, 9, 192) and is_moved(moved) == [False] * 5 + [True] * 4
