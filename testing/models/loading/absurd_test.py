"""Whatever a folder's JSON holds, it loads or is refused in words, and soon."""

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from layers.models.checkpoint.files import CheckpointFiles
from layers.models.config.counts import check_settings
from layers.models.config.read import read_config
from layers.models.errors import CheckpointError, ModelConfigError
from layers.models.load import check_checkpoint, load_model
from testing.models.folders import INDEX, random_tensors, write_folder
from testing.oracles.models.configs import ALL, DEEPSEEK, GPT_OSS, LLAMA

SECONDS = 10.0
DEEP = 100_000
# As JSON spells them: some of it Python would not write.
VALUES = (
    *("-1", "0", "1", "3", "0.5", "-0.0", "1e-308", "1e308", "1e999", "-1e999", "NaN"),
    *("2147483648", str(2**40), str(2**63), str(10**400), "true", "null"),
    *('"8"', '"\\ud800"', "[]", "[[1]]", "[null, {}]", "{}", '{"a": [1]}'),
    *("[" * 500 + "]" * 500, '"' + "x" * 5000 + '"'),
)
KEYS = sorted({key for config in ALL for key in config} | {"quantization_config", "dtype"})
ROPE = sorted({key for config in ALL for key in config["rope_scaling"]} | {"attention_factor"})
METHODS: dict[str, dict[str, Any]] = {
    "w8a8_int8": {},
    "fp8": {"activation_scheme": "dynamic", "weight_block_size": [32, 32]},
    "modelopt": {"quant_algo": "NVFP4", "exclude_modules": [], "kv_cache_scheme": None},
    "compressed-tensors": {"config_groups": {}, "ignore": [], "format": "int-quantized"},
    "mxfp4": {"modules_to_not_convert": []},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = tmp_path_factory.mktemp("models")
    names = {config["architectures"][0]: config for config in ALL}
    return {n: write_folder(made / n, c, random_tensors(c)) for n, c in names.items()}


def texts(config: dict[str, Any], *path: str) -> Iterator[str]:
    """config.json with each of VALUES at a path."""
    for value in VALUES:
        changed = json.loads(json.dumps(config))
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = "PLACE"
        yield json.dumps(changed).replace('"PLACE"', value)


def require_an_end(folder: Path, text: str) -> None:
    """A model, or one of the two errors, whose words can be shown."""
    (folder / "config.json").write_text(text)
    began = time.monotonic()
    try:
        check_settings(folder)
        load_model(folder, device="cpu")
    except (ModelConfigError, CheckpointError) as error:
        assert 20 < len(str(error)) < 20_000, str(error)[:300]
    took = time.monotonic() - began
    assert took < SECONDS, f"{took:.1f} s for {text[:2000]}"


@pytest.mark.parametrize("config", ALL, ids=lambda c: c["architectures"][0])
@pytest.mark.parametrize("key", KEYS)
def test_every_key_with_every_value_ends(
    config: dict[str, Any], key: str, folders: dict[str, Path]
) -> None:
    for text in texts(config, key):
        require_an_end(folders[config["architectures"][0]], text)


@pytest.mark.parametrize("config", ALL, ids=lambda c: c["architectures"][0])
@pytest.mark.parametrize("key", ROPE)
def test_every_number_of_a_rotation_ends(
    config: dict[str, Any], key: str, folders: dict[str, Path]
) -> None:
    for text in texts(config, "rope_scaling", key):
        require_an_end(folders[config["architectures"][0]], text)


@pytest.mark.parametrize("method", METHODS)
def test_every_key_of_a_quantisation_ends(method: str, folders: dict[str, Path]) -> None:
    whole = {**LLAMA, "quantization_config": {"quant_method": method, **METHODS[method]}}
    for key in ("quant_method", "kv_cache_scheme", "quantization", *METHODS[method]):
        for text in texts(whole, "quantization_config", key):
            require_an_end(folders["LlamaForCausalLM"], text)


COUNTED = "as the checkpoint has tensors of so many"
ABSURD: list[tuple[dict[str, Any], str, Any, str]] = [
    (LLAMA, "num_hidden_layers", 4096, f"is 4096, wanted 2, {COUNTED} layers"),
    (LLAMA, "num_hidden_layers", 2**63, "wanted 4096 at most"),
    (DEEPSEEK, "n_routed_experts", 16384, f"is 16384, wanted 8, {COUNTED} experts"),
    (GPT_OSS, "num_local_experts", 10**9, "is 1000000000, wanted 16384 at most"),
    (LLAMA, "vocab_size", 2**62, f"is {2**62}, wanted {2**24} at most, as no model has more"),
    (LLAMA, "intermediate_size", 2**40, f"wanted {2**20} at most"),
    (LLAMA, "max_position_embeddings", 2**31, f"wanted {2**24} at most"),
]


@pytest.mark.parametrize(("config", "key", "value", "says"), ABSURD, ids=lambda v: str(v)[:30])
def test_an_absurd_size_is_named_before_a_layer_is_made(
    config: dict[str, Any], key: str, value: object, says: str, folders: dict[str, Path]
) -> None:
    folder = folders[config["architectures"][0]]
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    for check in (check_settings, check_checkpoint):
        with pytest.raises(ModelConfigError) as error:
            check(folder)
        assert f"{key} is {value}, " in str(error.value) and says in str(error.value)


def test_the_largest_sizes_are_compared_with_the_tensors(folders: dict[str, Path]) -> None:
    folder = folders["LlamaForCausalLM"]
    largest = {"vocab_size": 2**24, "hidden_size": 2**20, "intermediate_size": 2**20}
    (folder / "config.json").write_text(json.dumps({**LLAMA, **largest, "head_dim": 2**16}))
    check_settings(folder)
    with pytest.raises(CheckpointError, match=r"embed_tokens.weight.*\(192, 128\), wanted \(16777"):
        load_model(folder, device="cpu")


def test_a_few_layers_too_many_are_named_as_missing_tensors(folders: dict[str, Path]) -> None:
    folder = folders["LlamaForCausalLM"]
    (folder / "config.json").write_text(json.dumps({**LLAMA, "num_hidden_layers": 68}))
    check_settings(folder)
    with pytest.raises(CheckpointError, match=r"66 tensors, 'model.layers.2-67.mlp.down_proj"):
        check_checkpoint(folder)


def test_a_table_of_rotations_beyond_the_memory_is_refused(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folders["LlamaForCausalLM"]
    (folder / "config.json").write_text(json.dumps(LLAMA))
    # 256 rows of 16 pairs, 32 bytes each: 131,072 bytes.
    sizes = {"SC_PHYS_PAGES": 32, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.sysconf", sizes.__getitem__)
    load_model(folder, device="cpu")
    sizes["SC_PHYS_PAGES"] = 31
    with pytest.raises(ModelConfigError, match=r"max_position_embeddings is 256, .* wanted 248 at"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "hf_quant_config.json"])
@pytest.mark.parametrize("opening", ['{"a":', "["])
def test_deep_nesting_is_refused(name: str, opening: str, tmp_path: Path) -> None:
    write_folder(tmp_path, LLAMA, {"model.norm.weight": torch.ones(1)})
    closing = {"[": "]"}.get(opening, "}")
    (tmp_path / name).write_text(opening * DEEP + "0" + closing * DEEP)
    for check in (check_settings, read_config):
        with pytest.raises(ModelConfigError, match=rf"{name}' has objects or lists nested too dee"):
            check(tmp_path)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(ModelConfigError, match=r"config.json' is no file, wanted one of JSON"):
        check_settings(tmp_path)


def header(text: str, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text.encode()


def entry(dtype: str, shape: str, offsets: str) -> str:
    return f'{{"x": {{"dtype": "{dtype}", "shape": {shape}, "data_offsets": {offsets}}}}}'


HEADERS = {
    "empty": b"",
    "length beyond the file": header("{}", 2**63),
    "length of all ones": header("{}", 2**64 - 1),
    "no JSON": header("{{"),
    "nested": header("[" * DEEP),
    "nested objects": header('{"a":' * DEEP),
    "dtype unknown": header(entry("Q7", "[1]", "[0, 4]")) + bytes(4),
    "offsets overflow": header(entry("F32", "[1]", f"[0, {2**64 - 1}]")) + bytes(4),
    "offsets negative": header(entry("F32", "[1]", "[-4, 0]")) + bytes(4),
    "shape overflows": header(entry("F32", f"[{2**62}, 8]", "[0, 4]")) + bytes(4),
    "shape negative": header(entry("F32", "[-1]", "[0, 4]")) + bytes(4),
    "shape of text": header(entry("F32", '["1"]', "[0, 4]")) + bytes(4),
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS)
def test_a_damaged_header_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "model.safetensors").write_bytes(content)
    check_settings(tmp_path)
    with pytest.raises(CheckpointError) as error:
        load_model(tmp_path, device="cpu")
    (problem,) = error.value.problems
    start = f"'model.safetensors' cannot be read, {len(content)} bytes long: "
    assert problem.startswith(start) and len(problem) > len(start), problem


INDEXES: dict[str, tuple[object, str]] = {
    "list": ([], "weight_map is [], wanted an object or null"),
    "numbers": ({"x": 3}, "has no weight_map, wanted an object with the file of each tensor"),
    "zero byte": ({"x": "a\0b"}, "wanted a file of its own folder"),
    "no UTF-8": ({"x": "\ud800"}, "wanted a file of its own folder"),
    "too long": ({"x": "a" * 256}, "wanted a file of its own folder"),
    "elsewhere": ({"x": "../config.json"}, "wanted a file of its own folder"),
    "parent": ({"x": ".."}, "'..' is no file, wanted one of safetensors"),
    "absent": ({"x": "y"}, f"'y' is missing, though {INDEX} names it"),
}


@pytest.mark.parametrize(("weight_map", "says"), INDEXES.values(), ids=INDEXES)
def test_an_absurd_index_is_named(weight_map: object, says: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "num_hidden_layers": 4096}))
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    (problem,) = CheckpointFiles(tmp_path).problems
    assert says in problem
    # Of 4096 layers none is made where no tensor could be read.
    with pytest.raises(CheckpointError) as error:
        load_model(tmp_path, device="cpu")
    assert error.value.problems == [problem]
