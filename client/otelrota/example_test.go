package otelrota_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/client/otelrota"
)

// The worker's spans are linked to the spans of the jobs' submissions, which arrive in headers. Pass the option to
// client.NewWorker; here the handler is called directly.
func ExampleHeaders() {
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	ctx, span := provider.Tracer("shop").Start(context.Background(), "order")
	defer span.End()

	node := rota.NewNodeSpec("charge", "charge", nil)
	node.Headers = otelrota.Headers(ctx) // a workflow's nodes are not submitted by Client.Submit
	fmt.Println("linked:", node.Headers["traceparent"] != "")

	var _ client.WorkerOption = otelrota.Worker(otelrota.WithTracerProvider(provider))
	// Output: linked: true
}
