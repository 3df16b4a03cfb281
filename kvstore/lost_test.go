package kvstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/attempt"
	"github.com/paragon-train/paragon/optim"
)

// A quitting actor is a node that ends: whoever asks it or its server anything hears so when told
// is closed, and the store when ended is.
type quitting struct {
	*actor
	told, ended chan struct{}
}

func openQuitting(t *testing.T) (*store, *quitting) {
	q := &quitting{actor: &actor{inProcess: newInProcess(), generation: 1}, told: make(chan struct{}), ended: make(chan struct{})}
	kv, err := Create(t.Context(), "dist", withMember(q), WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil {
		err = kv.Init(t.Context(), "x", []float32{1, 2})
	}
	if err != nil {
		t.Fatal(err)
	}
	return kv.(*store), q
}

func (q *quitting) Done() <-chan struct{} { return q.ended }

// ask waits for the end of the node, and hears of it before anybody else.
func (q *quitting) ask(ctx context.Context) error {
	select {
	case <-q.told:
		return fmt.Errorf("cluster: ask: %w", why(q.Err()))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *quitting) Declare(ctx context.Context, d wire.Declare) (wire.KeyPlan, error) {
	if d.Name == "x" {
		return q.actor.Declare(ctx, d)
	}
	return wire.KeyPlan{}, q.ask(ctx)
}
func (q *quitting) Barrier(ctx context.Context, _ string) error         { return q.ask(ctx) }
func (q *quitting) Signal(ctx context.Context, _, _ string) error       { return q.ask(ctx) }
func (q *quitting) Await(ctx context.Context, _ string) (string, error) { return "", q.ask(ctx) }
func (q *quitting) Ready(ctx context.Context) error                     { return q.ask(ctx) }
func (q *quitting) Arrive(ctx context.Context, _ wire.Arrive) error     { return q.ask(ctx) }
func (q *quitting) AskLeave(ctx context.Context, _ string) error        { return q.ask(ctx) }
func (q *quitting) Joining() bool                                       { return false }
func (q *quitting) Pending() uint64                                     { return 0 }
func (q *quitting) Changed() <-chan struct{}                            { return nil }

// A node that ends ends every call with the same error, whoever tells it: the server, whose
// connection is closed or who refuses, the scheduler, or the node itself.
func TestTheEndOfANodeIsOneErrorWhoeverTellsIt(t *testing.T) {
	lost := &cluster.LostError{Reason: "node 4 (worker 1 on d2) was declared lost: no heartbeat for 10 s"}
	failed := fmt.Errorf("cluster: %w: worker 0 on d1 lost", cluster.ErrFailed)
	for _, end := range []struct {
		name  string
		err   error
		is    []error
		texts []string
	}{
		{"lost", lost, []error{ErrUnavailable, cluster.ErrLost}, []string{lost.Reason, "PARAGON_JOIN=1"}},
		{"failed", failed, []error{ErrUnavailable, cluster.ErrFailed}, []string{"worker 0 on d1 lost"}},
		{"finished", nil, []error{ErrUnavailable, ErrFinished}, []string{"the job has finished"}},
	} {
		for _, how := range []struct {
			name string
			says func(q *quitting) error // of a server, once the node has ended
		}{
			{"its connection is closed", func(q *quitting) error { return fmt.Errorf("%w: %w", why(q.Err()), transport.ErrClosed) }},
			{"there is no such server any more", func(q *quitting) error { return why(q.Err()) }},
			{"the server says that the job has ended", func(q *quitting) error { return refusal(wire.CodeUnavailable, 1, "server: the job has ended") }},
			{"the server does not know the worker", func(q *quitting) error {
				return refusal(wire.CodeUnknownNode, 1, "server: node 4 is not a worker of generation 1")
			}},
			{"the server is a generation ahead", func(q *quitting) error { return refusal(wire.CodeStaleGeneration, 2, "") }},
		} {
			for _, order := range [][]string{{"told", "ended"}, {"ended", "told"}} { // the order of the server's word and the node's
				const late = 10 * time.Millisecond
				for verb, call := range map[string]func(ctx context.Context, kv *store) error{
					"push":      func(ctx context.Context, kv *store) error { return kv.Push(ctx, "x", []float32{1, 2}) },
					"pull":      func(ctx context.Context, kv *store) error { return kv.Pull(ctx, "x", []float32{1, 2}) },
					"push-pull": func(ctx context.Context, kv *store) error { return kv.PushPull(ctx, "x", [][]float32{{1, 2}}, nil) },
					"optimizer": func(ctx context.Context, kv *store) error {
						return kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 1})
					},
					"init":    func(ctx context.Context, kv *store) error { return kv.Init(ctx, "y", []float32{1, 2}) },
					"barrier": func(ctx context.Context, kv *store) error { return kv.Barrier(ctx) },
					"arrive":  func(ctx context.Context, kv *store) error { return kv.Arrive(ctx, Arrival{}) },
					"broadcast": func(ctx context.Context, kv *store) error {
						_, err := kv.Broadcast(ctx, func() (string, error) { return "x", nil })
						return err
					},
				} {
					if verb == "arrive" && end.err == nil {
						continue // it says that this worker was removed
					}
					t.Run(fmt.Sprint(end.name, ", ", how.name, ", ", order[0], " first, ", verb), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							kv, q := openQuitting(t)
							q.answer = func(ctx context.Context, _ wire.Message) error {
								select {
								case <-q.told:
									return how.says(q)
								case <-ctx.Done():
									return ctx.Err()
								}
							}
							go func() {
								q.err = end.err
								time.Sleep(time.Second)
								for _, ch := range order {
									close(map[string]chan struct{}{"told": q.told, "ended": q.ended}[ch])
									time.Sleep(late)
								}
							}()
							err := call(t.Context(), kv)
							for _, want := range end.is {
								if !errors.Is(err, want) {
									t.Errorf("got error %v, want one that is %v", err, want)
								}
							}
							for _, want := range end.texts {
								if err == nil || !strings.Contains(err.Error(), want) {
									t.Errorf("got error %v, want it to say %q", err, want)
								}
							}
							if err != nil && strings.Count(err.Error(), ErrUnavailable.Error()) != 1 && !strings.Contains(err.Error(), ";") {
								t.Errorf("got error %q, want it to say %q once", err, ErrUnavailable)
							}
							time.Sleep(time.Second)
							kv.Close()
						})
					})
				}
			}
		}
	}
}

