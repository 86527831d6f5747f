"""The name that was probably meant."""

def _distance(left, right):
    """Edits (insert, delete, replace) between two words."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left.elems()):
        above = row
        row = [i + 1]
        for j, b in enumerate(right.elems()):
            row.append(min(above[j + 1] + 1, row[j] + 1, above[j] + (0 if a == b else 1)))
    return row[-1]

def suggestion(seen, known):
    """Says which known name is nearest to `seen`, or lists them all.

    Args:
        seen: the unknown name.
        known: list of the known ones.

    Returns:
        A clause for the end of an error.
    """
    ranked = sorted([(_distance(seen, name), name) for name in known])
    if ranked and ranked[0][0] <= max(2, len(seen) // 3):
        return "did you mean '%s'?" % ranked[0][1]
    return "known: %s" % ", ".join(sorted(known))
