"""A worker's stream to a node, maintained by separate threads."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from . import _v1
from ._calls import Caller, retry_delay
from ._leases import WorkerEvent
from ._nodes import Node
from ._table import Table
from ._view import BEAT_EVERY, FAR_FUTURE, now
from .errors import (
    Conflict,
    Denied,
    Internal,
    Invalid,
    RotaError,
    Stale,
    Unauthenticated,
    Unavailable,
)

log = logging.getLogger("rota.worker")

_WELCOME_MOST = 5.0


class Hello:
    """The first message of a worker on each connection."""

    def __init__(self, spec: _v1.WorkerSpec, secret: bytes, takeover: bool, old: bytes) -> None:
        self.spec = spec
        self.secret = secret
        self.takeover = takeover
        self.old = old
        self._connection = 0

    def next(self) -> _v1.Hello:
        """Number the next connection: from the time of day on, larger than earlier ones."""
        self._connection = max(self._connection + 1, time.time_ns() // 1000)
        return _v1.Hello(
            worker=self.spec, secret=self.secret, takeover=self.takeover,
            connection=self._connection, grace=True,
            old_secret=self.old if self.takeover else b"",
        )  # fmt: skip

    def skip(self, tries: int) -> None:
        """Skip ahead: the time of day went back between two processes."""
        self._connection += 1 << min(20 + 4 * tries, 60)


class _Stream:
    """One connection. gRPC's thread sends, the caller of serve receives."""

    def __init__(self, table: Table, node: Node, hello: Hello) -> None:
        self.table = table
        self.node = node
        self._hello = hello
        self._call: Any = None
        self._over = False
        self._why: str | None = None
        self.welcomed = False
        self.healthy = False
        self.session = 0
        self.name = ""
        self._shown = node.metadata()

    def _end(self, why: str) -> None:
        self._why = self._why or why
        self._call.cancel()

    def abort(self) -> None:
        """End it from another thread."""
        if self._call is not None:
            self._end("the worker ends")

    def serve(self, connected: Callable[[_Stream], None]) -> None:
        """Work until the stream breaks, which raises, or return after the Bye."""
        late = threading.Timer(_WELCOME_MOST, lambda: self._end("no welcome came in time"))
        late.daemon = True
        self._call = self.node.both(_v1.WORKERS_WORK)(
            self._requests(), metadata=self._shown, wait_for_ready=False
        )
        late.start()
        try:
            for w in self._call:
                if not self.welcomed:
                    late.cancel()
                    self._welcome(w)
                    connected(self)
                    continue
                self._take(w)
            if self.table.farewell:
                return
            raise Unavailable("the node ended the stream")
        except grpc.RpcError:
            if self._why is not None:
                raise Unavailable(self._why) from None
            raise
        finally:
            late.cancel()
            self._over = True
            self._call.cancel()
            with self.table.lock:
                self.table.send_wake.notify_all()

    def _welcome(self, w: _v1.WorkResponse) -> None:
        if w.WhichOneof("message") != "welcome":
            raise Internal("the node's first message is no welcome")
        self.name, self.session = w.welcome.node, w.welcome.session
        self.table.welcome(self.session)
        self.welcomed = True
        with self.table.lock:
            self.table.send_wake.notify_all()

    def _take(self, w: _v1.WorkResponse) -> None:
        """Handle one message; one that is unknown to this version is ignored."""
        kind = w.WhichOneof("message")
        if kind == "notices":
            self.table.notice(w.notices)
        elif kind == "answers":
            self.table.answered(w.answers)
        elif kind == "beat":
            if self.table.beat(w.beat):
                self.healthy = True
        elif kind == "heard":
            self.table.heard(w.heard.sequence)

    def _requests(self) -> Iterator[_v1.WorkRequest]:
        """Yield what is to be sent: beats first, then commands, then the Bye."""
        table = self.table
        yield _v1.WorkRequest(hello=self._hello.next())
        with table.lock:
            while not self.welcomed:
                if self._over:
                    return
                table.send_wake.wait(1.0)
        table.begin_beats()
        while not self._over:
            moment = now()
            with table.lock:
                due, unheard = moment >= table.beat_due(), moment >= table.unheard_at()
            if due:
                if self.node.metadata() != self._shown:
                    self._end("the access token was replaced")
                    return
                beat = table.beat_sent(moment)
                if beat is None:
                    self._end("the node answers no beat")
                    return
                yield _v1.WorkRequest(beat=beat)
                continue  # it may have taken long
            if unheard:
                self._end("the node answers no beat")
                return
            with table.lock:
                request, at = table.out.next(now())
                if request is None:
                    if table.farewell and table.out.empty():
                        request = _v1.WorkRequest(bye=_v1.Bye())
                        at = -1.0
                    else:
                        next_beat = min(table.beat_due(), table.unheard_at())
                        until = min(next_beat, FAR_FUTURE if at is None else at)
                        # A wait may not count the time that the machine was suspended.
                        table.send_wake.wait(max(0.0, min(until - now(), BEAT_EVERY)))
            if request is not None:
                yield request
                if at == -1.0:
                    return


