package suggest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// TestMain is also the program that External starts: it answers as its argument says.
func TestMain(m *testing.M) {
	if how := os.Getenv("SUGGEST_TEST_PROGRAM"); how != "" {
		answerAs(how)
		return
	}
	os.Exit(m.Run())
}

func answerAs(how string) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, maxAnswer)
	known := 0
	space := 0
	for in.Scan() {
		var r request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		known += len(r.Trials)
		space = max(space, len(r.Space))
		switch how {
		case "good":
			fmt.Printf(`{"id": %d, "params": {"x": %v, "opt": "sgd", "momentum": 0.5, "n": %d}}`+"\n", r.ID, float64(known)/100, space)
		case "missing":
			fmt.Printf(`{"id": %d, "params": {"x": 0.5, "opt": "sgd"}}`+"\n", r.ID)
		case "unknown":
			fmt.Printf(`{"id": %d, "params": {"y": 0.5}}`+"\n", r.ID)
		case "outside":
			fmt.Printf(`{"id": %d, "params": {"x": 2, "opt": "adam", "n": 1}}`+"\n", r.ID)
		case "no JSON":
			fmt.Println("hello")
		case "wrong id":
			fmt.Println(`{"id": -1, "wait": true}`)
		case "nothing":
			fmt.Printf(`{"id": %d}`+"\n", r.ID)
		case "wait":
			fmt.Printf(`{"id": %d, "wait": true}`+"\n", r.ID)
		case "exhausted":
			fmt.Printf(`{"id": %d, "exhausted": true}`+"\n", r.ID)
		case "error":
			fmt.Printf(`{"id": %d, "error": "no idea"}`+"\n", r.ID)
		case "ends":
			fmt.Fprintln(os.Stderr, "out of ideas")
			os.Exit(3)
		case "silent":
		}
	}
}

func externalSpace() tune.Space {
	return tune.Space{tune.Real("x", 0, 1), tune.Choice("opt", "sgd", "adam"), tune.Real("momentum", 0, 1).When("opt", "sgd"), tune.Int("n", 1, 9)}
}

func external(t *testing.T, how string) *External {
	t.Setenv("SUGGEST_TEST_PROGRAM", how)
	e := &External{Command: []string{os.Args[0]}, Deadline: 20 * time.Second}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestExternalProposes(t *testing.T) {
	e := external(t, "good")
	v := &tunetest.View{SearchSpace: externalSpace()}
	rng := tunetest.Rand(1)
	for i, want := range []string{"0", "0.01", "0.03"} { // trials told: none, the one of then, that one again with its result and one more
		p, err := e.Suggest(v, i, rng)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.Float("x")); got != want || p.Int("n") != 4 || p.Float("momentum") != 0.5 {
			t.Errorf("proposal %d: got %v, want x %s and n 4", i, p, want)
		}
		v.Add(p)
		if i == 1 {
			v.Report(v.All[0], 1, 2)
			v.End(v.All[0], tune.Completed)
		}
	}
}

func TestExternalSaysWhatIsWrong(t *testing.T) {
	for how, want := range map[string]string{
		"missing":  `"momentum" is missing`,
		"unknown":  `"y" is not in the space`,
		"outside":  "not in [0, 1]",
		"no JSON":  `"hello"`,
		"wrong id": "id -1, want 1",
		"nothing":  "none of params",
		"error":    "no idea",
		"ends":     "out of ideas",
	} {
		t.Run(how, func(t *testing.T) {
			_, err := external(t, how).Suggest(&tunetest.View{SearchSpace: externalSpace()}, 0, tunetest.Rand(1))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %s", err, want)
			}
		})
	}
	for how, want := range map[string]error{"wait": tune.ErrWait, "exhausted": tune.ErrExhausted} {
		if _, err := external(t, how).Suggest(&tunetest.View{SearchSpace: externalSpace()}, 0, tunetest.Rand(1)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", how, err, want)
		}
	}
	e := external(t, "silent")
	e.Deadline = 50 * time.Millisecond
	if _, err := e.Suggest(&tunetest.View{SearchSpace: externalSpace()}, 0, tunetest.Rand(1)); err == nil || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("silent: got %v", err)
	}
	for _, command := range [][]string{nil, {"/no/such/program"}} {
		if _, err := (&External{Command: command}).Suggest(&tunetest.View{}, 0, tunetest.Rand(1)); err == nil {
			t.Errorf("command %q: no error", command)
		}
	}
}

// A search with a program replays from its log alone.
func TestReplayNeedsNoProgram(t *testing.T) {
	dir := t.TempDir()
	cfg := tune.Config{Space: externalSpace(), Metric: "v", Mode: tune.Max, Samples: 4, Dir: dir, Suggester: &Limit{Suggester: external(t, "good"), Max: 1}}
	result, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		return r.Report(1, map[string]float64{"v": p.Float("x")})
	}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Suggester = &Limit{Suggester: &External{Command: []string{"/no/such/program"}}, Max: 1}
	replayed, err := tune.Replay(dir, cfg)
	if err != nil || replayed.DecisionHash != result.DecisionHash() || replayed.Proposals != 4 {
		t.Errorf("replayed %+v (%v), want 4 proposals and hash %s", replayed, err, result.DecisionHash())
	}
}

// Whatever a program answers is parameters of the space or an error.
func FuzzExternalAnswer(f *testing.F) {
	for _, seed := range []string{`{"id":1,"params":{"x":0.5,"opt":"sgd","momentum":1,"n":3}}`, `{"id":1,"wait":true}`, `{"params":{"n":1e400}}`,
		`{"params":{"x":null,"opt":[1],"n":{}}}`, `{"params":{"n":9223372036854775808,"x":"0","opt":"adam"}}`} {
		f.Add([]byte(seed))
	}
	v := &tunetest.View{SearchSpace: externalSpace()}
	e := &External{Command: []string{"p"}}
	f.Fuzz(func(t *testing.T, line []byte) {
		var a answer
		if json.Unmarshal(line, &a) != nil {
			return
		}
		p, err := e.params(v, 0, a)
		if err != nil {
			return
		}
		if err := v.SearchSpace.Contains(p); err != nil {
			t.Errorf("answer %q: %v", line, err)
		}
	})
}

func TestAProgramWhoseChildPrintsWithoutEndIsEnded(t *testing.T) {
	e := &External{Command: []string{"sh", "-c", "yes '{}' & wait"}, Deadline: 10 * time.Second}
	v := &tunetest.View{SearchSpace: tune.Space{tune.Real("x", 0, 1)}}
	begin := time.Now()
	if _, err := e.Suggest(v, 0, tunetest.Rand(1)); err == nil {
		t.Error("an answer without an id: no error")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if d := time.Since(begin); d > 8*time.Second {
		t.Errorf("it took %v", d)
	}
}
