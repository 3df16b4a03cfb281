package tune_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

func TestParamsStayExactlyWhatTheyAreThroughJSON(t *testing.T) {
	for _, p := range []tune.Params{
		{},
		tune.MustParams("a", 1, "b", 1.0, "c", "1", "d", true),
		tune.MustParams("tiny", math.SmallestNonzeroFloat64, "huge", math.MaxFloat64, "minus zero", math.Copysign(0, -1), "third", 1.0/3),
		tune.MustParams("low", math.MinInt, "high", math.MaxInt),
		tune.MustParams("quote\"\\\n\x01é☃", "quote\"\\\n\x7f\u2028<é☃>", "opt.momentum", 0.9),
	} {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%v: %v", p, err)
		}
		var q tune.Params
		if err := json.Unmarshal(b, &q); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if !q.Equal(p) {
			t.Errorf("through %s: got %v, want %v", b, q, p)
		}
	}
	var p tune.Params
	if err := json.Unmarshal([]byte(`{"lr":0.1,"opt":{"momentum":0.9,"k":{"n":3}}}`), &p); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(p), "lr=0.1 opt.momentum=0.9 opt.k.n=3"; got != want {
		t.Errorf("objects inside: got %s, want %s", got, want)
	}
}

func TestBadParamsAreErrorsThatNameThem(t *testing.T) {
	for in, want := range map[string]string{
		`[1]`: "want {", `{"a":null}`: `"a": got <nil>`, `{"a":[1]}`: `"a": got [`, `{"a":1,"a":2}`: `"a" is given twice`,
		`{"a":{"b":1},"a.b":2}`: `"a.b" is given twice`, `{"a":9223372036854775808}`: "beyond 64 bits", `{"a":1e999}`: "beyond a float64", `{"":1}`: "no name",
	} {
		var p tune.Params
		if err := json.Unmarshal([]byte(in), &p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", in, err, want)
		}
	}
	for _, args := range [][]any{{"a"}, {1, 2}, {"a", []int{1}}, {"a", math.NaN()}, {"a", "\xff"}, {"a", 1, "a", 2}, {"a", uint64(math.MaxUint64)}} {
		if p, err := tune.NewParams(args...); err == nil {
			t.Errorf("%v: got %v, want an error", args, p)
		}
	}
}

func TestAWrongNameOrTypePanicsWithAMessageThatNamesBoth(t *testing.T) {
	p := tune.MustParams("lr", 0.1, "layers", 3, "optimizer", "sgd", "nesterov", true)
	if p.Float("lr") != 0.1 || p.Float("layers") != 3 || p.Int("layers") != 3 || p.Text("optimizer") != "sgd" || !p.Bool("nesterov") {
		t.Errorf("values of %v are not as set", p)
	}
	for want, f := range map[string]func(){
		`no parameter "rate": there are lr, layers, optimizer, nesterov`:        func() { p.Float("rate") },
		`parameter "lr" is 0.1, of type float, but was read as an integer`:      func() { p.Int("lr") },
		`parameter "optimizer" is sgd, of type string, but was read as a float`: func() { p.Float("optimizer") },
		`parameter "layers" is 3, of type integer, but was read as a bool`:      func() { p.Bool("layers") },
		`parameter "nesterov" is true, of type bool, but was read as a string`:  func() { _ = p.Text("nesterov") },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("got panic %q, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

func FuzzParamsJSON(f *testing.F) {
	f.Add([]byte(`{"lr":0.1,"n":3,"s":"x","b":true}`))
	f.Add([]byte(`{"a":{"b":-0.0,"c":"\u2028"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, q tune.Params
		if json.Unmarshal(b, &p) != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%v: %v", p, err)
		}
		if err := json.Unmarshal(again, &q); err != nil || !q.Equal(p) {
			t.Errorf("%q: %s: got %v (%v), want %v", b, again, q, err, p)
		}
	})
}
