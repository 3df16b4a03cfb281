package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// program writes a shell script and returns its path.
func program(t *testing.T, script string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// serving answers every spell with one step of so many seconds.
func serving(seconds, memory string) string {
	return "if [ $1 = train ] || [ \"$2\" = train ]; then for i in $(seq $5); do echo spell 10 " + seconds + " " + seconds + "; done; exit; fi\n" +
		"echo ready\nwhile read -r what _; do if [ $what = run ]; then echo 1 " + seconds + " " + seconds + "; else echo 7000000 " + memory + " " + memory + "; fi; done\n"
}

// idle is a machine on which nobody else works.
func idle() float64 { return 0 }

func TestTakesTurnsAndPrintsRatios(t *testing.T) {
	ours := program(t, serving("0.5", "30000000"))
	peer := program(t, serving("1", "50000000"))
	var out bytes.Buffer
	app := newApp(idle)
	app.Writer = &out
	table := filepath.Join(t.TempDir(), "table.md")
	err := app.RunContext(t.Context(), []string{"peers", "--ours", ours, "--python", peer, "--script", "script", "--launch", program(t, "echo 'worker 0 | spell 10 6 6'; echo 'worker 1  | spell 10 6 6'; echo 'worker 1 host exit 0 spell 10 6 6'\n"),
		"--rows", "imagenet/batch=64/(threads=2|processes=2)", "--processes", "2", "--turns", "3", "--seconds", "0", "--table", table})
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}

	// There may be any number of spells: a busy machine makes more.
	for _, want := range []string{
		`BenchmarkStep/model=resnet18-imagenet/batch=64/threads=2/dtype=float32/program=paragon \t\d+\t500000000 ns/op\t128.00 images/s\t128.00 images/s-min\t128.00 images/s-max\t128.00 images/cpu-s\t30.0 MB\n`,
		`BenchmarkRatio/model=resnet18-imagenet/batch=64/threads=2/dtype=float32 \t\d+\t2.00 x\t2.00 x-min\t2.00 x-median\t2.00 x-max\t2.00 cpu-x\t0.60 memory-x\t7.0 plan-MB\t`,

		// The ratio is 2·64·10/6 over 64/0.5.
		`BenchmarkScaling/model=resnet18-imagenet/batch=64/processes=2/dtype=float32/program=paragon \t2\t1.67 x\t`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("output lacks %q; got\n%s", want, &out)
		}
	}
	if want := "| resnet18-imagenet | 64 | 2 | float32 | 128 / 128 / 128 | 64 / 64 / 64 | 2.00 (2.00 / 2.00 / 2.00) | 2.00 | 7, 30, 50 | 0.60 |"; !strings.Contains(string(written), want) {
		t.Errorf("table lacks %q; got\n%s", want, written)
	}
}

// A program that fails is a row that says so; one of ours is an error, too.
func TestNamesAProgramThatFails(t *testing.T) {
	good := program(t, serving("1", "1"))
	for _, test := range []struct{ script, want string }{
		{"echo no such library >&2; exit 1\n", "program: exit status 1: no such library"},
		{"exit 0\n", "program: its standard output ended"},
		{"echo hello\n", `program: got "hello", want ready`},
		{"echo ready; read x; echo what is $x\n", `program: "run 0.5": got "what is run 0.5", want three numbers`},
		{"echo ready; read x; echo 0 0 0\n", "program: got 0 steps in 0 s"},
		{"echo ready; read x; printf '1 '\n", `program: "run 0.5": got "1 ", want three numbers`},
	} {
		run := func(args ...string) (string, error) {
			var out bytes.Buffer
			app := newApp(idle)
			app.Writer, app.ErrWriter = &out, io.Discard
			err := app.RunContext(t.Context(), append(args, "--rows", "mlp/batch=64/threads=1/dtype=float32", "--processes", "1", "--turns", "1"))
			return out.String(), err
		}
		bad, want := program(t, test.script), "# BenchmarkRatio/model=mlp/batch=64/threads=1/dtype=float32: failed: "+test.want
		out, err := run("peers", "--ours", bad, "--python", good)
		if !strings.Contains(out, want) || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("program %q: got error %v, want one with %q, and a row in\n%s", test.script, err, test.want, out)
		}
		out, err = run("peers", "--ours", good, "--python", bad)
		if !strings.Contains(out, want) || err != nil {
			t.Errorf("peer %q: got error %v, want none, and a row with %q in\n%s", test.script, err, test.want, out)
		}
	}
}

