#!/usr/bin/env bash
# CWL: cwltool grants the minimum of a range of resources, in mebibytes, and rounds cores up.
#
# Guess: with ramMin 100 and ramMax 50000 the job gets what the machine has free within the range, and with coresMin 0.3
#   a third of a core.
# Seen: runtime.ram is ramMin exactly, whatever ramMax says and however much is free; runtime.cores is 1. With ramMax
#   alone, ramMax is granted.
# Versions: cwltool 3.3.20260925135507 (CWL v1.2), Python 3.11. Date: 2026-11-29.
# Why it matters: a scheduler that imports CWL and reserves the maximum packs far fewer jobs than the reference runner,
#   and one that reserves fractions of cores packs more.
. "$(dirname "$0")/lib.sh"
pip cwltool==3.3.20260925135507
tool() { # MEMBERS: print what a job with these requirements is granted
  cat >tool.cwl <<CWL
cwlVersion: v1.2
class: CommandLineTool
baseCommand: [echo]
requirements:
  ResourceRequirement: {$1}
  InlineJavascriptRequirement: {}
arguments: ["\$(runtime.cores)", "\$(runtime.ram)"]
inputs: []
stdout: out.txt
outputs: {o: {type: stdout}}
CWL
  cwltool --quiet tool.cwl >/dev/null
  cat out.txt
}
cwltool --version | sed 's/.* //'
same "coresMin 0.3, coresMax 64, ramMin 100, ramMax 50000: cores, ram" "$(tool 'coresMin: 0.3, coresMax: 64, ramMin: 100, ramMax: 50000')" "1 100"
same "ramMax 700 alone: cores, ram" "$(tool 'ramMax: 700')" "1 700"
