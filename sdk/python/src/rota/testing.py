"""A cluster for tests: `rota dev`, or three processes of which any can be killed.

The binary is the one that ROTA_BIN names, or ``rota`` on the PATH.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .client import Client, connect
from .errors import Invalid

if TYPE_CHECKING:
    from typing_extensions import Self

_READY_MOST = 60.0


def find_binary() -> str:
    """Return the path of the rota binary; the error for a missing one explains how to set it."""
    named = os.environ.get("ROTA_BIN")
    found = shutil.which(named or "rota")
    if found is None:
        raise Invalid(
            f"no rota binary: ROTA_BIN is {named!r} and names no program"
            if named
            else "no rota binary: put rota on the PATH, or name it by ROTA_BIN",
            subject="ROTA_BIN",
        )
    return found


def free_ports(n: int) -> list[int]:
    """Return loopback ports that are free now.

    They are outside the range of ports that the system assigns to clients: a client that keeps
    connecting to such a port before its server listens can connect to itself, and then occupies the
    port.
    """
    found: list[int] = []
    while len(found) < n:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


class DevCluster:
    """A whole cluster in one process on loopback, with its state in a temporary directory.

    Attributes:
        addr: its nodes, for `rota.connect` and ROTA_ADDR.
    """

    def __init__(self, nodes: int = 3) -> None:
        command = [find_binary(), "dev", "--nodes", str(nodes)]
        command += ["--api", f"127.0.0.1:{free_ports(1)[0]}"]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 # closed by stop
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith("ROTA_")},
        )  # fmt: skip
        late = threading.Timer(_READY_MOST, self._process.kill)
        late.start()
        try:
            assert self._process.stdout is not None
            said = self._process.stdout.readline()
        finally:
            late.cancel()
        if not said.startswith("ready addr="):
            self._process.kill()
            self._process.wait()
            self._log.seek(0)
            raise Invalid(
                f"{' '.join(command)} did not become ready: {self._log.read()[-2000:]}",
                subject="rota_cluster",
            )
        self.addr = said.removeprefix("ready addr=").strip()

    def connect(self) -> Client:
        """Return a client of it."""
        return connect(self.addr)

    def stop(self) -> None:
        """Stop it, and delete its data."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Cluster:
    """A cluster with a process for each node, so that nodes can be killed and paused.

    Attributes:
        addr: its nodes, n1 first.
    """

    def __init__(self, nodes: int = 3) -> None:
        self._dir = tempfile.TemporaryDirectory(prefix="rota-test-")
        self._binary = find_binary()
        ports = free_ports(4 * nodes)
        self._ports = [ports[4 * i : 4 * i + 4] for i in range(nodes)]
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * nodes
        self.addr = ",".join(f"127.0.0.1:{p[0]}" for p in self._ports)
        for i in range(nodes):
            self.start(i)

    def _command(self, i: int) -> Sequence[str]:
        api, raft, admin, gossip = (f"127.0.0.1:{p}" for p in self._ports[i])
        joins = [f"--join=127.0.0.1:{p[3]}" for j, p in enumerate(self._ports) if j != i]
        return [
            self._binary, "server", f"--node=n{i + 1}", f"--data={self._dir.name}/n{i + 1}",
            f"--api={api}", f"--raft={raft}", f"--admin={admin}", f"--gossip={gossip}",
            "--disk-low=0", "--disk-critical=0", f"--bootstrap-expect={len(self._ports)}", *joins,
        ]  # fmt: skip

    def start(self, i: int) -> None:
        """Start a node, or start it again after it was killed."""
        with (Path(self._dir.name) / f"n{i + 1}.log").open("ab") as log:
            env = {k: v for k, v in os.environ.items() if not k.startswith("ROTA_")}
            self._processes[i] = subprocess.Popen(self._command(i), stdout=log, stderr=log, env=env)

    async def ready(self) -> None:
        """Wait until the cluster accepts calls."""
        async with connect(self.addr, timeout=_READY_MOST) as c:
            await c.queues.set("default")

    def address(self, i: int) -> str:
        """Return the address of one node."""
        return self.addr.split(",")[i]

    def signal(self, i: int, number: signal.Signals) -> None:
        """Send a signal to a node's process, such as SIGSTOP."""
        process = self._processes[i]
        if process is not None:
            process.send_signal(number)

    def kill(self, i: int) -> None:
        """Kill a node."""
        process = self._processes[i]
        if process is not None:
            process.kill()
            process.wait()
            self._processes[i] = None

    def stop(self) -> None:
        """Kill all nodes, and delete their data."""
        for i in range(len(self._processes)):
            self.kill(i)
        # A process that was killed may hold its directory for a moment.
        for _ in range(10):
            try:
                self._dir.cleanup()
                return
            except OSError:
                time.sleep(0.1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
