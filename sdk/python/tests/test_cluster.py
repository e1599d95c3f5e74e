"""Against a real cluster."""

import asyncio
import dataclasses
import logging
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from conftest import Working, until

import rota


@dataclass
class Photo:
    name: str
    width: int


@dataclass
class Thumb:
    text: str


def resizer(queue: str, **options) -> rota.Definition[Photo, Thumb]:
    d = rota.define("resize", Photo, Thumb, queue=queue, **options)

    @d.handler
    async def run(job: rota.Job, photo: Photo) -> Thumb:
        return Thumb(f"{photo.name} {photo.width}")

    return d


def waiting(queue: str, **options) -> rota.Definition:
    """A definition whose jobs run until their lease is lost."""
    d = rota.define("wait", None, None, queue=queue, **options)

    @d.handler
    async def run(job, _):
        await asyncio.sleep(3600)

    return d


async def test_typed_round_trip(rota_cluster, queue):
    d = resizer(queue)
    async with rota_cluster.connect() as c, Working(c, d, concurrency=4):
        h = await d.submit(c, Photo("Grüße 世界", 2**53 + 1), labels={"team": "web"})
        assert await h.result(timeout=20) == Thumb(f"Grüße 世界 {2**53 + 1}")
        job = await h.job()
        assert (job.state, job.spec.labels, len(job.attempts)) == ("COMPLETED", {"team": "web"}, 1)
        assert job.submitted is not None
        assert abs(job.submitted - datetime.now(timezone.utc)) < timedelta(minutes=1)
        raw = rota.define("raw", bytes, bytes, queue=queue)
        assert raw.job(b"\x00\xff").payload == b"\x00\xff"


async def test_the_same_id_is_the_same_job(rota_cluster, queue):
    d = resizer(queue)
    async with rota_cluster.connect() as c:
        first = await d.submit(c, Photo("a", 1), id=f"{queue}-1")
        again = await d.submit(c, Photo("a", 1), id=f"{queue}-1")
        assert (first.submitted.existed, again.submitted.existed) == (False, True)
        with pytest.raises(rota.Refused) as refused:
            await d.submit(c, Photo("another", 1), id=f"{queue}-1")
        assert refused.value.kind == "CONFLICT"
        assert isinstance(refused.value.jobs[0].error, rota.Conflict)


async def test_one_is_refused_among_many(rota_cluster, queue):
    d = resizer(queue)
    async with rota_cluster.connect() as c:
        jobs = [d.job(Photo("a", i), id=f"{queue}-{i}") for i in range(5)]
        jobs[2] = jobs[2].with_options(priority=11)
        with pytest.raises(rota.Refused, match="1 of 5 jobs are refused") as refused:
            await c.submit(*jobs)
        assert [o.error is None for o in refused.value.outcomes] == [True, True, False, True, True]
        assert isinstance(refused.value.jobs[0].error, rota.Invalid)
        assert (await c.job(f"{queue}-4")).state == "QUEUED"
        with pytest.raises(rota.NotFound):
            await c.job(f"{queue}-2")
        with pytest.raises(rota.Refused, match="payload too long"):
            await c.submit(rota.JobSpec("t", payload=b"x" * (2 << 20), queue=queue))


async def test_a_full_queue_says_when_to_come_again(rota_cluster, queue):
    d = resizer(queue)
    async with rota_cluster.connect() as c:
        await c.queues.set(queue, policy={"queue_cap": 1})
        await d.submit(c, Photo("a", 1))
        with pytest.raises(rota.Refused) as refused:
            await d.submit(c, Photo("b", 1))
        e = refused.value.jobs[0].error
        assert isinstance(e, rota.Exhausted)
        assert e.retry_after > 0
        with pytest.raises(rota.Refused) as refused:
            await d.submit(c, Photo("c", 1))
        assert isinstance(refused.value.jobs[0].error, rota.HeldBack)


