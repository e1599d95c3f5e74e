package sched

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rotasched/rota"
)

// vectorFiles maps every file of the folder to its test. A file without a test is an error, and so is a test without
// its file.
var vectorFiles = map[string]func(t *testing.T, text []byte){
	"hash": testHash, "shuffle": testShuffle, "market": testMarket, "aging": testAging, "adaptive": testAdaptive,
	"stats": testStats, "backoff": testBackoff, "sample": testSample, "matching": testMatching,
}

// TestVectors checks the product against SPEC §15, to the bit. ROTA_VECTORS names another folder than the copy here.
func TestVectors(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("ROTA_VECTORS")
	if folder == "" {
		folder = filepath.Join("testdata", "vectors")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) != len(vectorFiles) {
		t.Errorf("%s holds %d vector files, %d are known (%v)", folder, len(files), len(vectorFiles), err)
	}
	for _, file := range files {
		name := filepath.Base(file[:len(file)-len(".json")])
		test := vectorFiles[name]
		if test == nil {
			t.Errorf("vector file %s is not known", file)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			test(t, text)
		})
	}
}

// vectors decodes a file strictly and rejects an empty one.
func vectors[T any](t *testing.T, text []byte) []T {
	t.Helper()
	var list []T
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("no vectors")
	}
	return list
}

func hash(t *testing.T, text string) (h Hash) {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(h) {
		t.Fatalf("%q is not a hash", text)
	}
	copy(h[:], b)
	return h
}

func testHash(t *testing.T, text []byte) {
	type vector struct {
		Cluster rota.ClusterID `json:"cluster_id"`
		Epoch   uint64
		Height  rota.Index
		Beacon  string
		Job     rota.JobID    `json:"job_id"`
		Worker  rota.WorkerID `json:"worker_id"`
		Attempt int32
		Seed    string
		Lease   string `json:"lease_id"`
		Tie     string
		Beacon0 string
		Random  string `json:"random32"`
		Next    string `json:"next_beacon"`
	}
	for i, v := range vectors[vector](t, text) {
		seed := MatchSeed(v.Cluster, v.Epoch, v.Height, hash(t, v.Beacon))
		if seed != hash(t, v.Seed) {
			t.Errorf("%d: seed %x", i, seed)
		}
		if id := LeaseID(v.Job, v.Worker, v.Attempt, seed); id.String() != v.Lease {
			t.Errorf("%d: lease id %s", i, id)
		}
		if tie := Tie(v.Job, v.Worker, seed); tie != hash(t, v.Tie) {
			t.Errorf("%d: tie %x", i, tie)
		}
		if b := FirstBeacon(v.Cluster); b != hash(t, v.Beacon0) {
			t.Errorf("%d: first beacon %x", i, b)
		}
		if b := NextBeacon(hash(t, v.Beacon), hash(t, v.Random)); b != hash(t, v.Next) {
			t.Errorf("%d: next beacon %x", i, b)
		}
	}
}

func testShuffle(t *testing.T, text []byte) {
	type vector struct {
		Seed          string
		IDs, Shuffled []string
	}
	for i, v := range vectors[vector](t, text) {
		order := Shuffled(len(v.IDs), hash(t, v.Seed))
		for place, from := range order {
			if v.IDs[from] != v.Shuffled[place] {
				t.Errorf("%d: %s is at place %d, want %s", i, v.IDs[from], place, v.Shuffled[place])
			}
		}
	}
}

func tierOf(t *testing.T, name string) (tier rota.ServiceTier) {
	t.Helper()
	if err := tier.UnmarshalText([]byte(name)); err != nil {
		t.Fatal(err)
	}
	return tier
}

func testMarket(t *testing.T, text []byte) {
	type vector struct {
		Fee      int64      `json:"max_fee"`
		Size     int64      `json:"size_bytes"`
		Tier     string     `json:"service_tier"`
		Enqueued rota.Clock `json:"enqueue_ts"`
		Now      rota.Clock
		Key      int64
		Score    int64
	}
	p := rota.StandardPolicy()
	p.Ranking = rota.RankMarket
	for i, v := range vectors[vector](t, text) {
		key := RankKey(&p, 5, v.Fee, v.Size, tierOf(t, v.Tier), v.Enqueued, 0)
		if -key != v.Key || ScoreAt(&p, key, v.Now) != v.Score {
			t.Errorf("%d: key %d score %d, want %d %d", i, -key, ScoreAt(&p, key, v.Now), v.Key, v.Score)
		}
	}
}

