package web

import (
	"context"
	"net/http"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	"github.com/rotasched/rota/internal/millis"
)

// LanesQuery are the parameters of a list of lanes.
type LanesQuery struct {
	One
	Order string `query:"order" enum:"largest,oldest" default:"largest" doc:"largest has the lanes with the most jobs first, oldest those whose oldest jobs have waited longest."`
	Limit int32  `query:"limit" minimum:"1" maximum:"100" default:"100" doc:"At most so many."`
}

// RoundQuery says which round is meant.
type RoundQuery struct {
	Epoch  uint64 `path:"epoch" minimum:"1"`
	Height uint64 `query:"height" minimum:"1" required:"true" doc:"The index that it was decided on: every decision has both."`
}

// DatesQuery says when a schedule would run: by a cron expression, or once in a period.
type DatesQuery struct {
	Cron  string `query:"cron" maxLength:"1024" doc:"The cron expression."`
	TZ    string `query:"tz" maxLength:"256" doc:"Its time zone, UTC where it is left out."`
	Every int64  `query:"every_ms" minimum:"0" maximum:"31622400000" doc:"The period, in the place of an expression."`
	Limit int32  `query:"limit" minimum:"1" maximum:"100" default:"5" doc:"At most so many."`
}

// views registers what looks into a queue and between nodes; gRPC has none of it.
func (s *Site) views() {
	add(s, route{method: http.MethodGet, path: "/v1/queues/{id}/lanes", id: "listLanes",
		says: "The largest lanes of a queue, or those that wait longest, with why nothing of each is placed"},
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
	add(s, route{method: http.MethodGet, path: "/v1/schedule-dates", id: "datesOf", says: "The first dates from now of a schedule that is not set yet"},
		func(_ context.Context, in *DatesQuery) (*Answer[rest.Dates], error) {
			dates, err := s.options.Calls.DatesOf(&rota.ScheduleTimes{Cron: in.Cron, TZ: in.TZ, Every: millis.Duration(in.Every)}, int(in.Limit))
			return answer(rest.Dates{Dates: dates}, nil), err
		})
	add(s, route{method: http.MethodGet, path: "/v1/cluster/views", id: "getViews",
		says: "What each node finds of each other one: by gossip, by its calls, and by raft"},
		func(ctx context.Context, _ *None) (*Answer[rest.Views], error) {
			views, err := s.options.Calls.Views(ctx)
			return answer(views, nil), err
		})
	add(s, route{method: http.MethodGet, path: "/v1/rounds/{epoch}", id: "getRound",
		says: "A round, computed again on the state at its height: what it drew, who had room, who got what, and whether the log has the same"},
		func(ctx context.Context, in *RoundQuery) (*Answer[rest.Round], error) {
			round, at, err := s.options.Calls.Round(ctx, in.Epoch, in.Height)
			if err != nil {
				return nil, err
			}
			return answer(round, at), nil
		})
}
