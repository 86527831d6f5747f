"""The coverage claims: each behaviour that a test can vouch for, registered once.

A claim has one sentence and the level of test that can show it: "layer", "e2e" or "perf". It is
named subject first, so that `attr(tags, "covers:quant\\.int8", //testing/...)` finds a family.

A claim demands cells, each an architecture and how often: `sm90:per-commit` wants a test that runs on
sm90 for every commit. Nothing weaker meets it, and `plumb coverage --missing` lists what is unmet.
Each claim is a target of //testing/claims, where `bazel query` sees it.
"""

# Each commit, on the CPU: what needs no kernel of a GPU.
_CPU = ["cpu:per-commit"]

# By night, on the CPU: thousands of layers, too long for each commit.
_NIGHTLY = ["cpu:nightly"]

# Kernels of sm90 too.
_SM90 = _CPU + ["sm90:per-commit"]

# Kernels of sm100 too: other ones, so that sm90 says nothing of them.
_SM100 = _SM90 + ["sm100:per-commit"]

# Kernels of sm90 that no CPU runs.
_SM90_ONLY = ["sm90:per-commit"]

# Kernels that take too long to compile for each commit.
_SM90_NIGHTLY = ["sm90:nightly"]

# What has no CPU backend to compare with.
_GPU_ONLY = ["sm90:per-commit", "sm100:per-commit"]

def _claim(level, sentence, demands):
    return struct(demands = demands, level = level, sentence = sentence)

def _layer(sentence, demands = _CPU):
    return _claim("layer", sentence, demands)

def _e2e(sentence, demands = _SM90):
    return _claim("e2e", sentence, demands)

def _perf(sentence, demands = _SM90):
    return _claim("perf", sentence, demands)

