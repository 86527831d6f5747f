"""What `common` has for scales that are floats, for activation scales of one byte a block."""

from __future__ import annotations

from collections.abc import Sequence

from testing.strength.common import CONTAINMENT, NATURAL, ZEROS
from testing.strength.edits import block_bytes
from testing.strength.fault import Fault
from testing.strength.linear_bench import in_quantiser
from testing.strength.places import SPREAD, output


def block_scale_faults(
    formats: Sequence[str], swizzled: bool, nan: int, suffix: str = ""
) -> list[Fault]:
    """Faults of a quantiser's block scales, in the merged layer.

    swizzled: they lie in the 128x4 order.
    nan: the byte that is NaN.
    suffix: of the faults' names.
    """
    return [
        # A row of e2m1 codes that are off moves what is named beside it.
        Fault(
            name + suffix,
            kind,
            in_quantiser(change),
            check,
            (place,),
            tuple(formats),
            exact=check != NATURAL,
        )
        for name, kind, change, check, place in (
            (
                "one token's scales a step off",
                "scale",
                block_bytes.one_token_up(swizzled),
                NATURAL,
                ("row", "row 5"),
            ),
            (
                "NaN in every block",
                "containment",
                block_bytes.nan_everywhere(nan),
                CONTAINMENT,
                SPREAD,
            ),
            (
                "division by a block of zeros",
                "containment",
                block_bytes.zero_blocks_are_nan(nan),
                ZEROS,
                ("finite", output(1, 0, "gate")),
            ),
        )
    ]