// A program that is too slow is a row that says so, and the rows behind it are measured; a run
// whose budget is spent says so, too.
func TestSlowProgramsAreRows(t *testing.T) {
	good, slow := program(t, serving("1", "1")), program(t, "if [ $3 = resnet18-imagenet ]; then exec sleep 600; fi\n"+serving("1", "1"))
	run := func(args ...string) string {
		var out bytes.Buffer
		app := newApp(idle)
		app.Writer = &out
		table, folder := filepath.Join(t.TempDir(), "table.md"), t.TempDir()
		if err := app.RunContext(t.Context(), append([]string{"peers", "--ours", good, "--python", slow, "--script", "script", "--rows", "(imagenet|mlp)/batch=64/threads=1/dtype=float32",
			"--processes", "1", "--turns", "1", "--seconds", "0", "--table", table, "--save", folder}, args...)); err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		if saved, err := filepath.Glob(filepath.Join(folder, "peers-*.txt")); err != nil || len(saved) != 1 {
			t.Errorf("got files %v, %v, want one named for the machine", saved, err)
		}
		return out.String() + string(written)
	}
	out := run("--start-limit", "2s")
	for _, want := range []string{
		`(?m)^# BenchmarkRatio/model=resnet18-imagenet/batch=64/threads=1/dtype=float32: .*: no answer within [\d.]+s: too slow$`,
		`(?m)^BenchmarkRatio/model=mlp/batch=64/threads=1/dtype=float32 \t`,
		`(?m)^\| resnet18-imagenet \| 64 \| 1 \| float32 \| .*too slow \|`,
		`(?m)^machine: .*cores`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("got no line %s in\n%s", want, out)
		}
	}
	out = run("--budget", "3s")
	if want := "the row's 1.5s of --budget 3s were over (fewer --rows have more time each): too slow"; !strings.Contains(out, want) {
		t.Errorf("got no %q in\n%s", want, out)
	}
	out = run("--budget", "3s", "--rows", "imagenet/batch=64/processes=2/dtype=float32", "--launch", program(t, "for i in 0 1; do echo spell 10 6 6; done\n"))
	if want := "the row's 3s of --budget 3s were over (fewer --rows have more time each): too slow"; !strings.Contains(out, want) {
		t.Errorf("got no %q in\n%s", want, out)
	}
	out = run("--budget", "1ns")
	if got := strings.Count(out, "# BenchmarkRatio/"); got != 2 || !strings.Contains(out, "--budget 1ns is spent") {
		t.Errorf("got %d rows that were not measured, want 2:\n%s", got, out)
	}
}

// The faster of eager and compiled PyTorch is the peer, and both are printed; one that cannot
// compile is eager.
func TestThePeerIsTheBetterOfEagerAndCompiled(t *testing.T) {
	ours := program(t, serving("0.5", "1"))
	for _, test := range []struct{ name, script, ratio, other string }{
		{"compiled is faster", "if [ \"$7\" = compile ]; then\n" + serving("0.25", "1") + "else\n" + serving("1", "1") + "fi\n", "0.50 x", `program=pytorch-compile \t\d+\t250000000 ns/op`},
		{"eager is faster", "if [ \"$7\" = compile ]; then\n" + serving("2", "1") + "else\n" + serving("1", "1") + "fi\n", "2.00 x", `program=pytorch-compile \t\d+\t2000000000 ns/op`},
		{"no compiler", "if [ \"$7\" = compile ]; then echo no g++ >&2; exit 1; fi\n" + serving("1", "1"), "2.00 x", `# BenchmarkStep/.*program=pytorch-compile: .*no g\+\+`},
	} {
		var out bytes.Buffer
		app := newApp(idle)
		app.Writer = &out
		if err := app.RunContext(t.Context(), []string{"peers", "--ours", ours, "--python", program(t, test.script), "--script", "script", "--rows", "mlp/batch=64/threads=2/dtype=float32",
			"--processes", "1", "--turns", "1", "--seconds", "0", "--compile", "--memory=false"}); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		for _, want := range []string{`(?m)^(BenchmarkRatio/.*\t` + test.ratio + `\t|# BenchmarkRatio/.*disturbed)`, test.other, `program=pytorch-eager \t\d+\t1000000000 ns/op`} {
			if !regexp.MustCompile(want).MatchString(out.String()) {
				t.Errorf("%s: got no %s in\n%s", test.name, want, &out)
			}
		}
	}
}