class Link:
    """Keeps one stream to one node, and moves to another when it breaks."""

    def __init__(
        self,
        caller: Caller,
        table: Table,
        hello: Hello,
        tell: Callable[[WorkerEvent], None],
        ended: Callable[[RotaError | None], None],
        retry_refused: bool,
    ) -> None:
        self._caller = caller
        self._retry_refused = retry_refused
        self.taken = False
        self._table = table
        self._hello = hello
        self._tell = tell
        self._ended = ended
        self._stop = threading.Event()
        self._stream: _Stream | None = None
        self._watching = True
        self._threads = [
            threading.Thread(target=self._connect, name="rota-link", daemon=True),
            threading.Thread(target=self._watch, name="rota-watch", daemon=True),
        ]
        self.pulse: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start."""
        for t in self._threads:
            t.start()

    def stop(self) -> None:
        """Stop, without sending what is left."""
        self._stop.set()
        stream = self._stream
        if stream is not None:
            stream.abort()
        with self._table.lock:
            self._watching = False
            self._table.watch_wake.notify_all()

    def join(self, timeout: float) -> None:
        """Wait for the threads."""
        for t in self._threads:
            t.join(timeout)

    def _watch(self) -> None:
        """End leases and renew them in time, independently of the handlers."""
        table = self._table
        while self._watching:
            at = table.tick()
            self.pulse()
            with table.lock:
                if self._watching:
                    table.watch_wake.wait(max(0.0, min(at - now(), 5.0)))

    def _connect(self) -> None:
        try:
            self._ended(self._run())
        except Exception as e:  # a bug of this library must not leave run waiting
            log.exception("the worker's connection failed")
            self._ended(Internal(f"the worker's connection failed: {e!r}"))

    def _connected(self, s: _Stream) -> None:
        self.taken = True  # until the cluster refuses the worker
        log.info("connected to %s (node %s)", s.node.address, s.name)
        self._tell(WorkerEvent("connected", node=s.name))

    def _run(self) -> RotaError | None:
        """Return None after the Bye, or an error that another try would not fix."""
        nodes = self._caller.nodes
        at = random.randrange(len(nodes))  # workers spread over the nodes
        told: set[tuple[str, str, str]] = set()
        tries = 0
        while True:
            node = nodes[at % len(nodes)]
            err: RotaError | grpc.RpcError
            s = self._stream = _Stream(self._table, node, self._hello)
            try:
                if self._stop.is_set():
                    return None
                s.serve(self._connected)
                return None
            except (grpc.RpcError, RotaError) as failed:
                err = failed
            finally:
                self._table.broken()
            if self._stop.is_set():
                return None
            if self._caller.closed:
                return Unavailable("the client is closed", op="work")
            e = self._caller.judge(node, err, False)
            if s.welcomed:
                # After the takeover the id belongs to this process; a later takeover by another is
                # final.
                self._hello.takeover = False
                told.clear()
                self._tell(WorkerEvent("disconnected", node=s.name, error=e))
            if isinstance(e, Stale) and e.subject == "connection" and not s.welcomed:
                self._hello.skip(tries)
            elif _refuses(e, s.welcomed):
                if not self._retry_refused or isinstance(e, Stale):
                    e.op = e.op or "work"
                    return e
                self.taken = False
            log.info("connection to %s lost, going on elsewhere: %s", node.address, e)
            failure = (node.address, e.kind, e.subject)
            if not s.welcomed and failure not in told:
                told.add(failure)
                log.warning("the worker is not taken yet: %s", e)
                self._tell(WorkerEvent("turned_away", node=node.address, error=e))
            if s.healthy:
                tries = 0
            at += 1
            # The first other node is tried at once; after that the pauses grow.
            if (tries > 0 or len(nodes) == 1) and self._stop.wait(
                retry_delay(tries, min(e.retry_after, 1.0))
            ):
                return None
            tries += 1


def _refuses(e: RotaError, welcomed: bool) -> bool:
    """Report whether connecting elsewhere would not help."""
    if isinstance(e, (Stale, Denied, Unauthenticated)):
        return True
    return isinstance(e, (Invalid, Conflict)) and not welcomed
