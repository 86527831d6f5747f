"""Greedy texts of a model that is known, and where another one differs from it."""

import torch

from tools.tiny.sameness import greedy, same_texts

END = 9


class Counting:
    """Says n + 1 after n; `wrong_after` another."""

    def __init__(self, wrong_after: int = -1) -> None:
        self._wrong_after = wrong_after

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        return (ids + torch.where(ids == self._wrong_after, 2, 1))[..., None].float()

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(hidden[..., 0].long(), 12).float()

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        return self.logits(self.hidden(ids))


def test_texts_end_at_their_end_or_where_they_may_not_go_on() -> None:
    assert greedy(Counting(), [[7], [3, 4]], 3, END) == [[7, 8, 9], [3, 4, 5, 6, 7]]


def test_only_texts_that_reach_the_difference_are_another() -> None:
    prompts = [[6], [2], [5, 1]]
    # 6 → 7 8 9 meets 7; 2 → 3 4 5 does not; the 5 of the third is in its prompt.
    assert same_texts(Counting(), Counting(7), prompts, 3, END).tolist() == [False, True, True]
    assert same_texts(Counting(), Counting(5), prompts, 3, END).tolist() == [True, True, True]
    assert same_texts(Counting(), Counting(4), prompts, 3, END).tolist() == [True, False, True]
