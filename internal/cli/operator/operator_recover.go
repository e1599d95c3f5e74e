package operator

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/jsonparts"
)

// maxReportBytes bounds a file of --others.
const maxReportBytes = 1 << 20

func (a Commands) recover() *cobra.Command {
	var data string
	var report, lose bool
	var others []string
	cmd := &cobra.Command{
		Use:   "recover --data D (--report | --yes-lose-quorum [--others REPORT]…)",
		Short: "Continue with one node's disk when the quorum is lost forever",
		Long: `Continue with one stopped node's disk when a majority of the disks is lost forever.

--report prints the last entry, date, digest and members of the disk and changes nothing; with
-o json it is the input of --others. --yes-lose-quorum makes the disk a cluster of its own, with
one voter, a new cluster id and a greater incarnation. All leases are void, their jobs wait for 60
s, and the ids of all other nodes never return. The old files stay in before-recovery-*. It is
refused while another member answers within 10 s, if the disk is damaged, and if a report of
--others goes further.

Everything answered after this disk's last entry is lost, including revocations, and all
attestations, which are bound to the old cluster.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&data, "data", "", "data `directory` of the stopped node")
	cmd.Flags().BoolVar(&report, "report", false, "print the content of the disk, and change nothing")
	cmd.Flags().BoolVar(&lose, "yes-lose-quorum", false, "recover: the other members never come back")
	cmd.Flags().StringSliceVar(&others, "others", nil,
		"`file` with the report of another disk that is left; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case data == "":
			return cli.Usagef("recover wants --data: the data directory of the stopped node")
		case report == lose:
			return cli.Usagef("recover wants one of --report and --yes-lose-quorum")
		case report && len(others) > 0:
			return cli.Usagef("--others goes with --yes-lose-quorum")
		}
		return a.Does(func(ctx context.Context, _ []string) error {
			if report {
				return a.reportDisk(ctx, data)
			}
			return a.recoverDisk(ctx, data, others)
		})(cmd, args)
	}
	return cmd
}

func (a Commands) reportDisk(ctx context.Context, data string) error {
	r, err := recovery.Inspect(ctx, data)
	if err != nil {
		return cli.AsFailure(err)
	}
	return a.PrintOne(r, []string{string(r.Node)}, func(bool) string {
		return cli.RenderFacts([]cli.Fact{{Name: "node", Value: r.Node}, {Name: "name", Value: r.Cluster},
			{Name: "cluster", Value: r.ClusterID}, {Name: "incarnation", Value: r.Incarnation},
			{Name: "last term", Value: r.Term}, {Name: "last index", Value: r.Index}, {Name: "date", Value: r.Date},
			{Name: "digest", Value: r.Digest}}) + "\n" +
			cli.RenderList([]cli.Column[recovery.Member]{
				{Head: "MEMBER", Cell: func(m recovery.Member) any { return m.ID }},
				{Head: "ADDRESS", Cell: func(m recovery.Member) any { return m.Address }},
				{Head: "VOTER", Cell: func(m recovery.Member) any { return m.Voter }},
			}, r.Members, false)
	})
}

func (a Commands) recoverDisk(ctx context.Context, data string, others []string) error {
	o := recovery.Options{Data: data}
	for _, path := range others {
		r, err := readReport(path)
		if err != nil {
			return cli.AsFailure(err)
		}
		o.Others = append(o.Others, r)
	}
	a.Talk("looking for other members for 10s")
	r, err := recovery.Recover(ctx, o)
	if err != nil {
		return cli.AsFailure(err)
	}
	if r.Old.Node != "" {
		a.Talk("recovered up to term %d, index %d of %s; later changes are lost, and all attestations", r.Old.Term,
			r.Old.Index,
			r.Old.Date)
	}
	a.Talk("start the node as before, without --join; new nodes join it under ids that were never used")
	return a.PrintOne(r, []string{string(r.ClusterID)}, func(bool) string {
		return cli.RenderFacts([]cli.Fact{{Name: "cluster", Value: r.ClusterID},
			{Name: "incarnation", Value: r.Incarnation}, {Name: "old files", Value: r.Aside}})
	})
}

// readReport reads what --report -o json wrote.
func readReport(path string) (r recovery.Report, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return r, err
	}
	if info.Size() > maxReportBytes {
		return r, rota.Refusef(rota.KindInvalid, "others", "%s too long for a report: got %d bytes, maximum %d", path,
			info.Size(), maxReportBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := jsonparts.Read(text, &r, false); err != nil {
		return r, fmt.Errorf("%s is not a report of operator recover --report -o json: %w", path, err)
	}
	if r.Node == "" || r.ClusterID == "" || r.Index == 0 {
		return r, rota.Refusef(rota.KindInvalid, "others",
			"%s is not a report of operator recover --report -o json: node, cluster id or index is missing", path)
	}
	return r, nil
}
