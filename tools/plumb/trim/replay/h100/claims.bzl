"""What the replayed tests vouch for."""

_PER_COMMIT = ["sm90:per-commit"]

def _e2e(sentence):
    return struct(demands = _PER_COMMIT, level = "e2e", sentence = sentence)

def _layer(sentence, demands = _PER_COMMIT):
    return struct(demands = demands, level = "layer", sentence = sentence)

CLAIMS = {
    "attn.dense.triton.numerics": _layer("Dense attention of the triton backend gives the reference's output."),
    "attn.gdn.triton.numerics": _layer("Gated delta rule of the triton backend gives the reference's output."),
    "attn.mla.flashinfer.numerics": _layer("Latent attention of the flashinfer backend gives the reference's output."),
    "attn.mla.flashmla.numerics": _layer("Latent attention of the flashmla backend gives the reference's output."),
    "attn.swa.triton.numerics": _layer("Sliding-window attention of the triton backend gives the reference's output."),
    "attn.triton.accuracy.mmlu": _e2e("A model served with the triton backend scores at least 0.65 in MMLU."),
    "attn.triton.throughput": _e2e("A model served with the triton backend yields more than 153 tokens a second offline."),
    "mla.mtp.accuracy.gsm8k": _e2e("A latent-attention model with multi-token prediction scores more than 0.60 in gsm8k."),
    "mla.mtp.accept_length": _e2e("A latent-attention model with multi-token prediction accepts more than 2.4 tokens a step."),
    "mla.mtp.accept_length.flashinfer": _e2e("With flashinfer and EAGLE more than 2.5 tokens a step are accepted."),
    "models.gpt_oss_120b.accuracy": _e2e("gpt-oss 120B on four GPUs answers as well as its card says."),
    "models.gpt_oss_120b.bf16_upcast": _e2e("gpt-oss 120B runs with its MXFP4 weights upcast to bf16."),
    "models.gpt_oss_120b.mxfp4": _e2e("gpt-oss 120B runs with its weights in MXFP4, as its checkpoint is."),
    "quant.int8.linear.numerics": _layer(
        "Channel and block int8 linear layers give the dequantised reference's product.",
        demands = [
            "sm100:per-commit",
            "sm90:per-commit",
        ],
    ),
    "quant.int8_channel.serving": _e2e("A DeepSeek-V3 checkpoint of channel int8 is served with multi-token prediction."),
    "serving.detokenizer_workers": _e2e("With four detokenizer workers the first token comes in time."),
    "serving.throughput": struct(
        demands = ["sm90:labelled"],
        level = "e2e",
        sentence = "The default backend on one GPU yields more than 3000 tokens a second offline.",
    ),
    "serving.tokenizer_workers": _e2e("With eight tokenizer workers the first token comes in time."),
}