CLAIMS = {
    "attn.dense.cuda_graph": _layer("Dense attention captured in a CUDA graph gives bit for bit what it gives outside, for other lengths and pages too.", _SM90_ONLY),
    "attn.dense.faults": _layer("The tests of dense attention catch planted faults of masks, pages, heads, scales, sinks and lengths, and name the place."),
    "attn.dense.flashinfer.cap.numerics": _layer("Dense attention under a soft cap by FlashInfer's wrappers gives the definition's output in every mode that they take, reads no slot that the request does not own and writes exactly the call's.", _SM90_NIGHTLY),
    "attn.dense.flashinfer.cuda_graph": _layer("Dense attention under a soft cap, with sinks and from an fp8 cache, by FlashInfer's wrappers captured in a CUDA graph, gives bit for bit what it gives outside.", _SM90_NIGHTLY),
    "attn.dense.flashinfer.decode.numerics": _layer("Dense attention by FlashInfer's wrappers gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.dense.flashinfer.draft.numerics": _layer("Dense attention by FlashInfer's wrappers gives the definition's output of chains and trees of draft tokens, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.dense.flashinfer.extend.numerics": _layer("Dense attention by FlashInfer's wrappers gives the definition's output of prompts behind cached prefixes, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.dense.flashinfer.fp8.numerics": _layer("Dense attention from an fp8 cache by FlashInfer's wrappers gives the definition's output in every mode that they take, reads no slot that the request does not own and writes exactly the call's.", _SM90_NIGHTLY),
    "attn.dense.flashinfer.head_256.numerics": _layer("Dense attention with heads of 256 by FlashInfer's wrappers gives the definition's output in every mode that they take, reads no slot that the request does not own and writes exactly the call's.", _SM90_NIGHTLY),
    "attn.dense.flashinfer.mqa.numerics": _layer("Dense attention of eight fp16 heads of 128 on one by FlashInfer's wrappers gives the definition's output in every mode that they take, reads no slot that the request does not own and writes exactly the call's.", _SM90_NIGHTLY),
    "attn.dense.flashinfer.sinks.numerics": _layer("Dense attention with sinks by FlashInfer's wrappers gives the definition's output in every mode that they take, reads no slot that the request does not own and writes exactly the call's.", _SM90_NIGHTLY),
    "attn.dense.loader": _layer("The sinks of dense attention reach their heads through the loader, each rank's its own."),
    "attn.dense.refusals": _layer("What dense attention cannot take is refused by name, with the backend's limit, before any kernel runs."),
    "attn.dense.strength": _layer("The tests of dense attention find a gain of 0.02 % and a scaling off by 0.05 %, and a thousand right layers raise no alarm.", _NIGHTLY),
    "attn.dense.tensor_parallel": _layer("Dense attention whose heads two processes share gives each rank's heads of the whole layer's output.", _SM90),
    "attn.dense.told": _layer("The tests of dense attention name what a layer of any backend was told that the oracle was not: another window, page, mask, scale or length.", _SM90),
    "attn.dense.torch.decode.numerics": _layer("Dense attention by plain torch gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", _SM90),
    "attn.dense.torch.draft.numerics": _layer("Dense attention by plain torch gives the definition's output of chains and trees of draft tokens, reads no slot that the request does not own and writes exactly the call's.", _SM90),
    "attn.dense.torch.extend.numerics": _layer("Dense attention by plain torch gives the definition's output of prompts behind cached prefixes, reads no slot that the request does not own and writes exactly the call's.", _SM90),
    "attn.dense.triton.decode.numerics": _layer("Dense attention by our Triton kernels gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.dense.triton.draft.numerics": _layer("Dense attention by our Triton kernels gives the definition's output of chains and trees of draft tokens, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.dense.triton.extend.numerics": _layer("Dense attention by our Triton kernels gives the definition's output of prompts behind cached prefixes, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.fp8_cache.codes": _layer("Every 16-bit number is written into an fp8 cache of keys, values or latents as the code of its quotient by the scale, divided in float32 and rounded half to even.", _SM90),
    "attn.gdn.cuda_graph": _layer("The gated delta rule's decode captured in a CUDA graph gives bit for bit what it gives outside, output and states, for other slots too.", _SM90_ONLY),
    "attn.gdn.faults": _layer("The gated delta tests catch planted faults of gates, convolution, heads, states and chunks, and name the place or what is computed instead."),
    "attn.gdn.flashinfer.decode.numerics": _layer("The gated delta rule by FlashInfer's kernels gives the recurrence's output of one new token a request, and every request's state after it, and touches no other slot.", _SM90_NIGHTLY),
    "attn.gdn.flashinfer.extend.numerics": _layer("The gated delta rule by FlashInfer's kernels gives the recurrence's output of texts of any lengths, and every request's state after them, and touches no other slot.", _SM90_NIGHTLY),
    "attn.gdn.loader": _layer("Every cell of conv1d.weight, A_log and dt_bias reaches its head through the loader, of q, of k and of v apart on each rank; other weights replace it bit for bit."),
    "attn.gdn.refusals": _layer("What the gated delta rule cannot take is refused by name, with the backend's limit, before anything is written or run."),
    "attn.gdn.strength": _layer("The gated delta tests find a decay off by 0.01 % and an output off by 0.02 %, and a thousand right layers raise no alarm.", _NIGHTLY),
    "attn.gdn.tensor_parallel": _layer("The gated delta rule whose heads two processes share gives each rank's heads of the whole layer's output and states."),
    "attn.gdn.torch.decode.numerics": _layer("The gated delta rule by plain torch gives the recurrence's output of one new token a request, and every request's state after it, and touches no other slot.", _SM90),
    "attn.gdn.torch.extend.numerics": _layer("The gated delta rule by plain torch gives the recurrence's output of texts of any lengths, and every request's state after them, and touches no other slot.", _SM90),
    "attn.gdn.triton.decode.numerics": _layer("The gated delta rule by Triton kernels, ours and flash-linear-attention's, gives the recurrence's output of one new token a request, and every request's state after it, and touches no other slot.", _SM90_ONLY),
    "attn.gdn.triton.extend.numerics": _layer("The gated delta rule by Triton kernels, ours and flash-linear-attention's, gives the recurrence's output of texts of any lengths, and every request's state after them, and touches no other slot.", _SM90_ONLY),
    "attn.mla.cuda_graph": _layer("MLA decode and drafts captured in a CUDA graph give bit for bit what they give outside, for other lengths and pages too.", _SM90_ONLY),
    "attn.mla.faults": _layer("The MLA tests catch planted faults of scales, rotary embedding, masks, pages, heads, weights and slots, and name the place or what is computed instead."),
    "attn.mla.flashinfer.decode.numerics": _layer("MLA by FlashInfer's wrapper gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.mla.flashinfer.extend.numerics": _layer("MLA by FlashInfer's wrapper gives the definition's output of prompts behind cached prefixes, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.mla.flashinfer_trtllm.decode.numerics": _layer("MLA by FlashInfer's trtllm-gen kernel of sm100 gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", ["sm100:per-commit"]),
    "attn.mla.flashmla.decode.numerics": _layer("MLA by FlashMLA of sgl_kernel gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.mla.loader": _layer("Every cell of kv_b_proj, quantised or not, reaches its head's W_UK or W_UV through the loader; other weights replace it bit for bit."),
    "attn.mla.paths": _layer("MLA's absorbed and unabsorbed paths, in one call or in several, give one answer.", _SM90),
    "attn.mla.refusals": _layer("What MLA cannot take is refused by name, with the backend's limit, before anything is written or run.", _SM90),
    "attn.mla.sgl_kernel_cutlass.decode.numerics": _layer("MLA by sgl_kernel's CUTLASS kernel of sm100 gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", ["sm100:per-commit"]),
    "attn.mla.strength": _layer("The MLA tests find a scale of the logits off by 0.3 % and an output off by 0.2 %, and a thousand right layers raise no alarm.", _NIGHTLY),
    "attn.mla.tensor_parallel": _layer("MLA whose heads two processes share, quantised or not, gives each rank's heads of the whole layer's output."),
    "attn.mla.torch.decode.numerics": _layer("MLA by plain torch gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", _SM90),
    "attn.mla.torch.draft.numerics": _layer("MLA by plain torch gives the definition's output of chains and trees of draft tokens, reads no slot that the request does not own and writes exactly the call's.", _SM90),
    "attn.mla.torch.extend.numerics": _layer("MLA by plain torch gives the definition's output of prompts behind cached prefixes, reads no slot that the request does not own and writes exactly the call's.", _SM90),
    "attn.mla.triton.decode.numerics": _layer("MLA by our Triton kernels gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.mla.triton.draft.numerics": _layer("MLA by our Triton kernels gives the definition's output of chains and trees of draft tokens, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.mla.triton.extend.numerics": _layer("MLA by our Triton kernels gives the definition's output of prompts behind cached prefixes, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.rotary.numerics": _layer("Rotary embedding turns the pairs of both styles by their angles, plain and under YaRN and Llama 3 scaling, rounded once.", _SM90),
    "attn.shared_metadata": _layer("Dense and windowed layers of one model, and caches of other scales, share a batch's metadata and plans and are all right.", _SM90),
    "attn.swa.cuda_graph": _layer("Sliding-window attention captured in a CUDA graph gives bit for bit what it gives outside, for other lengths and pages too.", _SM90_ONLY),
    "attn.swa.faults": _layer("The tests of sliding-window attention catch planted faults of masks, pages, heads, scales, sinks and lengths, and name the place."),
    "attn.swa.flashinfer.cap.numerics": _layer("Sliding-window attention under a soft cap by FlashInfer's wrappers gives the definition's output in every mode that they take, reads no slot that the request does not own and writes exactly the call's.", _SM90_NIGHTLY),
    "attn.swa.flashinfer.decode.numerics": _layer("Sliding-window attention by FlashInfer's wrappers gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.swa.flashinfer.draft.numerics": _layer("Sliding-window attention by FlashInfer's wrappers gives the definition's output of chains and trees of draft tokens, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.swa.flashinfer.extend.numerics": _layer("Sliding-window attention by FlashInfer's wrappers gives the definition's output of prompts behind cached prefixes, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.swa.flashinfer.sinks.numerics": _layer("Sliding-window attention with sinks by FlashInfer's wrappers gives the definition's output in every mode that they take, reads no slot that the request does not own and writes exactly the call's.", _SM90_NIGHTLY),
    "attn.swa.loader": _layer("The sinks of sliding-window attention reach their heads through the loader, each rank's its own."),
    "attn.swa.refusals": _layer("What sliding-window attention cannot take is refused by name, with the backend's limit, before any kernel runs."),
    "attn.swa.strength": _layer("The tests of sliding-window attention find a gain of 0.02 % and a scaling off by 0.05 %, and a thousand right layers raise no alarm.", _NIGHTLY),
    "attn.swa.tensor_parallel": _layer("Sliding-window attention whose heads two processes share gives each rank's heads of the whole layer's output.", _SM90),
    "attn.swa.told": _layer("The tests of sliding-window attention name what a layer of any backend was told that the oracle was not: another window, page, mask, scale or length.", _SM90),
    "attn.swa.torch.decode.numerics": _layer("Sliding-window attention by plain torch gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", _SM90),
    "attn.swa.torch.draft.numerics": _layer("Sliding-window attention by plain torch gives the definition's output of chains and trees of draft tokens, reads no slot that the request does not own and writes exactly the call's.", _SM90),
    "attn.swa.torch.extend.numerics": _layer("Sliding-window attention by plain torch gives the definition's output of prompts behind cached prefixes, reads no slot that the request does not own and writes exactly the call's.", _SM90),
    "attn.swa.triton.decode.numerics": _layer("Sliding-window attention by our Triton kernels gives the definition's output of one new token a request, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.swa.triton.draft.numerics": _layer("Sliding-window attention by our Triton kernels gives the definition's output of chains and trees of draft tokens, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "attn.swa.triton.extend.numerics": _layer("Sliding-window attention by our Triton kernels gives the definition's output of prompts behind cached prefixes, reads no slot that the request does not own and writes exactly the call's.", _SM90_ONLY),
    "distributed.parallel_state": _layer("Process groups are set up once, without a launcher, and conflicting set-ups are refused."),
    "distributed.tensor_parallel.linear": _layer("Tensor-parallel linear layers over two processes give the unsharded checkpoint's product.", _SM90),
    "models.config": _layer("A config.json that no model here is is refused by the key's name, the value seen and the value wanted, before any weight is read."),
    "models.cuda_graph": _layer("A whole model's decode steps captured in a CUDA graph, and those of the module that drafts, give bit for bit what they give outside.", _SM90_ONLY),
    "models.deepseek.numerics": _layer("DeepSeek-V3 from a folder gives its reference's logits within what roundings explain, by prompts, chunks and steps; every tensor and setting has its say.", _SM90),
    "models.deepseek.quantised": _layer("DeepSeek-V3 in int8, fp8 and NVFP4 gives the logits of what its codes stand for, inputs quantised as the format says; a scale out of place shows.", _SM90),
    "models.draft.numerics": _layer("DeepSeek-V3's module that drafts tokens gives its reference's logits within what roundings explain; every tensor of it has its say.", _SM90),
    "models.faults": _layer("The tests of whole models catch planted faults of wiring: positions, heads, caches, residuals, norms, experts, windows."),
    "models.gpt_oss.mxfp4": _layer("gpt-oss with experts in MXFP4, stored as published, gives the logits of what its blocks and scales stand for.", _SM90),
    "models.gpt_oss.numerics": _layer("gpt-oss from a folder gives its reference's logits within what roundings explain, by prompts, chunks and steps; every tensor and setting has its say.", _SM90),
    "models.llama.numerics": _layer("Llama from a folder gives its reference's logits within what roundings explain, by prompts, chunks and steps; every tensor and setting has its say.", _SM90),
    "models.llama.quantised": _layer("Llama in each format of linear layers gives the logits of what its codes stand for, inputs quantised as the format says; a scale out of place shows.", _SM90),
    "models.loader": _layer("Each tensor of a folder that is missing, surplus or of another shape or dtype, and each file that is absent or damaged, is named before a weight is loaded, all in one error."),
    "models.norm": _layer("The root-mean-square norm, with the residual's sum before it, gives its definition's values, rounded once.", _SM90),
    "models.parallel": _layer("Two processes that share a model, its layers split and its experts split or shared, give one model's logits, both the same.", _SM90),
    "models.router": _layer("A router's logits stay in float32, and its correction bias is read by the experts after a reload too.", _SM90),
    "models.vocab": _layer("A token has its row of the embedding, and the head's logits are float32 sums that nothing rounds.", _SM90),
    "moe.expert_parallel": _layer("MoE layers whose experts two processes share, or whose every expert they split, give the whole layer's output.", _SM90),
    "moe.faults": _layer("The probes of MoE layers catch planted faults of scales, experts, shards, router and rounding, and name the place."),
    "moe.flashinfer.layouts": _layer("What post-load hands to FlashInfer's NVFP4 and MXFP4 MoE kernels of sm100 decodes to the checkpoint, as their sources read it."),
    "moe.fp8.faults": _layer("The fp8 MoE tests catch planted faults of experts, routing, weights and stages, and name the place."),
    "moe.fp8.numerics": _layer("fp8 MoE layers, per tensor, row and 128x128 block, give the checkpoint's output stage by stage and end to end.", _SM100),
    "moe.fp8.strength": _layer("The fp8 MoE tests find a bias of 0.02 % of the second product, 0.05 % of an expert, 0.1 % of a token and 0.5 % of a column, and a thousand right layers raise no alarm.", _NIGHTLY),
    "moe.inputs": _layer("A MoE layer takes any number of tokens, none included, and refuses inputs of another shape or dtype by name."),
    "moe.int8.faults": _layer("The int8 MoE tests catch planted faults of experts, routing, weights and stages, and name the place."),
    "moe.int8.numerics": _layer("int8 MoE layers, per channel and 128x128 block, give the checkpoint's output stage by stage and end to end.", _SM90),
    "moe.int8.strength": _layer("The int8 MoE tests find a bias of 0.02 % of the second product, 0.05 % of an expert, 0.1 % of a token and 0.5 % of a column, and a thousand right layers raise no alarm.", _NIGHTLY),
    "moe.loader": _layer("Every cell of every expert's tensors reaches its place in a MoE layer, whatever the checkpoint calls them.", _SM90),
    "moe.loader_errors": _layer("A wrong, extra, missing or twice loaded tensor of an expert is refused by name before any forward."),
    "moe.method_choice": _layer("A MoE layer's method follows from the checkpoint's config and the layer's prefix, and some experts are not ignored without the others."),
    "moe.mxfp4.faults": _layer("The MXFP4 MoE tests catch planted faults of experts, routing, weights and stages, and name the place."),
    "moe.mxfp4.numerics": _layer("MXFP4 MoE layers (gpt-oss) give the checkpoint's output stage by stage and end to end.", _SM100),
    "moe.mxfp4.strength": _layer("The MXFP4 MoE tests find a bias of 0.02 % of the second product, 0.05 % of an expert, 0.1 % of a token and 0.5 % of a column, and a thousand right layers raise no alarm.", _NIGHTLY),
    "moe.nan_rows": _layer("A NaN or an Inf in one token's activations or router logits stays in that token's output.", _SM90),
    "moe.nvfp4.faults": _layer("The NVFP4 MoE tests catch planted faults of experts, routing, weights and stages, and name the place."),
    "moe.nvfp4.numerics": _layer("NVFP4 MoE layers give the checkpoint's output stage by stage and end to end, with scales that differ by expert and shard.", _SM100),
    "moe.nvfp4.strength": _layer("The NVFP4 MoE tests find a bias of 0.02 % of the second product, 0.05 % of an expert, 0.1 % of a token and 0.5 % of a column, and a thousand right layers raise no alarm.", _NIGHTLY),
    "moe.routing": _layer("Experts are chosen and weighed by the declared rule: scoring, bias, groups, renormalising, shared experts, ties.", _SM90),
    "moe.sorted_pairs": _layer("Pairs of token and chosen expert are sorted into blocks of one expert each, none lost, whoever chose whom.", _SM90),
    "moe.unquantised.faults": _layer("The unquantised MoE tests catch planted faults of experts, routing, weights and stages, and name the place."),
    "moe.unquantised.numerics": _layer("Unquantised MoE layers give the checkpoint's output stage by stage and end to end.", _SM90),
    "moe.unquantised.strength": _layer("The unquantised MoE tests find a bias of 0.02 % of the second product, 0.05 % of an expert, 0.1 % of a token and 0.5 % of a column, and a thousand right layers raise no alarm.", _NIGHTLY),
    "moe.weight_reload": _layer("Loading other weights into a live MoE layer gives bit for bit what a fresh layer gives, and keeps no second copy."),
    "quant.fp8.encoder": _layer("The oracle's fp8 quantisers agree with sgl_kernel's: scales within two ulps, codes bit for bit off near ties.", _GPU_ONLY),
    "quant.fp8.linear.activations": _layer("fp8 activation quantisation, static, per token and per group of 128, follows the declared rule: half to even, saturating at 448.", _SM90),
    "quant.fp8.linear.faults": _layer("The fp8 (tensor, channel and block) linear tests catch planted faults of every kind, and name the place."),
    "quant.fp8.linear.loader": _layer("Every cell of an fp8 (tensor, channel and block) linear checkpoint reaches its place in the layer, with its shard's scales, fused or not.", _SM90),
    "quant.fp8.linear.nan_rows": _layer("In fp8 (tensor, channel and block) linear layers a NaN or Inf in one row of the activations spoils that row and no other, and no uninitialised memory reaches the output.", _SM90),
    "quant.fp8.linear.strength": _layer("The fp8 (tensor, channel and block) linear tests find a bias of 0.02 % of the output, 0.1 % of a row, 0.5 % of a column, 0.05 % of a tile and every wrong byte, and a thousand right layers raise no alarm."),
    "quant.fp8_block.linear.numerics": _layer("128x128-block fp8 linear layers give the checkpoint's product, rounded once, for every shape, layer kind and unequal shard scale.", _SM100),
    "quant.fp8_channel.linear.numerics": _layer("Per-channel fp8 linear layers give the checkpoint's product, rounded once, for every shape, layer kind and unequal shard scale.", _SM100),
    "quant.fp8_tensor.linear.numerics": _layer("Per-tensor fp8, static and dynamic, linear layers give the checkpoint's product, rounded once, for every shape, layer kind and unequal shard scale.", _SM100),
    "quant.int8.linear.activations": _layer("Dynamic int8 activation quantisation follows the declared rule: amax/127, half to even, clamped to 127.", _SM90),
    "quant.int8.linear.faults": _layer("The suite's checks catch planted faults of scales, rows, tiles, shards and rounding, and name the place.", _SM90),
    "quant.int8.linear.loader": _layer("Every cell of an int8 checkpoint reaches its place in the layer, fused or not.", _SM90),
    "quant.int8.linear.nan_rows": _layer("A NaN in one row of the activations stays in that row, and no uninitialised memory reaches the output.", _SM90),
    "quant.int8.linear.strength": _layer("The int8 linear tests find a bias of 0.02 % of the output, 0.1 % of a row, 0.5 % of a column, 0.05 % of a tile and every wrong byte, and a thousand right layers raise no alarm."),
    "quant.int8_block.linear.numerics": _layer("128x128-block int8 linear layers give the checkpoint's product, rounded once, for every shape, layer kind and shard.", _SM90),
    "quant.int8_channel.linear.numerics": _layer("Per-channel int8 linear layers give the checkpoint's product, rounded once, for every shape, layer kind and shard.", _SM90),
    "quant.linear.backend_choice": _layer("A kernel backend is chosen by capability, and one that cannot run names the device it needs.", _SM90),
    "quant.linear.dequantised_weight": _layer("A ready linear layer of any method gives its weight back by its values, each rounded once."),
    "quant.linear.loader_errors": _layer("A wrong, extra, missing or twice loaded checkpoint tensor is refused before any forward, by name.", _SM90),
    "quant.linear.method_choice": _layer("The quantisation method of a layer follows from its prefix, ignored layers and packed modules."),
    "quant.memory": _layer("After post-load a linear layer holds its checkpoint's bytes and scales in the kernel's form, and no wider copy of a weight.", _SM90),
    "quant.mx.encoder": _layer("The oracle's MXFP8 and MXFP4 encoders agree bit for bit with FlashInfer's, off near ties of the scale.", _GPU_ONLY),
    "quant.mxfp4.linear.activations": _layer("MXFP4 activation quantisation follows the declared rule: blocks of 32, the power of two rounded down, half to even, saturating at 6.", _SM100),
    "quant.mxfp4.linear.faults": _layer("The MXFP4 linear tests catch planted faults of every kind, and name the place."),
    "quant.mxfp4.linear.loader": _layer("Every cell of an MXFP4 linear checkpoint reaches its place in the layer, with its shard's scales, fused or not.", _SM100),
    "quant.mxfp4.linear.nan_rows": _layer("In MXFP4 linear layers a NaN or Inf in one row of the activations spoils that row and no other, and no uninitialised memory reaches the output.", _SM100),
    "quant.mxfp4.linear.numerics": _layer("MXFP4, weight-only and W4A4, linear layers give the checkpoint's product, rounded once, for every shape, layer kind and unequal shard scale.", _SM100),
    "quant.mxfp4.linear.strength": _layer("The MXFP4 linear tests find a bias of 0.02 % of the output, 0.1 % of a row, 0.5 % of a column, 0.05 % of a tile and every wrong byte, and a thousand right layers raise no alarm."),
    "quant.mxfp8.linear.activations": _layer("MXFP8 activation quantisation follows the declared rule: blocks of 32, the power of two rounded up, half to even.", _SM100),
    "quant.mxfp8.linear.faults": _layer("The MXFP8 linear tests catch planted faults of every kind, and name the place."),
    "quant.mxfp8.linear.loader": _layer("Every cell of an MXFP8 linear checkpoint reaches its place in the layer, with its shard's scales, fused or not.", _SM100),
    "quant.mxfp8.linear.nan_rows": _layer("In MXFP8 linear layers a NaN or Inf in one row of the activations spoils that row and no other, and no uninitialised memory reaches the output.", _SM100),
    "quant.mxfp8.linear.numerics": _layer("MXFP8 linear layers give the checkpoint's product, rounded once, for every shape, layer kind and unequal shard scale.", _SM100),
    "quant.mxfp8.linear.strength": _layer("The MXFP8 linear tests find a bias of 0.02 % of the output, 0.1 % of a row, 0.5 % of a column, 0.05 % of a tile and every wrong byte, and a thousand right layers raise no alarm."),
    "quant.nvfp4.encoder": _layer("The oracle's NVFP4 encoder and swizzle agree bit for bit with FlashInfer's, off near ties of code and block scale.", _GPU_ONLY),
    "quant.nvfp4.linear.activations": _layer("NVFP4 activation quantisation follows the declared rule: blocks of 16 under an e4m3 scale and the largest input scale of the shards.", _SM100),
    "quant.nvfp4.linear.faults": _layer("The NVFP4 linear tests catch planted faults of every kind, swizzle and fold among them, and name the place."),
    "quant.nvfp4.linear.loader": _layer("Every cell of an NVFP4 linear checkpoint reaches its place in the layer, with its shard's scales, fused or not.", _SM100),
    "quant.nvfp4.linear.nan_rows": _layer("In NVFP4 linear layers a NaN or Inf in one row of the activations spoils that row and no other, and no uninitialised memory reaches the output.", _SM100),
    "quant.nvfp4.linear.numerics": _layer("NVFP4 linear layers give the checkpoint's product, rounded once, for every shape, layer kind and unequal shard scale.", _SM100),
    "quant.nvfp4.linear.strength": _layer("The NVFP4 linear tests find a bias of 0.02 % of the output, 0.1 % of a row, 0.5 % of a column, 0.05 % of a tile and every wrong byte, and a thousand right layers raise no alarm."),
    "quant.unquantised.linear.numerics": _layer("Unquantised bf16 and fp16 linear layers give the checkpoint's product, rounded once.", _SM90),
    "quant.weight_reload": _layer("A second checkpoint loaded into a live linear layer leaves what a fresh layer holds and gives, bit for bit, for every method and backend.", _SM90),
    "serving.dense.accuracy": _e2e("A server of a trained dense model answers problems of known answers as often as its reference does, streamed and not."),
    "serving.faults": _e2e("Each planted fault of kernels, loader, scheduler, detokenizer and verification fails each smoke that it should.", _NIGHTLY),
    "serving.gpt_oss.accuracy": _e2e("A server of a trained model with sinks, windows and MXFP4 experts answers problems of known answers as often as its reference does."),
    "serving.gpt_oss_bf16.accuracy": _e2e("A server of a trained model with sinks, windows and bf16 experts answers problems of known answers as often as its reference does.", ["cpu:labelled"]),
    "serving.latency": _perf("A request through the whole server takes as much longer than a bare loop over its model as it did in recorded runs, and no more."),
    "serving.mla_int8.accuracy": _e2e("A server of a trained MLA model with experts in per-channel int8, speculating by its own drafts, answers problems of known answers as often as its reference does."),
    "serving.mtp.accept_length": _e2e("Drafts of a trained multi-token prediction module are accepted as often as its reference's, in per-channel int8."),
    "serving.offline_throughput": _perf("The engine without a server takes as much longer than a bare loop over its model as it did in recorded runs, and no more."),
    "serving.openai_client": _e2e("OpenAI's own client completes, chats, streams, stops, draws by seed, reads logprobs and gets its own errors."),
    "serving.streaming.unicode": _e2e("Streamed text is the unstreamed text, and no part of it ends within a character."),
    "serving.tensor_parallel.accuracy": _e2e("A server of two ranks that split attention and share out experts answers as one would."),
    "serving.tokenizer_workers.latency": _e2e("With eight tokenizers and four detokenizers, first tokens and gaps under 100 requests take as much longer than a bare loop as they did in recorded runs, and no more."),
}
