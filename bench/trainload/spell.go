package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/bench/internal/machine"
)

// A spell is some steps of training.
type spell struct {
	images       int
	seconds, cpu float64
	// waited is how many seconds the steps waited for batches and copied them.
	waited float64
	// others is the share of the cores that other processes took.
	others float64
	// peak is the most memory since the spell began, in bytes; 0: not known.
	peak int64
}

func (s spell) rate() float64    { return float64(s.images) / s.seconds }
func (s spell) cpuRate() float64 { return float64(s.images) / s.cpu }
func (s spell) waits() float64   { return s.waited / s.seconds }

// A meter measures a spell.
type meter struct {
	begun time.Time
	cpu   time.Duration
	busy  float64
}

func startMeter() meter { return meter{time.Now(), cpuTime(), busy()} }

func (m meter) stop(s *spell) {
	s.seconds, s.cpu = time.Since(m.begun).Seconds(), (cpuTime() - m.cpu).Seconds()
	s.others = max(0, (busy()-m.busy-s.cpu)/s.seconds/float64(runtime.NumCPU()))
	s.peak = peak()
}

// busy is the time in seconds that all cores together have worked; 0 where the system does not
// tell.
func busy() float64 {
	// The counters of /proc/stat count hundredths of a second.
	const hertz = 100
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	sum := 0.0
	for i, field := range strings.Fields(line) {
		// user, nice, system, then idle and waiting, then interrupts, and what other
		// machines on the same host took.
		if ticks, err := strconv.ParseFloat(field, 64); err == nil && (i <= 3 || 6 <= i && i <= 8) {
			sum += ticks / hertz
		}
	}
	return sum
}

// resetPeak gives memory that is free back, and has the system forget the peak so far, where it
// can.
func resetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// peak is the most memory that this process has had; 0 where the system does not tell.
func peak() int64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, after, _ := bytes.Cut(text, []byte("VmHWM:"))
	fields := bytes.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return kilobytes << 10
}

// table writes a line for each place, and returns an error for each ratio that is below its bar.
func (c config) table(out io.Writer, places []*place) (missed []error) {
	memory := places[0]
	for _, p := range places {
		name := "BenchmarkTrain/from=" + p.name
		fmt.Fprintf(out, "%s %d %.1f images/s %.1f images/cpu-s %.4f waits %.2f others", name, c.turns*c.steps, medianOf(p.spells, spell.rate), medianOf(p.spells, spell.cpuRate),
			medianOf(p.spells, spell.waits), mostOthers(p.spells))
		if p == memory {
			fmt.Fprintln(out)
			continue
		}
		r := compare(memory.spells, p.spells)
		fmt.Fprintf(out, " %.3f of-memory %.3f smallest-ratio %.3f largest-ratio %d undisturbed-turns %.3f cpu-ratio %.0f read-alone-images/s\n",
			r.middle, r.smallest, r.largest, r.undisturbed, medianOf(p.spells, spell.cpuRate)/medianOf(memory.spells, spell.cpuRate), p.alone)
		if r.undisturbed > 0 && r.middle < p.bar {
			missed = append(missed, fmt.Errorf("%s: got %.3f of-memory, want at least %.2f", name, r.middle, p.bar))
		}
	}
	return missed
}

// ratios are those of the rates of two places in the same turns.
type ratios struct {
	middle, smallest, largest float64
	// undisturbed is the number of turns in which other processes took little. Where there are
	// some, only they count.
	undisturbed int
}

// compare has the ratios of a place to memory: spells of the same turn are compared with each
// other.
func compare(memory, place []spell) (r ratios) {
	var quiet, all []float64
	for turn := range place {
		ratio := place[turn].rate() / memory[turn].rate()
		all = append(all, ratio)
		if machine.Disturbed(max(place[turn].others, memory[turn].others)) == "" {
			quiet = append(quiet, ratio)
		}
	}
	r.undisturbed = len(quiet)
	if len(quiet) > 0 {
		all = quiet
	}
	slices.Sort(all)
	r.middle, r.smallest, r.largest = (all[(len(all)-1)/2]+all[len(all)/2])/2, all[0], all[len(all)-1]
	return r
}

func medianOf(spells []spell, of func(spell) float64) float64 {
	values := make([]float64, len(spells))
	for i, s := range spells {
		values[i] = of(s)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func mostOthers(spells []spell) (most float64) {
	for _, s := range spells {
		most = max(most, s.others)
	}
	return most
}

// cpuTime is what all threads of the process have used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
