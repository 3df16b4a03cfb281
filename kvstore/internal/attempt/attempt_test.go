package attempt

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A fakeRequest answers attempts from a script: the last entry is that of all further attempts. It
// records the way of each attempt and when it was made.
type fakeRequest struct {
	script []error
	ways   []Way
	at     []time.Duration
	notes  int
	lost   int

	began time.Time
	ended chan struct{}
	then  func(attempts int) // after each attempt
}

func newFakeRequest(script ...error) *fakeRequest {
	return &fakeRequest{script: script, began: time.Now(), ended: make(chan struct{})}
}

func (x *fakeRequest) Attempt(w Way) error {
	x.ways, x.at = append(x.ways, w), append(x.at, time.Since(x.began))
	if x.then != nil {
		x.then(len(x.ways))
	}
	return x.script[min(len(x.ways), len(x.script))-1]
}

func (x *fakeRequest) Over() <-chan struct{} { return x.ended }
func (x *fakeRequest) Note(error)            { x.notes++ }
func (x *fakeRequest) LeaderLost(error)      { x.lost++ }

// A fakeJob is the surroundings of a loop.
type fakeJob struct {
	Env
	end         chan struct{}
	left, moves bool
}

var (
	errFakeEnd     = errors.New("the job is over")
	errExplained   = errors.New("explained")
	errUnconfirmed = errors.New("not confirmed")
)

func newFakeJob() *fakeJob {
	j := &fakeJob{end: make(chan struct{})}
	j.Env = Env{Ended: j.end, EndError: func() error { return errFakeEnd }, LeaderPatience: 5 * time.Second,
		Removed: func() bool { return j.left }, Movable: func() bool { return j.moves },
		Explain:     func(err error) error { return fmt.Errorf("%w: %w", errExplained, err) },
		Unconfirmed: func(err error, _ time.Duration) error { return fmt.Errorf("%w: %w", errUnconfirmed, err) }}
	return j
}

// refusedWith reports whether an error is a refusal with this code, and was explained.
func refusedWith(err error, code wire.Code) bool {
	var r *transport.Refusal
	return errors.As(err, &r) && r.Code == code && errors.Is(err, errExplained)
}

func (j *fakeJob) run(x *fakeRequest, w Way) error {
	loop := New(&j.Env, w, false)
	return loop.Run(x, nil, 0)
}

func broken() error { return fmt.Errorf("transport: %w", transport.ErrConnection) }

func says(code wire.Code) error {
	return fmt.Errorf("transport: push: %w", &transport.Refusal{Code: code, Generation: 6, Text: "because"})
}

// A request is repeated with growing pauses until it is answered, and whoever waits can see why.
func TestAttemptsAreMadeUntilOneIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newFakeRequest(broken(), says(wire.CodeBusy), broken(), says(wire.CodeStaleGeneration), nil)
		if err := newFakeJob().run(x, ViaServer); err != nil {
			t.Fatal(err)
		}
		const ms = time.Millisecond
		if want := []time.Duration{0, 5 * ms, 15 * ms, 35 * ms, 75 * ms}; !slices.Equal(x.at, want) {
			t.Errorf("attempts after %v, want %v", x.at, want)
		}
		if x.notes != 4 {
			t.Errorf("got %d notes, want one for each of 4 attempts that failed", x.notes)
		}
	})
}

// A server that holds the request for as long as it was asked to works: the next attempt follows
// soon, however long that goes on.
func TestASlowAnswerIsAskedForAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newFakeRequest(says(wire.CodeTimeout))
		x.then = func(n int) {
			time.Sleep(5 * time.Second)
			if n == 20 {
				x.script = []error{nil}
			}
		}
		if err := newFakeJob().run(x, ViaServer); err != nil {
			t.Fatal(err)
		}
		if took, want := x.at[len(x.at)-1], 19*(5*time.Second+FirstPause); len(x.at) != 20 || took != want {
			t.Errorf("got %d attempts, the last one after %v, want 20 and %v", len(x.at), took, want)
		}
	})
}

// What a server refuses for good is not asked for again.
func TestARefusalForGoodIsFinal(t *testing.T) {
	for _, code := range []wire.Code{wire.CodeSize, wire.CodeUnknownKey, wire.CodeConflict, wire.CodeMoved, wire.CodeInternal} {
		x := newFakeRequest(says(code))
		if err := newFakeJob().run(x, ViaServer); !refusedWith(err, code) || len(x.ways) != 1 {
			t.Errorf("code %d: got error %v after %d attempts, want that of the code after one", code, err, len(x.ways))
		}
	}
}

