"""Read the weights of a layer back through its outputs alone, whatever runs inside.

With w1 = w3 = I and x = 2·I, h is silu(2)·2·I, and the output shows a column of w2 a token: each
byte of its weights and scales that is a step off shows. With w2 = I and x = 2·I, it shows
silu(2·w1)·2·w3, quantised as h is: what lies in a wrong place shows, but a step of one byte may
hide where the other factor is small, or behind the quantiser of h (NVFP4: of single bytes
planted, six in fifteen were seen). A layer whose stages can be watched is read to the last bit by
`testing.harness.moe.stage_probes`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from testing.harness.checks import check_readback
from testing.harness.moe.layer import LoadedMoe, MoeCase, build
from testing.harness.moe.subject import MoeSubject
from testing.harness.verdict import Verdict
from testing.oracles.moe.checkpoints import DOWN, GATE, UP, MoeCheckpoint
from testing.oracles.moe.probes import logits_to

_SIZE = 2.0


def with_identity(checkpoint: MoeCheckpoint, *shards: str) -> MoeCheckpoint:
    """The checkpoint with the identity in place of these shards of every expert; H must be I."""
    size = checkpoint.hidden_size
    if size != checkpoint.intermediate_size:
        raise ValueError(f"H is {size} and I {checkpoint.intermediate_size}, wanted equal sizes")
    identity = checkpoint.format.identity_weight(size)
    experts = tuple(
        {s: _as_identity(t, identity) if s in shards else t for s, t in expert.items()}
        for expert in checkpoint.experts
    )
    return replace(checkpoint, experts=experts)


def _as_identity(tensors: dict[str, object], identity: dict[str, object]) -> dict[str, object]:
    # The scale of the activations stays: it says what x and h may be.
    kept = {name: tensors[name] for name in ("input_scale",) if name in tensors}
    return identity | kept


def read_whole(case: MoeCase, seed: int, device: torch.device | str) -> Verdict:
    """Two layers, each of which shows one of the two weights of every expert."""
    rng = np.random.default_rng(seed)
    whole = case.checkpoint(rng)
    verdict = Verdict(case.subject)
    for shards, check in (((GATE, UP), "readback of down"), ((DOWN,), "readback of gate and up")):
        checkpoint = with_identity(whole, *shards)
        _read(build(case, checkpoint, device), checkpoint, f"{check}, outputs alone", verdict)
    return verdict


def _read(loaded: LoadedMoe, checkpoint: MoeCheckpoint, check: str, verdict: Verdict) -> None:
    case = loaded.case
    subject = MoeSubject(case, checkpoint)
    x = _SIZE * np.eye(case.hidden)
    for expert in range(case.experts):
        logits = logits_to(case.hidden, case.experts, [expert], apart=8.0)
        comparison = subject.compare_output(x, logits, loaded(x, logits))
        for finding in check_readback(comparison, check).findings:
            where = f"expert {expert}"
            place, message = f"{where}, {finding.place}", f"{where}: {finding.message}"
            verdict.add([replace(finding, place=place, message=message)])