async def test_waiting_ends(rota_cluster, queue):
    d = resizer(queue)
    async with rota_cluster.connect() as c:
        h = await d.submit(c, Photo("a", 1))
        with pytest.raises(rota.Timeout):
            await h.result(timeout=0.3)
        with pytest.raises(TimeoutError):
            await c.wait(h.id, timeout=0.1)
        with pytest.raises(rota.NotFound):
            await c.wait("never-was", timeout=10)
        results = asyncio.gather(*(c.wait(h.id) for _ in range(20)))
        await asyncio.sleep(0.05)
        await h.cancel()
        assert {j.state for j in await results} == {"CANCELLED"}
        with pytest.raises(rota.JobFailed, match="CANCELLED") as failed:
            await h.result(timeout=10)
        assert failed.value.job.id == h.id
        await h.cancel()  # said again, it changes nothing


async def test_handlers_in_threads(rota_cluster, queue):
    d = rota.define("thread", int, str, queue=queue)
    together = threading.Barrier(2, timeout=20)

    @d.handler
    def run(job: rota.Job, n: int) -> str:
        together.wait()
        assert rota.current_job() is job
        return threading.current_thread().name

    async with rota_cluster.connect() as c, Working(c, d, concurrency=2):
        hs = [await d.submit(c, i) for i in range(2)]
        names = await asyncio.gather(*(h.result(timeout=20) for h in hs))
        assert all(n.startswith("rota-handler") for n in names)


async def test_outcomes(rota_cluster, queue):
    seen: dict[str, list[tuple[int, rota.Token]]] = {}
    d = rota.define("outcome", str, Thumb | None, queue=queue, retry=2)

    @d.handler
    async def run(job: rota.Job, what: str):
        turns = seen.setdefault(what, [])
        turns.append((job.attempt, job.token))
        if what == "no_retry":
            raise rota.NoRetry("never again")
        if what == "cancel":
            raise rota.Cancel("not needed")
        if what == "fail":
            raise KeyError("gone")
        if what == "big":
            return Thumb("x" * (300 << 10))
        if len(turns) == 1 and what == "snooze":
            raise rota.Snooze(0.2)
        if len(turns) == 1 and what == "retry_after":
            raise rota.RetryAfter(timedelta(milliseconds=200), "busy")
        if len(turns) == 1 and what == "decline":
            raise rota.Decline("not mine")
        return rota.Result(Thumb(what), meta={"turns": str(len(turns))})

    async with rota_cluster.connect() as c, Working(c, d, concurrency=8):
        await c.queues.set(queue, policy={"backoff_base": "100ms"})
        what = ["no_retry", "cancel", "fail", "big", "snooze", "retry_after", "decline", "well"]
        hs = {w: await d.submit(c, w) for w in what}
        jobs = {w: await c.wait(h.id, timeout=30) for w, h in hs.items()}
        assert {w: j.state for w, j in jobs.items()} == {
            "no_retry": "DEAD", "cancel": "CANCELLED", "fail": "DEAD", "big": "DEAD",
            "snooze": "COMPLETED", "retry_after": "COMPLETED", "decline": "COMPLETED",
            "well": "COMPLETED",
        }  # fmt: skip
        assert len(seen["no_retry"]) == 1
        assert jobs["no_retry"].error == "never again"
        assert len(seen["fail"]) == 2
        assert jobs["fail"].error.startswith("KeyError: 'gone'")
        assert "test_cluster.py" in jobs["fail"].error
        assert "at most 262144 are kept" in jobs["big"].error
        assert [a for a, _ in seen["snooze"]] == [0, 0]
        assert [a for a, _ in seen["retry_after"]] == [0, 1]
        assert [a for a, _ in seen["decline"]] == [0, 0]
        assert seen["snooze"][1][1] > seen["snooze"][0][1]  # tokens grow
        assert jobs["well"].meta == {"turns": "1"}
        bad = rota.JobSpec("outcome", payload=b"{", queue=queue)
        (o,) = await c.submit(bad)
        dead = await c.wait(o.id, timeout=20)
        assert dead.error.startswith("decode payload")
        assert len(dead.attempts) == 1


