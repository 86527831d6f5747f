"""Arrays reach torch and come back bit for bit; poisoned memory shows."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from testing.harness.memory import padded_view, poisoned_memory
from testing.harness.records import record
from testing.harness.tensors import floats_to_torch, to_numpy, to_torch


@pytest.mark.parametrize(
    "dtype", [np.int8, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
def test_arrays_keep_dtype_and_values(dtype: type) -> None:
    array: NDArray[Any] = np.arange(-8, 8).reshape(4, 4).astype(dtype)
    tensor = to_torch(array)
    assert str(tensor.dtype) == f"torch.{np.dtype(dtype).name}"
    np.testing.assert_array_equal(to_numpy(tensor), array.astype(np.float64))


def test_scalars_stay_scalars_and_bytes_stay_bytes() -> None:
    assert to_torch(np.asarray(2.5, np.float32)).shape == ()
    codes: NDArray[np.uint8] = np.arange(256, dtype=np.uint8)
    tensor = to_torch(codes.view(ml_dtypes.float8_e4m3fn))
    assert tensor.view(torch.uint8).tolist() == codes.tolist()


def test_values_that_would_be_rounded_are_refused() -> None:
    exact = np.array([1.0, 1 + 2**-7, np.nan])
    np.testing.assert_array_equal(to_numpy(floats_to_torch(exact, torch.bfloat16)), exact)
    with pytest.raises(ValueError, match=r"not exact in torch\.bfloat16"):
        floats_to_torch(np.array([1 + 2**-8]), torch.bfloat16)


def test_empty_memory_is_poisoned_and_only_inside() -> None:
    with poisoned_memory():
        assert torch.empty(5).isnan().all()
        assert torch.empty_like(torch.zeros(3, dtype=torch.bfloat16)).isnan().all()
        assert torch.zeros(2).new_empty(4).isnan().all()
        assert (torch.empty(3, dtype=torch.int8) == 127).all()
        assert (torch.ones(3) == 1).all()
    assert not torch.are_deterministic_algorithms_enabled()


def test_padded_view_has_the_values_in_a_frame_of_nan() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    view = padded_view(x)
    assert torch.equal(view, x)
    assert view.stride() == (11, 1)
    assert view.as_strided((2, 11), (11, 1))[:, 3:].isnan().all()


def test_records_go_to_the_undeclared_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEST_UNDECLARED_OUTPUTS_DIR", raising=False)
    record({"gain": 1.0})
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("TEST_UNDECLARED_OUTPUTS_DIR", str(tmp_path))
    monkeypatch.setenv("TEST_TARGET", "//testing/quant:x_test_cpu")
    record({"gain": 1.0})
    record({"gain": 2.0})
    lines = [json.loads(line) for line in (tmp_path / "stats.jsonl").read_text().splitlines()]
    assert lines[1] == {"target": "//testing/quant:x_test_cpu", "gain": 2.0}
    assert len(lines) == 2
