#!/usr/bin/env bash
# Dramatiq on Redis: an idle worker takes delayed messages out of the delay queue; only a set named after it has them.
#
# Guess: delayed messages stay in the list `QUEUE.DQ` until they are due.
# Seen: a worker fetches them at once, so `QUEUE.DQ` disappears and the id is in a set `__acks__.WORKER.QUEUE.DQ`, while
#   the body stays in the hash `QUEUE.DQ.msgs`. When the worker stops, the id returns to the list.
# Versions: dramatiq 2.2.1, redis 6.4.0 (Python), Redis from Debian. Date: 2026-11-29.
# Why it matters: lengths of lists say nothing about delayed work of a running system. Count the hash `QUEUE.DQ.msgs`,
#   and read dates from `options.eta` inside its values.
. "$(dirname "$0")/lib.sh"
redis
pip dramatiq==2.2.1 redis==6.4.0
cat >main.py <<'PY'
import logging, os, time
import dramatiq, redis
from dramatiq.brokers.redis import RedisBroker

logging.disable(logging.CRITICAL)
port = int(os.environ["REDIS_PORT"])
broker = RedisBroker(url=f"redis://127.0.0.1:{port}/0")
dramatiq.set_broker(broker)
r = redis.Redis(port=port)


@dramatiq.actor(queue_name="q")
def noop():
    pass


noop.send_with_options(delay=3_600_000)


def show(when):
    print(when, "list", r.llen("dramatiq:q.DQ"), "bodies", r.hlen("dramatiq:q.DQ.msgs"),
          "acks", sum(r.scard(k) for k in r.keys("dramatiq:__acks__.*")), flush=True)


def until(done):
    for _ in range(200):
        if done():
            return
        time.sleep(0.1)


show("before")
worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=1)
worker.start()
until(lambda: r.llen("dramatiq:q.DQ") == 0)
show("with a worker")
worker.stop()
until(lambda: r.llen("dramatiq:q.DQ") == 1)
show("after")
PY
out=$(python main.py)
python -c 'import dramatiq; print("dramatiq", dramatiq.__version__)'
same "message due in 1 h, no worker" "$(grep ^before <<<"$out")" "before list 1 bodies 1 acks 0"
same "with an idle worker" "$(grep ^with <<<"$out")" "with a worker list 0 bodies 1 acks 1"
same "after the worker stopped" "$(grep ^after <<<"$out")" "after list 1 bodies 1 acks 0"
