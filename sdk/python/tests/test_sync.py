import os
import signal
import threading
import time

import pytest

import rota
from rota import sync


def test_without_an_event_loop(rota_cluster, queue):
    d = rota.define("plain", dict[str, int], int, queue=queue)

    @d.handler
    def run(job: rota.Job, v: dict[str, int]) -> int:
        return sum(v.values())

    def work(c: sync.Client) -> None:
        with pytest.raises(rota.Stale, match="retired"):
            sync.work(c, [d], concurrency=2)
        ended.set()

    ended = threading.Event()
    with sync.connect(rota_cluster.addr) as c:
        worker = threading.Thread(target=work, args=(c,))
        h = sync.submit(c, d, {"a": 1, "b": 2})
        assert h.job().state == "QUEUED"
        with pytest.raises(rota.Timeout):
            h.result(timeout=0.2)
        # On the main thread a signal ends it; here an operator does.
        worker.start()
        assert h.result(timeout=20) == 3
        assert [j.id for j in c.jobs(queue=queue)] == [h.id]
        assert c.wait(h.id).state == "COMPLETED"
        with pytest.raises(rota.NotFound):
            c.job("never-was")
        assert c.call(c.aio.queues.get(queue)).name == queue
        (info,) = [w for w in c.iterate(c.aio.workers.list()) if queue in w.queues]
        c.call(c.aio.workers.retire(info.id))
        worker.join(30)
        assert ended.is_set()


def test_work_ends_by_a_signal(rota_cluster, queue):
    d = rota.define("plain", None, None, queue=queue)

    @d.handler
    def run(job: rota.Job, _: None) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)

    with sync.connect(rota_cluster.addr) as c:
        h = sync.submit(c, d, None)
        sync.work(c, [d])
        assert h.job().state == "COMPLETED"


def test_the_plugin_starts_a_cluster(pytester):
    pytester.makepyfile(
        """
        from rota import sync

        def test_it(rota_cluster):
            with sync.connect(rota_cluster.addr) as c:
                assert c.call(c.aio.queues.get("default")).name == "default"
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)


def test_the_plugin_says_how_the_binary_is_found(pytester, monkeypatch):
    monkeypatch.setenv("ROTA_BIN", "/nowhere/rota")
    pytester.makepyfile("def test_it(rota_cluster): pass")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ROTA_BIN is '/nowhere/rota' and names no program*"])
