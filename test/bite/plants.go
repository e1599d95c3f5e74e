package main

// check is a test that must fail when the bug is planted.
type check struct {
	// pkg is the folder of its package, run the pattern of its name.
	pkg, run string
	// says holds a pattern of its message for the bug.
	says string
	// drawn means that rapid draws its inputs, from the seed of the run.
	drawn bool
}

// plant is a bug behind the build tag plant_<name>. Every one of its checks must catch it.
type plant struct {
	name   string
	checks []check
}

// modelSays matches TestModel's messages for a difference: it compares everything that a job affects, and which
// difference it finds first is rapid's choice, a different one each time.
const modelSays = `as in the model|the model has|I\d+: |by another worker, is accepted|(was assigned|got a lease) but|` +
	`is free, want held`

var plants = []plant{
	{"ack_before_commit", []check{{pkg: "cluster", run: "^TestLoss_whatWasAcknowledgedOutlivesItsLeader$",
		says: `has lost \d+ of \d+ acknowledged jobs`}}},
	{"no_fsync", []check{{pkg: "cluster/raftstore", run: "^TestPowerLoss$",
		says: `was acknowledged and is lost after the power failure`}}},
	{"fencing_off", []check{
		{pkg: "fsm", run: "^TestModel$", drawn: true, says: modelSays},
		{pkg: "test/sim", run: "^TestSeeds$", says: `which was not that session's: it was heard`}}},
	{"expiry_without_epoch", []check{
		{pkg: "test/sim", run: "^(TestH05|TestH20)", says: `an entry of term \d+ moved the clock`},
		{pkg: "test/sim", run: "^TestSeeds$", says: `an entry of term \d+ (moved the clock|brought \w+)`}}},
	{"ttl_from_wall_clock", []check{{pkg: "test/sim", run: "^TestSeeds$",
		says: `expired \d+ ms before its time to live was over`}}},
	{"uncapped_tick", []check{
		{pkg: "cluster", run: "^(TestH03|TestH21)", says: `a pause of 60 s let \d+ ms pass`},
		{pkg: "test/sim", run: "^TestH08", says: `the clock leapt from`}}},
	{"dedupe_not_in_snapshot", []check{{pkg: "test/sim", run: "^TestSeeds$",
		says: `is NONE at the end|was completed twice|has digest|keeps \d+ rows, \d+ jobs have ended`}}},
	{"map_range", []check{{pkg: "test/sim", run: "^TestSeeds$",
		says: `node n\d has digest [0-9a-f]+ at index \d+, another node has`}}},
	{"nonatomic_restore", []check{{pkg: "cluster", run: "^TestRestore_aDamagedSnapshotLeavesTheNodeAsItWas$",
		says: `the refused snapshot has changed the node's state`}}},
	{"verify_leader_reads", []check{{pkg: "cluster", run: "^TestRead_ofADeposedLeaderThatNoticedNothing$",
		says: `misses a write that was acknowledged before it`}}},
	{"crc_off", []check{
		{pkg: "cluster/raftstore", run: "^(TestDamagedEntryEndsTheProcess|TestPreflightFindsFlips)$",
			says: `passes, but entry \d+ is read differently|got <nil>`},
		{pkg: "fsm/entry", run: "^TestEnvelope$", says: `flipped and accepted`}}},
	{"lagging_read", []check{{pkg: "cluster", run: "^TestRead_onAFollowerThatLags$",
		says: `a job answered before it is not applied there|the read is of index`}}},
	{"silence_forgotten", []check{{pkg: "test/sim", run: "^TestH24",
		says: `lease open: got true, want false`}}},
	{"child_early", []check{{pkg: "fsm", run: "^TestWorkflowModel$", drawn: true,
		says: `I5: |before \S+ completed, for which it waits`}}},
	{"unique_left_behind", []check{
		{pkg: "fsm", run: "^TestModel$", drawn: true, says: modelSays},
		{pkg: "fsm", run: "^TestUnique_scopes$", says: `I4: job \S+ holds unique key`}}},
	{"fires_twice", []check{
		{pkg: "fsm", run: "^TestFire$", says: `want a refusal STALE of "from"`},
		{pkg: "fsm", run: "^TestScheduleModel$", says: `skipped, \d+ runs; want .* as in the model`},
		{pkg: "test/sim", run: "^TestSeeds$", says: `was fired from \S+, it is decided through`}}},
	{"refunds_twice", []check{{pkg: "fsm", run: "^TestWeightedRate_model$",
		says: `the debt is \d+, the history gives`}}},
	{"turns_twice", []check{
		{pkg: "fsm", run: "^TestBudget_turn$", says: `want a refusal STALE of "from"`},
		{pkg: "test/sim", run: "^TestSeeds$", says: `begins a period from \S+ to`}}},
	{"books_twice", []check{
		{pkg: "fsm", run: "^TestBudget_model$", says: `has \{.*, the model`},
		{pkg: "test/sim", run: "^TestSeeds$", says: `account \S+ has spent .* in the model`}}},
	{"stays_open", []check{{pkg: "fsm", run: "^TestBreaker_model$", says: `\d+ jobs started, want \d+`}}},
	{"key_not_in_snapshot", []check{{pkg: "test/sim", run: "^TestSeeds$",
		says: `restart: .* I11: key \S+ counts`}}},
	{"passes_head", []check{
		{pkg: "fsm", run: "^TestKeysModel$", says: `was assigned: WAITING_IN_SEQUENCE`},
		{pkg: "test/sim", run: "^TestSeeds$",
			says: `which comes before it in key|I4: job \w+ is blocked in its lane`}}},
	{"hook_repeats", []check{
		{pkg: "fsm", run: "^TestWebhook$", says: `want a refusal STALE of "from"`},
		{pkg: "fsm", run: "^TestWebhookModel$", says: `want a refusal STALE of "from"`}}},
	{"callback_early", []check{
		{pkg: "fsm", run: "^TestBatchModel$", says: `\d+ callbacks in \[`},
		{pkg: "test/sim", run: "^TestSeeds$", says: `has its callback while \d+ of its jobs live`}}},
	{"event_missing", []check{{pkg: "fsm", run: "^TestEvents$", says: `retry is reported as \{ID:0\.0\.0`}}},
	{"delays_first", []check{
		{pkg: "sched", run: "^TestBackfill_random$", says: `is delayed`},
		{pkg: "test/sim", run: "^TestSeeds$", says: `takes room that is kept there for one that came first`}}},
	{"plan_forgotten", []check{
		{pkg: "sched", run: "^TestConservative_random$",
			says: `where it delays one before it|starts, and has room from|has room at \S+ from \d+ on`},
		{pkg: "test/sim", run: "^TestSeeds$", says: `takes room that is kept there for one that came first`}}},
	{"same_id_rejoin", []check{{pkg: "cluster", run: "^TestNode_emptiedDirectoryOfAKnownIDIsRefused$",
		says: `an emptied directory of a known id started`}}},
}

// rotate returns n of the plants: consecutive seeds cover all of them in turn.
func rotate(all []plant, n int, seed uint64) []plant {
	n = min(n, len(all))
	turns := uint64((len(all) + n - 1) / n)
	first := int(seed%turns) * n
	var chosen []plant
	for i := range n {
		chosen = append(chosen, all[(first+i)%len(all)])
	}
	return chosen
}
