package study

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

const whole = `
name: all
metric: accuracy
mode: max
judge: last
command: [./train, --lr, "{lr}", "--momentum={momentum}", --layers, "{layers}", "{nesterov}{optimizer}{x}{y}{batch}{epochs}"]
space:
  lr: {real: [1e-4, 1e-1], log: true, default: 0.01}
  layers: {int: [1, 8], step: 2}
  nesterov: bool
  optimizer: [sgd, adam]
  momentum: {real: [0, 0.99], step: 0.01, when: {optimizer: [sgd]}}
  x: {normal: [0, 1]}
  y: {lognormal: [0, 2]}
  batch: {grid: {range: [32, 128, 32]}}
  epochs: 5
samples: 20
points:
  - {lr: 0.05, optimizer: adam}
default_first: true
seed: 7
suggester:
  limit: {max: 3, suggester: {tpe: {startup: 4, prior_weight: 0.5, rules: optuna}}}
scheduler:
  patience:
    reports: 3
    min_delta: 1e-3
    inner:
      asha: {max_step: 27, eta: 4, guard: {min_reports: 3}}
pruners:
  - reached: 0.99
  - reached: {value: 0.98, trial_only: true}
  - max_step: 27
  - trial_time: 90s
  - study_time: 2h
  - trial_plateau
  - study_plateau: {patience: 9}
  - number: 50
parallel: 4
resources: {hosts: 1, slots: 2, cpus: 3, gpus: 1, servers: 2, start_timeout: 30s}
timeout: 1h
report_timeout: 5m
grace: 3s
retries: {user_code: 1, out_of_memory: 2, node_lost: 4, silent: -1}
max_failed: 9
first_failures: 8
checkpoint_bytes: 1e9
dir: out
`

func TestAFileSaysAllThatASearchHas(t *testing.T) {
	s, err := Parse("study.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := tune.Config{
		Name: "all", Metric: "accuracy", Mode: tune.Max, Scope: tune.LastReport,
		Space: tune.Space{
			tune.Real("lr", 1e-4, 1e-1).Log().Default(0.01), tune.Int("layers", 1, 8).Step(2), tune.Bool("nesterov"), tune.Choice("optimizer", "sgd", "adam"),
			tune.Real("momentum", 0, 0.99).Quantise(0.01).When("optimizer", "sgd"), tune.Normal("x", 0, 1), tune.LogNormal("y", 0, 2),
			tune.Grid("batch", 32, 64, 96), tune.Choice("epochs", 5),
		},
		Samples: 20, Points: []tune.Point{{"lr": 0.05, "optimizer": "adam"}}, DefaultFirst: true, Seed: 7,
		Suggester: &suggest.Limit{Max: 3, Suggester: &suggest.TPE{Startup: 4, PriorWeight: 0.5, Rules: suggest.Optuna}},
		Scheduler: &schedule.Patience{Reports: 3, MinDelta: 1e-3, Inner: &schedule.ASHA{MaxStep: 27, Eta: 4, Guard: &schedule.Guard{MinReports: 3}}},
		Pruners: []tune.Pruner{schedule.Reached{Value: 0.99}, schedule.Reached{Value: 0.98, TrialOnly: true}, schedule.MaxStep(27),
			schedule.TrialTime(90 * time.Second), schedule.StudyTime(2 * time.Hour), schedule.TrialPlateau{}, &schedule.StudyPlateau{Patience: 9}, schedule.Number(50)},
		Parallel: 4, Resources: tune.Resources{Hosts: 1, Slots: 2, CPUsPerSlot: 3, GPUs: 1, Servers: 2, StartTimeout: 30 * time.Second},
		Timeout: time.Hour, ReportTimeout: 5 * time.Minute, Grace: 3 * time.Second, MaxFailed: 9, FirstFailures: 8, CheckpointBytes: 1e9, Dir: "out",
		Retries: tune.Retries{UserCode: 1, OutOfMemory: 2, NodeLost: 4, Silent: -1},
	}
	ignore := cmp.Options{
		cmpopts.IgnoreUnexported(suggest.TPE{}, schedule.ASHA{}, schedule.Guard{}, schedule.Patience{}, suggest.Limit{}, schedule.StudyPlateau{}, tune.Config{}, tune.Param{}),
	}
	if diff := cmp.Diff(want, s.Config, ignore); diff != "" {
		t.Errorf("the configuration differs (-want +got):\n%s", diff)
	}
	if s.Jobs.NoServers || s.Jobs.Resources.Slots != 2 {
		t.Errorf("jobs are %+v, want one with servers and two slots", s.Jobs)
	}
}

