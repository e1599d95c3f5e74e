"""The Python client's driver of the conformance suite.

test/conformance/doc.go says what it takes and answers.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import rota

calls: Counter[str] = Counter()
released: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


def say(**what: Any) -> None:
    """Write one line to the harness."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def rest(job: rota.Job, seconds: float) -> None:
    """Sleep until the time is over or the job is released."""
    with suppress(TimeoutError):
        await asyncio.wait_for(released[job.id].wait(), seconds)


async def play(job: rota.Job, script: dict[str, Any]) -> Any:
    """Do what a script says for the call that this is."""
    steps = script["calls"]
    call = steps[min(calls[job.id], len(steps) - 1)]
    calls[job.id] += 1
    seconds, text = call.get("ms", 0) / 1000, call.get("error", "")
    match call["do"]:
        case "return":
            pass
        case "sleep":
            await rest(job, seconds)
        case "progress":
            job.progress(call["percent"], call["note"])
            await rest(job, seconds)
        case "block":
            time.sleep(seconds)  # noqa: ASYNC251 # on purpose: it holds the event loop up
        case "fail":
            raise RuntimeError(text)
        case "retry_after":
            raise rota.RetryAfter(seconds, text)
        case "snooze":
            raise rota.Snooze(seconds)
        case "no_retry":
            raise rota.NoRetry(text)
        case "cancel":
            raise rota.Cancel(text)
        case "log":
            job.log.info(text)
        case "headers":
            return dict(job.headers)
        case "token":
            return str(job.token)
        case "parents":
            return {p.node: json.loads(p.output) for p in await job.parents()}
        case other:
            raise rota.NoRetry(f"{other} is not known")
    return call.get("value")


async def give_back(_: rota.Job, value: Any) -> Any:
    """Return what came."""
    return value


Handler = Callable[[rota.Job, Any], Awaitable[Any]]


def reported(worker: str, handler: Handler) -> Handler:
    """Have a handler report what it lives through."""

    async def run(job: rota.Job, value: Any) -> Any:
        about = {"worker": worker, "job": job.id, "token": str(job.token)}
        say(on="started", **about)
        try:
            return await handler(job, value)
        except asyncio.CancelledError:
            say(on="lost", **about)
            raise
        finally:
            say(on="ended", **about)

    return run


def definitions() -> dict[str, rota.Definition[Any, Any]]:
    """Return the three types of jobs, without handlers."""
    return {
        "echo": rota.define("echo"),
        "bytes": rota.define("bytes", bytes, bytes),
        "script": rota.define("script"),
    }


def done(outcomes: list[rota.JobOutcome]) -> None:
    """Raise where an order about one job was refused."""
    if outcomes[0].error:
        raise outcomes[0].error


class Driver:
    """What the harness asks for."""

    client: rota.Client

    def __init__(self) -> None:
        self.types = definitions()
        self.workers: dict[str, tuple[rota.Worker, asyncio.Task[None]]] = {}

    async def answer(self, r: dict[str, Any]) -> None:
        """Answer one request."""
        try:
            ok = await getattr(self, "do_" + r["do"])(r)
            say(n=r["n"], ok={} if ok is None else ok)
        except rota.RotaError as e:
            print(e, file=sys.stderr)
            say(n=r["n"], error=e.kind)
        except Exception as e:  # the harness shows it
            print(repr(e), file=sys.stderr)
            say(n=r["n"], error=repr(e))

    async def do_connect(self, r: dict[str, Any]) -> None:
        """Connect."""
        self.client = rota.connect(r["addrs"])

    def job(self, j: dict[str, Any]) -> rota.JobSpec:
        """Make a job of what the harness says of it."""
        options: dict[str, Any] = {"id": j["id"], "queue": j["queue"]}
        if "delay_ms" in j:
            options["delay"] = j["delay_ms"] / 1000
        if "max_runtime_ms" in j:
            options["max_runtime"] = j["max_runtime_ms"] / 1000
        if "attempts" in j:
            options["retry"] = j["attempts"]
        if "unique" in j:
            options["unique"] = rota.Unique(**j["unique"])
        for same in ("keys", "headers"):
            if same in j:
                options[same] = j[same]
        if "bytes" in j:
            return self.types["bytes"].job(base64.b64decode(j["bytes"]), **options)
        return self.types[j["type"]].job(j.get("payload"), **options)

    async def do_submit(self, r: dict[str, Any]) -> dict[str, Any]:
        """Submit jobs."""
        jobs = [self.job(j) for j in r["jobs"]]
        try:
            outcomes = await self.client.submit(*jobs)
        except rota.Refused as e:
            outcomes = e.outcomes
        return {
            "outcomes": [
                {"id": j.id, "existed": o.existed, "holder": o.holder}
                | ({"error": o.error.kind} if o.error else {})
                for j, o in zip(jobs, outcomes, strict=True)
            ]
        }

    async def do_wait(self, r: dict[str, Any]) -> dict[str, Any]:
        """Wait for a job and read its output."""
        try:
            output = await self.types[r["type"] or "echo"].of(self.client, r["id"]).result()
        except rota.JobFailed as e:
            return {"state": e.job.state, "error": e.job.error}
        return {"state": "COMPLETED", "output": output}

    async def do_cancel(self, r: dict[str, Any]) -> None:
        """Cancel a job."""
        done(await self.client.cancel(r["id"]))

    async def do_retry(self, r: dict[str, Any]) -> None:
        """Retry a job."""
        done(await self.client.retry(r["id"]))

    async def do_delete(self, r: dict[str, Any]) -> None:
        """Delete a job."""
        done(await self.client.delete(r["id"]))

    async def do_interrupt(self, r: dict[str, Any]) -> None:
        """Interrupt a job."""
        done(await self.client.interrupt(r["id"], counted=r["counted"]))

    async def do_run_now(self, r: dict[str, Any]) -> None:
        """Run a job before its time."""
        done(await self.client.run_now(r["id"]))

    async def do_change(self, r: dict[str, Any]) -> None:
        """Change a job's priority."""
        await self.client.change(r["id"], priority=r["priority"])

    async def do_release(self, r: dict[str, Any]) -> None:
        """End the sleep of a job's handlers."""
        released[r["id"]].set()

    async def do_worker(self, r: dict[str, Any]) -> None:
        """Run a worker until it is drained."""
        types = definitions()
        for name, handler in (("echo", give_back), ("bytes", give_back), ("script", play)):
            types[name].handler(reported(r["name"], handler))
        w = rota.Worker(
            self.client,
            list(types.values()),
            id=r["name"],
            queues=r["queues"],
            concurrency=r["slots"],
        )
        self.workers[r["name"]] = (w, asyncio.create_task(w.run(signals=False)))

    async def do_drain(self, r: dict[str, Any]) -> None:
        """Drain a worker, and wait for its end."""
        worker, running = self.workers[r["name"]]
        worker.stop()
        await running


async def main() -> None:
    """Take requests until there are no more."""
    driver = Driver()
    asked: set[asyncio.Task[None]] = set()
    lines = asyncio.StreamReader(limit=64 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        r = json.loads(line)
        if r["do"] == "connect":  # what follows needs it
            await driver.answer(r)
        else:
            asked.add(asyncio.create_task(driver.answer(r)))
    os._exit(0)  # nothing is handed back


if __name__ == "__main__":
    asyncio.run(main())
