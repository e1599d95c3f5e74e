"""The nodes of a cluster: an address each, with a connection that is made on first use."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc

from . import _v1
from .errors import Invalid

_Q = TypeVar("_Q", bound="_v1.Message")
_M = TypeVar("_M", bound="_v1.Message")

# An access token, or a function that returns it at each call.
TokenSource = str | Callable[[], str]

_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_receive_message_length", 4 << 20),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # The minimum time of an attempt to connect, despite the option's name.
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.enable_retries", 0),
)


@dataclass(frozen=True)
class TLS:
    """Encrypts connections: names of files in PEM, or their content.

    ``ca`` are the authorities for the nodes' certificates, by default the system's; ``cert`` and
    ``key`` are the client's own certificate.
    """

    ca: str | bytes | None = None
    cert: str | bytes | None = None
    key: str | bytes | None = field(default=None, repr=False)

    def credentials(self) -> grpc.ChannelCredentials:
        """Return credentials for gRPC; a file that cannot be read is an error."""
        if (self.cert is None) != (self.key is None):
            raise Invalid("a certificate and its key belong together: give both", subject="tls")
        return grpc.ssl_channel_credentials(
            _pem(self.ca, "ca"), _pem(self.key, "key"), _pem(self.cert, "cert")
        )


_TOKEN_FILE_MOST = 128


class TokenFile:
    """The access token in a file, read again when the file changes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._token = ""

    def __call__(self) -> str:
        """Return the token; the previous one if the file cannot be read now."""
        try:
            info = os.stat(self._path)
            stamp = (info.st_size, info.st_mtime_ns)
            if stamp != self._stamp:
                self._token, self._stamp = self._read(), stamp
        except (OSError, Invalid):
            if self._stamp is None:
                raise
        return self._token

    def _read(self) -> str:
        with open(self._path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            if os.name == "posix" and mode & 0o027:
                raise Invalid(
                    f"{self._path} holds a secret, and its mode {mode:04o} opens it to others: "
                    f"run chmod 600 {self._path}",
                    subject="token",
                )
            text = file.read(_TOKEN_FILE_MOST + 1)
        if len(text) > _TOKEN_FILE_MOST:
            raise Invalid(f"{self._path} has more than {_TOKEN_FILE_MOST} bytes", subject="token")
        return text.decode("ascii", "replace").strip()


def _pem(source: str | bytes | None, what: str) -> bytes | None:
    if source is None:
        return None
    if isinstance(source, str):
        try:
            source = Path(source).read_bytes()
        except OSError as e:
            raise Invalid(f"the {what} cannot be used: {e}", subject="tls") from e
    if b"-----BEGIN" not in source:
        raise Invalid(f"the {what} has nothing in PEM", subject="tls")
    return source


class Node:
    """One address with its connection."""

    def __init__(self, address: str, tls: TLS | None, token: TokenSource | None) -> None:
        self.address = address
        socket = address.startswith("unix:")
        if not socket:
            _check(address)
        self._token = None if socket else token
        if self._token is not None:
            if tls is None and not _loopback(address):
                raise Invalid(
                    f"the token would go to {address} in clear text: set up TLS, or use an "
                    "address of loopback",
                    subject="token",
                )
            self.metadata()  # an invalid token is rejected here
        options = list(_OPTIONS)
        if _loopback(address):
            options.append(("grpc.enable_http_proxy", 0))
        if tls is None or socket:
            self.channel = grpc.insecure_channel(address, options=options)
        else:
            self.channel = grpc.secure_channel(address, tls.credentials(), options=options)
        self._calls: dict[str, Any] = {}

    def metadata(self) -> Sequence[tuple[str, str]]:
        """Return the metadata of each call."""
        if self._token is None:
            return ()
        token = self._token if isinstance(self._token, str) else self._token()
        if not token.startswith("rota_") or not token.isascii() or not token.isprintable():
            raise Invalid(
                "token: not an access token; use one of the form rota_ID_SECRET", subject="token"
            )
        return (("authorization", "Bearer " + token),)

    def unary(self, m: _v1.Method[_Q, _M]) -> Any:
        """Return the callable of a call with one answer."""
        call = self._calls.get(m.path)
        if call is None:
            call = self._calls[m.path] = self.channel.unary_unary(
                m.path, m.request.SerializeToString, m.response.FromString
            )
        return call

    def answers(self, m: _v1.Method[_Q, _M]) -> Any:
        """Return the callable of a call with many answers."""
        return self.channel.unary_stream(m.path, m.request.SerializeToString, m.response.FromString)

    def requests(self, m: _v1.Method[_Q, _M]) -> Any:
        """Return the callable of a call with many requests."""
        return self.channel.stream_unary(m.path, m.request.SerializeToString, m.response.FromString)

    def both(self, m: _v1.Method[_Q, _M]) -> Any:
        """Return the callable of a call in which both sides stream."""
        return self.channel.stream_stream(
            m.path, m.request.SerializeToString, m.response.FromString
        )


def _check(address: str) -> None:
    host, colon, port = address.rpartition(":")
    bare = ":" not in host or (host.startswith("[") and host.endswith("]"))
    if not colon or not host or not bare or not port.isdigit() or int(port) > 65535:
        raise Invalid(f"addr: got {address!r}; use host:port", subject="addr")


def _loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def nodes_of(addrs: str | Sequence[str], tls: TLS | None, token: TokenSource | None) -> list[Node]:
    """Return the nodes of addresses, or of a string of addresses separated by commas."""
    parts = addrs.split(",") if isinstance(addrs, str) else addrs
    unique = list(dict.fromkeys(a.strip() for a in parts if a.strip()))
    if not unique:
        raise Invalid("no node address given: pass at least one host:port", subject="addr")
    return [Node(a, tls, token) for a in unique]
