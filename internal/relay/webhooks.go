package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// maxPost is how long a receiver may take.
	maxPost = 15 * time.Second
	// maxAnswer is how much of an answer is read: enough to quote a failure, and to reuse the connection.
	maxAnswer = 4 << 10
	// hookKept is how long a hook is cached, hooksKept how many are.
	hookKept  = 2 * time.Second
	hooksKept = 1_000
	// disabledWait is how long a delivery of a disabled hook waits.
	disabledWait = 5 * time.Minute
	// failureSaid is how often failures of a hook's deliveries are logged.
	failureSaid = time.Minute
)

// Webhooks posts the deliveries of webhooks.
type Webhooks struct {
	Client *client.Client
	Key    Key
	// AllowPrivate posts to private addresses, AllowHTTP without TLS.
	AllowPrivate, AllowHTTP bool
	// Slots is how many deliveries are posted at a time; ID is the worker's.
	Slots int32
	ID    rota.WorkerID
	// Log receives the first failure of a hook in a minute; nil disables it.
	Log *slog.Logger

	http *http.Client
	mu   sync.Mutex
	kept map[rota.WebhookName]keptHook
	// said is the time of a hook's last logged failure.
	said map[rota.WebhookName]time.Time
}

type keptHook struct {
	hook rota.Webhook
	err  error
	at   time.Time
}

// Run posts deliveries until ctx ends.
func (r *Webhooks) Run(ctx context.Context, opts ...client.WorkerOption) error {
	r.http, r.kept, r.said = newHTTP(r.AllowPrivate,
		maxPost), make(map[rota.WebhookName]keptHook), make(map[rota.WebhookName]time.Time)
	w, err := client.NewWorker(r.Client, rota.WorkerSpec{ID: r.ID, Queues: []rota.QueueName{rota.WebhookQueue},
		Slots: r.Slots}, opts...)
	if err != nil {
		return err
	}
	w.Handle(rota.WebhookType, r.deliver)
	return w.Run(ctx)
}

// hook reads a webhook, or returns the cached one.
func (r *Webhooks) hook(ctx context.Context, name rota.WebhookName) (rota.Webhook, error) {
	r.mu.Lock()
	k, ok := r.kept[name]
	r.mu.Unlock()
	if ok && time.Since(k.at) < hookKept {
		return k.hook, k.err
	}
	w, err := client.WebhooksOf(r.Client).Get(ctx, name)
	if err != nil && rota.KindOf(err) != rota.KindNotFound {
		return w, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) >= hooksKept {
		clear(r.kept)
	}
	r.kept[name] = keptHook{w, err, time.Now()}
	return w, err
}

// deliver posts one event.
func (r *Webhooks) deliver(ctx context.Context, job *client.Job) (client.Result, error) {
	name, event, ok := rota.SplitDeliveryID(job.ID())
	if !ok {
		return client.Result{}, client.NoRetry(fmt.Errorf("job %s is not a delivery of a webhook", job.ID()))
	}
	w, err := r.hook(ctx, name)
	switch {
	case rota.KindOf(err) == rota.KindNotFound, err == nil && event.Compare(w.Began) <= 0:
		return client.Result{}, client.Cancel(fmt.Errorf("webhook %s was deleted", name))
	case err != nil:
		return client.Result{}, client.Decline(err)
	case w.State == rota.WebhookDisabled:
		return client.Result{}, fmt.Errorf("webhook %s is disabled: %s: %w", name, w.Why, client.Snooze(disabledWait))
	}
	if err = r.post(ctx, &w, event.String(), job.Payload()); err != nil && r.toSay(name, time.Now()) {
		r.Log.Warn("a delivery failed; more of this webhook are not logged for a minute", "webhook", string(name),
			"job", string(job.ID()), "attempt", job.Attempt()+1, "err", err)
	}
	return client.Result{}, err
}

// toSay reports whether to log that a hook's delivery failed.
func (r *Webhooks) toSay(name rota.WebhookName, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Log == nil || now.Sub(r.said[name]) < failureSaid {
		return false
	}
	if len(r.said) >= hooksKept {
		clear(r.said)
	}
	r.said[name] = now
	return true
}

// post sends one message in the format of Standard Webhooks. Its error decides what happens to the job.
func (r *Webhooks) post(ctx context.Context, w *rota.Webhook, id string, body []byte) error {
	if !r.AllowHTTP && strings.HasPrefix(w.URL, "http://") {
		return errors.New("the URL is http://: use https://, or have the relay run with --allow-http")
	}
	ctx, cancel := context.WithTimeout(ctx, maxPost)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return client.NoRetry(fmt.Errorf("the URL cannot be posted to: %w", err))
	}
	now := time.Now()
	timestamp := strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "rota-relay")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", timestamp)
	req.Header.Set("Webhook-Signature", Signature(r.Key.Secrets(w, now), id, timestamp, body))
	answer, err := r.http.Do(req)
	if err != nil {
		return fmt.Errorf("posting: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	return outcome(answer)
}

// outcome converts a receiver's answer to the outcome of a delivery.
func outcome(answer *http.Response) error {
	said := fmt.Errorf("the receiver answered %d", answer.StatusCode)
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusGone:
		return client.NoRetry(fmt.Errorf("the receiver answered 410: it no longer accepts deliveries"))
	case code >= 300 && code < 400:
		return fmt.Errorf("%w: redirects are not followed, set the URL that it means", said)
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		if s, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && s > 0 {
			return client.RetryAfter(min(time.Duration(min(s, 86_400))*time.Second, limits.DeliveryCap), said)
		}
	}
	return said
}