func testAging(t *testing.T, text []byte) {
	type vector struct {
		Enqueued rota.Clock `json:"enqueue_ts"`
		Priority int32
		Key      int64
	}
	p := rota.StandardPolicy()
	for i, v := range vectors[vector](t, text) {
		if key := RankKey(&p, v.Priority, 0, 0, rota.TierFree, v.Enqueued, 0); key != v.Key {
			t.Errorf("%d: key %d, want %d", i, key, v.Key)
		}
	}
}

func testAdaptive(t *testing.T, text []byte) {
	type vector struct {
		Success, Fail int64
		EMAus         int64 `json:"ema_us"`
		ExpectedMs    int64 `json:"expected_ms"`
		Priority      int32
		Tier          int
		WaitMs        int64 `json:"wait_ms"`
		SizeBytes     int64 `json:"size_bytes"`
		Weight, Score string
	}
	policy := rota.StandardPolicy()
	k := ScoringOf(&policy)
	for i, v := range vectors[vector](t, text) {
		s := Stats{Success: v.Success, Fail: v.Fail, EMAus: v.EMAus, ExpectedMs: v.ExpectedMs, Sampled: true}
		weight, err1 := strconv.ParseFloat(v.Weight, 64)
		score, err2 := strconv.ParseFloat(v.Score, 64)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if TierOf(v.Priority, 5) != v.Tier {
			t.Errorf("%d: priority %d is of tier %d, want %d", i, v.Priority, TierOf(v.Priority, 5), v.Tier)
		}
		if w := k.Weight(s); w != weight {
			t.Errorf("%d: weight %x, want %x", i, w, weight)
		}
		if x := k.Score(s, v.Priority, v.WaitMs, v.SizeBytes); x != score {
			t.Errorf("%d: score %x, want %x", i, x, score)
		}
	}
}

func testStats(t *testing.T, text []byte) {
	type vector struct {
		Samples       [][2]any
		Success, Fail int64
		EMAus         int64 `json:"ema_us"`
	}
	for i, v := range vectors[vector](t, text) {
		var s Stats
		for _, sample := range v.Samples {
			s = s.Observe(int64(sample[0].(float64)), sample[1].(bool), 1000)
		}
		if s.Success != v.Success || s.Fail != v.Fail || s.EMAus != v.EMAus {
			t.Errorf("%d: %+v, want %d %d %d", i, s, v.Success, v.Fail, v.EMAus)
		}
	}
}

func testBackoff(t *testing.T, text []byte) {
	type vector struct {
		Job     rota.JobID `json:"job_id"`
		Attempt int32
		Base    int64 `json:"base_ms"`
		Factor  int64 `json:"factor_permille"`
		Cap     int64 `json:"cap_ms"`
		Unit    int64 `json:"unit_ms"`
		Delay   int64 `json:"delay_ms"`
	}
	for i, v := range vectors[vector](t, text) {
		p := rota.QueuePolicy{
			BackoffBaseMs: v.Base, BackoffFactorPermille: v.Factor, BackoffCapMs: v.Cap, BackoffUnitMs: v.Unit,
			BackoffJitterPermille: 100,
		}
		if d := BackoffMs(v.Job, v.Attempt, &p); d != v.Delay {
			t.Errorf("%d: delay %d, want %d", i, d, v.Delay)
		}
	}
}

func testSample(t *testing.T, text []byte) {
	type vector struct {
		N             int
		Tiers         [5][]string
		Quotas, Taken [5]int
	}
	policy := rota.StandardPolicy()
	k := ScoringOf(&policy)
	for i, v := range vectors[vector](t, text) {
		var depths [rota.MaxTiers]int
		for tier := range v.Tiers {
			depths[tier] = len(v.Tiers[tier])
		}
		if q := k.Quotas(v.N); [5]int(q[:5]) != v.Quotas {
			t.Errorf("%d: quotas %v, want %v", i, q, v.Quotas)
		}
		if taken := k.Taken(v.N, depths); [5]int(taken[:5]) != v.Taken {
			t.Errorf("%d: taken %v, want %v", i, taken, v.Taken)
		}
	}
}
