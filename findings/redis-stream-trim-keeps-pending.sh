#!/usr/bin/env bash
# Redis streams: trimming deletes messages that a consumer is working on, and the group still counts them.
#
# Guess: MAXLEN trims what all groups have acknowledged, or at least takes trimmed entries out of the pending list and
#   out of the lag.
# Seen: pending entries lose their bodies: a consumer that restarts and re-reads its pending list gets ids without fields.
#   XPENDING still counts them, and `lag` counts an unread entry that no longer exists.
# Versions: redis 6.4.0 (Python), Redis 7.0 from Debian. Date: 2026-11-29.
# Why it matters: a queue on a stream with `MAXLEN ~ n` loses started jobs under a backlog, and its depth, as XPENDING plus
#   lag, reports work that nobody can do. Trim by MINID of the oldest pending entry.
. "$(dirname "$0")/lib.sh"
redis
pip redis==6.4.0
cat >main.py <<'PY'
import os
import redis

r = redis.Redis(port=int(os.environ["REDIS_PORT"]))
for n in range(5):
    r.xadd("s", {"job": n})
r.xgroup_create("s", "g", "0")
r.xreadgroup("g", "c", {"s": ">"}, count=3)
r.xtrim("s", maxlen=1, approximate=False)
[(_, own)] = r.xreadgroup("g", "c", {"s": "0"})
print("left", r.xlen("s"))
print("pending", r.xpending("s", "g")["pending"], "bodies", sum(1 for _, fields in own if fields))
print("lag", r.xinfo_groups("s")[0]["lag"], "readable", len(r.xreadgroup("g", "c", {"s": ">"})[0][1]))
PY
out=$(python main.py)
redis-server --version | cut -d' ' -f1-3
same "entries left" "$(grep ^left <<<"$out")" "left 1"
same "started entries, and how many still have a body" "$(grep ^pending <<<"$out")" "pending 3 bodies 0"
same "lag, and what can be read" "$(grep ^lag <<<"$out")" "lag 2 readable 1"
