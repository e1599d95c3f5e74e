"""Converts gRPC errors to errors of rota."""

from __future__ import annotations

import re

import grpc

from . import _v1
from .errors import Internal, RotaError, of_kind

_BY_CODE = {
    grpc.StatusCode.INVALID_ARGUMENT: "INVALID",
    grpc.StatusCode.UNIMPLEMENTED: "INVALID",
    grpc.StatusCode.NOT_FOUND: "NOT_FOUND",
    grpc.StatusCode.ALREADY_EXISTS: "CONFLICT",
    grpc.StatusCode.ABORTED: "STALE",
    grpc.StatusCode.FAILED_PRECONDITION: "MODE",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "EXHAUSTED",
    grpc.StatusCode.UNAVAILABLE: "UNAVAILABLE",
    grpc.StatusCode.DEADLINE_EXCEEDED: "TIMEOUT",
    # This library never cancels a call whose end it looks at: the other end reset it.
    grpc.StatusCode.CANCELLED: "UNAVAILABLE",
    # Without a kind set by a node, gRPC or a proxy on the way interrupted the call.
    grpc.StatusCode.INTERNAL: "UNAVAILABLE",
    grpc.StatusCode.UNKNOWN: "UNAVAILABLE",
    grpc.StatusCode.OUT_OF_RANGE: "OUT_OF_RANGE",
    grpc.StatusCode.PERMISSION_DENIED: "DENIED",
    grpc.StatusCode.UNAUTHENTICATED: "UNAUTHENTICATED",
}

_DETAILS = "grpc-status-details-bin"


def from_rpc(err: grpc.RpcError) -> RotaError:
    """Return the error that a node sent, or one whose kind tells what to do."""
    if not isinstance(err, grpc.Call):
        return Internal(str(err))
    code, text = err.code(), err.details() or ""
    kind = _BY_CODE.get(code, "INTERNAL")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
        kind = "INVALID"  # the library's own refusal of a message: waiting does not help
    if code is grpc.StatusCode.UNAVAILABLE:  # the system's text is enough
        text = re.sub(r"^failed to connect to all addresses; last error: \w+: ", "", text)
    op = subject = ""
    after = 0.0
    for key, value in err.trailing_metadata() or ():
        if key != _DETAILS or not isinstance(value, bytes):
            continue
        for detail in _v1.RpcStatus.FromString(value).details:
            name = detail.type_url.rpartition("/")[2]
            if name == "google.rpc.ErrorInfo":
                info = _v1.ErrorInfo.FromString(detail.value)
                if info.domain == "rota":
                    kind = info.reason
                    subject, op = info.metadata.get("subject", ""), info.metadata.get("op", "")
            elif name == "google.rpc.RetryInfo":
                delay = _v1.RetryInfo.FromString(detail.value).retry_delay
                after = max(0.0, delay.seconds + delay.nanos / 1e9)
    return of_kind(kind, text, op=op, subject=subject, retry_after=after)


def from_refusal(r: _v1.Refusal) -> RotaError:
    """Return the error of one item of a batch."""
    return of_kind(r.kind, r.text, op=r.op, subject=r.subject, retry_after=r.retry_after_ms / 1000)


def during(op: str, e: RotaError) -> RotaError:
    """Add the name of the call to an error, unless it has one."""
    if not e.op:
        e.op = op
    return e