async def test_cancellation_reaches_the_handler(rota_cluster, queue):
    d = rota.define("long", None, None, queue=queue)
    lost: list[rota.LeaseLost | None] = []

    @d.handler
    async def run(job: rota.Job, _: None) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            lost.append(job.lost)
            raise

    in_thread = rota.define("long-thread", None, None, queue=queue)

    @in_thread.handler
    def blocked(job: rota.Job, _: None) -> None:
        assert job.wait_lost(60)
        lost.append(job.lost)
        job.raise_if_lost()

    async with rota_cluster.connect() as c, Working(c, d, in_thread, concurrency=2) as w:
        for one in (d, in_thread):
            h = await one.submit(c, None)
            await until(lambda h=h: "started" in w.kinds(h.id))
            await h.cancel()
            await until(lambda: len(lost) == 1)
            assert lost[0] is not None
            assert "CANCELLED" in lost[0].reason
            await until(lambda h=h: "finished" in w.kinds(h.id))
            lost.clear()
            assert (await h.job()).state == "CANCELLED"


async def test_log_progress_and_headers(rota_cluster, queue):
    d = rota.define("talk", None, None, queue=queue)
    go = asyncio.Event()

    @d.handler
    async def run(job: rota.Job, _: None) -> None:
        job.log.info("hello %s", job.id)
        logging.getLogger("app").warning("from afar")
        job.progress(40, "nearly")
        await go.wait()

    root = rota.JobLogHandler()
    logging.getLogger("app").addHandler(root)
    try:
        async with rota_cluster.connect() as c, Working(c, d):
            h = await d.submit(c, None)
            job = await until(lambda: has_progress(c, h.id))
            assert (job.progress, job.progress_note, job.state) == (40, "nearly", "RUNNING")

            async def live():
                try:
                    return "hello" in (await c.log(h.id)).text
                except rota.NotFound:
                    return False

            await until(live)
            following = asyncio.create_task(collect(c.follow_log(h.id)))
            go.set()
            await h.result(timeout=20)
            parts = await asyncio.wait_for(following, 20)
            assert not parts[-1].open
            text = (await c.log(h.id)).text
            assert f"INFO hello {h.id}\n" in text
            assert text.endswith("from afar\n")
    finally:
        logging.getLogger("app").removeHandler(root)


async def has_progress(c, job):
    got = await c.job(job)
    return got if got.progress else None


async def collect(items):
    return [x async for x in items]


async def test_costs_of_two_attempts(rota_cluster, queue):
    on_loop = rota.define("costly", None, None, queue=queue, costs={"model": 8000, "usd": 1})
    go = asyncio.Event()

    @on_loop.handler
    async def run(job: rota.Job, _: None) -> None:
        job.spend("model", 1000 + job.attempt)
        job.spend("usd", 0.25)
        with pytest.raises(rota.Invalid, match="only grows"):
            job.spend("usd", 0.2)
        if job.attempt == 0:
            raise rota.RetryAfter(0.01)
        await go.wait()
        job.spend("model", 2001.5)
        assert job.spent == {"model": Decimal("2001.5"), "usd": Decimal("0.25")}

    in_thread = rota.define("costly-thread", None, None, queue=queue)

    @in_thread.handler
    def blocked(job: rota.Job, _: None) -> None:
        job.spend("cpu", 1)

    async with rota_cluster.connect() as c, Working(c, on_loop, in_thread):
        h = await on_loop.submit(c, None, costs={"usd": Decimal("0.5")})
        assert (await h.job()).spec.costs == {"model": Decimal(8000), "usd": Decimal("0.5")}
        await until(lambda: spent_is(c, h.id, {"model": 2001, "usd": 0.5}))  # one attempt runs
        go.set()
        await h.result(timeout=20)
        assert (await h.job()).spent == {"model": Decimal("3001.5"), "usd": Decimal("0.5")}
        h = await in_thread.submit(c, None)
        await h.result(timeout=20)
        assert (await h.job()).spent == {"cpu": 1}


