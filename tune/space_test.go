package tune_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

func TestSamplesStayInTheSpaceAndFollowItsDistributions(t *testing.T) {
	space := tune.Space{
		tune.Real("real", -1, 3), tune.Real("log", 1e-4, 1e-1).Log(), tune.Real("quantised", 0.1, 1).Quantise(0.3), tune.Real("logq", 1, 100).Log().Quantise(1),
		tune.Int("int", 1, 3), tune.Int("logint", 1, 1000).Log(), tune.Int("step", 2, 11).Step(4), tune.Bool("bool"), tune.Choice("choice", "a", 1, 0.5, true),
		tune.Normal("normal", 5, 2), tune.LogNormal("lognormal", 0, 1), tune.Normal("qnormal", 0, 1).Quantise(0.25),
		tune.Choice("optimizer", "sgd", "adam"), tune.Real("momentum", 0, 0.99).When("optimizer", "sgd"), tune.Real("beta", 0, 1).When("optimizer", "adam"),
		tune.Real("deep", 0, 1).When("momentum2", true), tune.Derived("twice", func(p tune.Params) any { return 2 * p.Float("real") }),
	}
	space[15] = tune.Real("deep", 0, 1).When("bool", true)
	if err := space.Validate(); err != nil {
		t.Fatal(err)
	}
	rng := tunetest.Rand(1)
	sum, n := map[string]float64{}, map[string]float64{}
	seen := map[string]map[any]int{}
	const samples = 4000
	for range samples {
		p, err := space.Sample(rng, tune.Params{})
		if err != nil {
			t.Fatal(err)
		}
		if err := space.Contains(p); err != nil {
			t.Fatal(err)
		}
		if p.Has("momentum") == p.Has("beta") || p.Has("momentum") != (p.Text("optimizer") == "sgd") || p.Has("deep") != p.Bool("bool") {
			t.Fatalf("branches of %v", p)
		}
		for name, v := range p.All() {
			if seen[name] == nil {
				seen[name] = map[any]int{}
			}
			seen[name][v]++
			n[name]++
			switch x := v.(type) {
			case float64:
				if strings.HasPrefix(name, "log") {
					x = math.Log(x)
				}
				sum[name] += x
			case int64:
				sum[name] += float64(x)
			}
		}
	}
	for name, want := range map[string]float64{"real": 1, "log": math.Log(math.Sqrt(1e-5)), "quantised": 0.55, "int": 2, "step": 6, "normal": 5, "lognormal": 0, "qnormal": 0, "twice": 2} {
		if got := sum[name] / n[name]; math.Abs(got-want) > 0.15 {
			t.Errorf("%s: got mean %.3f, want about %.3f", name, got, want)
		}
	}
	for name, want := range map[string]string{"quantised": "0.1 0.4 0.7 1", "int": "1 2 3", "step": "10 2 6", "bool": "false true", "choice": "0.5 1 a true"} {
		var got []string
		for v, k := range seen[name] {
			if k < samples/len(seen[name])*3/4 {
				t.Errorf("%s: value %v was drawn %d times of %d", name, v, k, samples)
			}
			got = append(got, fmt.Sprint(v))
		}
		if s := strings.Join(sorted(got), " "); s != want {
			t.Errorf("%s: got values %s, want %s", name, s, want)
		}
	}
	if k := seen["logint"][int64(1)]; k < samples/20 {
		t.Errorf("logint: 1 was drawn %d times of %d, want the small ones often", k, samples)
	}
}

