"""Python's parser, whose every refusal is one SyntaxError that names a line."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Of calls: what Python parses is a third of that deep at most, and what recurs in C, such as json,
# has room for so many on its stack.
DEEPEST = 9_000


def parse(text: str) -> ast.Module:
    """The syntax tree. Raises SyntaxError with a line for what Python cannot parse."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        error.lineno = error.lineno or 1
        raise
    except ValueError as error:
        # Such as a text with null bytes, on a Python that does not call that its syntax.
        raise _refused(str(error)) from error
    except (RecursionError, MemoryError) as error:
        raise _refused("an expression is nested too deeply") from error


@contextmanager
def visiting() -> Iterator[None]:
    """Around what goes down a tree node by node: whatever `parse` returned is not too deep for it.

    A sum of a thousand texts is a thousand deep.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEPEST))
    try:
        yield
    except RecursionError as error:
        raise _refused("an expression is nested too deeply") from error
    finally:
        sys.setrecursionlimit(before)


def _refused(reason: str) -> SyntaxError:
    error = SyntaxError(reason)
    error.lineno = 1
    return error