func why(err error) error {
	if err == nil {
		return fmt.Errorf("cluster: %w", cluster.ErrFinished)
	}
	return err
}

// Where the scheduler is silent a server's refusal is all that a worker hears: its error says what
// that may mean.
func TestARefusalThatTheSchedulerDoesNotExplainSaysWhatToDo(t *testing.T) {
	for _, code := range []wire.Code{wire.CodeStaleGeneration, wire.CodeUnknownNode} {
		synctest.Test(t, func(t *testing.T) {
			kv, a, _ := openActor(t)
			defer kv.Close()
			a.answer = func(context.Context, wire.Message) error { return refusal(code, 6, "no, because") }
			began := time.Now()
			err := kv.Push(t.Context(), "x", []float32{3, 4})
			if err == nil || !strings.Contains(err.Error(), "the scheduler has not confirmed this for 15s") || !strings.Contains(err.Error(), "PARAGON_JOIN=1") {
				t.Errorf("code %d: got error %v, want one that says what to do", code, err)
			}
			if took := time.Since(began); took < attempt.StaleGrace {
				t.Errorf("code %d: gave up after %v, want %v", code, took, attempt.StaleGrace)
			}
			kv.removed.Store(true) // it knows why
			began = time.Now()
			if err = kv.Push(t.Context(), "x", []float32{3, 4}); !errors.Is(err, ErrRemoved) || time.Since(began) > time.Second {
				t.Errorf("code %d, removed: got error %v after %v, want %v at once", code, err, time.Since(began), ErrRemoved)
			}
		})
	}
}