// Where shards move, a server that has moved its shard, or is gone, is asked again: the request goes
// to the next one. Where they do not, that is final.
func TestAShardIsFollowedWhereItMoves(t *testing.T) {
	for _, fault := range []error{says(wire.CodeMoved), says(wire.CodeUnavailable), fmt.Errorf("cluster: %w", cluster.ErrNoServer), fmt.Errorf("transport: %w", transport.ErrClosed)} {
		for _, moves := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				x, j := newFakeRequest(fault, fault, nil), newFakeJob()
				j.moves = moves
				err := j.run(x, ViaServer)
				if moves != (err == nil) || moves != (len(x.ways) == 3) {
					t.Errorf("%v, shards move %v: got error %v after %d attempts", fault, moves, err, len(x.ways))
				}
			})
		}
	}
}

// A request about a whole server that has left the job has nothing more to do, even if nobody waits
// any more.
func TestARequestToAServerThatHasLeftIsSettled(t *testing.T) {
	x, j := newFakeRequest(fmt.Errorf("cluster: %w", cluster.ErrNoServer)), newFakeJob()
	j.moves = true
	close(x.ended)
	loop := New(&j.Env, ViaServer, true)
	if err := loop.Run(x, nil, 0); err != nil {
		t.Errorf("got error %v, want none", err)
	}
}

// Two nodes that go on disagreeing about the membership do so for longer than a lease, and no more:
// then the error says how to come back. Any other answer in between ends the doubt.
func TestDoubtAboutTheMembershipHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, j := newFakeRequest(says(wire.CodeStaleGeneration)), newFakeJob()
		err := j.run(x, ViaServer)
		if took := time.Since(x.began); took < StaleGrace || took > StaleGrace+2*LongestPause {
			t.Errorf("gave up after %v, want %v", took, StaleGrace)
		}
		if !refusedWith(err, wire.CodeStaleGeneration) || !errors.Is(err, errUnconfirmed) {
			t.Errorf("got error %v, want the refusal, not confirmed", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		x, j := newFakeRequest(says(wire.CodeStaleGeneration)), newFakeJob()
		x.then = func(n int) {
			x.script = []error{says(wire.CodeStaleGeneration)}
			if n%10 == 0 {
				x.script = []error{broken()}
			}
			if n == 100 {
				x.script = []error{nil}
			}
		}
		if err := j.run(x, ViaServer); err != nil {
			t.Errorf("doubt that ends every few seconds: got error %v, want none", err)
		}
	})
}

// A worker that was asked to leave learns so from the first server that no longer knows it.
func TestARemovedWorkerIsTold(t *testing.T) {
	x, j := newFakeRequest(says(wire.CodeUnknownNode)), newFakeJob()
	j.left = true
	if err := j.run(x, ViaServer); !errors.Is(err, cluster.ErrRemoved) || len(x.ways) != 1 {
		t.Errorf("got error %v after %d attempts, want ErrRemoved after one", err, len(x.ways))
	}
}

