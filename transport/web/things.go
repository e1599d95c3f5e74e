package web

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// settingsOf returns the settings in a body, in the order of the keys.
func settingsOf(in *rest.Settings) []*rotav1.Setting {
	set := make([]*rotav1.Setting, 0, len(in.Set))
	for _, key := range slices.Sorted(maps.Keys(in.Set)) {
		set = append(set, &rotav1.Setting{Key: key, Value: string(in.Set[key])})
	}
	return set
}

// noPreset rejects a preset for anything but a queue.
func noPreset(in *rest.Settings) error {
	if in.Preset != "" {
		return rota.Refusef(rota.KindInvalid, "preset", "preset: got %.40q; only queues have presets, omit it",
			in.Preset)
	}
	return nil
}

func (s *Site) queues() {
	const all, one = "/v1/queues", "/v1/queues/{id}"
	add(s, route{method: http.MethodGet, path: all, call: rotav1.Queues_List_FullMethodName, id: "listQueues",
		says: "List the queues"}, s.listQueues)
	add(s, route{method: http.MethodGet, path: one, call: rotav1.Queues_Get_FullMethodName, id: "getQueue",
		says: "Read a queue's counters and its whole policy"}, s.getQueue)
	add(s, route{method: http.MethodPut, path: one, call: rotav1.Queues_Set_FullMethodName, id: "setQueue",
		says: "Create a queue or change its policy; dry_run=1 only reports the changes"}, s.setQueue)
	add(s, route{method: http.MethodDelete, path: one, call: rotav1.Queues_Delete_FullMethodName, id: "deleteQueue",
		says: "Delete a queue that nothing refers to"}, s.deleteQueue)
	for verb, value := range map[string]string{"pause": "true", "resume": "false"} {
		add(s, route{method: http.MethodPost, path: one + "/" + verb, call: rotav1.Queues_Set_FullMethodName,
			id: verb + "Queue",
			says: map[string]string{"pause": "Pause a queue: no further job of it starts; running jobs continue",
				"resume": "Resume a paused queue"}[verb]},
			func(ctx context.Context, in *NamedVersion) (*Versioned[rota.Queue], error) {
				version, err := in.version()
				if err != nil {
					return nil, err
				}
				// Set would create a missing queue, which a pause must not do.
				if _, err := s.options.Calls.Queues.Get(ctx, &rotav1.GetQueueRequest{Name: in.ID}); err != nil {
					return nil, err
				}
				return queueAnswer(s.options.Calls.Queues.Set(ctx,
					&rotav1.SetQueueRequest{Name: in.ID, IfMatch: version,
						Set: []*rotav1.Setting{{Key: "paused", Value: value}}}))
			})
	}
}

