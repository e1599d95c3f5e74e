package rotatest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/client/rotatest"
)

type order struct {
	Item string `json:"item"`
}

var ship = client.Define[order, string]("ship")

// The test of a program has this form. An example has no *testing.T, so RunTests runs it here.
func ExampleRun() {
	shipsLater := func(t *testing.T) {
		rotatest.Run(t, func(c *rotatest.Cluster) {
			if _, err := ship.Submit(c.Context(), c.Client(), order{"lamp"}); err != nil {
				t.Fatal(err)
			}
			rotatest.RequireSubmitted(c, ship, func(o order) bool { return o.Item == "lamp" })
			_, err := rotatest.Work(c, ship, func(context.Context, *client.Job, order) (string, error) {
				return "", client.RetryAfter(time.Hour, errors.New("out of stock"))
			})
			fmt.Println("first:", err)
			c.Advance(time.Hour)
			out, err := rotatest.Work(c, ship, func(_ context.Context, _ *client.Job, o order) (string, error) {
				return o.Item + " shipped", nil
			})
			fmt.Println("then:", out, err)
		})
	}
	all := func(_, _ string) (bool, error) { return true, nil }
	fmt.Println(testing.RunTests(all, []testing.InternalTest{{Name: "TestShipsLater", F: shipsLater}}))
	// Output:
	// first: out of stock
	// then: lamp shipped <nil>
	// true
}
