package control

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestRequestsAreStrict(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{"op":"status"}`, ""},
		{`{"version":2,"op":"events","after":3,"wait_ms":60000}`, ""},
		{`{"op":"add-server","host":""}`, ""},
		{`{"op":"status","hosts":[]}`, `unknown field "hosts"`},
		{`{"op":"status"}{}`, "more data after the JSON"},
		{`{"op":7}`, "number"},
		{`[`, "EOF"},
		{``, "EOF"},
		{`{"op":"leap"}`, `op "leap": want status, why, events, add, remove, add-server, remove-server, stop, checkpoint-stop, scale, report, wanted, telemetry, series, trace, trace-parts or trace-end`},
		{`{"op":"status","version":1}`, "version 1 of a request: want 2; use the launch program"},
		{`{"op":"divine","version":3,"depth":7}`, "version 3 of a request: want 2; use the launch program"},
		{`{"op":"status","version":"3","depth":7}`, "version"},
		{`{"op":"add"}`, `host "": want a name of 1 to 255 bytes`},
		{`{"op":"add","host":"a/b"}`, `host "a/b": want a name`},
		{`{"op":"add-server","host":"a b"}`, `host "a b": want a name of up to 255 bytes`},
		{`{"op":"add","host":"d","slots":65537}`, "host d: 65537 slots, want 1 to 65536"},
		{`{"op":"add","host":"d","slots":-1}`, "host d: -1 slots"},
		{`{"op":"remove-server","rank":-1}`, "server -1"},
		{`{"op":"remove-server","rank":65537}`, "server 65537"},
		{`{"op":"events","wait_ms":60001}`, "wait_ms 60001: want 0 to 60000"},
		{`{"op":"events","wait_ms":-1}`, "wait_ms -1"},
		{`{"op":"events","after":-1}`, "after"},
		{`{"op":"report","observed":{"number":1,"processes":[{"process":4294967296}]}}`, "process"},
		{`{"op":"report"}`, "op report: want what is observed"},
		{`{"op":"stop","observed":{"number":1}}`, "op stop: what is observed is for op report"},
		{`{"op":"report","observed":{"number":1,"processes":[{"process":3,"role":"boss"}]}}`, `process 3: role "boss"`},
		{`{"op":"report","observed":{"number":1,"processes":[{"process":3,"role":"worker","state":"asleep"}]}}`, `process 3: state "asleep"`},
		{`{"op":"report","observed":{"number":1,"processes":[{"process":3,"role":"worker","state":"ended"}]}}`, `state ended and cause "" contradict each other`},
		{`{"op":"report","observed":{"number":1,"processes":[{"process":3,"role":"worker","state":"ended","cause":{"kind":"magic"}}]}}`, `cause kind "magic"`},
		{`{"op":"report","observed":{"number":1,"processes":[{"process":3,"role":"worker","state":"running"},{"process":3,"role":"worker","state":"running"}]}}`, "process 3 comes after 3"},
		{`{"op":"report","observed":{"number":1,"hosts":[{"host":"a b"}]}}`, `host "a b"`},
		{`{"op":"checkpoint-stop","reason":"` + strings.Repeat("x", MaxReason+1) + `"}`, "reason of 8193 bytes, want at most 8192"},
		{`{"op":"` + strings.Repeat("x", MaxRequest) + `"}`, "want at most 65536"},
	} {
		q, err := DecodeRequest([]byte(tc.text))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%.80s: got %+v, %v; want an error with %q", tc.text, q, err, tc.want)
		}
	}
}

func TestALongReasonIsCutAtACharacter(t *testing.T) {
	b, err := Request{Op: OpCheckpointStop, Reason: "x" + strings.Repeat("é", MaxReason) + "\xff"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	q, err := DecodeRequest(b)
	if err != nil || len(q.Reason) != MaxReason-1 || strings.Trim(q.Reason, "xé") != "" || q.Version != Version {
		t.Errorf("got a reason of %d bytes, version %d, %v; want %d bytes, version %d", len(q.Reason), q.Version, err, MaxReason-1, Version)
	}
}

func TestAnswersAreStrict(t *testing.T) {
	for _, tc := range []struct {
		into Answer
		text string
		want string
	}{
		{&Status{}, `{"phase":"running","nodes":[{"node":1,"role":"worker","rank":-1,"state":"joining"}]}`, ""},
		{&Status{}, `{"phase":"dancing"}`, `phase "dancing"`},
		{&Status{}, `{"phase":"running","nods":[]}`, `unknown field "nods"`},
		{&Status{}, `{"phase":"running","workers":-1}`, "-1 workers"},
		{&Status{}, `{"phase":"running","nodes":[{"node":7,"role":"boss","state":"counts"}]}`, `node 7: role "boss"`},
		{&Status{}, `{"phase":"running","nodes":[{"node":7,"role":"worker","state":"asleep"}]}`, `node 7: state "asleep"`},
		{&Status{}, `{"phase":"running","nodes":[{"node":7,"role":"worker","state":"counts","rank":-2}]}`, "node 7: rank -2"},
		{&Status{}, `{"phase":"running","hosts":[{"host":"d","status":"LOST"}]}`, `host d: status "LOST"`},
		{&Status{}, `{"phase":"running","servers":[{"rank":2,"status":"GONE"}]}`, `server 2: status "GONE"`},
		{&Status{}, `{"phase":"running","servers":[{"rank":2,"status":"HERE","shards":-1}]}`, "server 2: -1 shards"},
		{&Status{}, `{"phase":"running","change":{"number":3,"seconds":-1}}`, "change 3 is pending for -1 seconds"},
		{&Events{}, `{"phase":"running","events":[{"number":1,"action":"ADDED"},{"number":2,"action":"RANKS"}]}`, ""},
		{&Events{}, `{"phase":"running","events":[{"number":2,"action":"ADDED"},{"number":2,"action":"RANKS"}]}`, "number 2 comes after 2"},
		{&Events{}, `{"phase":"running","events":[{"number":0,"action":"ADDED"}]}`, "number 0"},
		{&Events{}, `{"phase":"running","events":[{"number":1,"action":"EATEN"}]}`, `event 1: action "EATEN"`},
		{&Events{}, `{"phase":"running","events":[{"number":1,"action":"ADDED","role":"boss"}]}`, `event 1: role "boss"`},
		{&Events{}, `{"phase":"running","events":[{"number":1,"action":"ADD_QUEUED","slots":-1}]}`, "event 1: -1 slots"},
		{&Events{}, `{"phase":"running","events":[{"number":1,"action":"SERVER_ADDED","rank":65537}]}`, "event 1: rank 65537"},
		{&Events{}, `{"events":[]}`, `phase ""`},
		{&Wanted{}, `{"phase":"running","revision":3,"processes":[{"process":3,"role":"worker","rank":-1,"number":2,"host":"d","goal":"run"}]}`, ""},
		{&Wanted{}, `{"phase":"running","revision":3,"processes":[{"process":3,"role":"worker","goal":"sleep"}]}`, `goal "sleep"`},
		{&Wanted{}, `{"phase":"running","revision":3,"processes":[{"process":0,"role":"worker","goal":"run"}]}`, "process 0 comes after 0"},
		{&Wanted{}, `{"phase":"running","revision":3,"processes":[{"process":3,"role":"boss","goal":"run"}]}`, `role "boss"`},
		{&Wanted{}, `{"phase":"running","revision":3,"processes":[{"process":3,"role":"worker","goal":"over","fate":"sad"}]}`, `fate "sad"`},
		{&Wanted{}, `{"phase":"running","revision":3,"hosts":[{"host":"d","slots":-1}]}`, "slots -1"},
		{&Why{}, `{"waits":[{"who":"a","seconds":1e300}]}`, "a waits 1e+300 seconds"},
		{&Why{}, `{"waits":[{"who":"a","for":"b","at":"c","seconds":1.5}]}`, ""},
		{&Telemetry{}, `{"phase":"running","columns":[{"metric":"loss"}],"totals":[null],"nodes":[{"node":1,"role":"worker","state":"gone","values":["+Inf"]}]}`, ""},
		{&Telemetry{}, `{"phase":"running","columns":[{"metric":"loss"}],"totals":[1],"nodes":[{"node":1,"role":"worker","state":"counts","values":[]}]}`, "node 1: 0 values, want 1"},
		{&Telemetry{}, `{"phase":"running","columns":[{"metric":"loss"}],"totals":[]}`, "0 totals, want 1"},
		{&Telemetry{}, `{"phase":"running","columns":[{"metric":""}],"totals":[1]}`, `column ""[0]: want a metric`},
		{&Telemetry{}, `{"phase":"running","nodes_left_out":-1}`, "-1 nodes left out"},
		{&Telemetry{}, `{"phase":"running","nodes":[{"node":1,"role":"boss","state":"counts"}]}`, `node 1: role "boss"`},
		{&Telemetry{}, `{"phase":"running","nodes":[{"node":1,"role":"worker","state":"asleep"}]}`, `node 1: state "asleep"`},
		{&Telemetry{}, `{"phase":"running","totals":["7"]}`, `number "7": want a number`},
		{&Telemetry{}, `{"phase":"running","slow":[{"node":1,"share":-1}]}`, "slow node 1: -1"},
		{&Telemetry{}, `{"phase":"running","slow":[{"node":1,"cause":"bad luck"}]}`, `cause "bad luck"`},
		{&Series{}, `{"step_ms":1000,"columns":[{"metric":"loss"},{"metric":"steps","index":1}],"nodes":[{"node":1,"values":[[1,null],[2,3]]}]}`, ""},
		{&Series{}, `{"step_ms":0}`, "0 ms between points"},
		{&Series{}, `{"step_ms":1,"nodes_left_out":-2}`, "-2 nodes left out"},
		{&Series{}, `{"step_ms":1,"columns":[{"metric":"loss","index":-1}]}`, "column \"loss\"[-1]"},
		{&Series{}, `{"step_ms":1,"columns":[{"metric":"loss"}],"nodes":[{"node":1,"values":[]}]}`, "node 1: 0 columns of values, want 1"},
		{&Series{}, `{"step_ms":1,"columns":[{"metric":"a"},{"metric":"b"}],"nodes":[{"node":1,"values":[[1],[1,2]]}]}`, "columns of 1 and 2 values"},
		{&Done{}, `{}`, ""},
		{&Done{}, `{"rank":65537}`, "rank 65537"},
		{&Done{}, `{"phase":"gone"}`, `phase "gone"`},
		{&Done{}, `{"error":"no"}`, "refused: no"},
		{&Done{}, `{"error":"soon","again":true}`, "refused: not yet: soon"},
		{&Done{}, `{"rank":1,`, "EOF"},
	} {
		err := DecodeAnswer([]byte(tc.text), tc.into)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%T %s: got %v, want an error with %q", tc.into, tc.text, err, tc.want)
		}
	}
}

func TestRefusalsAreErrors(t *testing.T) {
	ask := func(answer string) error {
		_, err := Ask(t.Context(), func(_ context.Context, request []byte) ([]byte, error) {
			if string(request) != `{"version":2,"op":"remove-server","rank":2}` {
				t.Errorf("carried %s", request)
			}
			return []byte(answer), nil
		}, Request{Op: OpRemoveServer, Rank: 2}, &Done{})
		return err
	}
	for _, tc := range []struct {
		answer         string
		refused, later bool
	}{{`{}`, false, false}, {`{"error":"no"}`, true, false}, {`{"error":"no","again":true}`, true, true}, {`{"what":1}`, false, false}} {
		if err := ask(tc.answer); errors.Is(err, ErrRefused) != tc.refused || errors.Is(err, ErrLater) != tc.later || (err == nil) != (tc.answer == "{}") {
			t.Errorf("%s: got %v; want refused %t, later %t", tc.answer, err, tc.refused, tc.later)
		}
	}
	_, err := Ask(t.Context(), nil, Request{Op: "leap"}, &Done{})
	if !errors.Is(err, ErrRefused) {
		t.Errorf("a request that keeps no limit: got %v, want it refused here", err)
	}
	if _, err := EncodeAnswer(&Why{Waits: []Wait{{Seconds: math.NaN()}}}); err == nil {
		t.Error("a time that is no number was encoded")
	}
	if _, err := EncodeAnswer(&Done{Error: strings.Repeat("x", MaxAnswer)}); err == nil {
		t.Error("an answer above the limit was encoded")
	}
}

func FuzzRequest(f *testing.F) {
	for _, op := range ops {
		b, err := json.Marshal(Request{Op: op, Host: "d1", Slots: 2, GPUs: -1, CPUs: 4, Rank: 1, Reason: "é", After: 7, WaitMillis: 10})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := DecodeRequest(text)
		if err != nil {
			return
		}
		b, err := q.Encode()
		if err != nil {
			t.Fatalf("%s: decoded, and then: %v", text, err)
		}
		q.Version = Version
		if again, err := DecodeRequest(b); err != nil || !reflect.DeepEqual(again, q) {
			t.Fatalf("%s: got %+v, %v; want %+v", text, again, err, q)
		}
	})
}

func fuzzAnswer[T any, A interface {
	*T
	Answer
}](f *testing.F, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var a, again T
		if DecodeAnswer(text, A(&a)) != nil {
			return
		}
		b, err := EncodeAnswer(A(&a))
		if err != nil { // escapes may make it longer
			return
		}
		if err := DecodeAnswer(b, A(&again)); err != nil {
			t.Fatalf("%s: decoded, and then %s: %v", text, b, err)
		}
		if c, err := EncodeAnswer(A(&again)); err != nil || string(c) != string(b) {
			t.Fatalf("%s: got %s, %v; want %s", text, c, err, b)
		}
	})
}

func FuzzStatus(f *testing.F) {
	fuzzAnswer[Status](f, `{"job":"j","phase":"running","generation":2,"workers":1,"change":{"number":1,"causes":["x"],"seconds":1.5,"waits_for":"y"},"division":{"epoch":1,"steps":2,"cuts":[{"parts":2,"used":[1,2]}],"change":1},"nodes":[{"node":1,"role":"worker","rank":0,"host":"d","pid":7,"state":"counts"}],"hosts":[{"host":"d","status":"ADDED"}],"servers":[{"rank":0,"status":"HERE"}]}`)
}

func FuzzEvents(f *testing.F) {
	fuzzAnswer[Events](f, `{"phase":"failed","reason":"x","last":2,"events":[{"number":1,"time_ns":5,"action":"LOST","host":"d","role":"worker","pid":7,"reason":"y"},{"number":2,"action":"RANKS"}]}`)
}

func FuzzWhy(f *testing.F) {
	fuzzAnswer[Why](f, `{"waits":[{"who":"a","at":"b","for":"c","seconds":0.5}],"behind":["d"]}`)
}

func FuzzTelemetry(f *testing.F) {
	fuzzAnswer[Telemetry](f, `{"job":"j","phase":"running","incarnation":7,"now_ms":5,"since_ms":3,"generation":2,"columns":[{"metric":"steps"},{"metric":"sent_bytes","index":2}],"nodes":[{"node":1,"role":"worker","rank":0,"host":"d","pid":7,"state":"counts","age_ms":-1,"values":[1.5,null],"blamed_rounds":3,"blamed_seconds":0.5}],"totals":["+Inf","-Inf"],"changes":{"lost":1},"checkpoints":2,"slow":[{"node":1,"rank":0,"host":"d","share":0.9,"cause":"data"}]}`)
}

func FuzzSeries(f *testing.F) {
	fuzzAnswer[Series](f, `{"incarnation":7,"from_ms":5,"step_ms":1000,"columns":[{"metric":"steps"},{"metric":"loss"}],"nodes":[{"node":1,"values":[[1,null,-0],[1e-9,2e30,"+Inf"]]}],"nodes_left_out":1}`)
}

func FuzzDone(f *testing.F) {
	fuzzAnswer[Done](f, `{"rank":2}`, `{"phase":"forming"}`, `{"error":"x","again":true}`)
}

func TestDoneOfNothingIsEmpty(t *testing.T) {
	if b, err := EncodeAnswer(&Done{}); err != nil || string(b) != "{}" {
		t.Errorf("got %s, %v; want {}", b, err)
	}
}
