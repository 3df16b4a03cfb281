package shardserver

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// try gives a request to Prompt alone.
func (r *rig) try(m wire.Message, payload []byte) (req *transport.Request, resp transport.Response, done bool) {
	r.t.Helper()
	req = newRequest(m)
	if len(payload) > 0 {
		b, err := r.s.Buffer(req, len(payload))
		if err != nil {
			r.t.Fatal(err)
		}
		copy(b, payload)
	}
	resp, done, err := r.s.Prompt(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return req, resp, done
}

// What has to wait, and what takes long, is not answered by a connection's reader; a push that
// waits for its round counts already.
func TestOnlyWhatNeedNotWaitIsAnsweredAtOnce(t *testing.T) {
	r := newRig(t, 2)
	r.init(0, 1, 2)
	r.init(1, make([]float32, promptValues+1)...)
	r.initRows(2, 4, 2)
	taken := r.s.pool.Taken()
	first, b := push(0, 0, 0, 3, 4)
	first.Answer = true
	later, c := push(0, 0, 1, 5, 6)
	tooLate, d := push(0, 0, 2, 7, 8)
	newer, _ := push(1, 0, 0, 3, 4)
	newer.Generation++
	stranger := pull(0, 0, 0)
	stranger.Node = 77
	big, _ := push(0, 1, 0, make([]float32, promptValues+1)...)
	for _, x := range []struct {
		what    string
		m       wire.Message
		payload []byte
		done    bool
	}{
		{"push-pull, another worker missing", first, b, false},
		{"the same again", first, b, false},
		{"push one ahead", later, c, true},
		{"push two ahead", tooLate, d, false},
		{"push of another generation", newer, b, false},
		{"pull of a round that is open", pull(0, 0, 1), nil, false},
		{"pull of what is there", pull(1, 0, 0), nil, true},
		{"pull of a worker that is not known", stranger, nil, false},
		{"push to a large shard", big, floats(make([]float32, promptValues+1)...), false},
		{"pull of a large shard", pull(1, 1, 0), nil, false},
		{"pull of rows", &wire.PullRows{Origin: origin(0, 2, 0), WaitMillis: 1000}, nil, false},
	} {
		req, resp, done := r.try(x.m, x.payload)
		if done != x.done {
			t.Errorf("%s: answered at once: got %v, want %v", x.what, done, x.done)
		}
		if done {
			resp.Release()
		} else {
			r.s.Drop(req) // the connection ends
		}
	}
	r.wantTaken(taken + 2*8) // two contributions
	second, b := push(1, 0, 0, 10, 20)
	second.Answer = true
	_, resp, done := r.try(second, b)
	if v, ok := resp.Message.(*wire.Value); !done || !ok || v.Round != 1 {
		t.Fatalf("the push-pull that closes the round: got %+v, %v", resp.Message, done)
	}
	resp.Release()
	r.wantValue(0, 0, 1, 13, 24)
}

// A worker that joins changes nothing, and is told so.
func TestPushOfAJoiningWorkerIsNotTakenAtOnce(t *testing.T) {
	r := newRig(t, 1)
	r.init(0, 1, 2)
	m := wire.Membership{Generation: 1, Phase: wire.PhaseRunning, Nodes: []wire.Member{
		{Node: 10, Role: wire.RoleWorker, Host: "a"}, {Node: 11, Role: wire.RoleWorker, Rank: 1, Host: "b", State: wire.MemberJoining},
	}}
	if err := r.s.SetMembership(m); err != nil {
		t.Fatal(err)
	}
	first, b := push(1, 0, 0, 3, 4)
	req, _, done := r.try(first, b)
	if done {
		t.Error("got an answer, want none")
	}
	r.s.Drop(req)
	r.refused(first, b, wire.CodeUnsupported)
}