func TestEverySuggesterSchedulerAndPrunerIsInTheFile(t *testing.T) {
	base := "metric: a\nmode: max\ncommand: ./x\nspace: {lr: {real: [0, 1]}}\n"
	for _, text := range []string{
		"suggester: auto", "suggester: random", "suggester: sobol", "suggester: gp", "suggester: {cmaes: {sigma: 0.2}}", "suggester: {external: {command: ./s.py --x, deadline: 5s}}",
		"suggester: {repeat: {times: 3, suggester: tpe}}",
		"scheduler: fifo", "scheduler: {promotion: {max_step: 9}}", "scheduler: {hyperband: {max_step: 81, table: ray}}", "scheduler: {optuna_hyperband: {max_step: 9}}",
		"scheduler: {predict: {max_step: 9, probability: 0.1}}", "scheduler: median", "scheduler: {percentile: {percent: 25}}", "scheduler: {threshold: {lower: 0}}", "scheduler: {asha: {rule: optuna}}",
		"scheduler: {pbt: {interval: 2, explore: {mutate: [lr], factors: [1.5, 0.5]}}}", "scheduler: {any: [median, {threshold: {upper: 3}}]}", "scheduler: {all: [median, percentile]}",
		"scheduler: goodput", "scheduler: {goodput: {fairness: -0.5, min_replicas: 1, max_replicas: 4, interval: 30s, pinned: [3], inner: {asha: {max_step: 9}}}}",
	} {
		s, err := Parse("f", []byte(base+text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		_, auto := s.Config.Suggester.(*suggest.Auto) // that of a file that names none
		if strings.Contains(text, "random") && s.Config.Suggester != (tune.Random{}) || strings.Contains(text, "suggester") && !strings.Contains(text, "auto") && auto ||
			!strings.Contains(text, "suggester") && (s.Config.Scheduler != nil) == strings.Contains(text, "fifo") || !strings.Contains(text, "suggester") && !auto {
			t.Errorf("%s: got suggester %#v and scheduler %#v", text, s.Config.Suggester, s.Config.Scheduler)
		}
	}
	s, err := Parse("f", []byte(base+"scheduler: {threshold: {lower: 0}}"))
	if h, ok := s.Config.Scheduler.(*schedule.Threshold); err != nil || !ok || !h.HasLower || h.HasUpper {
		t.Errorf("a threshold with lower: 0 is %#v, %v", s.Config.Scheduler, err)
	}
}

// A trial whose replicas the scheduler decides is a job with servers, also where the file says
// nothing of resources.
func TestTrialsOfGoodputAreJobs(t *testing.T) {
	s, err := Parse("f", []byte("metric: a\nmode: max\ncommand: ./x\nspace: {lr: {real: [0, 1]}}\nscheduler: goodput"))
	if err != nil || s.Jobs.NoServers {
		t.Errorf("got NoServers %t, %v, want jobs with servers", err == nil && s.Jobs.NoServers, err)
	}
}

// One process is no job, on hosts as on this machine; flags for launch make it one.
func TestATrialOfOneProcessIsNoJob(t *testing.T) {
	for _, tc := range []struct {
		more  string
		alone bool
	}{
		{"", true}, {"resources: {servers: 1}", false}, {"resources: {slots: 2}", false}, {"hosts: h\naddress: 10.0.0.1\nhost_timeout: 5m", true},
		{"hosts: h\naddress: 10.0.0.1\nresources: {servers: 1}", false}, {"hosts: h\naddress: 10.0.0.1\nlaunch_flags: [--tls]", false},
	} {
		s, err := Parse("f", []byte("metric: a\nmode: max\ncommand: ./x\nspace: {lr: {real: [0, 1]}}\n"+tc.more))
		if err != nil || s.Jobs.NoServers != tc.alone {
			t.Errorf("%q: got NoServers %t, %v, want %t", tc.more, err == nil && s.Jobs.NoServers, err, tc.alone)
		}
	}
}

func TestMistakesNameLineAndField(t *testing.T) {
	base := "metric: a\nmode: max\ncommand: ./x\nspace: {lr: {real: [0, 1]}}\n"
	for _, tc := range []struct{ text, want string }{
		{base + "metrc: b", "f line 5: metrc: there is no such field (did you mean metric?)"},
		{base + "samples: many", `f line 5: samples: got "many", want a whole number`},
		{base + "samples: 1.5", "f line 5: samples: got 1.5, want a whole number"},
		{base + "samples: 0", "f line 5: samples: got 0, want how many times the space is sampled: 1 or more, or -1 for no limit"},
		{base + "samples: -3", "f line 5: samples: got -3, want how many times the space is sampled: 1 or more, or -1 for no limit"},
		{"metric: a\ncommand: ./x\nspace:\n\tlr: {real: [0, 1]}\n", "; indent lines with spaces, not tabs"},
		{base + "seed: -1", "f line 5: seed: got -1, want a whole number, 0 or more"},
		{base + "timeout: 5", "f line 5: timeout: got 5, want a time with its unit"},
		{base + "suggester: tpee", `f line 5: suggester: there is no "tpee" (did you mean tpe?)`},
		{base + "suggester: {tpe: {startups: 1}}", "f line 5: suggester.tpe.startups: there is no such field (did you mean startup?)"},
		{base + "suggester: {tpe: {rules: mine}}", "f line 5: suggester.tpe: "},
		{base + "suggester: {external: {}}", "external needs the program"},
		{base + "scheduler: {asha: {}}", "f line 5: scheduler.asha: "},
		{base + "scheduler: {asha: {max_step: 3}, median: {}}", "f line 5: scheduler: got 2 names, want one"},
		{base + "scheduler: {goodput: {fairness: geometric}}", `f line 5: scheduler.goodput.fairness: got "geometric", want a number`},
		{base + "scheduler: {goodput: {fairness: 2}}", "Fairness is 2, want at most 1"},
		{base + "scheduler: {goodput: {min_replicas: 4, max_replicas: 2}}", "f line 5: scheduler.goodput: schedule: Goodput: MinReplicas 4 is above MaxReplicas 2"},
		{base + "scheduler: goodput\nresources: {slots: 2}", "f line 6: resources: hosts and slots are the scheduler's to decide"},
		{base + "pruners: [reached]", "f line 5: pruners[0]: reached needs its value"},
		{base + "pruners: reached", `f line 5: pruners: got "reached", want a list`},
		{base + "hosts: h", "f line 5: address: hosts needs it"},
		{base + "upload: [a]", "f line 5: upload: it is used with hosts"},
		{base + "judge: first", "f line 5: judge: "},
		{base + "samples: 3\nsamples: 4", "f line 6: samples: it is given twice"},
		{base + "points: [{lr: 7}]", `points[0]: tune: parameter "lr": value 7 is not in [0, 1]`},
		{"command: ./x", "f line 1: space: it is empty"},
		{"metric: loss\ncommand: ./x\nspace: {lr: {real: [0, 1]}}", "looks like one to minimize"},
		{"command: ./x\nmode: up\nspace: {a: bool}", "f line 2: mode: "},
		{"command: ./x {b}\nspace: {a: bool}", "f line 1: command: it has {b}, but the space has no such parameter, only a"},
		{"command: ./x {a}\nspace: {a: bool, b: bool}", "f line 1: command: it names parameters, but not {b}"},
		{"command: ./x | tee y\nspace: {a: bool}", "f line 1: command: it has shell syntax and names no parameter: write {a}"},
		{"space: {a: bool}", "command: it is empty"},
		{"command: ./x\nspace:\n  lr: {real: [1, 0]}", "f line 3: space.lr: "},
		{"command: ./x\nspace:\n  lr: {reel: [1, 0]}", "f line 3: space.lr.reel: there is no such field (did you mean real?)"},
		{"command: ./x\nspace:\n  lr: {log: true}", "f line 3: space.lr: it has no kind"},
		{"command: ./x\nspace:\n  lr: {real: [0, 1], int: [0, 1]}", "f line 3: space.lr: it is both real and int"},
		{"command: ./x\nspace:\n  lr: {int: [0, 1.5]}", "want whole numbers"},
		{"command: ./x\nspace:\n  lr: {real: [0, 1], when: {o: a}}", `space: `},
		{"command: ./x\nspace: [lr]", "f line 2: space: got a list, want fields"},
		{"- a", "f line 1: got a list, want fields"},
		{"", "f is empty"},
		{"a: [", "study: f: yaml: "},
	} {
		_, err := Parse("f", []byte(tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q:\n got %v\nwant %s", tc.text, err, tc.want)
		}
	}
	for text, want := range map[string]int{
		base + "metrc: b\nsamples: many\nsuggester: tpee": 3,
		// Some show in a value, others in what does not fit together.
		base + "metrc: b\njudge: first\nupload: [a]\nparallel: -1\nsuggester: {tpe: {rules: mine}}\nscheduler: {asha: {}}": 6,
		"metric: a\nmode: up\ncommand: ./x {b}\nspace: {a: {reel: [0, 1]}}\nhosts: h":                                      3,
		"metric: [a]\ncommand: ./x\nspace: {a: {real: [0, 1]}}\nconstraints: [b <= 1]\nsamples: -3":                        2,
		"objectives: 5\ncommand: ./x\nspace: {a: {real: [0, 1]}}\nconstraints: [b <= 1]\nsamples: -3":                      2,
		"metric: a\nmode: up\ncommand: ./x {b}\nspace: {a: {reel: [0, 1]}}\npoints: [{a: 2}]\nsamples: -3\ngrace: -1s":     4,
	} {
		_, err := Parse("f", []byte(text))
		if got := strings.Count(err.Error(), "\n") + 1; got != want {
			t.Errorf("%d mistakes give %d lines: %v", want, got, err)
		}
	}
}

func TestParametersFillTheCommand(t *testing.T) {
	for _, tc := range []struct {
		command string
		flags   bool
		want    []string
	}{
		{`./x --epochs 5`, true, []string{"./x", "--epochs", "5", "--lr=0.001", "--name=it's me"}},
		{`./x`, false, []string{"./x"}},
		{`./x --lr {lr} -n {name} --m {momentum} -q`, true, []string{"./x", "--lr", "0.001", "-n", "it's me", "-q"}},
		{`./x --m={momentum} {lr}{name}`, true, []string{"./x", "0.001it's me"}},
		{`./x {{lr}} {lr} {name}`, true, []string{"./x", "{lr}", "0.001", "it's me"}},
		{`[./x, "{lr} {name}", ""]`, true, []string{"./x", "0.001 it's me", ""}},
		{`./x {lr} > {name}`, true, []string{"/bin/sh", "-c", `./x 0.001 > 'it'\''s me'`}},
		{`./x --out {trial} --seed={seed} {lr}{name} --checkpoint {checkpoint}`, true, []string{"./x", "--out", "12", "--seed=34", "0.001it's me", "--checkpoint", "/c d"}},
		{`./x {trial}`, true, []string{"./x", "12", "--lr=0.001", "--name=it's me"}},
		{`./x {lr} {name}; ls {checkpoint}`, true, []string{"/bin/sh", "-c", `./x 0.001 'it'\''s me'; ls '/c d'`}},
	} {
		text := "space: {lr: [0.001], name: [it's me], momentum: {real: [0, 1], when: {name: other}}}\nflags: " + map[bool]string{true: "true", false: "false"}[tc.flags]
		text = strings.Replace(text, "[it's me]", `["it's me", other]`, 1)
		if strings.Contains(tc.command, "{lr}") && !strings.Contains(tc.command, "{momentum}") {
			text = strings.Replace(text, "flags: true", "flags: false", 1)
		}
		if tc.command[0] == '[' {
			text += "\ncommand: " + tc.command
		} else {
			text += "\ncommand: |-\n  " + tc.command
		}
		s, err := Parse("f", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", tc.command, err)
			continue
		}
		if got := s.Command(tune.Attempt{Params: tune.MustParams("lr", 0.001, "name", "it's me"), Trial: 12, Seed: 34, Checkpoint: "/c d"}); !slices.Equal(got, tc.want) {
			t.Errorf("%s:\n got %q\nwant %q", tc.command, got, tc.want)
		}
	}
}

// A parameter may have the name of what a command can name besides.
func TestAParameterNamedSeedIsOne(t *testing.T) {
	s, err := Parse("f", []byte("command: ./x {seed} {trial}\nspace: {seed: [1, 2]}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Command(tune.Attempt{Params: tune.MustParams("seed", 2), Trial: 7, Seed: 99}); !slices.Equal(got, []string{"./x", "2", "7"}) {
		t.Errorf("got %q", got)
	}
}

func TestASchedulerThatContinuesTrialsWantsACheckpoint(t *testing.T) {
	for text, want := range map[string]string{
		"scheduler: {asha: {max_step: 9}}":                           "",
		"scheduler: {promotion: {max_step: 9}}":                      "scheduler promotion",
		"scheduler: {pbt: {interval: 2}}":                            "scheduler pbt",
		"scheduler: {any: [median, {hyperband: {max_step: 9}}]}":     "scheduler hyperband",
		"scheduler: {patience: {inner: {promotion: {max_step: 9}}}}": "scheduler promotion",
	} {
		for _, command := range []string{"./x", "./x --resume {checkpoint}"} {
			s, err := Parse("f", []byte("command: "+command+"\nmetric: accuracy\nspace: {a: {real: [0, 1]}}\n"+text))
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			got := strings.Join(s.Warnings(), "; ")
			if command == "./x" && !strings.HasPrefix(got, want) || (command != "./x" || want == "") && got != "" || s.Jobs.Checkpoints != (command != "./x") {
				t.Errorf("%s, %s: warnings %q, Checkpoints %t, want %q", command, text, got, s.Jobs.Checkpoints, want)
			}
		}
	}
}

// What an editor does to a file's form says nothing of the search.
func TestTheFormOfAFileSaysNothing(t *testing.T) {
	plain := "metric: a\nmode: max\ncommand: ./x\nspace:\n  lr: {real: [0, 1]}\nsamples: 7\n"
	for name, text := range map[string]string{
		"byte order mark": "\ufeff" + plain, "Windows": "\ufeff" + strings.ReplaceAll(plain, "\n", "\r\n"), "old Macs": strings.ReplaceAll(plain, "\n", "\r"),
		"spaces at the end": strings.ReplaceAll(plain, "\n", " \t\n"),
	} {
		s, err := Parse("study.yaml", []byte(text))
		if err != nil || s.Config.Samples != 7 || s.Config.Metric != "a" || !slices.Equal(s.Command(tune.Attempt{Params: tune.MustParams("lr", 0.5)}), []string{"./x", "--lr=0.5"}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFileIsFoundBesideItsLog(t *testing.T) {
	dir := t.TempDir()
	if _, err := Find(dir); !errors.Is(err, ErrNoFile) {
		t.Errorf("without a file: %v", err)
	}
	if _, err := Find(dir); err == nil || !strings.Contains(err.Error(), "tune.Replay") {
		t.Errorf("Find of a program's search: got error %v, want it to name tune.Replay", err)
	}
	if err := os.WriteFile(filepath.Join(dir, Name), []byte(whole), 0o666); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log.jsonl")
	if err := os.WriteFile(log, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, log} {
		if s, err := Find(path); err != nil || s.Config.Name != "all" || s.Config.Dir != dir {
			t.Errorf("%s: got %v with folder %q, want %q", path, err, s.Config.Dir, dir)
		}
	}
}

// Whatever a file has: an error, or a search whose space can be sampled and whose command can be
// filled.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("command: ./x\nspace: &a {lr: *a}")
	f.Add("command: ./x {a}\nspace: {a: [1, 2.5, x, true]}\nscheduler: {any: [{any: []}]}")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("f", []byte(text))
		if err != nil {
			return
		}
		var points []any
		for _, p := range s.Config.Space {
			if p.Count() < 1<<20 {
				points = append(points, p.Name, p.Sample(rand.New(rand.NewPCG(1, 2))))
			}
		}
		if len(s.Command(tune.Attempt{Params: tune.MustParams(points...)})) == 0 {
			t.Error("the command is empty")
		}
	})
}

// What the search's own check finds has the line and the name of the field, too.
func TestEachMistakeInNumbersNamesItsLine(t *testing.T) {
	text := "command: [./train]\nmetric: loss\nmode: min\nspace: {x: {real: [0, 1]}}\nsamples: -5\nmax_failed: -1\n" +
		"resources:\n  start_timeout: -1s\npoints:\n  - {x: 0.5}\n"
	_, err := Parse("s.yaml", []byte(text))
	want := "s.yaml line 8: resources.start_timeout: got -1s, want 0 or more\n" +
		"s.yaml line 5: samples: got -5, want how many times the space is sampled: 1 or more, or -1 for no limit\n" +
		"s.yaml line 6: max_failed: got -1, want 0 (no limit) or more"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	_, err = Parse("s.yaml", []byte("command: [./train]\nmetric: loss\nmode: min\nspace: {x: {real: [0, 1]}}\npoints:\n  - {x: 0.5}\n  - {x: 7}\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "s.yaml line 7: points[1]: ") {
		t.Errorf("got %v, want the line of the second point", err)
	}
}

// A file that names no scheduler leaves it to the predicted ends, where there is one metric. Other
// files keep what they say.
func TestAFileWithoutASchedulerPredicts(t *testing.T) {
	base := "metric: a\nmode: max\ncommand: ./x\nspace: {lr: {real: [0, 1]}}\n"
	for text, want := range map[string]bool{"": true, "scheduler: fifo": false, "scheduler: median": false} {
		s, err := Parse("f", []byte(base+text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, ok := s.Config.DefaultScheduler.(*schedule.Predict); ok != want {
			t.Errorf("%q: the default scheduler is %#v", text, s.Config.DefaultScheduler)
		}
	}
}
