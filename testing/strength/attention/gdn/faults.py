"""Faults to plant in right gated delta layers: in the torch backends' functions and the layer."""

from __future__ import annotations

from functools import partial

from layers.kernels.gdn import chunked, conv, recurrent
from testing.strength.attention import kinds
from testing.strength.attention.gdn import edits
from testing.strength.attention.gdn.bench import in_layer, in_loaded, in_step
from testing.strength.attention.kinds import WHOLE
from testing.strength.fault import Fault
from testing.strength.places import Named

NOT_FINITE: Named = (
    "finite",
    "token 0 of request 1, token 1 of request 1, token 2 of request 1; all heads",
)


reads = partial(kinds.reads, ("gdn",))
shows = partial(kinds.shows, ("gdn",))

_TWICE, _NONE = "the decay is applied twice", "there is no decay"
_GATES = [
    reads("decay twice", "scale", in_layer("gates", edits.decay_times(2.0)), _TWICE),
    reads(
        "decay twice in decode",
        "scale",
        in_layer("gates", edits.decay_times(2.0)),
        _TWICE,
        "decode",
    ),
    reads("no decay", "scale", in_layer("gates", edits.decay_times(0.0)), _NONE),
    reads(
        "no decay in decode", "scale", in_layer("gates", edits.decay_times(0.0)), _NONE, "decode"
    ),
    shows(
        "decay 0.1 % off",
        "scale",
        in_layer("gates", edits.decay_times(1.001)),
        WHOLE,
        check="state",
    ),
    reads(
        "A_log's sign", "scale", in_layer("gates", edits.rate_inverted), "the rate is exp(-A_log)"
    ),
    reads("dt_bias left out", "loader", in_layer("gates", edits.no_bias), "dt_bias is left out"),
    reads("β missing", "scale", in_layer("gates", edits.all_written), "β is 1"),
    shows("sigmoid twice", "scale", in_layer("gates", edits.sigmoid_twice), WHOLE),
    shows(
        "A_log of heads exchanged", "heads", in_loaded(edits.heads_exchanged), ("head", "head 1")
    ),
]
_ORDER = "the convolution's taps are in the other order"
_LATE = "the convolution is a token late"
_CONVOLUTION = [
    reads("taps reversed", "placement", in_step(conv, "windows", edits.taps_reversed), _ORDER),
    reads(
        "convolution a token late",
        "placement",
        in_step(conv, "windows", edits.one_token_late),
        _LATE,
    ),
    reads(
        "inputs before forgotten",
        "containment",
        in_step(conv, "past_inputs", edits.past_forgotten),
        "inputs before this call are not convolved",
    ),
    shows(
        "inputs of another request",
        "containment",
        in_step(conv, "past_inputs", edits.past_kept),
        NOT_FINITE,
    ),
    shows("no silu", "activation", in_step(conv, "activate", edits.no_silu), WHOLE),
    shows(
        "rounded before silu too",
        "rounding",
        in_step(conv, "activate", edits.rounded_before),
        WHOLE,
        check="state",
    ),
    shows(
        "no silu in decode",
        "activation",
        in_step(conv, "activate", edits.no_silu),
        WHOLE,
        bench="decode",
    ),
    shows(
        "convolution's state stale",
        "memory",
        in_layer("convolve", edits.state_unkept),
        ("request", "request 0"),
        check="conv state",
    ),
    shows(
        "convolution's state stale in decode",
        "memory",
        in_layer("convolve", edits.state_unkept),
        ("request", "request 3"),
        bench="decode",
        check="conv state",
    ),
    shows("one channel's taps", "loader", in_loaded(edits.one_channel), ("head", "head 2")),
]
_MOD = "value head h uses key head h mod Hk"
_HEADS = [
    reads(
        "keys not normalised",
        "scale",
        in_step(chunked, "prepare", edits.only_queries),
        "keys are not normalised",
    ),
    reads(
        "queries not normalised",
        "scale",
        in_step(chunked, "prepare", edits.only_keys),
        "queries are not normalised",
    ),
    reads(
        "keys not normalised in decode",
        "scale",
        in_step(recurrent, "prepare", edits.only_queries),
        "keys are not normalised",
        "decode",
    ),
    reads(
        "scale left out",
        "scale",
        in_step(chunked, "prepare", edits.scale_by(32**0.5)),
        "outputs are not scaled",
    ),
    shows("scale 1 % off", "scale", in_step(chunked, "prepare", edits.scale_by(1.01)), WHOLE),
    shows(
        "scale 1 % off in decode",
        "scale",
        in_step(recurrent, "prepare", edits.scale_by(1.01)),
        WHOLE,
        bench="decode",
    ),
    reads(
        "key head modulo", "heads", in_step(recurrent, "for_value_heads", edits.head_modulo), _MOD
    ),
    reads(
        "key head modulo in decode",
        "heads",
        in_step(recurrent, "for_value_heads", edits.head_modulo),
        _MOD,
        "decode",
    ),
]
_TRANSPOSED = "the states that requests bring are transposed"
_STATES = [
    shows(
        "state not reset",
        "containment",
        in_step(chunked, "initial_state", edits.past_kept),
        NOT_FINITE,
    ),
    shows(
        "state of the request before",
        "containment",
        in_step(chunked, "initial_state", edits.last_of_previous([])),
        ("request", "request 1"),
    ),
    reads(
        "states not used",
        "containment",
        in_step(chunked, "initial_state", edits.past_forgotten),
        "the states that requests bring are not used",
    ),
    reads(
        "states transposed",
        "placement",
        in_step(chunked, "initial_state", edits.state_transposed),
        _TRANSPOSED,
    ),
    shows(
        "states stale",
        "memory",
        in_layer("delta_rule", edits.ssm_unkept),
        WHOLE,
        bench="decode",
        check="state",
    ),
    shows(
        "states stale after extend",
        "memory",
        in_layer("delta_rule", edits.ssm_unkept),
        ("finite", "token 0 of request 1; all heads"),
        check="state",
    ),
    Fault(
        "a slot of nobody",
        "slot",
        in_layer("delta_rule", edits.slot_beside),
        "slots",
        (("slot", "slot 1 of ssm"),),
        ("gdn",),
        "extend",
        exact=False,
    ),
    Fault(
        "mixed_qkv overwritten",
        "memory",
        in_layer("forward", edits.mixed_overwritten),
        "memory",
        (("memory", "mixed_qkv"),),
        ("gdn",),
        "extend",
    ),
]
_RECALL = "values are written without what the state recalls"
_RULE = [
    shows(
        "no recall in a chunk",
        "accumulation",
        in_step(chunked, "solve", edits.no_recall_in_chunk),
        WHOLE,
    ),
    reads(
        "no recall in decode",
        "accumulation",
        in_step(recurrent, "step", edits.no_recall_step),
        _RECALL,
        "decode",
    ),
    reads(
        "decay after the update",
        "placement",
        in_step(recurrent, "step", edits.decayed_after),
        "the decay comes after the update",
        "decode",
    ),
    reads(
        "output before the update",
        "placement",
        in_step(recurrent, "step", edits.read_before),
        "outputs are read before the update",
        "decode",
    ),
    shows(
        "own update unseen",
        "mask",
        in_step(chunked, "decay_between", edits.own_update_unseen),
        WHOLE,
    ),
    shows(
        "a chunk forgets",
        "containment",
        in_step(chunked, "run_chunk", edits.chunk_forgets),
        ("token", "token 64 of request 0"),
    ),
    shows(
        "no decay across a chunk",
        "scale",
        in_step(chunked, "run_chunk", edits.undecayed_chunk),
        ("request", "request 0"),
        check="state",
    ),
]
FAULTS = [*_GATES, *_CONVOLUTION, *_HEADS, *_STATES, *_RULE]