func sorted(s []string) []string {
	for i := range s {
		for j := i; j > 0 && s[j] < s[j-1]; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
	return s
}

func TestToUnitIsTheInverseOfFromUnit(t *testing.T) {
	for _, p := range []tune.Param{tune.Real("a", -1, 3), tune.Real("b", 1e-4, 1e-1).Log(), tune.Real("c", 0, 1).Quantise(0.1), tune.Int("d", 1, 8), tune.Int("e", 1, 1000).Log(),
		tune.Int("f", 0, 100).Step(7), tune.Bool("g"), tune.Choice("h", "x", "y", "z"), tune.Normal("i", 1, 2), tune.LogNormal("j", 0, 1), tune.Real("k", 2, 2), tune.Int("l", 5, 5)} {
		for i := range 101 {
			v := p.FromUnit(float64(i) / 100)
			if w := p.FromUnit(p.ToUnit(v)); !near(v, w) {
				t.Errorf("%s: value %v at %v goes to %v and comes back as %v", p.Name, v, float64(i)/100, p.ToUnit(v), w)
			}
		}
	}
}

func near(a, b any) bool {
	x, ok := a.(float64)
	y, also := b.(float64)
	if ok && also {
		return math.Abs(x-y) <= 1e-9*math.Max(1, math.Abs(x))
	}
	return a == b
}

func TestDefaultsAreTheMiddleAndTriedFirst(t *testing.T) {
	space := tune.Space{tune.Grid("batch", 32, 64), tune.Real("lr", 1e-4, 1e-1).Log(), tune.Int("layers", 1, 8), tune.Bool("b"), tune.Choice("o", "sgd", "adam"),
		tune.Real("m", 0, 1).Default(0.9).When("o", "sgd"), tune.Normal("n", 3, 1)}
	p, err := space.Defaults(tune.Params{})
	if err != nil {
		t.Fatal(err)
	}
	// The first configuration of AutoGluon's tutorial: lr is √(1e-4·1e-1).
	if math.Abs(p.Float("lr")-0.0031622776601683794) > 1e-15 {
		t.Errorf("default of lr: got %v, want 0.00316227766", p.Float("lr"))
	}
	q, _ := p.With("lr", 0.5)
	if got, want := fmt.Sprint(q), "batch=32 lr=0.5 layers=5 b=false o=sgd m=0.9 n=3"; got != want {
		t.Errorf("defaults: got %s, want %s", got, want)
	}
}

func TestAWrongSpaceIsAnErrorThatNamesTheParameter(t *testing.T) {
	for want, space := range map[string]tune.Space{
		`parameter 0 "a": range [2, 1]`:                              {tune.Real("a", 2, 1)},
		`parameter 0 "b": range [0, 1]: Log needs bounds above 0`:    {tune.Real("b", 0, 1).Log()},
		`parameter 1 "a": the name is used twice`:                    {tune.Real("a", 0, 1), tune.Int("a", 0, 1)},
		`parameter 0 "c": got no values`:                             {tune.Choice("c")},
		`parameter 0 "d": value 1 is given twice`:                    {tune.Choice("d", 1, 1.0)},
		`parameter 0 "e": When("f"): there is no such parameter`:     {tune.Real("e", 0, 1).When("f", 1), tune.Int("f", 0, 1)},
		`parameter 1 "g": When("c"): tune: parameter "c": value z`:   {tune.Choice("c", "x", "y"), tune.Real("g", 0, 1).When("c", "z")},
		`parameter 0 "h": default: tune: parameter "h": value 7`:     {tune.Real("h", 0, 1).Default(7)},
		`parameter 0 "i": Quantise(-1)`:                              {tune.Real("i", 0, 1).Quantise(-1)},
		`parameter 0 "j": Log is for reals and ints, not for a bool`: {tune.Bool("j").Log()},
		`parameter 0 "k": mean NaN`:                                  {tune.Normal("k", math.NaN(), 1)},
		`parameter 0 "l": got no function`:                           {tune.Derived("l", nil)},
		`a parameter has no name`:                                    {tune.Bool("")},
		`an axis of the grid cannot be conditional`:                  {tune.Bool("a"), tune.Grid("m", 1, 2).When("a", true)},
	} {
		if err := space.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	branches := tune.Space{tune.Choice("o", "sgd", "adam"), tune.Real("lr", 0, 1).When("o", "sgd"), tune.Real("lr", 10, 11).When("o", "adam")}
	if err := branches.Validate(); err != nil {
		t.Errorf("one name under two branches: %v", err)
	}
	if err := (&tune.Config{Space: branches, Points: []tune.Point{{"o": "adam", "lr": 10.5}, {"momentum": 1}}}).Validate(); err == nil || !strings.Contains(err.Error(), `Points[1]: tune: there is no parameter "momentum"`) || strings.Contains(err.Error(), "Points[0]") {
		t.Errorf("points: got %v, want an error about momentum alone", err)
	}
}

type args struct {
	LearningRate float64 `hp:"log,1e-4,1e-1"`
	Momentum     float64 `hp:"0,0.99,when=optimizer:sgd|nag"`
	Optimizer    string  `hp:"choice,sgd,nag,adam"`
	Layers       uint8   `hp:"1,8,step=2"`
	Batch        int     `hp:"grid,32,64"`
	Nesterov     bool    `hp:"bool"`
	Noise        float32 `hp:"normal,0,1,name=eps"`
	Dropout      float64 `hp:"0,0.9,q=0.1,default=0.5"`
	Head         struct {
		Width int `hp:"log,8,512"`
	}
	Verbose bool
}

func TestASpaceIsPrintedAsPeopleReadIt(t *testing.T) {
	space := tune.Space{tune.Real("lr", 1e-4, 0.1).Log(), tune.Choice("opt", "sgd", "adam").Default("adam"), tune.Int("n", 1, 9).Step(2).When("opt", "sgd"),
		tune.Derived("d", func(tune.Params) any { return 1 })}
	want := `[real "lr" [0.0001, 0.1] log choice "opt" ["sgd" "adam"] default "adam" int "n" [1, 9] step 2 when "opt" ["sgd"] derived "d"]`
	if got := fmt.Sprint(space); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_ = fmt.Sprint(tune.Choice("c", []int{1}), tune.Param{}) // wrong ones are printed too
}

func TestASpaceFromAStructAndBack(t *testing.T) {
	space, err := tune.SpaceOf(args{Layers: 3})
	if err != nil {
		t.Fatal(err)
	}
	p, err := space.Defaults(tune.Params{})
	if err != nil {
		t.Fatal(err)
	}
	a := args{Verbose: true}
	if err := p.Decode(&a); err != nil {
		t.Fatal(err)
	}
	if a.Layers != 3 || a.Optimizer != "sgd" || a.Batch != 32 || a.Dropout != 0.5 || a.Head.Width != 64 || a.Momentum != 0.495 || !a.Verbose || math.Abs(a.LearningRate-0.00316227766) > 1e-9 {
		t.Errorf("through a struct: got %+v of %v", a, p)
	}
	for want, v := range map[string]any{
		`want a struct`: 3,
		`field a, tag "1"`: struct {
			A int `hp:"1"`
		}{},
		`needs choice or grid`: struct {
			A string `hp:"1,2"`
		}{},
		`only if the field is exported`: struct {
			a int `hp:"1,2"`
		}{},
		`uint8 does not hold it`: struct {
			A uint8 `hp:"0,256"`
		}{},
		`range [-1, 2]: the type uint does not hold it`: struct {
			A uint `hp:"-1,2"`
		}{},
		`tag "choice,x"`: struct {
			A int `hp:"choice,x"`
		}{},
	} {
		if _, err := tune.SpaceOf(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("space of %T: got %v, want %q", v, err, want)
		}
	}
	if err := tune.MustParams("layers", 300).Decode(&a); err == nil || !strings.Contains(err.Error(), "300 does not fit a field of type uint8") {
		t.Errorf("decode of what does not fit: got %v", err)
	}
	if err := tune.MustParams("rate", 1).Decode(&a); err == nil || !strings.Contains(err.Error(), `no field for "rate"`) {
		t.Errorf("decode of what has no field: got %v", err)
	}
}