async def spent_is(c, job, spent):
    return (await c.job(job)).spent == spent


async def test_rate_of_a_unit(rota_cluster, queue):
    d = rota.define("weighted", None, None, queue=queue, keys={"model": "m"})

    @d.handler
    async def run(job: rota.Job, _: None) -> None:
        pass

    rule = rota.KeyRule(
        "model", queue=queue, rate=1000, period=3600, unit="model", default_cost=Decimal("400.5")
    )
    async with rota_cluster.connect() as c, Working(c, d):
        await c.keys.set_rule(rule)
        (got,) = [r async for r in c.keys.rules() if r.queue == queue]
        assert (got.unit, got.default_cost) == ("model", Decimal("400.5"))
        for _ in range(2):
            await (await d.submit(c, None)).result(timeout=20)
        h = await d.submit(c, None)
        await until(lambda: waits_for(c, h.id, "KEY_RATE"))
        await h.cancel()
        await c.keys.delete_rule("model", queue=queue)
        with pytest.raises(rota.Invalid, match="default_cost: got -1; use an amount from 0"):
            await c.keys.set_rule(dataclasses.replace(rule, default_cost=-1))


async def test_budget_of_a_queue(rota_cluster, queue):
    d = rota.define("budgeted", None, None, queue=queue)

    @d.handler
    async def run(job: rota.Job, _: None) -> None:
        pass

    name = f"{queue}-usd"
    budget = rota.Budget(
        name, "usd", Decimal("1.5"), queue=queue, every="month", tz="Europe/Berlin", warn=0.8,
        then="ask",
    )  # fmt: skip
    async with rota_cluster.connect() as c, Working(c, d):
        read = (await c.budgets.set(budget)).budget
        assert read == dataclasses.replace(budget, etag=read.etag)
        h = await d.submit(c, None, costs={"usd": 1.75})
        await until(lambda: waits_for(c, h.id, "BUDGET_SPENT"))
        (account,) = [a async for a in c.budgets.accounts(name, held=True)]
        assert [a async for a in c.budgets.accounts(name, asking=True)] == [account]
        asking = [s async for s in c.budgets.list(asking=True) if s.budget.name == name]
        assert [s.asking for s in asking] == [1]
        assert (account.limit, account.left, account.held) == (Decimal("1.5"), Decimal("1.5"), 1)
        for _ in range(2):  # with the same id it is made once
            account = await c.budgets.grant(name, Decimal("0.5"), reason="launch", id=f"{name}-1")
            assert (account.limit, account.granted) == (2, Decimal("0.5"))
            assert [(g.amount, g.reason) for g in account.changes] == [(Decimal("0.5"), "launch")]
        await h.result(timeout=20)
        assert [a async for a in c.budgets.accounts(name, asking=True)] == []
        await c.budgets.reset(name, reason="refund")
        state = await c.budgets.get(name)
        assert (state.granted, state.spent, state.reserved) == (0, 0, 0)
        assert name in [s.budget.name async for s in c.budgets.list()]
        await c.budgets.set(dataclasses.replace(read, limit=2))
        with pytest.raises(rota.Conflict):
            await c.budgets.set(dataclasses.replace(read, limit=3))
        with pytest.raises(rota.Conflict):
            await c.budgets.delete(name, if_match=read.etag)
        await c.budgets.delete(name)
        with pytest.raises(rota.NotFound):
            await c.budgets.get(name)


async def waits_for(c, job, reason):
    return reason in [r.reason for r in (await c.why(job)).reasons]


async def test_max_runtime(rota_cluster, queue):
    d = waiting(queue, max_runtime=3, retry=1)
    async with rota_cluster.connect() as c, Working(c, d):
        h = await d.submit(c, None)
        job = await c.wait(h.id, timeout=30)
        assert (job.state, job.attempts[-1].end) == ("DEAD", "TIMED_OUT")


