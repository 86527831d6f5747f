"""Evaluates the condition of a skip as a pool would, as far as the source says it."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.plumb.trim.source.syntax import dotted, last_name

UNKNOWN = object()
_SUPPORTED = re.compile(r"is_(?:sm|cuda_sm)_?(\d+)_?(?:supported|only)?")
_COMPARE: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_OTHER_VENDORS = ("is_hip", "is_npu", "is_xpu", "is_hpu", "is_musa")


@dataclass(frozen=True)
class Machine:
    """What a condition can ask of where a test runs.

    pool, arch: as the test declares them ('cpu' or such as 'sm90'). gpus: that it sees. In CI.
    """

    pool: str
    arch: str
    gpus: int

    @property
    def sm(self) -> int | None:
        """90 for sm90; None without GPU."""
        digits = re.fullmatch(r"sm(\d+)", self.arch)
        return int(digits[1]) if digits else None

    def call(self, name: str) -> Any:
        """What the function of that name gives here; UNKNOWN for others.

        Known: the field's own helpers (is_in_ci, get_device_sm, is_blackwell, is_sm100_supported,
        is_hip…), torch.cuda's, and those of this repository's harness (pool, arch).
        """
        sm = self.sm
        known: dict[str, Any] = {
            "is_in_ci": True,
            "in_ci": True,
            "is_cuda": sm is not None,
            "is_available": sm is not None,
            "device_count": self.gpus,
            "get_device_sm": sm or 0,
            "get_device_capability": divmod(sm, 10) if sm else UNKNOWN,
            "pool": self.pool,
            "arch": self.arch,
            "is_hopper": sm == 90,
            "is_blackwell": sm is not None and sm >= 100,
            "is_blackwell_supported": sm is not None and sm >= 100,
            **dict.fromkeys(_OTHER_VENDORS, False),
        }
        if name in known:
            return known[name]
        supported = _SUPPORTED.fullmatch(name)
        if supported and sm is not None:
            # Blackwell's helpers mean the family: sm100 to sm103 are 10.x.
            return sm // 10 == int(supported[1]) // 10
        return UNKNOWN

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that are set here."""
        return {
            "CI": "true",
            "PLUMBLINE_POOL": self.pool,
            "PLUMBLINE_ARCH": self.arch,
            "PLUMBLINE_GPUS": str(self.gpus),
        }


def evaluate(node: ast.expr, machine: Machine, names: Mapping[str, ast.expr]) -> Any:
    """The value of `node` on that machine; UNKNOWN where the source alone does not say.

    names: what the module's names were set to.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple | ast.List):
        values = [evaluate(element, machine, names) for element in node.elts]
        return UNKNOWN if UNKNOWN in values else tuple(values)
    if isinstance(node, ast.Name):
        value = names.get(node.id)
        further = {name: v for name, v in names.items() if name != node.id}
        return UNKNOWN if value is None else evaluate(value, machine, further)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = evaluate(node.operand, machine, names)
        return UNKNOWN if inner is UNKNOWN else not inner
    if isinstance(node, ast.BoolOp):
        return _junction(node, machine, names)
    if isinstance(node, ast.Compare):
        return _comparison(node, machine, names)
    if isinstance(node, ast.Subscript | ast.Call):
        return _looked_up(node, machine, names)
    return UNKNOWN


def _junction(node: ast.BoolOp, machine: Machine, names: Mapping[str, ast.expr]) -> Any:
    values = [evaluate(value, machine, names) for value in node.values]
    decisive = isinstance(node.op, ast.Or)
    if any(value is not UNKNOWN and bool(value) is decisive for value in values):
        return decisive
    return UNKNOWN if UNKNOWN in values else not decisive


def _comparison(node: ast.Compare, machine: Machine, names: Mapping[str, ast.expr]) -> Any:
    if dotted(node.comparators[0]).endswith("os.environ") and len(node.ops) == 1:
        name = evaluate(node.left, machine, names)
        held = name in machine.environment
        return _of_environment(name, held if isinstance(node.ops[0], ast.In) else not held)
    left = evaluate(node.left, machine, names)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = evaluate(comparator, machine, names)
        compare = _COMPARE.get(type(op))
        if UNKNOWN in (left, right) or compare is None:
            return UNKNOWN
        try:
            if not compare(left, right):
                return False
        except TypeError:
            return UNKNOWN
        left = right
    return True


def _looked_up(
    node: ast.Subscript | ast.Call, machine: Machine, names: Mapping[str, ast.expr]
) -> Any:
    if isinstance(node, ast.Subscript):
        if dotted(node.value).endswith("os.environ"):
            name = evaluate(node.slice, machine, names)
            return _of_environment(name, machine.environment.get(name))
        value, index = (evaluate(part, machine, names) for part in (node.value, node.slice))
        if isinstance(value, tuple | str) and isinstance(index, int) and index < len(value):
            return value[index]
        return UNKNOWN
    called = dotted(node)
    if called.endswith(("os.environ.get", "os.getenv")) and node.args:
        name = evaluate(node.args[0], machine, names)
        return _of_environment(name, machine.environment.get(name))
    if last_name(node) == "bool" and node.args:
        inner = evaluate(node.args[0], machine, names)
        return UNKNOWN if inner is UNKNOWN else bool(inner)
    return machine.call(last_name(node))


def _of_environment(name: object, value: Any) -> Any:
    # Whether CI sets any other variable, nobody can tell from here.
    return (
        value if name in ("CI", "PLUMBLINE_POOL", "PLUMBLINE_ARCH", "PLUMBLINE_GPUS") else UNKNOWN
    )
