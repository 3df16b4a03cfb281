// Command kv measures the store's data path: whole jobs of a scheduler, servers and workers, each a
// process of its own on this machine, that push and pull and do nothing else.
//
//	go run ./bench/kv                                         all works but norms/... and clip/..., each job three times, in turns
//	go run ./bench/kv -work 'resnet18,array/*' -floor         held against programs that do nothing but move the bytes
//	go run ./bench/kv -work resnet18 -jobs 1x1,2x2 -count 10 | benchstat -col /transport -
//	go run ./bench/kv -work resnet18 -jobs 2x2 -backups       with backups of all shards and without, in turns
//	go run ./bench/kv -stages costs.json -transport tcp       what serialising, moving, summing and updating cost, for bench/scale
//	go run ./bench/kv -work resnet18 -profile /some/folder    CPU profiles of every process, for go tool pprof
//
// A work is a set of keys and what each worker does with them in a round:
//
//	resnet18    62 arrays of ResNet18, 44.7 MB: pushed last layer first, as a backward pass makes them, and pulled; one
//	            operation is the whole round, and first-ns/op the time until the first layer's new value is there
//	latency     one key of 1 KB, push and pull in one trip, one at a time
//	small       64 keys of 1 KB, each pushed again as soon as it was acknowledged
//	many/...    small and resnet18 again, all keys of a pass in one call of PushMany or PushPullMany
//	push/...    keys of 64 KB, pushed as the small ones
//	array/...   keys of 64 KB to 16 MB, some concurrently, push and pull in one trip
//	rows/...    an embedding of 2^20 rows of 16: pull of the rows of 1024 examples of 26 each, then push of their gradients, which
//	            is one operation and 1024 samples; rows are drawn by Zipf's law (exponent 1.05) or all alike;
//	            large: of ten million rows; open: they are named by 64-bit IDs and made on first use
//	norms/...   resnet18's arrays with an optimizer: samples of 32 rounds whose gradients' norms the servers measure and plain ones take
//	            turns, and the ratio of their medians is printed; micro: each gradient is of two micro-batches
//	clip/...    resnet18's arrays with SGD: global with gradients clipped by their norm over all keys, none without
//
// A transport is how the processes of a job reach each other:
//
//	tcp     TCP over the loopback interface
//	tls     the same with certificates
//	auto    shared memory, as jobs within one host
//	hosts   a host for each rank (Linux): a worker and the server of its rank through shared memory, all others over TCP; with one of each as auto
//	unix, hosts-tls    unix sockets, and hosts with certificates; measured only where -transport names them
//
// For each job and work a line in the format of Go's benchmarks goes to standard output: the median
// of the samples' times, traffic of all workers in both directions, and the CPU time of all
// processes of the job together, which other load on the machine hardly changes. At the end comes a
// table with least, median and greatest over all samples.
//
// A run ends within -budget, nine minutes unless it says otherwise, whatever a work or a peer does:
// a turn that would not fit is left out, and a work that takes longer than -limit, or that fails,
// is a row that says so. Only a failure of our own is an error at the end.
//
// With -peer another program's processes play the same works in turns with ours, and a table says
// how many times as fast ours was in each turn; so for TLS against our own TCP.
// bench/peers/pslite.sh does this with ps-lite and gloo; peer.go says what such a program has to
// do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings are what the command line asks for.
type settings struct {
	// works has patterns of path.Match.
	works      []string
	jobs       []size
	transports []string
	count      int
	scale      float64
	// budget bounds the whole run; 0: nothing does.
	budget time.Duration
	// limit bounds a work in one job.
	limit time.Duration
	// save is the folder for the results, in a file named for the machine.
	save    string
	profile string
	// stages is the file for what the stages cost.
	stages string
	peers  []peer
}

