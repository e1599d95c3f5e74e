package web

import (
	"context"
	"net/http"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	"github.com/rotasched/rota/internal/millis"
)

// LanesQuery holds the parameters of a list of lanes.
type LanesQuery struct {
	One
	Order string `query:"order" enum:"largest,oldest" default:"largest" doc:"largest lists the lanes with the most jobs first, oldest those whose oldest jobs have waited longest."`
	Limit int32  `query:"limit" minimum:"1" maximum:"100" default:"100" doc:"Maximum number of rows."`
}

// RoundQuery selects a round.
type RoundQuery struct {
	Epoch  uint64 `path:"epoch" minimum:"1"`
	Height uint64 `query:"height" minimum:"1" required:"true" doc:"Index of the state of the round; every decision has its epoch and height."`
}

// DatesQuery describes when a schedule would run: by a cron expression, or once in a period.
type DatesQuery struct {
	Cron  string `query:"cron" maxLength:"1024" doc:"The cron expression."`
	TZ    string `query:"tz" maxLength:"256" doc:"Time zone of the expression; UTC if left out."`
	Every int64  `query:"every_ms" minimum:"0" maximum:"31622400000" doc:"The period, instead of an expression."`
	Limit int32  `query:"limit" minimum:"1" maximum:"100" default:"5" doc:"Maximum number of rows."`
}

// views registers the calls that show the inside of a queue and the nodes' views of each other; gRPC does not have
// them.
func (s *Site) views() {
	add(s, route{method: http.MethodGet, path: "/v1/queues/{id}/lanes", id: "listLanes",
		says: "List the largest or longest waiting lanes of a queue, and why their jobs are not placed"},
		func(ctx context.Context, in *LanesQuery) (*Answer[rest.Lanes], error) {
			read, err := in.wire()
			if err != nil {
				return nil, err
			}
			lanes, at, err := s.options.Calls.Lanes(ctx, in.ID, int(in.Limit), in.Order == "oldest", read)
			if err != nil {
				return nil, err
			}
			return answer(lanes, at), nil
		})
	add(s, route{method: http.MethodGet, path: "/v1/schedule-dates", id: "datesOf",
		says: "Calculate the first dates from now of a schedule that does not exist yet"},
		func(_ context.Context, in *DatesQuery) (*Answer[rest.Dates], error) {
			dates, err := s.options.Calls.DatesOf(&rota.ScheduleTimes{Cron: in.Cron, TZ: in.TZ,
				Every: millis.Duration(in.Every)}, int(in.Limit))
			return answer(rest.Dates{Dates: dates}, nil), err
		})
	add(s, route{method: http.MethodGet, path: "/v1/cluster/views", id: "getViews",
		says: "Read how each node sees each other node: by gossip, by its calls, and by raft"},
		func(ctx context.Context, _ *None) (*Answer[rest.Views], error) {
			views, err := s.options.Calls.Views(ctx)
			return answer(views, nil), err
		})
	add(s, route{method: http.MethodGet, path: "/v1/rounds/{epoch}", id: "getRound",
		says: "Compute a round again on its state: drawn jobs, workers with room, assignments, and whether the log has the same"},
		func(ctx context.Context, in *RoundQuery) (*Answer[rest.Round], error) {
			round, at, err := s.options.Calls.Round(ctx, in.Epoch, in.Height)
			if err != nil {
				return nil, err
			}
			return answer(round, at), nil
		})
}
