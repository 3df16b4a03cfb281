package shardserver

import (
	"errors"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// newLocal returns a Local with one worker, rank 0, as the rig has it.
func newLocal(t *testing.T) *Local {
	return NewLocal("this process", wire.Membership{Generation: 1, Phase: wire.PhaseRunning,
		Nodes: []wire.Member{{Node: 10, Role: wire.RoleWorker}}}, new(telemetry.Recorder), nil)
}

// A store within a process is answered as one on a connection is: the same values and the same
// refusals.
func TestLocalAnswersAsAServerDoes(t *testing.T) {
	r, l := newRig(t, 1), newLocal(t)
	for _, step := range []struct {
		what    string
		request wire.Message
		answer  func() wire.Message
		payload []byte
	}{
		{"pull before the first value", &wire.Pull{Origin: origin(0, 1, 0)}, func() wire.Message { return &wire.Value{} }, nil},
		{"init", &wire.InitShard{Origin: origin(0, 1, 0), Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 2, Size: 2, Shards: 1, Name: "w"}, func() wire.Message { return &wire.Ack{} }, floats(1, 2)},
		{"init of another size", &wire.InitShard{Origin: origin(0, 1, 0), Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 1, Size: 1, Shards: 1, Name: "w"}, func() wire.Message { return &wire.Ack{} }, floats(1)},
		{"rate without an optimizer", &wire.SetRate{Origin: origin(0, 0, 0), Rate: 1}, func() wire.Message { return &wire.Ack{} }, nil},
		{"mode that is none", &wire.SetOptimizer{Origin: origin(0, 0, 0), Mode: 77}, func() wire.Message { return &wire.Ack{} }, nil},
		{"optimizer", &wire.SetOptimizer{Origin: origin(0, 0, 0), Mode: wire.ModeSync, Config: `{"name":"sgd","learning_rate":1}`}, func() wire.Message { return &wire.Ack{} }, nil},
		{"another optimizer", &wire.SetOptimizer{Origin: origin(0, 0, 0), Mode: wire.ModeSync, Config: `{"name":"sgd","learning_rate":2}`}, func() wire.Message { return &wire.Ack{} }, nil},
		{"rate", &wire.SetRate{Origin: origin(0, 0, 0), Round: 1, Rate: 3}, func() wire.Message { return &wire.Ack{} }, nil},
		{"the optimizer again, after a rate", &wire.SetOptimizer{Origin: origin(0, 0, 0), Mode: wire.ModeSync, Config: `{"name":"sgd","learning_rate":1}`}, func() wire.Message { return &wire.Ack{} }, nil},
		{"push of another size", &wire.Push{Origin: origin(0, 1, 1), Weight: 1, N: 1}, func() wire.Message { return &wire.Ack{} }, floats(1)},
		{"push with too few bytes", &wire.Push{Origin: origin(0, 1, 1), Weight: 1, N: 2}, func() wire.Message { return &wire.Ack{} }, floats(1)},
		{"push-pull", &wire.Push{Origin: origin(0, 1, 1), Weight: 1, N: 2, Answer: true}, func() wire.Message { return &wire.Value{} }, floats(1, 1)},
		{"push-pull again", &wire.Push{Origin: origin(0, 1, 1), Weight: 1, N: 2, Answer: true}, func() wire.Message { return &wire.Value{} }, floats(1, 1)},
		{"pull of a node that is none", &wire.Pull{Origin: wire.Origin{Generation: 1, Node: 99, Key: 1}}, func() wire.Message { return &wire.Value{} }, nil},
		{"pull in an old generation", &wire.Pull{Origin: wire.Origin{Node: 10, Key: 1}}, func() wire.Message { return &wire.Value{} }, nil},
		{"state", &wire.ReadState{Origin: origin(0, 1, 1), Round: 1}, func() wire.Message { return &wire.State{} }, nil},
		{"usage", &wire.ReadUsage{Origin: origin(0, 0, 0)}, func() wire.Message { return &wire.Usage{} }, nil},
	} {
		wantHead, wantData, wantErr := r.call(t.Context(), step.request, step.payload)
		answer := step.answer()
		got, err := l.Call(t.Context(), step.request, answer, make([]byte, 64), step.payload)
		var want, refusal *transport.Refusal
		if errors.As(wantErr, &want) != errors.As(err, &refusal) || want != nil && (refusal.Code != want.Code || refusal.Generation != want.Generation || refusal.Addr != "this process") {
			t.Errorf("%s: got error %v, want %v", step.what, err, wantErr)
			continue
		}
		if wantErr == nil && (!slices.Equal(wire.AppendHead(nil, answer), wire.AppendHead(nil, wantHead)) || !slices.Equal(got, wantData)) {
			t.Errorf("%s: got %+v with %v, want %+v with %v", step.what, answer, got, wantHead, wantData)
		}
	}
}

func TestLocalRefusesWhatItCannotAnswer(t *testing.T) {
	l := newLocal(t)
	if _, err := l.Call(t.Context(), &wire.InitShard{Origin: origin(0, 1, 0), Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 2, Size: 2,
		Shards: 1, Name: "w"}, &wire.Ack{}, nil, floats(1), floats(2)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what            string
		request, answer wire.Message
		room            int
		want            wire.Code
	}{
		{"a request between servers", &wire.Replicate{}, &wire.Ack{}, 0, wire.CodeUnsupported},
		{"an answer of another kind", &wire.Pull{Origin: origin(0, 1, 0)}, &wire.Ack{}, 8, wire.CodeInternal},
		{"too little room", &wire.Pull{Origin: origin(0, 1, 0)}, &wire.Value{}, 7, wire.CodeSize},
	} {
		_, err := l.Call(t.Context(), tc.request, tc.answer, make([]byte, tc.room))
		var refusal *transport.Refusal
		if !errors.As(err, &refusal) || refusal.Code != tc.want {
			t.Errorf("%s: got error %v, want %v", tc.what, err, tc.want)
		}
	}
	value := &wire.Value{}
	got, err := l.Call(t.Context(), &wire.Pull{Origin: origin(0, 1, 0)}, value, make([]byte, 8))
	if err != nil || !slices.Equal(got, floats(1, 2)) {
		t.Errorf("pull: got %v and error %v, want both slices of the payload, one after the other", got, err)
	}
}
