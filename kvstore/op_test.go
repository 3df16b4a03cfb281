package kvstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// actor is a Node whose one server says what the test wants.
type actor struct {
	*inProcess
	answer func(ctx context.Context, request wire.Message) error // nil: the shards answer

	mu         sync.Mutex
	generation cluster.Generation
	err        error
}

func (a *actor) Generation() cluster.Generation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.generation
}

func (a *actor) Err() error { return a.err }

func (a *actor) Server(cluster.Rank) (transport.Caller, string, error) {
	return a, "10.0.0.7:9090", nil
}

func (a *actor) Call(ctx context.Context, request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error) {
	if a.answer != nil {
		if err := a.answer(ctx, request); err != nil {
			return nil, err
		}
	}
	if p, ok := request.(*wire.Push); ok { // the shards know one generation
		q := *p
		q.Generation = inProcessGeneration
		request = &q
	}
	return a.server.Call(ctx, request, answer, dst, payload...)
}

// openActor makes a store with one key, "x", of two values.
func openActor(t *testing.T, opts ...Option) (*store, *actor, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	a := &actor{inProcess: newInProcess(), generation: 1}
	opts = append([]Option{withMember(a), WithLogger(slog.New(slog.NewTextHandler(log, nil)))}, opts...)
	kv, err := Create(t.Context(), "dist", opts...)
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Init(t.Context(), "x", []float32{1, 2}); err != nil {
		t.Fatal(err)
	}
	return kv.(*store), a, log
}

func refusal(code wire.Code, generation uint64, text string) error {
	return fmt.Errorf("transport: push: %w", &transport.Refusal{Addr: "10.0.0.7:9090", Code: code, Generation: generation, Text: text})
}

// A lost connection, a busy server and a wait that was cut short are tried again; nobody sees them.
func TestCallsAreRepeatedUntilTheyAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, a, _ := openActor(t)
		defer kv.Close()
		var seqs []uint64
		faults := []error{
			fmt.Errorf("transport: %w", transport.ErrConnection), refusal(wire.CodeBusy, 1, "try later"),
			refusal(wire.CodeTimeout, 1, "worker 1 has not pushed"), fmt.Errorf("transport: %w", transport.ErrConnection),
		}
		a.answer = func(_ context.Context, m wire.Message) error {
			p := m.(*wire.Push)
			seqs = append(seqs, p.Seq)
			if len(faults) == 0 {
				return nil
			}
			err := faults[0]
			faults = faults[1:]
			return err
		}
		if err := kv.Push(t.Context(), "x", []float32{3, 4}); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(seqs); got != "[1 1 1 1 1]" {
			t.Errorf("sequence numbers of the attempts: got %s, want one five times", got)
		}
	})
}

// Every few seconds a long wait says whom it waits for; when its time is over so does its error.
func TestLongWaitsAreExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, a, log := openActor(t, WithTimeout(12*time.Second))
		defer kv.Close()
		a.answer = func(ctx context.Context, m wire.Message) error {
			wait := time.Duration(m.(*wire.Push).WaitMillis) * time.Millisecond
			select {
			case <-time.After(wait):
				return refusal(wire.CodeTimeout, 1, "worker 1 on d2 has not pushed round 0")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		began := time.Now()
		err := kv.PushPull(t.Context(), "x", [][]float32{{3, 4}}, [][]float32{{0, 0}})
		if got := time.Since(began); got != 12*time.Second {
			t.Errorf("the wait took %v, want 12s", got)
		}
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("got error %v, want %v", err, ErrUnavailable)
		}
		for _, want := range []string{`push-pull key "x"`, "round 0", "12.0 s", "10.0.0.7:9090", "worker 1 on d2"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %q, want it to say %q", err, want)
			}
		}
		// The text names the worker by itself: a text log leaves the event's attributes
		// out.
		if n := strings.Count(log.String(), `msg="waiting: server 0 at 10.0.0.7:9090: worker 1 on d2 has not pushed round 0"`); n < 1 || n > 2 {
			t.Errorf("got %d lines whose text names the worker, want one or two in 12 s:\n%s", n, log)
		}
	})
}

// The end of the context, of the job, and of the store each end a wait at once, with their own
// error.
func TestWaitsEnd(t *testing.T) {
	lost := errors.New("the lease is over")
	for _, x := range []struct {
		name string
		end  func(kv *store, a *actor, cancel context.CancelFunc)
		want error
	}{
		{"context", func(_ *store, _ *actor, cancel context.CancelFunc) { cancel() }, context.Canceled},
		{"job", func(_ *store, a *actor, _ context.CancelFunc) { a.err = lost; a.Close() }, lost},
		{"store", func(kv *store, _ *actor, _ context.CancelFunc) { kv.Close() }, ErrClosed},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kv, a, _ := openActor(t)
				defer kv.Close()
				a.answer = func(ctx context.Context, _ wire.Message) error {
					<-ctx.Done()
					return ctx.Err()
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- kv.Pull(ctx, "x", []float32{0, 0}) }()
				synctest.Wait()
				x.end(kv, a, cancel)
				err := <-ended
				if !errors.Is(err, x.want) {
					t.Errorf("got error %v, want %v", err, x.want)
				}
				if x.name != "job" {
					return
				}
				for range 2 { // and those that begin later
					if !errors.Is(err, ErrUnavailable) || !errors.Is(err, lost) {
						t.Errorf("got error %v, want %v and %v", err, ErrUnavailable, lost)
					}
					err = kv.Pull(ctx, "x", []float32{0, 0})
				}
			})
		})
	}
}

