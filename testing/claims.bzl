"""The coverage claims: each behaviour that a test can vouch for, registered once.

A claim has one sentence and the level of test that can show it: "layer", "e2e" or "perf". It is
named subject first, so that `attr(tags, "covers:quant\\.int8", //testing/...)` finds a family.
"""

def _layer(sentence):
    return struct(level = "layer", sentence = sentence)

CLAIMS = {
    "distributed.parallel_state": _layer("Process groups are set up once, without a launcher, and conflicting set-ups are refused."),
    "distributed.tensor_parallel.linear": _layer("Tensor-parallel linear layers over two processes give the unsharded checkpoint's product."),
    "quant.fp8.encoder": _layer("The oracle's fp8 quantisers agree with sgl_kernel's: scales within two ulps, codes bit for bit off near ties."),
    "quant.int8.linear.activations": _layer("Dynamic int8 activation quantisation follows the declared rule: amax/127, half to even, clamped to 127."),
    "quant.int8.linear.faults": _layer("The suite's checks catch planted faults of scales, rows, tiles, shards and rounding, and name the place."),
    "quant.int8.linear.loader": _layer("Every cell of an int8 checkpoint reaches its place in the layer, fused or not."),
    "quant.int8.linear.nan_rows": _layer("A NaN in one row of the activations stays in that row, and no uninitialised memory reaches the output."),
    "quant.int8.linear.strength": _layer("The int8 linear tests find a bias of 0.02 % of the output, 0.1 % of a row, 0.5 % of a column, 0.05 % of a tile and every wrong byte, and a thousand right layers raise no alarm."),
    "quant.int8_block.linear.numerics": _layer("128x128-block int8 linear layers give the checkpoint's product, rounded once, for every shape, layer kind and shard."),
    "quant.int8_channel.linear.numerics": _layer("Per-channel int8 linear layers give the checkpoint's product, rounded once, for every shape, layer kind and shard."),
    "quant.linear.backend_choice": _layer("A kernel backend is chosen by capability, and one that cannot run names the device it needs."),
    "quant.linear.loader_errors": _layer("A wrong, extra, missing or twice loaded checkpoint tensor is refused before any forward, by name."),
    "quant.linear.method_choice": _layer("The quantisation method of a layer follows from its prefix, ignored layers and packed modules."),
    "quant.mx.encoder": _layer("The oracle's MXFP8 and MXFP4 encoders agree bit for bit with FlashInfer's, off near ties of the scale."),
    "quant.nvfp4.encoder": _layer("The oracle's NVFP4 encoder and swizzle agree bit for bit with FlashInfer's, off near ties of code and block scale."),
    "quant.unquantised.linear.numerics": _layer("Unquantised bf16 and fp16 linear layers give the checkpoint's product, rounded once."),
}
