"""Trace context in the headers of jobs, where opentelemetry-api is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from .spec import JobSpec

try:
    from opentelemetry import propagate, trace

    INSTALLED = True
except ImportError:
    INSTALLED = False

# The maximum size of all headers of a job, in bytes.
_MOST = 2 << 10


def inject(spec: JobSpec) -> JobSpec:
    """Return the job with the context that it is submitted in."""
    if not INSTALLED:
        return spec
    headers: dict[str, str] = {}
    propagate.inject(headers)
    if not headers:
        return spec
    all_ = {**headers, **spec.headers}
    if "baggage" not in spec.headers and _size(all_) > _MOST:
        all_.pop("baggage", None)  # a submission without baggage is better than a refused one
    return replace(spec, headers=all_)


def _size(headers: Mapping[str, str]) -> int:
    return sum(len(k) + len(v.encode()) for k, v in headers.items())


def submission(types: Sequence[str]) -> AbstractContextManager[Any]:
    """Return the span of a submission."""
    if not INSTALLED:
        return nullcontext()
    name = types[0] if len(set(types)) == 1 else f"{len(types)} jobs"
    return trace.get_tracer("rota").start_as_current_span(
        f"submit {name}",
        kind=trace.SpanKind.PRODUCER,
        attributes={"messaging.system": "rota", "messaging.batch.message_count": len(types)},
    )


def attempt(job_type: str, job: str, headers: Mapping[str, str]) -> AbstractContextManager[Any]:
    """Return the span of an attempt, linked to the submission: it may run days later."""
    if not INSTALLED:
        return nullcontext()
    parent = trace.get_current_span(propagate.extract(headers)).get_span_context()
    links = [trace.Link(parent)] if parent.is_valid else []
    return trace.get_tracer("rota").start_as_current_span(
        f"attempt {job_type}",
        kind=trace.SpanKind.CONSUMER,
        links=links,
        attributes={"messaging.system": "rota", "messaging.message.id": job},
    )
