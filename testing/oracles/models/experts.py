"""DeepSeek-V3's mixture of experts (arXiv 2412.19437, section 2.1.2)."""

import torch

from testing.oracles.models.parts import MLP, Config, Stored


class Gate(torch.nn.Module):  # type: ignore[misc]
    """Sigmoid affinities; the bias, which no gradient moves, has a say in the choice alone."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        experts = config["n_routed_experts"]
        self.weight = torch.nn.Parameter(torch.empty(experts, config["hidden_size"]))
        self.e_score_correction_bias = torch.nn.Parameter(torch.zeros(experts), requires_grad=False)
        self.config = config
        self.counts = torch.zeros(experts, dtype=torch.int64)
        # (tokens, k) of another's choice, for a test that compares what follows from it.
        self.forced: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x (tokens, hidden) -> weights and experts chosen, (tokens, k) each."""
        scores = self.scores(x)
        chosen = self.forced if self.forced is not None else self.choose(scores)
        self.counts = torch.bincount(chosen.flatten(), minlength=scores.shape[1])
        weights = scores.gather(1, chosen)
        if self.config["norm_topk_prob"]:
            weights = weights / weights.sum(dim=1, keepdim=True)
        return weights * self.config["routed_scaling_factor"], chosen

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """x (tokens, hidden) -> affinities (tokens, experts)."""
        return torch.sigmoid(x @ self.weight.t())

    def choose(self, scores: torch.Tensor) -> torch.Tensor:
        """The k best by affinity and bias, within the groups whose two best add up to most."""
        groups, k = self.config["n_group"], self.config["num_experts_per_tok"]
        biased = scores.detach() + self.e_score_correction_bias
        by_group = biased.unflatten(1, (groups, -1))
        best = by_group.topk(min(2, by_group.shape[2]), dim=2).values.sum(dim=2)
        kept = torch.zeros_like(best, dtype=torch.bool)
        kept.scatter_(1, best.topk(self.config["topk_group"], dim=1).indices, True)
        among = by_group.masked_fill(~kept[:, :, None], -torch.inf).flatten(1)
        return among.topk(k, dim=1).indices


class SparseMLP(torch.nn.Module):  # type: ignore[misc]
    """The k chosen of the routed experts by their weights, and the shared experts with weight 1."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden, size = config["hidden_size"], config["moe_intermediate_size"]
        self.gate = Gate(config)
        self.experts = torch.nn.ModuleList(
            MLP(hidden, size, is_expert=True) for _ in range(config["n_routed_experts"])
        )
        self.shared = config.get("n_shared_experts") or 0
        if self.shared:
            self.shared_experts = MLP(hidden, size * self.shared)
        self.routed = Stored(is_sum=True)
        self.out = Stored()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (B, T, hidden) -> the same shape."""
        rows = x.flatten(0, -2)
        weights, chosen = self.gate(rows)
        out = torch.zeros_like(rows)
        for index, expert in enumerate(self.experts):
            token, choice = (chosen == index).nonzero(as_tuple=True)
            out = out.index_add(0, token, expert(rows[token]) * weights[token, choice, None])
        out = self.routed(out)
        if self.shared:
            out = self.out(out + self.shared_experts(rows))
        return out.view_as(x)

    def balance(self, rate: float) -> None:
        """After a step of training: raises the bias of experts that got few tokens, lowers others'.

        Section 2.1.2, "auxiliary-loss-free load balancing".
        """
        counts = self.gate.counts.double()
        step = rate * torch.sign(counts.mean() - counts)
        with torch.no_grad():
            self.gate.e_score_correction_bias += step.to(self.gate.e_score_correction_bias)
