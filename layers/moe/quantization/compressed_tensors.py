"""Experts of compressed-tensors checkpoints in fp8, as `layers.quantization.compressed_tensors`."""

from __future__ import annotations

from layers.moe.quantization.base import MoEMethodBase
from layers.moe.quantization.fp8 import Fp8ChannelMoEMethod, Fp8TensorMoEMethod
from layers.moe.quantization.registry import register_moe
from layers.quantization.base import QuantizationConfig
from layers.quantization.compressed_tensors import CompressedTensorsConfig


@register_moe("compressed-tensors")
class CompressedTensorsMoEMethod(Fp8TensorMoEMethod):
    """Picks the method whose tensors such a checkpoint holds."""

    @classmethod
    def from_config(cls, config: QuantizationConfig, backend: str | None) -> MoEMethodBase:
        """By rows or by tensors, as the config's strategy says.

        Raises:
            TypeError: another config than `CompressedTensorsConfig`.
        """
        if not isinstance(config, CompressedTensorsConfig):
            raise TypeError(
                f"the MoE method of compressed-tensors takes a CompressedTensorsConfig, not "
                f"{type(config).__name__}"
            )
        if config.strategy == "channel":
            return Fp8ChannelMoEMethod(backend)
        return Fp8TensorMoEMethod(backend, static=config.static)
