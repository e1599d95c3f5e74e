#!/usr/bin/env bash
# A rota worker of bash, curl and jq: it runs a command for each job of a queue. The payload comes on
# the command's stdin, what it prints is the job's output, what it says on stderr the attempt's log.
# It exits with 0 to complete the job, 75 to give it back, anything else to fail the attempt.
#
#   ROTA_URLS="http://n1:6470 http://n2:6470" ./worker.sh images tr a-z A-Z
#
# ROTA_TOKEN is its token, WORKER_ID its id (a new one by itself), MAX how many jobs it takes at a time
# (1), to do one after another. SIGTERM ends it after the job at hand. It needs bash 5.
set -u
queue=${1:?the queue is missing}; shift
: "${1:?the command is missing}"
read -ra urls <<<"${ROTA_URLS:-http://127.0.0.1:6470}"
max=${MAX:-1}
id=${WORKER_ID:-curl-$(hostname)-$$}
secret=${WORKER_SECRET:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
dir=$(mktemp -d)
node=0
going=

# Secrets stay off the command line, where others see them.
{ echo "header = \"Rota-Worker-Secret: $secret\""
  [ -z "${ROTA_TOKEN:-}" ] || echo "header = \"Authorization: Bearer $ROTA_TOKEN\""; } >"$dir/curlrc"

say() { echo "$id: $*" >&2; }
now() { local t=${EPOCHREALTIME/[.,]/}; echo $((t / 1000)); }

# over ends the worker where to ask again would not help: it was retired, or is not let in.
over() { case $(jq -r '.kind' "$dir/$1" 2>/dev/null) in STALE | DENIED | UNAUTHENTICATED | INVALID | NOT_FOUND) exit 1 ;; esac; }

# call makes a POST, at one node after another until it is answered: every call here may be repeated,
# and is answered then as the first time. The answer is in $dir/$3; a refusal is said, and returned.
call() {
  local path=$1 body=$2 into=$dir/$3 status
  while :; do
    status=$(curl -sS -K "$dir/curlrc" --connect-timeout 2 --max-time 20 -o "$into" -w '%{http_code}' -X POST \
      -H 'Content-Type: application/json' --data-binary "$body" "${urls[node % ${#urls[@]}]}/v1/workers/$id$path" 2>/dev/null)
    case $status in
      200) return 0 ;;
      '' | 000 | 429 | 5??)
        [ -z "$going" ] || [ "$path" != /acquire ] || return 1
        node=$((node + 1)); sleep 0.2 ;;
      *) say "$path: $(jq -r '"\(.kind) \(.field // ""): \(.detail)"' "$into")"; return 1 ;;
    esac
  done
}

# beats has the cluster know that the worker lives, and writes until when each lease is good. Five beats are wanted per t_lease:
# for leases of less than 10 s set ROTA_BEAT to a fifth of them, in seconds.
beats() {
  local sent held lease valid
  while sleep "${ROTA_BEAT:-2}"; do
    held=$(cd "$dir" && printf '%s\n' until.* | sed -n 's/^until\.\([0-9a-f]\)/\1/p' | jq -Rn '{holding: [inputs]}')
    sent=$(now)
    call /beat "$held" beaten || continue
    while read -r lease valid; do
      [ ! -e "$dir/until.$lease" ] || echo $((sent + valid)) >"$dir/until.$lease"
    done < <(jq -r '(.leases[] | "\(.lease) \(.valid_ms)"), (.revoked[] | "\(.lease) 0"), (.ended[] | "\(.) 0")' "$dir/beaten")
  done
}

# guard ends the command once its lease is no longer good: another worker may have the job by then.
guard() {
  while sleep 0.5; do
    (($(now) < $(<"$dir/until.$1"))) || { say "lease $1 is lost"; kill -- "-$2"; return; }
  done
}

# job runs one lease's job, and reports what came of it.
job() {
  local lease=$1 token=$2 job=$3 code pid guard verb=complete
  if [ -z "$going" ] && (($(now) < $(<"$dir/until.$lease"))); then
    set -m # a process group of its own
    base64 -d <<<"$4" | "${@:5}" >"$dir/out" 2>"$dir/log" &
    pid=$!
    set +m
    guard "$lease" "$pid" & guard=$!
    wait "$pid"; code=$?
    while [ -n "$going" ] && kill -0 "$pid" 2>/dev/null; do wait "$pid"; code=$?; done # a signal ended the wait
    kill "$guard" 2>/dev/null; wait "$guard" 2>/dev/null
  else
    : >"$dir/out" >"$dir/log"; code=75 # it waited too long here, or the worker goes
  fi
  case $code in 0) ;; 75) verb=decline ;; *) verb=fail ;; esac
  call "/leases/$lease/$verb" "$(jq -n --arg token "$token" --arg job "$job" --arg code "$code" --arg verb "$verb" \
    --rawfile out "$dir/out" --rawfile log "$dir/log" '{token: $token, job: $job, log: $log}
      + if $verb == "complete" then {output: $out} elif $verb == "fail" then {error: "exit code \($code)"} else {} end')" reported
  rm -f "$dir/until.$lease"
}

beats & beater=$!
trap going=1 TERM INT
trap 'kill "$beater" 2>/dev/null; rm -rf "$dir"' EXIT
ask=$(jq -n --arg queue "$queue" --argjson max "$max" '{worker: {queues: [$queue], slots: $max}, max: $max, wait_ms: 5000}')
say "takes jobs of queue $queue"
while [ -z "$going" ]; do
  sent=$(now)
  call /acquire "$ask" acquired || { over acquired; sleep 1; continue; }
  jq -r '.leases[] | "\(.lease) \(.token) \(.job.id) \(.valid_ms) \(.job.payload // "" | if type == "object" and has("base64") and length == 1 then .base64 else @base64 end)"' \
    "$dir/acquired" >"$dir/leases"
  while read -r lease token job valid payload; do echo $((sent + valid)) >"$dir/until.$lease"; done <"$dir/leases"
  while read -r lease token job valid payload <&3; do
    job "$lease" "$token" "$job" "$payload" "$@"
  done 3<"$dir/leases"
done
call /unregister '' left && say "is gone"