// Rows against llm.c and against a read of the parameters start those, and no PyTorch.
func TestRowsAgainstOtherPrograms(t *testing.T) {
	ours := program(t, "if [ $3 = gpt2-124m-read ]; then\n"+serving("0.25", "1")+"else\n"+serving("0.5", "1")+"fi\n")
	var out bytes.Buffer
	app := newApp(idle)
	app.Writer = &out
	table := filepath.Join(t.TempDir(), "table.md")
	if err := app.RunContext(t.Context(), []string{"peers", "--ours", ours, "--python", program(t, "exit 1\n"), "--llmc", program(t, serving("2", "1")), "--rows", "peer=",
		"--compile", "--processes", "1", "--turns", "1", "--seconds", "0", "--table", table}); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for where, test := range map[string]struct{ text, want string }{
		"llm.c": {out.String(), `BenchmarkRatio/model=gpt2-124m/batch=4/threads=2/dtype=float32/peer=llm.c \t\d+\t4.00 x\t.*\t8 ours-images/s\t2 peer-images/s`},
		"read":  {out.String(), `BenchmarkRatio/model=gpt2-124m-token/batch=1/threads=2/dtype=float32/peer=read \t\d+\t0.50 x\t`},
		"table": {string(written), `\| gpt2-124m \| 4 \| 2 \| float32 \| 8 / 8 / 8 \| llm.c 2 / 2 / 2 \| 4.00 `},
	} {
		if !regexp.MustCompile(test.want).MatchString(test.text) {
			t.Errorf("%s: got no %s in\n%s", where, test.want, test.text)
		}
	}
}

// A row during which other processes were at work has no ratio: neither in the output, nor in the
// table.
func TestADisturbedRowHasNoRatio(t *testing.T) {
	worked := 0.0

	// Between two calls the cores work for a hundred seconds.
	busy := func() float64 {
		worked += 100
		return worked
	}
	good := program(t, serving("1", "1"))
	var out bytes.Buffer
	app := newApp(busy)
	app.Writer = &out
	table, folder := filepath.Join(t.TempDir(), "table.md"), t.TempDir()
	if err := app.RunContext(t.Context(), []string{"peers", "--ours", good, "--python", good, "--script", "script", "--rows", "imagenet/batch=64/(threads|processes)=2/dtype=float32",
		"--launch", program(t, "for i in 0 1; do echo spell 10 6 6; done\n"),
		"--processes", "1", "--turns", "1", "--memory=false", "--table", table, "--save", folder, "--save-as", "apart"}); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := filepath.Glob(filepath.Join(folder, "apart-*.txt"))
	if err != nil || len(saved) != 1 {
		t.Fatalf("got files %v, %v, want one", saved, err)
	}
	kept, err := os.ReadFile(saved[0])
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"output": out.String(), "table": string(written), "saved": string(kept)} {
		if !strings.Contains(text, "disturbed: other processes took ") || regexp.MustCompile(`(?m)^Benchmark(Ratio|Scaling)|\d x\t|\(\d`).MatchString(text) {
			t.Errorf("%s: got a ratio, or no word of what disturbed it:\n%s", where, text)
		}
	}
}

// The script refuses what it does not know before it measures anything.
func TestScriptRefusesAnUnknownTorch(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs a shell")
	}
	cmd := exec.Command("sh", "torch.sh")
	cmd.Env = append(os.Environ(), "PEERS_TORCH=newest")
	said, err := cmd.CombinedOutput()
	if want := `PEERS_TORCH is "newest"; want latest`; err == nil || !strings.Contains(string(said), want) {
		t.Errorf("got %v and %q, want an error with %q", err, said, want)
	}
}

func TestMedianAndPairs(t *testing.T) {
	if got := median([]float64{5, 1, 9}); got != 5 {
		t.Errorf("median of 5, 1, 9: got %v, want 5", got)
	}
	if got := median([]float64{4, 1, 2, 9}); got != 3 {
		t.Errorf("median of 4, 1, 2, 9: got %v, want 3", got)
	}
	lo, mid, hi := pairs([]rate{{wall: 1}, {wall: 6}, {wall: 4}}, []rate{{wall: 2}, {wall: 2}, {wall: 2}})
	if lo != 0.5 || mid != 2 || hi != 3 {
		t.Errorf("pairs: got %v, %v, %v, want 0.5, 2, 3", lo, mid, hi)
	}
}

func TestLeavesOutLoadedPairs(t *testing.T) {
	quiet, loaded := rate{wall: 2}, rate{wall: 1, others: 0.5}
	got := quietTurns([]rate{quiet, quiet, loaded, quiet, quiet}, []rate{quiet, loaded, quiet, quiet, quiet})
	if len(got[0]) != 3 || len(got[1]) != 3 {
		t.Errorf("three of five turns are quiet: got %d and %d", len(got[0]), len(got[1]))
	}
	some := rate{wall: 3, others: 0.08}
	if got = quietTurns([]rate{some, loaded, some, quiet}, []rate{quiet, some, some, some}); len(got[0]) != 3 || got[0][1] != some {
		t.Errorf("three of four turns are not disturbed: got %d", len(got[0]))
	}
	if got = quietTurns([]rate{quiet, loaded}, []rate{quiet, loaded}); len(got[0]) != 2 || len(got[1]) != 2 {
		t.Errorf("one quiet turn is too few: got %d and %d turns, want both", len(got[0]), len(got[1]))
	}
}
