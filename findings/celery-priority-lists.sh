#!/usr/bin/env bash
# Celery on Redis: ten priorities share four lists, and 0 is the most urgent.
#
# Guess: a queue is one list, priorities 0 to 9 are ordered among themselves, and 9 is the most urgent, as on RabbitMQ.
# Seen: a queue is up to four lists (`q`, then `q`, two control characters and 3, 6 or 9). Priorities 3, 4 and 5 share
#   one of them in the order of arrival. A worker empties `q`, that is priorities 0 to 2, first.
# Versions: celery 5.7.0, kombu 5.7.0, redis 6.4.0 (Python), Redis from Debian. Date: 2026-11-29.
# Why it matters: LLEN of the queue's name misses three of four lists, and priorities carried over from RabbitMQ are
#   reversed.
. "$(dirname "$0")/lib.sh"
redis
pip celery==5.7.0 kombu==5.7.0 redis==6.4.0 packaging==25.0
cat >tasks.py <<'PY'
import os
from celery import Celery

app = Celery("tasks", broker=f"redis://127.0.0.1:{os.environ['REDIS_PORT']}/0")
app.conf.task_default_queue = "q"
app.conf.worker_prefetch_multiplier = 1
done = os.environ.get("DONE", "/dev/null")


@app.task(name="note")
def note(priority):
    with open(done, "a") as f:
        f.write(f"{priority} ")
PY
cat >main.py <<'PY'
import os, signal, subprocess, sys, time
import redis
from tasks import note

r = redis.Redis(port=int(os.environ["REDIS_PORT"]))
for priority in (9, 5, 3, 4, 0):
    note.apply_async((priority,), priority=priority)
print("lists", sorted((k.decode().replace("\x06\x16", "|"), r.llen(k)) for k in r.keys("q*")), flush=True)
worker = subprocess.Popen([sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool", "solo", "-c", "1", "-l", "CRITICAL"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for _ in range(300):
    if os.path.exists("done") and len(open("done").read().split()) == 5:
        break
    time.sleep(0.1)
worker.send_signal(signal.SIGTERM)
worker.wait()
print("order", open("done").read().strip())
PY
out=$(C_FORCE_ROOT=1 DONE=$PWD/done python main.py)
python -c 'import celery, kombu; print("celery", celery.__version__, "kombu", kombu.__version__)'
same "lists of queue q after priorities 9, 5, 3, 4, 0" "$(grep ^lists <<<"$out")" "lists [('q', 1), ('q|3', 3), ('q|9', 1)]"
same "order in which one worker ran them" "$(grep ^order <<<"$out")" "order 0 5 3 4 9"
