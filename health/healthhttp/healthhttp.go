// Package healthhttp serves /live and /ready with the handler of
// github.com/heptiolabs/healthcheck, fed by probes of package health.
//
// It exists because healthcheck alone runs a check once per request, or in a background
// goroutine that keeps reporting the last OK while the check hangs. Here each probe has a
// [health.Runner]: a request reads a status and never waits for a probe, a hung probe costs
// one goroutine, and an old OK expires.
package healthhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/heptiolabs/healthcheck"

	"github.com/mandate-dev/mandate/health"
)

// Handler serves GET and HEAD of /live and /ready: 200 when all checks pass, else 503. With
// ?full=1 the body contains "OK" or the error of each check, as JSON. /ready includes the
// liveness checks.
//
// A failed liveness check means "restart this process"; what a restart can't fix (a database,
// Redis) belongs to readiness. All methods are safe for concurrent use.
type Handler struct {
	checks healthcheck.Handler

	mu      sync.Mutex
	names   map[string]bool
	runners []*health.Runner
	running atomic.Bool
}

// New returns a handler without checks, which answers 200 to both.
func New() *Handler {
	return &Handler{checks: healthcheck.NewHandler(), names: make(map[string]bool)}
}

// AddLiveProbe adds a liveness check which [Handler.Run] runs in the background, with
// thresholds, time-out and freshness of s (zero: the defaults). It fails until the first
// success. It returns an error when the name is empty or taken (also by a readiness check:
// the two share one list in the answer), when s is refused, or while Run is under way.
func (h *Handler) AddLiveProbe(name string, p health.Probe, s health.Settings) error {
	return h.addProbe(h.checks.AddLivenessCheck, name, p, s)
}

// AddReadyProbe is like AddLiveProbe, for readiness.
func (h *Handler) AddReadyProbe(name string, p health.Probe, s health.Settings) error {
	return h.addProbe(h.checks.AddReadinessCheck, name, p, s)
}

// AddLiveCheck adds a liveness check that every request runs directly, for what is cheap
// and never blocks, such as the Check method of an elector. A panic in it is a failure. It
// returns an error when check is nil, or when the name is empty or taken.
func (h *Handler) AddLiveCheck(name string, check func() error) error {
	return h.addCheck(h.checks.AddLivenessCheck, name, check)
}

// AddReadyCheck is like AddLiveCheck, for readiness.
func (h *Handler) AddReadyCheck(name string, check func() error) error {
	return h.addCheck(h.checks.AddReadinessCheck, name, check)
}

func (h *Handler) addProbe(add func(string, healthcheck.Check), name string, p health.Probe, s health.Settings) error {
	runner, err := health.NewRunner(p, s)
	if err != nil {
		return fmt.Errorf("healthhttp: check %q: %w", name, err)
	}
	return h.add(add, name, runner, func() error { return runner.Status().Err })
}

func (h *Handler) addCheck(add func(string, healthcheck.Check), name string, check func() error) error {
	if check == nil {
		return fmt.Errorf("healthhttp: check %q is nil", name)
	}
	return h.add(add, name, nil, func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			}
		}()
		return check()
	})
}

// add adds a check, with the runner of its probe if it has one. healthcheck would silently replace an earlier check of
// that name, or show only one of a live and a ready check.
func (h *Handler) add(to func(string, healthcheck.Check), name string, of *health.Runner, check func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case of != nil && h.running.Load():
		return fmt.Errorf("healthhttp: check %q: add probes before Run, which would not run this one", name)
	case name == "":
		return errors.New("healthhttp: a check needs a name")
	case h.names[name]:
		return fmt.Errorf("healthhttp: there is already a check named %q", name)
	}
	h.names[name] = true
	if of != nil {
		h.runners = append(h.runners, of)
	}
	to(name, check)
	return nil
}

// Run runs all probes. It blocks until ctx ends, and then at most for the longest Timeout of
// the probes. It returns nil, or an error when it is running already, or the errors of probes
// that had to be left behind because they ignored the end of ctx. Before and after Run the
// probes count as failed.
func (h *Handler) Run(ctx context.Context) error {
	if !h.running.CompareAndSwap(false, true) {
		return errors.New("healthhttp: the handler is running already")
	}
	defer h.running.Store(false)
	h.mu.Lock()
	runners := h.runners // no append while running
	h.mu.Unlock()
	errs := make([]error, len(runners))
	var wg sync.WaitGroup
	for i, r := range runners {
		wg.Go(func() { errs[i] = r.Run(ctx) })
	}
	wg.Wait()
	<-ctx.Done() // without any probe, Run must not return early either
	return errors.Join(errs...)
}

// ServeHTTP answers without waiting for any probe.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store") // a cached OK is a stale OK
	switch r.Method {
	case http.MethodGet:
	case http.MethodHead: // healthcheck refuses HEAD, but some load balancers send nothing else; net/http drops the body
		r = r.Clone(r.Context())
		r.Method = http.MethodGet
	default:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	h.checks.ServeHTTP(w, r)
}
