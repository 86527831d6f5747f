"""Which drafts a text keeps.

The model chooses a token behind each draft as if the drafts before it were its own text, with the
noise of that place. Drafts are kept up to the first that differs from the model's choice, and that
choice is the token behind them. So the text is the one that the model would have made alone, token
by token, greedy or sampled: verification changes how many forwards it takes and nothing else.

For sampled text this is speculative sampling (Leviathan et al. 2023; Chen et al. 2023) with the
coupling of Daliri, Musco, Suresh 2024: given the draft, its token is accepted with the probability
of their meeting, and the token after a rejection has the distribution of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence


def accept(drafts: Sequence[int], chosen: Sequence[int]) -> list[int]:
    """The tokens that a verification gives.

    Args:
        drafts: K proposed tokens.
        chosen: K + 1, the model's choice in the place of each draft, and behind the last.

    Returns:
        1 to K + 1 tokens: the drafts that were right, and the model's choice behind them.

    Raises:
        ValueError: another number of choices.
    """
    if len(chosen) != len(drafts) + 1:
        raise ValueError(f"{len(chosen)} choices for {len(drafts)} drafts, wanted one more")
    kept = 0
    while kept < len(drafts) and drafts[kept] == chosen[kept]:
        kept += 1
    return list(chosen[: kept + 1])