async def test_a_blocked_event_loop_loses_nothing(rota_cluster, queue):
    d = rota.define("block", None, int, queue=queue)

    @d.handler
    async def run(job: rota.Job, _: None) -> int:
        time.sleep(9)  # noqa: ASYNC251 # that is what is tested: no renewal without its thread
        return 7

    async with rota_cluster.connect() as c:
        await c.queues.set(queue, policy={"t_lease": "6s", "renewals_max": -1})
        async with Working(c, d):
            h = await d.submit(c, None)
            assert await h.result(timeout=30) == 7
            assert [a.end for a in (await h.job()).attempts] == ["DONE"]
            assert (await h.job()).attempts[0].renewals > 0


async def test_a_loop_that_answers_no_more_gives_back(rota_cluster, queue, monkeypatch):
    monkeypatch.setattr("rota._host.LOOP_LOST", 2.0)
    d = rota.define("stuck", None, int, queue=queue)
    turns = 0

    @d.handler
    async def run(job: rota.Job, _: None) -> int:
        nonlocal turns
        turns += 1
        if turns == 1:
            time.sleep(9)  # noqa: ASYNC251 # that is what is tested
        return turns

    async with rota_cluster.connect() as c, Working(c, d) as w:
        h = await d.submit(c, None)
        assert await h.result(timeout=40) == 2  # what the first one returned counts no more
        assert "lost" in w.kinds(h.id)


async def test_drain_finishes_what_runs(rota_cluster, queue):
    d = rota.define("slow", None, str, queue=queue)
    go = asyncio.Event()

    @d.handler
    async def run(job: rota.Job, _: None) -> str:
        await go.wait()
        return "done"

    async with rota_cluster.connect() as c:
        async with Working(c, d) as w:
            first = await d.submit(c, None)
            await until(lambda: "started" in w.kinds(first.id))
            w.worker.stop()
            await until(lambda: status_is(c, w.worker.id, "DRAINING"))
            second = await d.submit(c, None)
            go.set()
            await w.task
        assert await first.result(timeout=5) == "done"
        assert (await second.job()).state == "QUEUED"
        assert (await c.workers.get(w.worker.id)).status == "RETIRED"


async def status_is(c, worker, status):
    return (await c.workers.get(worker)).status == status


async def test_a_second_stop_cancels(rota_cluster, queue):
    d = waiting(queue)
    async with rota_cluster.connect() as c:
        async with Working(c, d) as w:
            h = await d.submit(c, None)
            await until(lambda: "started" in w.kinds(h.id))
            w.worker.stop()
            await asyncio.sleep(0.1)
            w.worker.stop()
            await asyncio.wait_for(w.task, 10)
        job = await h.job()
        assert job.state in ("QUEUED", "DELAYED")
        assert job.attempt == 0  # it was given back, uncounted


async def test_cancelling_run_gives_back(rota_cluster, queue):
    d = waiting(queue)
    async with rota_cluster.connect() as c:
        w = rota.Worker(c, [d])
        task = asyncio.create_task(w.run())
        h = await d.submit(c, None)
        await until(lambda: is_running(c, h.id))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await h.job()).state in ("QUEUED", "DELAYED")
        with pytest.raises(rota.Conflict, match="ran already"):
            await w.run()


async def is_running(c, job):
    return (await c.job(job)).state == "RUNNING"


async def test_takeover(rota_cluster, queue):
    d = waiting(queue)
    async with rota_cluster.connect() as c:
        first = rota.Worker(c, [d], id=f"{queue}-w", secret=b"s" * 16)
        task = asyncio.create_task(first.run(signals=False))
        h = await d.submit(c, None)
        await until(lambda: is_running(c, h.id))
        with pytest.raises(rota.RotaError) as refused:
            await rota.Worker(c, [d], id=f"{queue}-w").run(signals=False)
        assert refused.value.kind in ("CONFLICT", "DENIED", "STALE")
        async with Working(c, d, id=f"{queue}-w", takeover=True, old_secret=b"s" * 16):
            with pytest.raises(rota.Stale, match="taken"):
                await asyncio.wait_for(task, 20)


