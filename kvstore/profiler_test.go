package kvstore_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// A profileFile is what a file of a profile has.
type profileFile struct {
	OtherData struct {
		Nodes []struct {
			Name    string `json:"name"`
			Spans   int    `json:"spans"`
			Dropped int    `json:"dropped"`
		} `json:"nodes"`
		Warnings []string `json:"warnings"`
	} `json:"otherData"`
	TraceEvents []struct {
		Phase    string         `json:"ph"`
		Category string         `json:"cat"`
		Name     string         `json:"name"`
		Args     map[string]any `json:"args"`
	} `json:"traceEvents"`
}

func readProfile(t *testing.T, path string) (p profileFile, byKind map[string]int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if filepath.Ext(path) == ".gz" {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.NewDecoder(r).Decode(&p); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	byKind = map[string]int{}
	for _, e := range p.TraceEvents {
		if e.Phase == "X" {
			byKind[e.Category]++
		}
	}
	return p, byKind
}

// wantFiles checks which files are in a folder.
func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range list {
		got = append(got, f.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got the files %q, want %q", got, want)
	}
}

// Three workers and three servers, four pushes of a key of 300×300, which is cut: all files are
// there, and have the pushes and the rounds. Names may have any characters.
func TestProfilesOfWorkersAndServers(t *testing.T) {
	const n, pushes, size = 3, 4, 300 * 300
	dir := t.TempDir()
	var mu sync.Mutex // guards server0
	var server0 *trace.Recorder
	record := func(role cluster.Role, rank int) *trace.Recorder {
		r := trace.NewRecorder(telemetry.NewClock())
		if role == cluster.Server && rank == 0 {
			mu.Lock()
			defer mu.Unlock()
			server0 = r
		}
		return r
	}
	stores := jobtest.New(t, jobtest.Config{Workers: n, Servers: n, TCP: true, Trace: record}).Stores(t, "dist_sync")
	var running sync.WaitGroup
	for rank, kv := range stores {
		running.Go(func() {
			ctx := t.Context()
			cfg := kvstore.ProfilerConfig{Filename: filepath.Join(dir, "a,b:c.json.gz")}
			if rank == 0 {
				cfg.Process = kvstore.ProfileBoth
			}
			must(kv.SetProfilerConfig(cfg))
			value := make([]float32, size)
			must(kv.Init(ctx, "99", value))
			must(kv.Barrier(ctx))
			must(kv.SetProfilerState(ctx, kvstore.ProfilerRun))
			must(kv.Barrier(ctx))
			for step := range pushes {
				must(kv.Push(ctx, "99", value))
				if step == 1 || step == 2 { // spans outside of whole steps are shown, too
					kv.ReportStep(kvstore.StepReport{})
				}
			}
			must(kv.Pull(ctx, "99", value))
			must(kv.Barrier(ctx))
			must(kv.SetProfilerState(ctx, kvstore.ProfilerStop))
		})
	}
	running.Wait()
	wantFiles(t, dir, "rank0_a,b:c.json.gz", "rank0_server_a,b:c.json.gz", "rank1_a,b:c.json.gz", "rank1_server_a,b:c.json.gz", "rank2_a,b:c.json.gz", "rank2_server_a,b:c.json.gz")
	workerPushes, rounds, received := 0, 0, 0
	for rank := range n {
		p, kinds := readProfile(t, filepath.Join(dir, fmt.Sprintf("rank%d_a,b:c.json.gz", rank)))
		if kinds["push"] < pushes || kinds["push"]%pushes != 0 || kinds["pull"] < 1 || len(p.OtherData.Nodes) != 1 || !strings.HasPrefix(p.OtherData.Nodes[0].Name, fmt.Sprint("worker ", rank)) {
			t.Errorf("worker %d: got spans %v of %+v, want %d pushes of each shard", rank, kinds, p.OtherData.Nodes, pushes)
		}
		workerPushes += kinds["push"]
		p, kinds = readProfile(t, filepath.Join(dir, fmt.Sprintf("rank%d_server_a,b:c.json.gz", rank)))
		if len(p.OtherData.Nodes) != 1 || !strings.HasPrefix(p.OtherData.Nodes[0].Name, fmt.Sprint("server ", rank)) || kinds["push"] != 0 || len(p.OtherData.Warnings) != 0 {
			t.Errorf("server %d: got spans %v of %+v, %q", rank, kinds, p.OtherData.Nodes, p.OtherData.Warnings)
		}
		by := map[any]bool{}
		for _, e := range p.TraceEvents {
			if e.Category == "receive" {
				by[e.Args["worker"]] = true
			}
		}
		if kinds["receive"] > 0 && (len(by) != n || by[nil]) {
			t.Errorf("server %d: what was received is of the workers %v, want those of rank 0 to 2", rank, by)
		}
		rounds, received = rounds+kinds["round"], received+kinds["receive"]
	}
	if workerPushes != received || rounds*n != received {
		t.Errorf("got %d pushes, of which servers received %d in %d rounds, want all of them, %d to a round", workerPushes, received, rounds, n)
	}

	// A server has one profile at a time. Of servers alone the files are named as in MXNet.
	ctx, dir := t.Context(), t.TempDir()
	for _, kv := range stores[:2] {
		must(kv.SetProfilerConfig(kvstore.ProfilerConfig{Filename: filepath.Join(dir, "s.json"), Process: kvstore.ProfileServer, Spans: 2}))
	}
	must(stores[0].SetProfilerState(ctx, kvstore.ProfilerRun))
	if err := stores[1].SetProfilerState(ctx, kvstore.ProfilerRun); !errors.Is(err, kvstore.ErrConflict) || !strings.Contains(err.Error(), "worker 0 on worker0") {
		t.Errorf("a second profile: got %v, want ErrConflict with who has the first one", err)
	}
	for _, kv := range stores {
		running.Go(func() { must(kv.Push(ctx, "99", make([]float32, size))) })
	}
	running.Wait()
	must(stores[0].Pull(ctx, "99", make([]float32, size)))
	must(stores[0].SetProfilerState(ctx, kvstore.ProfilerStop))
	wantFiles(t, dir, "rank0_s.json", "rank1_s.json", "rank2_s.json")
	dropped := 0
	for rank := range n {
		p, _ := readProfile(t, filepath.Join(dir, fmt.Sprintf("rank%d_s.json", rank)))
		dropped += p.OtherData.Nodes[0].Dropped
		if p.OtherData.Nodes[0].Spans > 2 || (p.OtherData.Nodes[0].Dropped > 0) != (len(p.OtherData.Warnings) == 1) {
			t.Errorf("server %d: got %+v, want at most two spans and a warning where some were dropped", rank, p.OtherData)
		}
	}
	if dropped == 0 {
		t.Error("no server says that it dropped spans, of which it had room for two")
	}

	// Another worker may be next. What does not fit one answer comes in several.
	const many = 40_000
	must(stores[1].SetProfilerConfig(kvstore.ProfilerConfig{Filename: filepath.Join(dir, "many.json"), Process: kvstore.ProfileServer}))
	must(stores[1].SetProfilerState(ctx, kvstore.ProfilerRun))
	mu.Lock()
	for i := range many {
		server0.Add(trace.Span{Kind: trace.Round, Begin: server0.Now(), End: server0.Now(), Round: uint64(i)})
	}
	mu.Unlock()
	must(stores[1].SetProfilerState(ctx, kvstore.ProfilerStop))
	if _, kinds := readProfile(t, filepath.Join(dir, "rank0_many.json")); kinds["round"] != many {
		t.Errorf("got %d rounds of server 0, want %d", kinds["round"], many)
	}
}

func TestProfileOfAStoreInThisProcess(t *testing.T) {
	for _, process := range []kvstore.ProfilerProcess{"", kvstore.ProfileServer, kvstore.ProfileBoth} {
		dir, ctx := t.TempDir(), t.Context()
		kv, err := kvstore.Create(ctx, "local")
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Close()
		must(kv.SetProfilerConfig(kvstore.ProfilerConfig{Filename: filepath.Join(dir, "p.json"), Process: process}))
		must(kv.Init(ctx, "w", make([]float32, 100)))
		must(kv.Push(ctx, "w", make([]float32, 100)))
		must(kv.SetProfilerState(ctx, kvstore.ProfilerRun))
		for range 10 {
			must(kv.Push(ctx, "w", make([]float32, 100)))
		}
		must(kv.SetProfilerState(ctx, kvstore.ProfilerStop))
		if kv.(interface{ Trace() *trace.Recorder }).Trace().On() {
			t.Error("a profile that was stopped records")
		}
		wantFiles(t, dir, "rank0_p.json")
		p, kinds := readProfile(t, filepath.Join(dir, "rank0_p.json"))
		if kinds["push"] != 10 || kinds["round"] != 10 || kinds["update"] != 10 && kinds["apply"] != 10 || len(p.OtherData.Nodes) != 2 {
			t.Errorf("%q: got spans %v of %+v, want ten pushes and rounds, of a worker and a server", process, kinds, p.OtherData.Nodes)
		}
	}
}

func TestWrongCallsOfTheProfiler(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	kv, err := kvstore.Create(ctx, "local")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	config := func(c kvstore.ProfilerConfig) func() error {
		return func() error { return kv.SetProfilerConfig(c) }
	}
	state := func(s kvstore.ProfilerState) func() error {
		return func() error { return kv.SetProfilerState(ctx, s) }
	}
	file := filepath.Join(dir, "p.json")
	for _, x := range []struct {
		call func() error
		want string // empty: no error
	}{
		{config(kvstore.ProfilerConfig{Process: "servers"}), `process: got "servers", want worker, server or both`},
		{config(kvstore.ProfilerConfig{Spans: -1}), "spans: got -1, want 1 to 262144"},
		{config(kvstore.ProfilerConfig{Spans: 1 << 20}), "spans: got 1048576, want 1 to 262144"},
		{config(kvstore.ProfilerConfig{Filename: dir + "/"}), "want the path of a file"},
		{config(kvstore.ProfilerConfig{Filename: filepath.Join(dir, "none", "p.json")}), "none"},
		{state("pause"), `kvstore: set profiler state: got "pause", want run or stop`},
		{state(kvstore.ProfilerStop), "kvstore: profiler stop: no profile is running; start one first"},
		{config(kvstore.ProfilerConfig{Filename: file}), ""},
		{state(kvstore.ProfilerRun), ""},
		{state(kvstore.ProfilerRun), "kvstore: profiler run: a profile is already running"},
		{config(kvstore.ProfilerConfig{Filename: file}), "kvstore: set profiler config: a profile is running"},
		{func() error { return os.Remove(dir) }, ""},
		{state(kvstore.ProfilerStop), "p.json"}, // its folder is gone
		{state(kvstore.ProfilerStop), "no profile is running"},
		{func() error { return os.Mkdir(dir, 0o755) }, ""},
		{state(kvstore.ProfilerRun), ""},
		{state(kvstore.ProfilerStop), ""},
		{state(kvstore.ProfilerRun), ""},
		{kv.Close, ""},
		{state(kvstore.ProfilerStop), "store closed"},
	} {
		err := x.call()
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("got %v, want %q", err, x.want)
		}
	}
	if kv.(interface{ Trace() *trace.Recorder }).Trace().On() {
		t.Error("a store that was closed records")
	}
	wantFiles(t, dir, "rank0_p.json")
}

