package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// The test's binary is also the program of the processes that it starts.
func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "" {
		os.Exit(m.Run())
	}
	switch {
	case len(os.Args) == 2 && os.Args[1] == "idle":
		idle()
		return

	// This is a peer that never plays.
	case len(os.Args) == 2 && os.Args[1] == "sleep":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case len(os.Args) == 2 && os.Args[1] == "fail":
		fmt.Fprintln(os.Stderr, "no such library")
		os.Exit(3)
	case len(os.Args) == 3 && os.Args[1] == floorCommand:
		if err := floor(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
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
		t.Skip("starts processes; run without -short")
	}
	for _, transport := range append(slices.Clone(transportNames), "hosts-tls") {
		var out bytes.Buffer
		r := newReport(&out)
		j := job{size: size{2, 2, false}, transport: transport, works: []string{"latency"}, scale: 0.01}

		// These take seconds under the race detector.
		if transport == transportNames[0] {
			j.works = append(j.works, "small", "many/small", "rows/zipf-sgd")
		}
		if done, err := j.run(t.Context(), time.Minute, r); err != nil || done != len(j.works) {
			t.Fatalf("over %s: %d works: %v", transport, done, err)
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

// A worker reaches the server of its rank through a local socket, and all other processes over TCP.
func TestEachRankHasAHostOfItsOwn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.0/8 is the loopback interface on Linux only")
	}
	seen := map[string]bool{hostAddress("scheduler", 0): true}
	for rank := range 600 {
		addr := hostAddress("server", rank)
		if worker := hostAddress("worker", rank); worker != addr || seen[addr] {
			t.Fatalf("rank %d: the server is on %s and the worker on %s, want one address that no other rank has", rank, addr, worker)
		}
		seen[addr] = true
	}
	own := ways["hosts"].networkOf(hostAddress("server", 0))
	ln, err := own.Listen(hostAddress("server", 0) + ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for rank, want := range []string{"unix", "tcp"} {
		nc, err := ways["hosts"].networkOf(hostAddress("worker", rank)).Dial(t.Context(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if got := nc.RemoteAddr().Network(); got != want {
			t.Errorf("worker %d reaches server 0 over %s, want %s", rank, got, want)
		}
		nc.Close()
	}
}

// Transports that are named for TLS have certificates, and no others do. One rank alone has no
// other host.
func TestTransportsAreWhatTheirNamesSay(t *testing.T) {
	for name, w := range ways {
		if want := strings.HasSuffix(name, "tls"); w.certificates != want {
			t.Errorf("%s: certificates %v, want %v", name, w.certificates, want)
		}
	}
	set := settings{transports: []string{"hosts", "tcp", "hosts-tls"}}
	for sz, want := range map[size][]string{{workers: 1, servers: 1}: {"tcp"}, {workers: 2, servers: 1}: set.transports, {workers: 1, servers: 2}: set.transports} {
		var got []string
		for _, j := range set.turns(sz) {
			got = append(got, j.transport)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d × %d: got turns %q, want %q", sz.workers, sz.servers, got, want)
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

// A peer's command plays the works in our own processes' place, and each of our transports is
// compared with it; a work that a peer does not play is left out.
func TestPeersTakeTurnsAndAreCompared(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; run without -short")
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
		`(?m)^BenchmarkRatio/work=latency/workers=1/servers=1/transport=unix/peer=twin 2 [\d.]+ x [\d.]+ x-min [\d.]+ x-max [\d.]+ cpu-x \d+ ours-ns/op \d+ peer-ns/op$`,
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

// A peer that is too slow or fails gets a row with the reason. The other rows are measured, and the
// run ends well.
func TestSlowAndFailingPeersAreRows(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; run without -short")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	set, err := readFlags([]string{"-work", "latency,push/*", "-jobs", "1x1", "-transport", "tcp", "-count", "1", "-scale", "0.01", "-save", folder})
	if err != nil {
		t.Fatal(err)
	}
	set.peers = []peer{
		{"slow", []string{exe, "sleep"}},
		{"broken", []string{exe, "fail"}},
		{"missing", []string{filepath.Join(folder, "missing")}},
		{"mute", worker(`echo '{"Work":"la'`)},
		{"empty", worker(`echo '{"Work":"latency","Begin":true}'; echo '{"Work":"latency"}'`)},
		{"garbled", worker(`echo Segmentation fault`)},
	}
	var out, progress bytes.Buffer
	b := &bench{set: set, r: newReport(&out), progress: &progress, begun: time.Now()}
	one := size{1, 1, false}
	slow := job{size: one, transport: "slow", peer: set.peers[0].command, scale: 0.01}
	b.set.limit = 50 * time.Millisecond
	if err := b.job(t.Context(), slow, set.chosen()); err != nil {
		t.Fatalf("a slow peer: %v", err)
	}
	b.set.limit = time.Minute
	for _, p := range set.peers[1:] {
		if err := b.job(t.Context(), job{size: one, transport: p.name, peer: p.command, scale: 0.01}, set.chosen()); err != nil {
			t.Fatalf("peer %s: %v", p.name, err)
		}
	}
	ours := job{size: one, transport: "tcp", scale: 0.01}
	if err := b.job(t.Context(), ours, set.chosen()); err != nil {
		t.Fatal(err)
	}
	b.r.end(set.transports)
	for _, work := range []string{"latency", "push/bytes=65536"} {
		for _, want := range []string{
			"# BenchmarkKV/work=" + work + "/workers=1/servers=1/transport=slow: took longer than ",
			"# BenchmarkRatio/work=" + work + "/workers=1/servers=1/transport=tcp/peer=slow: took longer than ",
			"# BenchmarkRatio/work=" + work + "/workers=1/servers=1/transport=tcp/peer=broken: failed: scheduler 0: exit status 3: no such library; ",
			"transport=missing: failed: scheduler 0: fork/exec " + folder,
			"transport=mute: failed: worker 0: got \"{\\\"Work\\\":\\\"la\", want an event of work " + work,
			"/work=latency/workers=1/servers=1/transport=empty: failed: worker 0: work latency: got times of 0 samples",
			"transport=garbled: failed: worker 0: got \"Segmentation fault\"",
			"\nBenchmarkKV/work=" + work + "/workers=1/servers=1/transport=tcp ",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("got no %q in\n%s", want, &out)
			}
		}
	}
	if want := "no such library"; !strings.Contains(progress.String(), "broken, 1 × 1, work latency: ") || !strings.Contains(progress.String(), want) {
		t.Errorf("got progress\n%s\nwant the broken peer, its work and %q", &progress, want)
	}
	if b.failed != nil {
		t.Errorf("got error %v, want none: the peers failed", b.failed)
	}
	if err := b.job(t.Context(), job{size: one, transport: "mail", scale: 0.01}, set.chosen()); err != nil {
		t.Fatal(err)
	}
	if b.failed == nil || !strings.Contains(b.failed.Error(), `mail, 1 × 1, work latency: `) || !strings.Contains(b.failed.Error(), `got "mail"`) {
		t.Errorf("our own processes failed: got error %v, want one that says why", b.failed)
	}
}

// worker is a peer whose worker runs a script.
func worker(script string) []string {
	return []string{"/bin/sh", "-c", "case $DMLC_ROLE in scheduler) echo 127.0.0.1:1;; worker) " + script + ";; esac; cat"}
}

// A peer that hangs is not waited for at each work, so that a budget is left for others.
func TestAHangingPeerIsAskedTwice(t *testing.T) {
	set, err := readFlags([]string{"-work", "array/*", "-limit", "100ms"})
	if err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	b := &bench{set: set, r: newReport(&out), progress: &progress, begun: time.Now()}
	if err := b.job(t.Context(), job{size: size{1, 1, false}, transport: "slow", peer: []string{"/bin/sh", "-c", "sleep 600; echo"}}, set.chosen()); err != nil {
		t.Fatal(err)
	}
	if late, out := strings.Count(out.String(), ": took longer than "), strings.Count(out.String(), ": not measured: the 2 works before it gave nothing"); late != 2 || out != 3 {
		t.Errorf("got %d works that were too slow and %d that were left out, want 2 and 3 of 5", late, out)
	}
}

// A run whose budget is spent leaves out what is left, with a row for each work that was never
// measured.
func TestBudgetEndsARun(t *testing.T) {
	folder := t.TempDir()
	set, err := readFlags([]string{"-work", "latency", "-jobs", "1x1", "-transport", "tcp", "-budget", "1ns", "-save", folder})
	if err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	if err := run(t.Context(), set, &out, &progress); err != nil {
		t.Fatal(err)
	}
	if want := "# BenchmarkKV/work=latency/workers=1/servers=1/transport=tcp: not measured: -budget 1ns is spent\n"; !strings.Contains(out.String(), want) {
		t.Errorf("got no %q in\n%s", want, &out)
	}
	if want := "1 of 3 turns"; !strings.Contains(progress.String(), want) {
		t.Errorf("got progress %q, want %q", &progress, want)
	}
	saved, err := filepath.Glob(filepath.Join(folder, "kv-*.txt"))
	if err != nil || len(saved) != 1 {
		t.Errorf("got files %v, %v, want one named for the machine", saved, err)
	}
}

// A run that is interrupted shows what it has measured, and says no more than that it was.
func TestAnInterruptedRunShowsWhatItHas(t *testing.T) {
	set, err := readFlags([]string{"-work", "latency", "-jobs", "1x1", "-transport", "tcp"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := run(ctx, set, &out, io.Discard); !errors.Is(err, errInterrupted) || !strings.Contains(out.String(), "workers × servers") {
		t.Errorf("got error %v, want %v, and the table:\n%s", err, errInterrupted, &out)
	}
}

// The floors play the works: with values, without, in pieces that are cut and in ones that are put
// together.
func TestFloorsPlayTheWorks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; run without -short")
	}
	set, err := readFlags([]string{"-work", "latency,small,array/bytes=4194304", "-floor"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range set.peers {
		var out bytes.Buffer
		j := job{size: size{2, 2, false}, transport: p.name, peer: p.command, works: set.chosen(), scale: 0.01}
		if done, err := j.run(t.Context(), time.Minute, newReport(&out)); err != nil || done != 3 {
			t.Fatalf("%s: %d works: %v", p.name, done, err)
		}
		want := 3
		if p.name == floorMemory {
			// The others are below what is worth it.
			want = 1
			if runtime.GOOS != "linux" {
				want = 0
			}
		}
		if got := strings.Count(out.String(), "BenchmarkKV/"); got != want {
			t.Errorf("%s: got %d lines, want %d:\n%s", p.name, got, want, &out)
		}
	}
}

func TestFloorsPiecesHoldAllBytes(t *testing.T) {
	for _, tc := range []struct {
		keys    []int
		servers int
		want    []int
	}{
		{same(64, 256), 1, []int{64 << 10}},
		{same(2, 1<<19), 2, []int{1 << 20, 1 << 20}},
		{[]int{10, 3 << 18}, 1, []int{1 << 20, 1 << 20, 1 << 20, 40}},
		{[]int{1}, 4, []int{1}},
	} {
		pieces, total := tcpPieces(planned{keys: tc.keys}, tc.servers)
		sum := 0
		for _, n := range pieces {
			sum += n
		}
		if !slices.Equal(pieces, tc.want) || total != sum {
			t.Errorf("%d keys, %d servers: got pieces %v of %d bytes, want %v", len(tc.keys), tc.servers, pieces, total, tc.want)
		}
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
	read, err := readPlan(got)
	if err != nil || fmt.Sprint(read) != "[{latency 10 100 true [256]} {array/bytes=16777216 10 2 true [4194304 4194304]}]" {
		t.Errorf("got works %v, %v", read, err)
	}
	for _, bad := range []string{"latency 10 100 1 0\n", "latency 10 100 1 0 x\n", "\n"} {
		if _, err := readPlan(bad); err == nil {
			t.Errorf("plan %q: got no error", bad)
		}
	}
}

// Below three samples a small scale leaves fewer passes, but as many rounds of norms.
func TestASmallScaleLeavesFewerPasses(t *testing.T) {
	for _, tc := range []struct {
		work            string
		scale           float64
		samples, passes int
	}{{"latency", 2, 40, 100}, {"latency", 0.15, 3, 100}, {"latency", 0.01, 3, 6}, {"resnet18", 0.001, 3, 1}, {"norms/sgd", 0.01, 3, normRounds}} {
		w, err := findWork(tc.work)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.scaled(tc.scale); got.samples != tc.samples || got.passes != tc.passes {
			t.Errorf("%s, scale %v: got %d samples of %d passes, want %d of %d", tc.work, tc.scale, got.samples, got.passes, tc.samples, tc.passes)
		}
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
		{"-limit 0s", "want a limit above 0"},
		{"-budget -1s", "a budget that is 0 or more"},
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
	if got := set.chosen(); len(got) != 6 || got[0] != "resnet18" {
		t.Errorf("got works %v, want resnet18 and five arrays", got)
	}
	if want := []size{{1, 2, false}, {3, 4, false}}; !slices.Equal(set.jobs, want) {
		t.Errorf("got jobs %v, want %v", set.jobs, want)
	}
}

// A server of the floor that answers no more in the middle of a sample is an error of the worker,
// which waits for no further answer.
func TestTheFloorsWorkerEndsWithItsServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	there, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	there.(*net.TCPConn).CloseWrite()

	// This goes on until the test ends.
	go io.Copy(io.Discard, there)
	play, err := tcpWorker([]net.Conn{conn}, planned{name: "w", keys: []int{16 << 10, 16 << 10}, passes: 3, pull: true})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- play() }()
	select {
	case err := <-done:
		if !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want %v", err, io.EOF)
		}
	case <-time.After(10 * time.Second):
		t.Error("the worker still waits")
	}
}
