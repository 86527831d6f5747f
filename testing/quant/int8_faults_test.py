"""Every planted fault is caught by the checks that the layer tests use, and its place is named."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

import layers.quantization.blockwise_int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from layers.parameter import ShardedParameter
from testing.harness.device import device
from testing.harness.linear import LinearCase, LoadedLinear, Method, Named, build
from testing.harness.linear_probes import LINEAR_PROBES, ActivationCodes, Probe, examine
from testing.harness.verdict import Verdict
from testing.oracles.checkpoints import LinearCheckpoint, identity_checkpoint
from testing.quant.int8_faults import ELEMENTS, FAULTS, NATURAL, READ, UP, Fault, cell
from testing.quant.int8_methods import BLOCK, CHANNEL

METHODS = {"int8_channel": CHANNEL, "int8_block": BLOCK}
PLANTED = [(METHODS[name], fault) for fault in FAULTS for name in fault.formats]
BOTH = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


def setting(method: Method, bias: bool = False) -> tuple[LinearCase, LinearCheckpoint]:
    case = LinearCase(method, "merged", 32, {"gate": 256, "up": 256}, 512, bias=bias)
    return case, case.checkpoint(np.random.default_rng(20))


def examine_faulty(
    loaded: LoadedLinear, checkpoint: LinearCheckpoint, seed: int, *probes: Probe
) -> Verdict:
    rng = np.random.default_rng(seed)
    return examine(loaded, checkpoint, rng, probes or LINEAR_PROBES, recorded=False)


def named(verdict: Verdict, check: str) -> set[tuple[str, str]]:
    """(family, place) of what a check found; where it names a part, elements say no more."""
    places = {(f.family, f.place) for f in verdict.findings if f.check == check}
    return places - {ELEMENTS} or places


@pytest.mark.parametrize(
    ("method", "fault"), PLANTED, ids=[f"{m.format.name}-{f.name}" for m, f in PLANTED]
)
def test_fault_is_caught_and_named(method: Method, fault: Fault) -> None:
    case, checkpoint = setting(method)
    loaded = build(case, checkpoint, device())

    fault.plant(loaded)

    verdict = examine_faulty(loaded, checkpoint, 21)
    assert named(verdict, fault.check) == set(fault.places), f"'{fault.name}':\n{verdict}"


@BOTH
def test_the_layer_is_right_before_a_fault_is_planted(method: Method) -> None:
    case, checkpoint = setting(method)
    examine_faulty(build(case, checkpoint, device()), checkpoint, 21).require()


@BOTH
def test_truncation_shows_in_the_codes_and_as_fourfold_noise(method: Method) -> None:
    truncation = next(f for f in FAULTS if f.name == "truncation for rounding")
    case = LinearCase(method, "column", 64, {"": 512}, 512)
    checkpoint = identity_checkpoint(method.format, 512)
    loaded = build(case, checkpoint, device())
    truncation.plant(loaded)
    verdict = examine_faulty(loaded, checkpoint, 22, ActivationCodes())
    assert "activation codes differ from the declared rule" in str(verdict)
    assert verdict.statistics["activation_noise_ratio"] == pytest.approx(4, rel=0.05)


def _renamed(tensors: Iterator[Named]) -> Iterator[Named]:
    for name, tensor in tensors:
        swapped = name.replace("gate_", "?_").replace("up_", "gate_").replace("?_", "up_")
        yield swapped, tensor


def _cropped_k(tensors: Iterator[Named]) -> Iterator[Named]:
    for name, tensor in tensors:
        if name.endswith("up_proj.weight"):
            tensor = tensor.clone()
            tensor[:, -128:] = 0
        yield name, tensor


@BOTH
@pytest.mark.parametrize(
    ("change", "places"),
    [
        (_renamed, {("shard", "shard 'gate'"), UP}),
        (_cropped_k, {("shard_k_block", "K block 3 (k 384..511) of shard 'up'")}),
    ],
)
def test_fault_of_the_checkpoint_reader(
    method: Method,
    change: Callable[[Iterator[Named]], Iterator[Named]],
    places: set[tuple[str, str]],
) -> None:
    case, checkpoint = setting(method)
    loaded = build(case, checkpoint, device(), change)
    assert named(examine_faulty(loaded, checkpoint, 23), NATURAL) == places


@BOTH
def test_loader_that_forgets_a_shard(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = ShardedParameter._copy

    def forgetful(self: ShardedParameter, shard: object, loaded: torch.Tensor) -> None:
        if getattr(shard, "id", None) != 1:
            copy(self, shard, loaded)  # type: ignore[arg-type]

    monkeypatch.setattr(ShardedParameter, "_copy", forgetful)
    case, checkpoint = setting(method)
    loaded = build(case, checkpoint, device())
    verdict = examine_faulty(loaded, checkpoint, 24)
    assert named(verdict, READ) == {("finite", "row 0, column 0 of shard 'up'")}


@BOTH
def test_bias_of_the_other_shard(method: Method) -> None:
    case, checkpoint = setting(method, bias=True)
    loaded = build(case, checkpoint, device())
    bias = loaded.layer.get_parameter("bias").data
    bias[256:] = bias[:256]
    verdict = examine_faulty(loaded, checkpoint, 25)
    # The bias is larger than a weight cell: it makes the shard look like the other.
    assert named(verdict, READ) == {UP, cell(0, 0, "up")}
    assert named(verdict, "row of zeros") == {("zeros", "row 1")}


@BOTH
def test_without_a_fault_many_layers_are_right(method: Method) -> None:
    for seed in range(40):
        rng = np.random.default_rng(5000 + seed)
        n, k = int(rng.integers(1, 20)) * 16, int(rng.integers(1, 20)) * 16
        case = LinearCase(method, "column", int(rng.integers(1, 20)), {"": n}, k)
        checkpoint = case.checkpoint(rng)
        examine(build(case, checkpoint, device()), checkpoint, rng).require()