async def test_reads(rota_cluster, queue):
    d = resizer(queue)
    async with rota_cluster.connect() as c:
        (o,) = await c.submit(d.job(Photo("a", 1), id=f"{queue}-r", labels={"k": "v"}))
        assert (await c.job(o.id, at_least=o.index)).state == "QUEUED"
        await until(lambda: stale_read(c, o.id))
        assert [j.id async for j in c.jobs("label.k=v", queue=queue)] == [o.id]
        assert (await c.count_jobs(queue=queue)).count == 1
        why = await c.why(o.id)
        assert why.reasons
        eta = await c.eta(o.id)
        assert eta.state == why.state
        assert bool(eta.expected_start_ms) != bool(eta.reasons)
        out = await c.change(o.id, priority=2)
        assert out.error is None
        assert (await c.job(o.id)).spec.priority == 2
        (cancelled,) = await c.cancel(o.id)
        assert cancelled.error is None
        (retried,) = await c.retry(o.id)
        assert retried.error is None
        assert (await c.job(o.id)).life == 1
        kinds = [e.kind async for e in c.events(follow=False, job=o.id)]
        assert kinds[0] == "jobEnqueued"
        of_queue = await collect(c.events(follow=False, queue=queue, type="resize"))
        assert {e.job for e in of_queue} == {o.id}
        assert await collect(c.events(follow=False, after="latest")) == []
        await c.cancel(o.id)
        (deleted,) = await c.delete(o.id)
        assert deleted.error is None
        with pytest.raises(rota.NotFound):
            await c.job(o.id)
        with pytest.raises(rota.Invalid):
            await collect(c.jobs("no-such-term=1"))


async def stale_read(c, job):
    try:
        return (await c.job(job, stale=True)).id == job
    except rota.NotFound:
        return False


async def test_many_pages(rota_cluster, queue):
    d = resizer(queue)
    async with rota_cluster.connect() as c:
        await c.submit(*(d.job(Photo("a", i)) for i in range(1_201)))
        ids = [j.id async for j in c.jobs(queue=queue)]
        assert len(set(ids)) == len(ids) == 1_201
        assert len(await collect(c.jobs(queue=queue, limit=7))) == 7
        out = await c.cancel(*ids)
        assert all(o.error is None for o in out)


async def test_one_version_is_changed(rota_cluster, queue):
    async with rota_cluster.connect() as c:
        read = await c.queues.set(queue, policy={"weight": 2})
        trial = await c.queues.set(queue, policy={"weight": 3}, dry_run=True)
        assert trial.changes == (rota.SettingChange("weight", "2", "3"),)
        assert (await c.queues.get(queue)).etag == read.etag
        now = await c.queues.set(queue, policy={"weight": 3}, if_match=read.etag)
        assert (now.etag, now.changes) == (trial.etag, ())
        with pytest.raises(rota.Conflict) as e:
            await c.queues.set(queue, policy={"weight": 4}, if_match=read.etag)
        assert e.value.subject == "version"
        assert now.etag in e.value.text
        await c.keys.set_rule(rota.KeyRule("v", queue=queue, concurrency=1))
        (rule,) = [r async for r in c.keys.rules() if r.queue == queue]
        await c.keys.set_rule(dataclasses.replace(rule, concurrency=2))
        with pytest.raises(rota.Conflict):
            await c.keys.set_rule(dataclasses.replace(rule, concurrency=3))
        with pytest.raises(rota.Conflict):
            await c.keys.delete_rule("v", queue=queue, if_match=rule.etag)
        await c.keys.delete_rule("v", queue=queue)
        with pytest.raises(rota.Conflict):
            await c.queues.delete(queue, if_match=read.etag)
        await c.queues.delete(queue, if_match=now.etag)


