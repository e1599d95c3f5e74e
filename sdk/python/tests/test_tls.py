"""A locked node: connections are encrypted, and each caller shows an access token."""

import os
import subprocess
import time

import pytest
from conftest import Working

import rota
from rota.testing import find_binary, free_ports


class Locked:
    """One node that speaks TLS, with a token for each role."""

    def __init__(self, directory) -> None:
        self.dir, self.secrets = directory, directory / "secrets"
        self.secrets.mkdir(mode=0o700)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("ROTA_")}
        self.cli("tls", "ca", "--dir", self.secrets)
        self.cli("tls", "issue", "node", "n1", "--dir", self.secrets, "--host", "127.0.0.1")
        (directory / "strangers").mkdir(mode=0o700)
        self.cli("tls", "ca", "--dir", directory / "strangers")
        self.addr, *others = [f"127.0.0.1:{p}" for p in free_ports(4)]
        self.ca = str(self.secrets / "ca.pem")
        with (directory / "log").open("w") as log:
            self.process = subprocess.Popen(
                [find_binary(), "server", "--node", "n1", "--data", str(directory / "d"),
                 "--bootstrap-expect", "1", "--api", self.addr, "--disk-low=0", "--disk-critical=0",
                 *(f"--{f}={a}" for f, a in zip(("raft", "admin", "gossip"), others, strict=True)),
                 "--tls-ca", self.ca, "--tls-cert", str(self.secrets / "n1.pem"),
                 "--tls-key", str(self.secrets / "n1.key")],
                stdout=log, stderr=log, env=self.env,
            )  # fmt: skip
        self.root = directory / "root.token"
        self.root.touch(0o600)
        self.root.write_text(self.init())
        self.env |= {"ROTA_ADDR": self.addr, "ROTA_TLS_CA": self.ca}

    def cli(self, *args) -> str:
        command = [find_binary(), *map(str, args)]
        return subprocess.run(
            command, env=self.env, check=True, stdout=subprocess.PIPE, text=True, timeout=60
        ).stdout

    def init(self) -> str:
        end = time.monotonic() + 60
        while True:
            try:
                return self.cli("auth", "init", "--data", self.dir / "d")
            except subprocess.CalledProcessError:  # it does not serve yet
                assert self.process.poll() is None, (self.dir / "log").read_text()
                assert time.monotonic() < end, "the node did not become ready"
                time.sleep(0.1)

    def token(self, role: str) -> str:
        return self.cli(
            "auth", "token", "create", "--token-file", self.root, "--role", role, "--expires", "1d"
        ).strip()

    def connect(self, role: str) -> rota.Client:
        return rota.connect(self.addr, token=self.token(role), tls=rota.TLS(ca=self.ca))


@pytest.fixture
def locked(tmp_path):
    node = Locked(tmp_path)
    yield node
    node.process.kill()
    node.process.wait()


async def test_callers_with_tokens_over_tls(locked):
    d = rota.define("locked", str, str, queue="default")

    @d.handler
    async def run(job: rota.Job, word: str) -> str:
        return word.upper()

    async with locked.connect("submitter") as c, locked.connect("worker") as works:
        async with Working(works, d):
            h = await d.submit(c, "word", id="locked")
            assert await h.result(timeout=30) == "WORD"
        with pytest.raises(rota.Denied):
            await works.job("locked")
    async with locked.connect("reader") as c:
        with pytest.raises(rota.Denied):
            await d.submit(c, "refused", id="refused")
        with pytest.raises(rota.Denied):
            await rota.Worker(c, [d]).run(signals=False)

    tls = rota.TLS(ca=locked.ca)
    async with rota.connect(locked.addr, tls=tls) as c:  # shows nothing
        with pytest.raises(rota.Unauthenticated):
            await c.job("locked")
    nobody = f"rota_{'a' * 12}_{'b' * 52}"
    async with rota.connect(locked.addr, tls=tls, token=nobody) as c:
        with pytest.raises(rota.Unauthenticated):
            await c.job("locked")
        with pytest.raises(rota.Unauthenticated):
            await rota.Worker(c, [d]).run(signals=False)
    strangers = rota.TLS(ca=str(locked.dir / "strangers" / "ca.pem"))
    for other in (strangers, None):  # who does not know the node, or speaks in clear text
        async with rota.connect(locked.addr, tls=other, timeout=3) as c:
            with pytest.raises((rota.Unavailable, rota.Timeout)):
                await c.job("locked")
