package client

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// Workers lists all workers by id.
func (c *Client) Workers(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Worker, error] {
	return list(ctx, c, "list workers", 0, "", opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.Worker], err error) {
			request := &rotav1.ListWorkersRequest{Read: words.ReadToWire(p.read), Limit: int32(p.limit),
				Cursor: p.cursor}
			answer, err := n.workers.List(ctx, request)
			if err != nil {
				return got, err
			}
			got.items, err = words.WorkersFromWire(answer.GetWorkers())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}

// Worker reads one worker with its open leases.
func (c *Client) Worker(ctx context.Context, id rota.WorkerID, opts ...ReadOption) (rota.Worker, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetWorkerResponse, error) {
		return n.workers.Get(ctx, &rotav1.GetWorkerRequest{Id: string(id), Read: how})
	}
	from := func(w *rotav1.GetWorkerResponse) (rota.Worker, error) { return words.WorkerFromWire(w.GetWorker()) }
	return read(ctx, c, "show worker", opts, from, ask)
}

// Queues lists all queues by name.
func (c *Client) Queues(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Queue, error] {
	return list(ctx, c, "list queues", 0, "", opts, func(ctx context.Context, n *node, p page) (got pageOf[rota.Queue],
		err error) {
		request := &rotav1.ListQueuesRequest{Read: words.ReadToWire(p.read), Limit: int32(p.limit), Cursor: p.cursor}
		answer, err := n.queues.List(ctx, request)
		if err != nil {
			return got, err
		}
		got.items, err = words.QueuesFromWire(answer.GetQueues())
		got.next, got.at = answer.GetNextCursor(), answer.GetAt()
		return got, err
	})
}

// Queue reads one queue with its policy and counters.
func (c *Client) Queue(ctx context.Context, name rota.QueueName, opts ...ReadOption) (rota.Queue, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetQueueResponse, error) {
		return n.queues.Get(ctx, &rotav1.GetQueueRequest{Name: string(name), Read: how})
	}
	from := func(w *rotav1.GetQueueResponse) (rota.Queue, error) { return words.QueueFromWire(w.GetQueue()) }
	return read(ctx, c, "show queue", opts, from, ask)
}

// SetQueue creates or changes a queue, key by key. It starts from the named preset; without one, from the queue's
// present policy (standard for a new queue).
func (c *Client) SetQueue(ctx context.Context, name rota.QueueName, preset string,
	set []rota.Setting, opts ...SetOption) (rota.Queue, error) {
	how := setting(opts)
	ask := func(ctx context.Context, n *node) (*rotav1.Queue, error) {
		request := &rotav1.SetQueueRequest{Name: string(name), Preset: preset, Set: words.SettingsToWire(set),
			DryRun: how.dryRun, IfMatch: how.ifMatch}
		return n.queues.Set(ctx, request)
	}
	return one(ctx, c, "set queue", words.QueueFromWire, ask)
}

// Attention lists the issues that need an operator, worst first, as seen by one node.
func (c *Client) Attention(ctx context.Context) (a rota.Attention, err error) {
	err = c.call(ctx, "attention", maxAnswer, func(ctx context.Context, n *node) error {
		answer, err := n.cluster.Attention(ctx, &rotav1.AttentionRequest{})
		if err == nil {
			a = words.AttentionFromWire(answer)
		}
		return err
	})
	return a, err
}

// Peers lists the servers of the Raft configuration.
func (c *Client) Peers(ctx context.Context) (peers []rota.RaftPeer, err error) {
	err = c.call(ctx, "list peers", maxAnswer, func(ctx context.Context, n *node) error {
		answer, err := n.cluster.Peers(ctx, &rotav1.PeersRequest{})
		if err != nil {
			return err
		}
		peers = make([]rota.RaftPeer, len(answer.GetPeers()))
		for i, p := range answer.GetPeers() {
			peers[i] = words.RaftPeerFromWire(p)
		}
		return nil
	})
	return peers, err
}

// TransferLeadership moves leadership to a node and returns the new leader. If no node is named, the leader chooses
// one; a call whose outcome was lost is then not repeated, because that would move leadership twice.
func (c *Client) TransferLeadership(ctx context.Context, to rota.NodeID) (leader rota.NodeID, err error) {
	transfer := func(ctx context.Context, n *node) error {
		answer, err := n.cluster.TransferLeadership(ctx, &rotav1.TransferLeadershipRequest{To: string(to)})
		leader = rota.NodeID(answer.GetLeader())
		return err
	}
	if to != "" {
		err = c.call(ctx, "transfer leadership", unbounded, transfer)
		return leader, err
	}
	if _, err := c.Peers(ctx); err != nil { // finds a node that answers
		return "", err
	}
	n := c.present()
	if err := transfer(ctx, n); err != nil {
		return "", c.failed(ctx, "transfer leadership", n, err)
	}
	return leader, nil
}

