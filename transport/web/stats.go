package web

import (
	"context"
	"net/http"

	"github.com/rotasched/rota/api/rest"
)

// StatsQuery holds the parameters of a node's figures.
type StatsQuery struct {
	Step string `query:"step" enum:"1s,1m" default:"1s" doc:"1s has the last 15 minutes, 1m the last 24 hours."`
}

func (s *Site) stats() {
	add(s, route{method: http.MethodGet, path: "/v1/stats", id: "stats",
		says: "Read statistics of the node that answers, for the last minutes or hours"},
		func(ctx context.Context, in *StatsQuery) (*Answer[rest.Stats], error) {
			figures, err := s.options.Calls.Stats(ctx, in.Step == "1m")
			return answer(figures, nil), err
		})
}