async def test_unique_and_keys(rota_cluster, queue):
    d = resizer(queue)
    async with rota_cluster.connect() as c:
        unique = rota.Unique(by=("type", "args"))
        first = await d.submit(c, Photo("a", 1), unique=unique)
        with pytest.raises(rota.Refused, match="unique"):
            await d.submit(c, Photo("a", 1), unique=unique)
        merged = rota.Unique(by=("type", "args"), on_conflict="existing")
        assert (await d.submit(c, Photo("a", 1), unique=merged)).id == first.id
        await d.submit(c, Photo("b", 1), unique=unique)
        await c.keys.set_rule(rota.KeyRule("album", queue=queue, concurrency=1))
        rules = [r async for r in c.keys.rules() if r.queue == queue]
        assert [(r.name, r.concurrency) for r in rules] == [("album", 1)]
        h = await d.submit(c, Photo("k", 1), keys={"album": "7"})
        assert (await h.job()).spec.keys == ("album:7",)
        await c.keys.delete_rule("album", queue=queue)


async def test_workflow_with_children_and_a_gate(rota_cluster, queue):
    step = rota.define("step", str, str, queue=queue)

    @step.handler
    async def run(job: rota.Job, what: str):
        above = sorted(p.output.decode() for p in await job.parents())
        said = f"{what}({','.join(above)})"
        if what == "fetch":
            more = rota.Node("grown", step.job("grown"))
            return rota.Result(said, children=[more])
        return said

    nodes = [
        rota.Node("fetch", step.job("fetch")),
        rota.Node("ok", gate=rota.Gate(timeout=60), parents=["fetch"]),
        rota.Node("report", step.job("report"), parents=["ok"]),
    ]
    async with rota_cluster.connect() as c, Working(c, step, concurrency=2):
        flow = await c.workflows.submit(nodes, id=f"{queue}-f", queue=queue)
        assert flow.nodes == 3
        again = await c.workflows.submit(nodes, id=f"{queue}-f", queue=queue)
        assert again.existed
        assert await c.workflows.signal(flow.id, "ok", b'"yes"', id="s1") is False
        assert await c.workflows.signal(flow.id, "ok", b'"yes"', id="s1") is True
        done = await c.workflows.wait(flow.id, timeout=30)
        assert (done.state, done.counts["COMPLETED"]) == ("COMPLETED", 4)
        graph = await c.workflows.graph(flow.id)
        assert {n.id for n in graph.nodes} == {"fetch", "ok", "report", "grown"}
        report = await c.job(f"{flow.id}/report")
        assert report.output == b'"report(\\"yes\\")"'
        with pytest.raises(rota.Invalid):
            await c.workflows.submit([rota.Node("a", step.job("x"), parents=["a"])], queue=queue)
        gate = rota.Node("g", gate=rota.Gate(timeout=60))
        pending = await c.workflows.submit([gate], queue=queue)
        with pytest.raises(rota.Timeout):
            await c.workflows.wait(pending.id, timeout=0.5)
        assert (await c.workflows.cancel(pending.id)).state in ("RUNNING", "CANCELLED")