// A server is lost while it is profiled: the files of the others are written, and the error names
// it.
func TestAProfileOfALostServer(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 1, Servers: 3})
		kv := job.Stores(t, "dist_sync")[0]
		ctx := context.Background()
		must(kv.Init(ctx, "w", make([]float32, 1200*1200)))
		must(kv.SetProfilerConfig(kvstore.ProfilerConfig{Filename: filepath.Join(dir, "p.json"), Process: kvstore.ProfileBoth}))
		must(kv.SetProfilerState(ctx, kvstore.ProfilerRun))
		must(kv.PushPull(ctx, "w", [][]float32{make([]float32, 1200*1200)}, [][]float32{make([]float32, 1200*1200)}))
		job.KillServer(1, true)
		err := kv.SetProfilerState(ctx, kvstore.ProfilerStop)
		// Who says that the job failed depends on who learns of it first.
		if err == nil || !strings.HasPrefix(err.Error(), "kvstore: profiler stop of server 1 on server1: ") || !strings.Contains(err.Error(), "job unavailable") || strings.Contains(err.Error(), "server 0") || strings.Contains(err.Error(), "server 2") {
			t.Errorf("got %v, want an error that names server 1 alone", err)
		}
		wantFiles(t, dir, "rank0_p.json", "rank0_server_p.json", "rank2_server_p.json")
		for _, rank := range []int{0, 2} {
			readProfile(t, filepath.Join(dir, fmt.Sprintf("rank%d_server_p.json", rank)))
		}
		if err := kv.SetProfilerState(ctx, kvstore.ProfilerStop); err == nil || !strings.Contains(err.Error(), "no profile is running") {
			t.Errorf("stopped again: got %v, want that no profile runs", err)
		}
		time.Sleep(time.Minute)
	})
}