// A refusal is this package's error, with key, shard, round, server and, of generations, both.
func TestRefusalsNameWhatWasRefused(t *testing.T) {
	for code, want := range map[wire.Code]error{
		wire.CodeUnknownKey: ErrUnknownKey, wire.CodeDuplicateInit: ErrDuplicateInit, wire.CodeSize: ErrSize, wire.CodeConflict: ErrConflict,
		wire.CodeTooFarAhead: ErrConflict, wire.CodeUnsupported: ErrUnsupported, wire.CodeUnavailable: ErrUnavailable, wire.CodeUnknownNode: ErrUnavailable,
		wire.CodeStaleGeneration: ErrStaleGeneration, wire.CodeInternal: nil, wire.CodeMalformed: nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			kv, a, _ := openActor(t)
			defer kv.Close()
			a.answer = func(context.Context, wire.Message) error { return refusal(code, 6, "no, because") }
			err := kv.Push(t.Context(), "x", []float32{3, 4})
			if err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("code %d: got error %v, want %v", code, err, want)
			}
			var at *ShardError
			var r *transport.Refusal
			if !errors.As(err, &at) || at.Key != "x" || at.Shard != 0 || at.Round != 0 || !errors.As(err, &r) || r.Code != code {
				t.Fatalf("code %d: got error %#v, want a ShardError of key x, shard 0, with the refusal", code, err)
			}
			text := "no, because"
			if code == wire.CodeStaleGeneration {
				text = "ours 1, theirs 6"
			}
			if got := err.Error(); !strings.Contains(got, `kvstore: push key "x" shard 0 round 0: server 0 at 10.0.0.7:9090: `) || !strings.Contains(got, text) {
				t.Errorf("code %d: got %q", code, got)
			}
		})
	}
}

// A server that has heard of a new generation before this worker is asked again once the worker
// has, too.
func TestANewGenerationIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, a, _ := openActor(t)
		defer kv.Close()
		a.answer = func(_ context.Context, m wire.Message) error {
			if got := m.(*wire.Push).Generation; got != 2 {
				return refusal(wire.CodeStaleGeneration, 2, "")
			}
			return nil
		}
		go func() {
			time.Sleep(time.Second)
			a.mu.Lock()
			defer a.mu.Unlock()
			a.generation = 2
		}()
		if err := kv.Push(t.Context(), "x", []float32{3, 4}); err != nil {
			t.Error(err)
		}
	})
}

// A push that failed is sent again as it was: with the same number, and compressed only once.
func TestAPushThatFailedMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, a, _ := openActor(t, WithTimeout(time.Second))
		defer kv.Close()
		if err := kv.SetCompression(t.Context(), Compression{Type: "2bit", Threshold: 0.5}); err != nil {
			t.Fatal(err)
		}
		down := true
		a.answer = func(context.Context, wire.Message) error {
			if down {
				return fmt.Errorf("transport: %w", transport.ErrConnection)
			}
			return nil
		}
		grad, out := [][]float32{{0.6, 0.3}}, []float32{0, 0}
		if err := kv.PushPull(t.Context(), "x", grad, [][]float32{out}); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("got error %v, want %v", err, ErrUnavailable)
		}
		down = false
		for i, want := range [][]float32{{0.5, 0}, {0.5, 0.5}} {
			if err := kv.PushPull(t.Context(), "x", grad, [][]float32{out}); err != nil {
				t.Fatal(err)
			}
			if out[0] != want[0] || out[1] != want[1] {
				t.Errorf("push %d: got %v, want %v", i, out, want)
			}
		}
	})
}

// What is to be done when an op ends is done once, unless it was called off.
func TestAnOpIsAContextForItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, _, _ := openActor(t)
		defer kv.Close()
		o := newOp(kv.requests, "push", "x", 0)
		var mu sync.Mutex
		var ran []string
		run := func(name string) func() {
			return func() {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, name)
			}
		}
		off := context.AfterFunc(o, run("called off"))
		context.AfterFunc(o, run("left"))
		if !off() || off() {
			t.Error("stop: got not true, then false")
		}
		derived, cancel := context.WithCancel(o)
		defer cancel()
		o.fail(ErrClosed)
		synctest.Wait()
		if got := fmt.Sprint(ran); got != "[left]" {
			t.Errorf("ran: got %s, want [left]", got)
		}
		if derived.Err() == nil || o.Err() == nil {
			t.Errorf("after the end: got errors %v of a derived context and %v, want both", derived.Err(), o.Err())
		}
		context.AfterFunc(o, run("late"))
		synctest.Wait()
		if got := fmt.Sprint(ran); got != "[left late]" {
			t.Errorf("ran: got %s, want [left late]", got)
		}
	})
}

// A context that was derived from an op's asks for its error when the op fails, perhaps much later:
// the op is not used again before.
func TestAnOpIsNotUsedAgainWhileItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOp(nil, "push", "x", 0)
		proceed, again := make(chan struct{}), make(chan struct{})
		var err error
		o.AfterFunc(func() {
			<-proceed
			err = o.Err()
		})
		o.fail(ErrClosed)
		go func() {
			o.reset()
			close(again)
		}()
		synctest.Wait()
		close(proceed)
		<-again
		synctest.Wait()
		if err == nil {
			t.Error("a context derived from an op that has failed: its parent has no error")
		}
	})
}
