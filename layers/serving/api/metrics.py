"""What Prometheus is told."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from layers.serving.messages import Stats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LENGTHS = tuple(range(1, 17))


class Metrics:
    """Counters, gauges and histograms of one server; all begin with `plumbline_`."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = self._counter(
            "requests", "HTTP requests answered, by endpoint and status", ["endpoint", "status"]
        )
        self.prompt_tokens = self._counter("prompt_tokens", "Tokens of prompts taken")
        self.generated_tokens = self._counter("generated_tokens", "Tokens generated and shown")
        self.prefix_hits = self._counter(
            "prefix_hit_tokens", "Tokens of prompts that were in the cache already"
        )
        self.preemptions = self._counter(
            "preemptions", "Texts put back into the queue because pages ran out"
        )
        self.drafted = self._counter("speculative_drafted_tokens", "Drafts verified")
        self.accepted = self._counter("speculative_accepted_tokens", "Drafts that were right")
        self.late_kernels = self._counter(
            "late_kernels", "Triton kernels that a rank compiled or loaded after the ready line"
        )
        self.in_flight = self._gauge("requests_in_flight", "Texts taken and not yet finished")
        self.running = self._gauge("scheduler_running", "Texts that steps compute")
        self.waiting = self._gauge("scheduler_waiting", "Texts in the queue")
        self.pages_total = self._gauge("kv_pages_total", "Pages of the KV cache")
        self.pages_used = self._gauge("kv_pages_used", "Pages held by texts in the making")
        self.pages_cached = self._gauge("kv_pages_cached", "Pages kept as prefixes, used by none")
        self.first_token = self._histogram(
            "time_to_first_token_seconds", "From the request to its first text", _SECONDS
        )
        self.inter_token = self._histogram(
            "inter_token_seconds", "Between one step's tokens and the next, a token", _SECONDS
        )
        self.seconds = self._histogram(
            "request_seconds", "From a request to its answer's end", _SECONDS
        )
        self.accept_length = self._histogram(
            "speculative_accept_length", "Tokens that a verification gave: drafts and one", _LENGTHS
        )

    def take(self, stats: Stats) -> None:
        """Takes over what the scheduler tells."""
        self.running.set(stats.running)
        self.waiting.set(stats.waiting)
        self.pages_total.set(stats.pages_total)
        self.pages_used.set(stats.pages_used)
        self.pages_cached.set(stats.pages_cached)
        self.prefix_hits.inc(stats.prefix_hit_tokens)
        self.preemptions.inc(stats.preemptions)
        self.drafted.inc(stats.drafted)
        self.accepted.inc(stats.accepted)
        for length in stats.accept_lengths:
            self.accept_length.observe(length)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)

    def _counter(self, name: str, what: str, labels: list[str] | None = None) -> Counter:
        return Counter(f"plumbline_{name}", what, labels or [], registry=self._registry)

    def _gauge(self, name: str, what: str) -> Gauge:
        return Gauge(f"plumbline_{name}", what, registry=self._registry)

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"plumbline_{name}", what, buckets=buckets, registry=self._registry)
