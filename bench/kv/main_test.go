package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The test's binary is also the program of the processes that it starts.
func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "" {
		os.Exit(m.Run())
	}
	if len(os.Args) == 2 && os.Args[1] == "idle" {
		idle()
		return
	}
	if err := process(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Every transport carries a job of processes, and its lines are those of Go's benchmarks.
func TestRunReportsEachWork(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, transport := range transportNames {
		var out bytes.Buffer
		r := newReport(&out)
		j := job{size: size{2, 2, false}, transport: transport, works: []string{"latency"}, scale: 0.01}
		if transport == transportNames[0] { // these take seconds under the race detector
			j.works = append(j.works, "small", "rows/zipf-sgd")
		}
		if err := j.run(t.Context(), r); err != nil {
			t.Fatalf("over %s: %v", transport, err)
		}
		r.table()
		for _, work := range j.works {
			line := regexp.MustCompile(fmt.Sprintf(`(?m)^BenchmarkKV/work=%s/workers=2/servers=2/transport=%s \d+ \d+ ns/op [\d.]+ MB/s \d+ cpu-ns/op( \d+ samples/s)?$`, work, transport))
			if !line.Match(out.Bytes()) {
				t.Errorf("over %s: got no line for %s in\n%s", transport, work, &out)
			}
		}
	}
}

// idle is a peer that plays no work.
func idle() {
	switch os.Getenv("DMLC_ROLE") {
	case "scheduler":
		fmt.Println("127.0.0.1:1")
	case "worker":
		for line := range strings.Lines(os.Getenv(planEnv)) {
			fmt.Printf("{\"Work\":%q,\"Skip\":true}\n", strings.Fields(line)[0])
		}
	}
}

// A peer's command plays the works in our own processes' place, and each of our transports is compared with it; a work that a
// peer does not play is left out.
func TestPeersTakeTurnsAndAreCompared(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	if _, err := exec.LookPath("env"); err != nil {
		t.Skip("needs the program env")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	set, err := readFlags([]string{"-work", "latency", "-jobs", "1x1", "-transport", "unix,tcp", "-count", "2", "-scale", "0.01",
		"-peer", "twin=env " + transportEnv + "=unix " + exe, "-peer", "lazy=" + exe + " idle",
		"-peer", "other=env " + transportEnv + "=tcp " + exe})
	if err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	if err := run(t.Context(), set, &out, &progress); err != nil {
		t.Fatal(err)
	}
	order := regexp.MustCompile(`(?m)^BenchmarkKV/.*/transport=(\w+) `).FindAllStringSubmatch(out.String(), -1)
	var got []string
	for _, m := range order {
		got = append(got, m[1])
	}
	if want := []string{"unix", "twin", "tcp", "other", "unix", "twin", "tcp", "other"}; !slices.Equal(got, want) {
		t.Errorf("got turns %v, want %v", got, want)
	}
	for _, want := range []string{
		`(?m)^BenchmarkRatio/work=latency/workers=1/servers=1/transport=unix/peer=twin 2 [\d.]+ x [\d.]+ x-min [\d.]+ x-max [\d.]+ cpu-x$`,
		`(?m)^BenchmarkRatio/work=latency/workers=1/servers=1/transport=tcp/peer=twin 2 `,
		`(?m)^ *latency +1 × 1 +twin `,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("got no line %s in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "lazy") {
		t.Errorf("got lines of a peer that plays nothing:\n%s", &out)
	}
	if want := "all 2 of them about"; !strings.Contains(progress.String(), want) {
		t.Errorf("got %q, want how long it takes", &progress)
	}
}

func TestPlanTellsTheWorks(t *testing.T) {
	got, err := plan([]string{"latency", "array/bytes=16777216"}, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	if want := "latency 10 100 1 0 256\narray/bytes=16777216 10 2 1 0 4194304 4194304\n"; got != want {
		t.Errorf("got plan %q, want %q", got, want)
	}
}

func TestGainIsOfTurnsNextToEachOther(t *testing.T) {
	w, err := findWork("latency")
	if err != nil {
		t.Fatal(err)
	}
	ours := &measured{work: w, job: size{1, 1, false}, turns: []int64{10, 20, 40}, samples: 3, cpu: 1000}
	theirs := &measured{work: w, job: size{1, 1, false}, turns: []int64{20, 30, 200}, samples: 3, cpu: 4000}
	if got, want := gainOf(ours, theirs), (gain{least: 1.5, median: 2, greatest: 5, cpu: 4, turns: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestResNet18HasItsArrays(t *testing.T) {
	w, err := findWork("resnet18")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(len(w.keys), w.bytes()), "62 89453136"; got != want {
		t.Errorf("got arrays and bytes in both directions %s, want %s", got, want)
	}
}

func TestFlagsAreCheckedBeforeTheWork(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"-work none", "no work of that name"},
		{"-work [", "syntax error"},
		{"-jobs 2", "want workers x servers"},
		{"-jobs 0x1", "want workers x servers"},
		{"-transport mail", `got "mail"`},
		{"-count 0", "want both above 0"},
		{"-peer other", "want name=command"},
		{"-peer tcp=/bin/true", "a transport of our own"},
		{"more", "want flags only"},
	} {
		_, err := readFlags(strings.Fields(tc.args))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want one with %q", tc.args, err, tc.want)
		}
	}
	set, err := readFlags(strings.Fields("-work resnet18,array/* -jobs 1x2,3x4"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint((&settings{works: []string{"latency", "rows/zipf-*"}}).jobsOf()), "[[latency] [rows/zipf-sgd] [rows/zipf-adagrad]]"; got != want {
		t.Errorf("got works by job %s, want %s: a job has one optimizer", got, want)
	}
	if got := set.chosen(); len(got) != 5 || got[0] != "resnet18" {
		t.Errorf("got works %v, want resnet18 and four arrays", got)
	}
	if want := []size{{1, 2, false}, {3, 4, false}}; !slices.Equal(set.jobs, want) {
		t.Errorf("got jobs %v, want %v", set.jobs, want)
	}
}