async def test_schedules_batches_and_plans(rota_cluster, queue):
    d = resizer(queue)
    async with rota_cluster.connect() as c:
        name = queue[:12]
        s = await c.schedules.set(name, d.job(Photo("s", 1)), cron="0 3 * * *", tz="Europe/Berlin")
        assert (s.state, s.tz) == ("ACTIVE", "Europe/Berlin")
        assert s.next is not None
        assert name in [x.name async for x in c.schedules.list()]
        run = await c.schedules.trigger(name, "one")
        assert run.id == f"{name}@+one"
        assert len(await c.schedules.next(name, 3)) == 3
        paused = await c.schedules.pause(name, "holiday", if_match=s.etag)
        assert paused.state == "PAUSED"
        with pytest.raises(rota.Conflict):
            await c.schedules.delete(name, if_match=s.etag)
        await c.schedules.delete(name)
        with pytest.raises(rota.NotFound):
            await c.schedules.get(name)

        batch = await c.batches.open(d.job(Photo("callback", 1)))
        jobs = [d.job(Photo("b", i), batch=batch.id) for i in range(3)]
        await c.submit(*jobs)
        assert (await c.batches.seal(batch.id)).total == 3
        async with Working(c, d, concurrency=4):
            done = await c.batches.wait(batch.id, timeout=30)
            assert (done.completed, done.callback) == (3, f"{batch.id}@done")
            await c.wait(done.callback, timeout=20)
        await c.submit(*(d.job(Photo("p", i), delay=3600) for i in range(20)))
        count, _ = await c.plans.preview("cancel", f"queue={queue} state=DELAYED")
        assert count == 20
        plan = await c.plans.start("cancel", f"queue={queue} state=DELAYED")
        assert (await c.plans.wait(plan.id, timeout=20)).done == 20


async def test_one_trace_from_submission_to_attempt(rota_cluster, queue):
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry is not installed")
    from opentelemetry import baggage, context, trace

    if not isinstance(trace.get_tracer_provider(), sdk.TracerProvider):
        trace.set_tracer_provider(sdk.TracerProvider())
    d = rota.define("traced", None, str, queue=queue)

    @d.handler
    async def run(job: rota.Job, _: None) -> str:
        (link,) = trace.get_current_span().links  # type: ignore[attr-defined]
        return f"{link.context.trace_id:032x}"

    async with rota_cluster.connect() as c, Working(c, d):
        with trace.get_tracer("test").start_as_current_span("web request") as span:
            h = await d.submit(c, None, headers={"tenant": "a"})
            again = await d.submit(c, None, id=h.id)
            assert again.submitted.existed
            token = context.attach(baggage.set_baggage("big", "x" * 3000))
            await d.submit(c, None)
            context.detach(token)
        assert await h.result(timeout=20) == f"{span.get_span_context().trace_id:032x}"
        headers = (await h.job()).spec.headers
        assert headers["tenant"] == "a"
        assert headers["traceparent"].startswith("00-")


async def test_what_a_handler_raises_is_logged(rota_cluster, queue, caplog):
    d = rota.define("fails", None, None, queue=queue, retry=1)

    @d.handler
    def run(job: rota.Job, _: None) -> None:
        raise ZeroDivisionError("by nothing")

    async with rota_cluster.connect() as c, Working(c, d):
        h = await d.submit(c, None)
        with pytest.raises(rota.JobFailed, match="ZeroDivisionError: by nothing"):
            await h.result(timeout=20)
    record = next(r for r in caplog.records if h.id in r.getMessage())
    assert record.exc_info is not None


async def test_a_thread_that_does_not_return_is_named(rota_cluster, queue, monkeypatch):
    monkeypatch.setattr("rota.worker._STOP_GRACE", 0.3)
    d = rota.define("hangs", None, None, queue=queue)
    go = threading.Event()

    @d.handler
    def run(job: rota.Job, _: None) -> None:
        go.wait(60)

    async with rota_cluster.connect() as c:
        w = Working(c, d, drain=0.2)
        await w.__aenter__()
        h = await d.submit(c, None)
        await until(lambda: "started" in w.kinds(h.id))
        w.worker.stop()
        with pytest.raises(rota.Timeout, match="1 handlers did not return"):
            await w.task
        go.set()


async def test_a_worker_that_is_not_taken_says_so(caplog):
    d = waiting("default")
    async with rota.connect("127.0.0.1:1") as c:
        w = Working(c, d)
        await w.__aenter__()
        await until(lambda: any(e.kind == "turned_away" for e in w.events))
        assert "the worker is not taken yet: node 127.0.0.1:1" in caplog.text
        w.worker.stop()
        await w.task
