package main

import (
	"bytes"
	"fmt"
	"os"
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
		j := job{size: size{2, 2}, transport: transport, works: []string{"latency", "small", "rows/zipf-sgd"}, scale: 0.01}
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
	if want := []size{{1, 2}, {3, 4}}; !slices.Equal(set.jobs, want) {
		t.Errorf("got jobs %v, want %v", set.jobs, want)
	}
}