// A size is the number of workers and servers of a job, and whether its shards have backups.
type size struct {
	workers, servers int
	backups          bool
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == floorCommand {
		if err := floor(os.Args[2]); err != nil {
			fmt.Fprintf(os.Stderr, "kv: %s: %v\n", os.Args[2], err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(roleEnv) != "" {
		if err := process(); err != nil {
			fmt.Fprintln(os.Stderr, "kv:", err)
			os.Exit(1)
		}
		return
	}
	set, err := readFlags(os.Args[1:])
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "kv:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	do := func() error { return run(ctx, set, os.Stdout, os.Stderr) }
	if set.stages != "" {
		do = func() error { return measureStages(ctx, set, os.Stdout) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "kv:", err)
		os.Exit(1)
	}
}

// readFlags reads and checks the command line.
func readFlags(args []string) (settings, error) {
	var set settings
	f := flag.NewFlagSet("kv", flag.ContinueOnError)
	work := f.String("work", "*,many/*,push/*,array/*,rows/*", "works, by name or pattern, with commas between (*,*/*: all)")
	jobs := f.String("jobs", "1x1,2x2", "workers x servers, with commas between")
	transports := f.String("transport", strings.Join(transportNames, ","), "how processes reach each other, with commas between; unix and hosts-tls, too (none: only the peers)")
	backups := f.Bool("backups", false, "run each job of several servers with backups, too, in turns")
	f.IntVar(&set.count, "count", 3, "how often each job is run")
	f.Float64Var(&set.scale, "scale", 1, "multiplies the samples of each work; where that leaves fewer than three, their passes")
	f.DurationVar(&set.budget, "budget", 9*time.Minute, "time of the whole run: turns that would not fit are left out (0: no limit)")
	f.DurationVar(&set.limit, "limit", 30*time.Second, "time of one work in one job, times -scale above 1; a work that takes longer is a row that says so, and the rest goes on")
	f.StringVar(&set.save, "save", "", "folder: results are written there, too, to a file kv-MACHINE.txt; bench/machines puts several machines' side by side")
	floor := f.Bool("floor", false, "play the works also as programs that move the same bytes and do nothing else: over TCP, and in shared memory")
	f.StringVar(&set.stages, "stages", "", "measure what each stage of the data path costs, and write it to this file for bench/scale")
	f.StringVar(&set.profile, "profile", "", "folder for CPU profiles")
	f.Func("peer", "name=command: another program that plays the works, in turns with this one; may be given again", func(text string) error {
		p, err := readPeer(text)
		set.peers = append(set.peers, p)
		return err
	})
	if err := f.Parse(args); err != nil {
		return set, err
	}
	if f.NArg() > 0 {
		return set, fmt.Errorf("got argument %q, want flags only", f.Arg(0))
	}
	if *floor {
		peers, err := floors()
		if err != nil {
			return set, fmt.Errorf("-floor: %w", err)
		}
		set.peers = append(set.peers, peers...)
	}
	set.works = strings.Split(*work, ",")
	if *transports != "" || len(set.peers) == 0 {
		set.transports = strings.Split(*transports, ",")
	}
	var err error
	if set.jobs, err = readJobs(*jobs, *backups); err != nil {
		return set, err
	}
	return set, set.validate()
}

// readJobs reads sizes such as 1x1,2x2. With backups each job of several servers comes twice.
func readJobs(list string, backups bool) (sizes []size, err error) {
	for job := range strings.SplitSeq(list, ",") {
		w, s, _ := strings.Cut(job, "x")
		workers, err1 := strconv.Atoi(w)
		servers, err2 := strconv.Atoi(s)
		if err1 != nil || err2 != nil || workers < 1 || servers < 1 {
			return nil, fmt.Errorf("-jobs %q: want workers x servers, such as 2x2", job)
		}
		sizes = append(sizes, size{workers, servers, false})
		if backups && servers > 1 {
			sizes = append(sizes, size{workers, servers, true})
		}
	}
	return sizes, nil
}

// validate names a flag that cannot be.
func (s *settings) validate() error {
	for _, pattern := range s.works {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("-work %q: %w", pattern, err)
		}
	}
	if len(s.chosen()) == 0 {
		return fmt.Errorf("-work %q: no work of that name, want some of %s", strings.Join(s.works, ","), strings.Join(workNames(), ", "))
	}
	for _, name := range s.transports {
		if _, err := wayOf(name); err != nil {
			return fmt.Errorf("-%w", err)
		}
	}
	if s.count < 1 || s.scale <= 0 {
		return fmt.Errorf("-count %d -scale %v: want both above 0", s.count, s.scale)
	}
	if s.budget < 0 || s.limit <= 0 {
		return fmt.Errorf("-budget %v -limit %v: want a limit above 0 and a budget that is 0 or more", s.budget, s.limit)
	}
	return nil
}

// chosen returns the names of the works that -work asks for.
func (s *settings) chosen() []string {
	var names []string
	for _, name := range workNames() {
		for _, pattern := range s.works {
			if ok, _ := path.Match(pattern, name); ok {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// jobsOf returns the chosen works by the jobs that play them: a job has one optimizer, or none.
func (s *settings) jobsOf() [][]string {
	var jobs [][]string
	at := map[string]int{}
	for _, name := range s.chosen() {
		optimizer := ""
		if w, err := findWork(name); err == nil {
			optimizer = w.optimizer()
		}
		i, ok := at[optimizer]
		if !ok {
			i = len(jobs)
			at[optimizer] = i
			jobs = append(jobs, nil)
		}
		jobs[i] = append(jobs[i], name)
	}
	return jobs
}

// turns returns a job for each of our transports and each peer, ours and a peer's in turn.
// Transports with a host for each rank are left out where there is one rank only: that is auto.
func (s *settings) turns(sz size) []job {
	var jobs []job
	for i := range max(len(s.transports), len(s.peers)) {
		if i < len(s.transports) && (!ways[s.transports[i]].hosts || max(sz.workers, sz.servers) > 1) {
			jobs = append(jobs, job{transport: s.transports[i]})
		}
		if i < len(s.peers) {
			jobs = append(jobs, job{transport: s.peers[i].name, peer: s.peers[i].command})
		}
	}
	return jobs
}