func (s *Site) listQueues(ctx context.Context, in *List) (*Answer[rest.Queues], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Queues.List(ctx, &rotav1.ListQueuesRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetQueues(), words.QueueFromWire)
	return answer(rest.Queues{Queues: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

func (s *Site) getQueue(ctx context.Context, in *One) (*Versioned[rota.Queue], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Queues.Get(ctx, &rotav1.GetQueueRequest{Name: in.ID, Read: read})
	if err != nil {
		return nil, err
	}
	q, err := words.QueueFromWire(got.GetQueue())
	return versioned(q, q.ETag, got.GetAt()), err
}

func queueAnswer(w *rotav1.Queue, err error) (*Versioned[rota.Queue], error) {
	if err != nil {
		return nil, err
	}
	q, err := words.QueueFromWire(w)
	return versioned(q, q.ETag, nil), err
}

// Trial is a call that sets one object, or a dry run of it.
type Trial struct {
	Setting[rest.Settings]
	Dry
	Matching
}

// NamedVersion is a call about one object that may be restricted to one version.
type NamedVersion struct {
	Named
	Matching
}

func (s *Site) setQueue(ctx context.Context, in *Trial) (*Versioned[rota.Queue], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	return queueAnswer(s.options.Calls.Queues.Set(ctx, &rotav1.SetQueueRequest{Name: in.ID, Preset: body.Preset,
		Set: settingsOf(&body), DryRun: in.DryRun, IfMatch: version}))
}

// QueueDeletion holds the parameters of the deletion of a queue.
type QueueDeletion struct {
	NamedVersion
	DrainTo string `query:"drain_to" maxLength:"255" doc:"Moves the pending jobs to this queue first. Repeat the call until left is 0."`
}

func (s *Site) deleteQueue(ctx context.Context, in *QueueDeletion) (*Answer[rest.Deleted], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Queues.Delete(ctx, &rotav1.DeleteQueueRequest{Name: in.ID, DrainTo: in.DrainTo,
		IfMatch: version})
	return answer(rest.Deleted{Left: got.GetLeft()}, nil), err
}

func (s *Site) tenants() {
	const all, one = "/v1/tenants", "/v1/tenants/{id}"
	add(s, route{method: http.MethodGet, path: all, call: rotav1.Tenants_List_FullMethodName, id: "listTenants",
		says: "List the tenants"}, s.listTenants)
	add(s, route{method: http.MethodGet, path: one, call: rotav1.Tenants_Get_FullMethodName, id: "getTenant",
		says: "Read a tenant: its limits and its current use"}, s.getTenant)
	add(s, route{method: http.MethodPut, path: one, call: rotav1.Tenants_Set_FullMethodName, id: "setTenant",
		says: "Change a tenant's limits; dry_run=1 only reports the changes"}, s.setTenant)
	add(s, route{method: http.MethodDelete, path: one, call: rotav1.Tenants_Delete_FullMethodName, id: "deleteTenant",
		says: "Delete the settings of a tenant that nothing refers to"}, s.deleteTenant)
}

func (s *Site) listTenants(ctx context.Context, in *List) (*Answer[rest.Tenants], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Tenants.List(ctx, &rotav1.ListTenantsRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetTenants(), words.TenantFromWire)
	return answer(rest.Tenants{Tenants: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

func (s *Site) getTenant(ctx context.Context, in *One) (*Versioned[rota.Tenant], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Tenants.Get(ctx, &rotav1.GetTenantRequest{Id: in.ID, Read: read})
	if err != nil {
		return nil, err
	}
	t, err := words.TenantFromWire(got.GetTenant())
	return versioned(t, t.ETag, got.GetAt()), err
}

func (s *Site) setTenant(ctx context.Context, in *Trial) (*Versioned[rota.Tenant], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	if err := noPreset(&body); err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Tenants.Set(ctx, &rotav1.SetTenantRequest{Id: in.ID, Set: settingsOf(&body),
		DryRun: in.DryRun, IfMatch: version})
	if err != nil {
		return nil, err
	}
	t, err := words.TenantFromWire(got)
	return versioned(t, t.ETag, nil), err
}

func (s *Site) deleteTenant(ctx context.Context, in *NamedVersion) (*Answer[rest.Deleted], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	_, err = s.options.Calls.Tenants.Delete(ctx, &rotav1.DeleteTenantRequest{Id: in.ID, IfMatch: version})
	return answer(rest.Deleted{}, nil), err
}

func (s *Site) workers() {
	const all, one = "/v1/workers", "/v1/workers/{id}"
	add(s, route{method: http.MethodGet, path: all, call: rotav1.Workers_List_FullMethodName, id: "listWorkers",
		says: "List the workers"}, s.listWorkers)
	add(s, route{method: http.MethodGet, path: one, call: rotav1.Workers_Get_FullMethodName, id: "getWorker",
		says: "Read a worker with its open leases"}, s.getWorker)
	add(s, route{method: http.MethodDelete, path: one, call: rotav1.Workers_Delete_FullMethodName, id: "deleteWorker",
		says: "Delete a worker that is gone"}, s.deleteWorker)
	calls := s.options.Calls.Workers
	for _, v := range []struct {
		verb, call, says string
		do               func(context.Context, string) (*rotav1.Worker, error)
	}{
		{"drain", rotav1.Workers_Drain_FullMethodName, "Drain a worker: it finishes its leases and gets no more",
			func(ctx context.Context, id string) (*rotav1.Worker, error) {
				return calls.Drain(ctx, &rotav1.DrainWorkerRequest{Id: id})
			}},
		{"suspend", rotav1.Workers_Suspend_FullMethodName, "Suspend a worker: it gets no more jobs until it is resumed",
			func(ctx context.Context, id string) (*rotav1.Worker, error) {
				return calls.Suspend(ctx, &rotav1.SuspendWorkerRequest{Id: id})
			}},
		{"resume", rotav1.Workers_Resume_FullMethodName, "Resume a suspended worker",
			func(ctx context.Context, id string) (*rotav1.Worker, error) {
				return calls.Resume(ctx, &rotav1.ResumeWorkerRequest{Id: id})
			}},
		{"retire", rotav1.Workers_Retire_FullMethodName, "Retire a worker, and revoke its leases",
			func(ctx context.Context, id string) (*rotav1.Worker, error) {
				return calls.Retire(ctx, &rotav1.RetireWorkerRequest{Id: id})
			}},
	} {
		add(s, route{method: http.MethodPost, path: one + "/" + v.verb, call: v.call, id: v.verb + "Worker",
			says: v.says},
			func(ctx context.Context, in *Named) (*Answer[rota.Worker], error) {
				got, err := v.do(ctx, in.ID)
				if err != nil {
					return nil, err
				}
				w, err := words.WorkerFromWire(got)
				return answer(w, nil), err
			})
	}
}

func (s *Site) listWorkers(ctx context.Context, in *List) (*Answer[rest.Workers], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Workers.List(ctx, &rotav1.ListWorkersRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetWorkers(), words.WorkerFromWire)
	return answer(rest.Workers{Workers: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

func (s *Site) getWorker(ctx context.Context, in *One) (*Answer[rota.Worker], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Workers.Get(ctx, &rotav1.GetWorkerRequest{Id: in.ID, Read: read})
	if err != nil {
		return nil, err
	}
	w, err := words.WorkerFromWire(got.GetWorker())
	return answer(w, got.GetAt()), err
}

func (s *Site) deleteWorker(ctx context.Context, in *Named) (*Answer[rest.Deleted], error) {
	_, err := s.options.Calls.Workers.Delete(ctx, &rotav1.DeleteWorkerRequest{Id: in.ID})
	return answer(rest.Deleted{}, nil), err
}

func (s *Site) cluster() {
	add(s, route{method: http.MethodGet, path: "/v1/cluster", call: rotav1.Cluster_Status_FullMethodName,
		id:   "getCluster",
		says: "Read the status of the cluster as seen by the node that answers; works without a leader"},
		func(ctx context.Context, _ *None) (*Versioned[rota.ClusterStatus], error) {
			got, err := s.options.Calls.Cluster.Status(ctx, &rotav1.StatusRequest{})
			if err != nil {
				return nil, err
			}
			status, err := words.ClusterStatusFromWire(got)
			return versioned(status, status.ETag, nil), err
		})
	add(s, route{method: http.MethodGet, path: "/v1/attention", call: rotav1.Cluster_Attention_FullMethodName,
		id:   "getAttention",
		says: "List the problems that need an operator, worst first, as the node that answers sees them"},
		func(ctx context.Context, _ *None) (*Answer[rota.Attention], error) {
			got, err := s.options.Calls.Cluster.Attention(ctx, &rotav1.AttentionRequest{})
			if err != nil {
				return nil, err
			}
			return answer(words.AttentionFromWire(got), nil), nil
		})
	add(s, route{method: http.MethodPut, path: "/v1/cluster", call: rotav1.Cluster_Set_FullMethodName, id: "setCluster",
		says: "Change the cluster's own settings; dry_run=1 only reports the changes"}, s.setCluster)
	add(s, route{method: http.MethodGet, path: "/v1/whoami", call: rotav1.Auth_WhoAmI_FullMethodName, id: "whoAmI",
		says: "Read the identity and the rights of the caller"},
		func(ctx context.Context, _ *None) (*Answer[rota.Identity], error) {
			got, err := s.options.Calls.Auth.WhoAmI(ctx, &rotav1.WhoAmIRequest{})
			if err != nil {
				return nil, err
			}
			who, err := words.IdentityFromWire(got)
			return answer(who, nil), err
		})
}

// ClusterSetting is a call that sets the cluster's own settings.
type ClusterSetting struct {
	Dry
	Matching
	Given In[rest.Settings]
}

func (s *Site) setCluster(ctx context.Context, in *ClusterSetting) (*Versioned[rota.ClusterSettings], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	if err := noPreset(&body); err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Cluster.Set(ctx, &rotav1.SetClusterRequest{Set: settingsOf(&body), DryRun: in.DryRun,
		IfMatch: version})
	if err != nil {
		return nil, err
	}
	c, err := words.ClusterSettingsFromWire(got)
	return versioned(c, c.ETag, nil), err
}