// The end of the job ends a pause, and its reason comes before that of the last attempt. A server
// that reports the end first is believed only after a moment, in which the scheduler may say why.
func TestTheEndOfTheJobEndsAttempts(t *testing.T) {
	for _, fault := range []error{broken(), says(wire.CodeUnavailable)} {
		synctest.Test(t, func(t *testing.T) {
			x, j := newFakeRequest(fault), newFakeJob()
			go func() {
				time.Sleep(500 * time.Millisecond)
				close(j.end)
			}()
			err := j.run(x, ViaServer)
			if took := time.Since(x.began); !errors.Is(err, errFakeEnd) || took != 500*time.Millisecond {
				t.Errorf("after %v: got error %v after %v, want the end of the job after 500 ms", fault, err, took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		x := newFakeRequest(says(wire.CodeUnavailable))
		err := newFakeJob().run(x, ViaServer)
		if took := time.Since(x.began); !refusedWith(err, wire.CodeUnavailable) || took != time.Second {
			t.Errorf("got error %v after %v, want the refusal after 1 s", err, took)
		}
	})
}

// Once nobody waits for the answer the loop ends, in an attempt or in a pause.
func TestAttemptsEndWithTheirOp(t *testing.T) {
	for _, w := range []Way{ViaServer, ViaLeader} {
		for inPause := range 2 {
			synctest.Test(t, func(t *testing.T) {
				x := newFakeRequest(broken())
				x.then = func(n int) {
					switch {
					case n == 2 && inPause == 0:
						close(x.ended)
					case n == 2:
						go close(x.ended)
					}
				}
				if err := newFakeJob().run(x, w); !errors.Is(err, transport.ErrConnection) || len(x.ways) != 2 {
					t.Errorf("way %d: got error %v after %d attempts, want that of the second", w, err, len(x.ways))
				}
			})
		}
	}
}

// A push goes from its leader to the server at once where the leader sums up nothing, and after a
// moment where it cannot be reached. It never comes back.
func TestAPushTurnsFromItsLeaderToTheServerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newFakeRequest(says(wire.CodePushAlone), broken(), says(wire.CodeBusy), nil)
		if err := newFakeJob().run(x, ViaLeader); err != nil {
			t.Fatal(err)
		}
		if want := []Way{ViaLeader, ViaServer, ViaServer, ViaServer}; !slices.Equal(x.ways, want) || x.at[1] != 0 || x.lost != 0 {
			t.Errorf("ways %v, the second after %v, leaders lost %d; want %v, at once, none", x.ways, x.at[1], x.lost, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		x := newFakeRequest(broken())
		x.then = func(int) {
			if x.ways[len(x.ways)-1] == ViaServer {
				x.script = []error{nil}
			}
		}
		if err := newFakeJob().run(x, ViaLeader); err != nil {
			t.Fatal(err)
		}
		if took := x.at[len(x.at)-1]; x.lost != 1 || took < LeaderGrace || took > 3*LeaderGrace {
			t.Errorf("a leader out of reach: lost %d times, asked the server after %v, want once and about %v", x.lost, took, LeaderGrace)
		}
	})
}

// A leader that says that it works on the sum is waited for, however long; one that says nothing of
// use is not.
func TestALeaderThatWorksIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newFakeRequest(says(wire.CodeTimeout))
		x.then = func(n int) {
			time.Sleep(4 * time.Second)
			if n == 20 {
				x.script = []error{nil}
			}
		}
		if err := newFakeJob().run(x, ViaLeader); err != nil || slices.Contains(x.ways, ViaServer) || x.notes != 19 {
			t.Errorf("got error %v, ways %v and %d notes, want only the leader and 19", err, x.ways, x.notes)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		x, j := newFakeRequest(says(wire.CodeStaleGeneration)), newFakeJob()
		x.then = func(int) {
			if x.ways[len(x.ways)-1] == ViaServer {
				x.script = []error{nil}
			}
		}
		if err := j.run(x, ViaLeader); err != nil {
			t.Fatal(err)
		}
		if took := x.at[len(x.at)-1]; took < j.LeaderPatience || took > j.LeaderPatience+2*LongestPause {
			t.Errorf("a leader of another generation: asked the server after %v, want about %v", took, j.LeaderPatience)
		}
	})
}

// A message is sent once; what comes of it is for each of its pushes to judge.
func TestAMessageIsSentOnce(t *testing.T) {
	x := newFakeRequest(broken())
	if err := newFakeJob().run(x, ViaMessage); !errors.Is(err, transport.ErrConnection) || len(x.ways) != 1 {
		t.Errorf("got error %v after %d attempts, want the error of the only one", err, len(x.ways))
	}
}

// An attempt that was made elsewhere is the first one: it is judged as if the loop had made it, from
// the time at which it began.
func TestAnAttemptMadeElsewhereCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, j := newFakeRequest(nil), newFakeJob()
		loop := New(&j.Env, ViaServer, false)
		if err := loop.Run(x, says(wire.CodeSize), 0); !refusedWith(err, wire.CodeSize) || len(x.ways) != 0 {
			t.Errorf("got error %v after %d further attempts, want ErrSize after none", err, len(x.ways))
		}
		loop = New(&j.Env, ViaServer, false)
		x.script = []error{says(wire.CodeStaleGeneration)}
		err := loop.Run(x, says(wire.CodeStaleGeneration), 14*time.Second)
		if took := time.Since(x.began); !refusedWith(err, wire.CodeStaleGeneration) || took > 3*time.Second {
			t.Errorf("got error %v after %v, want ErrStaleGeneration soon: the doubt is 14 s old", err, took)
		}
	})
}
