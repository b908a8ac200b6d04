"""What stands before the server: its numbers for Prometheus, and the door that counts them."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from .. import web
from ..door import Doorkeeper, Refused, crowded
from .chat import Limits, UnknownModel
from .engine import Closed, Engine, Full

CHAT = "/v1/chat/completions"
TOKENS = "/v1/tokens"

Refused.KINDS |= {
    Full: lambda error: crowded(error.seconds),
    Closed: lambda error: Refused(503, "this server is ending"),
    UnknownModel: lambda error: Refused(404, str(error), no_model=True),
}


class Metrics:
    """Counters of one server; no picture and no word is in them."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        counter, histogram = partial(Counter, registry=self.registry), partial(Histogram, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self.requests = counter("arr_coc_requests_total", "Chat completions by status.", ["status"])
        self.visual = counter("arr_coc_visual_tokens_total", "Visual tokens: spent, and of whole pictures.", ["kind"])
        self.said = counter("arr_coc_completion_tokens_total", "Tokens of answers.")
        self.seconds = histogram("arr_coc_request_seconds", "From arrival to the last byte.")
        self.batches = histogram("arr_coc_batch_size", "Requests of a batch.", buckets=(1, 2, 4, 8, 16, 32))
        self.batch_seconds = histogram("arr_coc_batch_seconds", "Seconds of a batch.")
        gauge("arr_coc_waiting", "Requests in the queue.").set_function(lambda: engine.waiting)
        kept = engine.eye.memory
        gauge("arr_coc_kept_bytes", "Kept of pictures for their next questions.").set_function(lambda: kept.size)
        gauge("arr_coc_kept_hits", "Times that something kept was used.").set_function(lambda: kept.hits)

    def batch(self, size: int, seconds: float) -> None:
        self.batches.observe(size)
        self.batch_seconds.observe(seconds)


class Guard(Doorkeeper):
    """The door of `arr-coc serve`, which counts chat completions."""

    def __init__(
        self,
        application: web.Application,
        host: str,
        key: str | None,
        limits: Limits,
        metrics: Metrics,
        origins: web.Origins,
    ) -> None:
        super().__init__(application, host, key, limits, origins)
        self.metrics = metrics

    def observe(self, path: str, status: int, seconds: float) -> None:
        if path == CHAT:
            self.metrics.requests.labels(str(status)).inc()
            self.metrics.seconds.observe(seconds)
