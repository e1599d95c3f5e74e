#!/usr/bin/env bash
# Celery on Redis: a task with an ETA waits inside a worker, and the queue's list is empty meanwhile.
#
# Guess: a task that is due in an hour waits in Redis in some sorted set by date, or stays in its queue's list.
# Seen: it lies in the ordinary list like a task that is due now. The first worker takes it at once and keeps it in
#   memory; Redis has it in the hash `unacked`, and the list is gone. After a warm shutdown it is back in the list.
# Versions: celery 5.7.0, kombu 5.7.0, redis 6.4.0 (Python), Redis from Debian. Date: 2026-11-29.
# Why it matters: queue depth by LLEN counts tasks that are due in an hour as backlog before a worker starts, and as
#   nothing afterwards. An importer that reads lists alone loses every delayed task of a running system.
. "$(dirname "$0")/lib.sh"
redis
pip celery==5.7.0 kombu==5.7.0 redis==6.4.0 packaging==25.0
cat >tasks.py <<'PY'
import os
from celery import Celery

app = Celery("tasks", broker=f"redis://127.0.0.1:{os.environ['REDIS_PORT']}/0")
app.conf.task_default_queue = "q"


@app.task(name="noop")
def noop():
    pass
PY
cat >main.py <<'PY'
import os, signal, subprocess, sys, time
import redis
from tasks import noop

r = redis.Redis(port=int(os.environ["REDIS_PORT"]))
noop.apply_async(countdown=3600)


def show(when):
    print(when, "list", r.llen("q"), "unacked", r.hlen("unacked"), flush=True)


def until(done):
    for _ in range(300):
        if done():
            return
        time.sleep(0.1)


show("before")
worker = subprocess.Popen([sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool", "solo", "-l", "CRITICAL"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
until(lambda: r.hlen("unacked") == 1)
show("with a worker")
worker.send_signal(signal.SIGTERM)
worker.wait()
show("after")
PY
out=$(C_FORCE_ROOT=1 python main.py)
python -c 'import celery, kombu; print("celery", celery.__version__, "kombu", kombu.__version__)'
same "task due in 1 h, no worker" "$(grep ^before <<<"$out")" "before list 1 unacked 0"
same "with an idle worker" "$(grep ^with <<<"$out")" "with a worker list 0 unacked 1"
same "after its warm shutdown" "$(grep ^after <<<"$out")" "after list 1 unacked 0"
