package main

import (
	"fmt"
	"strconv"
	"strings"
)

// A peer is another program whose processes play the works.
//
// Its command is started for each process of a job, with the same variables as our own processes:
// DMLC_ROLE, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT (0 for the scheduler, which chooses one),
// DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_NODE_HOST, PARAGON_RANK. The scheduler's first line of
// output is the address it listens at. PARAGON_BENCH_PLAN has a line for each work, in order:
//
//	name samples passes pull whole values...
//
// where pull and whole are 0 or 1 and the values are those of each key. A worker plays three
// samples to get warm and waits for the others; then it writes a line {"Work":name,"Begin":true},
// plays the samples, and writes {"Work":name,"Took":[...], "First":[...]} with each sample's
// nanoseconds; or {"Work":name,"Skip":true} if it does not play this work. All processes end by
// themselves after the last work, and at once when their standard input ends. Works of rows are not
// given to peers.
type peer struct {
	name    string
	command []string
}

func readPeer(text string) (peer, error) {
	name, command, _ := strings.Cut(text, "=")
	p := peer{name: name, command: strings.Fields(command)}
	if name == "" || len(p.command) == 0 || strings.ContainsAny(name, "/ \t") {
		return p, fmt.Errorf("got %q, want name=command", text)
	}
	if _, ok := ways[name]; ok {
		return p, fmt.Errorf("got %q, which is a transport of our own", name)
	}
	return p, nil
}

// plan tells the works to a peer.
func plan(names []string, scale float64) (string, error) {
	var b strings.Builder
	for _, name := range names {
		w, err := findWork(name)
		if err != nil {
			return "", err
		}
		w = w.scaled(scale)
		fmt.Fprintf(&b, "%s %d %d %d %d", w.name, w.samples, w.passes, digit(w.pull), digit(w.whole))
		for _, n := range w.keys {
			fmt.Fprintf(&b, " %d", n)
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// A planned is the description of a work that is sent to a peer.
type planned struct {
	name            string
	samples, passes int
	pull            bool
	// keys has the number of values of each key.
	keys []int
}

// bytes are those of a pass one way.
func (w *planned) bytes() int {
	total := 0
	for _, n := range w.keys {
		total += 4 * n
	}
	return total
}

func readPlan(text string) ([]planned, error) {
	var works []planned
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		var n []int
		for _, field := range f[min(1, len(f)):] {
			x, err := strconv.Atoi(field)
			if err != nil || x < 0 {
				return nil, fmt.Errorf("plan: line %q: got %q, want a number", line, field)
			}
			n = append(n, x)
		}
		if len(n) < 5 {
			return nil, fmt.Errorf("plan: line %q: want a name and at least 5 numbers", line)
		}
		works = append(works, planned{name: f[0], samples: n[0], passes: n[1], pull: n[2] == 1, keys: n[4:]})
	}
	return works, nil
}

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}