// RemovePeer removes a server from the Raft configuration. After a try whose outcome was lost, a server that is already
// gone counts as success.
func (c *Client) RemovePeer(ctx context.Context, id rota.NodeID) error {
	tried := false
	return c.call(ctx, "remove peer", unbounded, func(ctx context.Context, n *node) error {
		_, err := n.cluster.RemovePeer(ctx, &rotav1.RemovePeerRequest{Id: string(id)})
		if tried && err != nil && words.FromStatus(err).Kind == rota.KindNotFound {
			return nil
		}
		tried = true
		return err
	})
}

// Leave makes the node at the first address hand over its work, leave the cluster and stop. The call is made once and
// never sent to another node, which would leave instead.
func (c *Client) Leave(ctx context.Context) error {
	n := c.nodes[0]
	if _, err := n.cluster.Leave(ctx, &rotav1.LeaveRequest{}); err != nil {
		return c.failed(ctx, "leave", n, err)
	}
	return nil
}

// StoreBackup makes the leader store a backup at once at its --backup-to, and returns what the state then records about
// the last backup. The node asked must be the leader.
func (c *Client) StoreBackup(ctx context.Context) (b rota.StoredBackup, err error) {
	err = c.call(ctx, "store backup", unbounded, func(ctx context.Context, n *node) error {
		answer, err := n.cluster.StoreBackup(ctx, &rotav1.StoreBackupRequest{})
		if err == nil {
			b = *words.StoredBackupFromWire(answer)
		}
		return err
	})
	return b, err
}

// InstallTZData puts a release of the time zone database into force on the whole cluster, and returns the release in
// force. The data are packed zones, as `rota tzdata install` makes them from a file. Installing the same release again
// changes nothing.
func (c *Client) InstallTZData(ctx context.Context, t rota.TZInstall) (rota.TZData, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.TZData, error) {
		return n.cluster.InstallTZData(ctx, words.TZInstallToWire(&t))
	}
	from := func(w *rotav1.TZData) (rota.TZData, error) { return *words.TZDataFromWire(w), nil }
	return one(ctx, c, "install tzdata", from, ask)
}

// SaveSnapshot writes an online backup to w (SPEC §13.5). It moves to another node only while nothing has been written:
// parts of two nodes' backups do not form one file. With [Stale] the backup is the state of the node that answers,
// which works without a leader.
func (c *Client) SaveSnapshot(ctx context.Context, w io.Writer, opts ...ReadOption) error {
	how := words.ReadToWire(readingOf(opts).how)
	var broken *rota.Error
	err := c.call(ctx, "save snapshot", unbounded, func(ctx context.Context, n *node) error {
		wrote, err := saveSnapshot(ctx, n, how, w)
		if err != nil && wrote > 0 {
			broken = rota.ErrorOf(c.failed(ctx, "save snapshot", n, err))
			return nil
		}
		return err
	})
	if err == nil && broken != nil {
		e := *broken
		e.Text = "the stream broke midway, begin again: " + e.Text
		return &e
	}
	return err
}

func saveSnapshot(ctx context.Context, n *node, how *rotav1.Read, w io.Writer) (wrote int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := n.cluster.SaveSnapshot(ctx, &rotav1.SaveSnapshotRequest{Read: how})
	if err != nil {
		return 0, err
	}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return wrote, nil
		}
		if err != nil {
			return wrote, err
		}
		k, err := w.Write(chunk.GetData())
		wrote += int64(k)
		if err != nil {
			return wrote, &rota.Error{Kind: rota.KindInternal, Text: "write snapshot", Cause: err}
		}
	}
}

// Verify checks the invariants of every node and compares the nodes' digests at one index.
func (c *Client) Verify(ctx context.Context) (verdict rota.Verdict, err error) {
	err = c.call(ctx, "verify", unbounded, func(ctx context.Context, n *node) error {
		answer, err := n.cluster.Verify(ctx, &rotav1.VerifyRequest{})
		if err != nil {
			return err
		}
		verdict, err = words.VerdictFromWire(answer)
		return err
	})
	return verdict, err
}
