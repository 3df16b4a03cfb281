package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A section is checks that share a child process.
type section struct {
	name  string
	about string
	share time.Duration // of the time for everything, as a weight
	gpu   bool          // needs one
	run   func(c *checker) error
}

// sections are all, in the order in which they run: what later ones stand on comes first.
var sections = []section{
	{"libraries", "libraries with paths and versions, the GPU, its clocks and memory", 25 * time.Second, false, checkLibraries},
	{"headers", "constants of the bindings against header files of this machine", 10 * time.Second, false, checkHeaders},
	{"kernels", "the PTX, and the same source through NVRTC, kernel by kernel", 60 * time.Second, true, checkKernels},
	{"facts", "what documentation leaves open, of cuDNN, cuBLASLt and the driver", 45 * time.Second, true, checkFacts},
	{"ops", "every kernel, convolution and product against the CPU, on random numbers, over poisoned memory", 45 * time.Second, true, checkOps},
	{"nets", "whole steps of small networks with every operation against nn/ref", 30 * time.Second, true, checkNets},
	{"gradients", "the whole gradient of ResNet18 against nn/ref", 60 * time.Second, true, checkGradients},
	{"ceilings", "copies in TB/s, products in TFLOP/s", 20 * time.Second, true, checkCeilings},
	{"steps", "training steps of ResNet18, GPU only, by batch and precision, with graphs and without", 90 * time.Second, true, checkSteps},
	{"torch", "PyTorch on the same work, eager and compiled", 150 * time.Second, true, checkTorch},
	{"engines", "cuDNN's engines for each convolution of ResNet18, with times", 45 * time.Second, true, checkEngines},
	{"transfers", "copies to and from the host, alone and during training", 20 * time.Second, true, checkTransfers},
	{"curve", "the loss of 200 steps against the CPU from the same weights", 45 * time.Second, true, checkCurve},
	{"endtoend", "launch with one worker and server, and with two of each, on the one GPU", 75 * time.Second, true, checkEndToEnd},
	{"accuracy", "a short real training, with -data", 90 * time.Second, true, checkAccuracy},
}

// parent runs the sections in child processes.
func parent(ctx context.Context, s settings, chosen []section, out io.Writer) int {
	ctx, cancel := context.WithTimeoutCause(ctx, s.time, fmt.Errorf("the time for everything, %s, has passed", s.time))
	defer cancel()
	host, _ := os.Hostname() // a name for people
	rep := &report{Command: os.Args, Seconds: map[string]float64{}, Machine: host, out: out, path: s.json}
	fmt.Fprintf(out, "%-4s  %-10s  %-44s  %-28s  %s\n", "", "section", "check", "value (bound)", "")
	missing := "" // why there is no GPU
	if !chosenHas(chosen, "libraries") {
		chosen = append([]section{sections[0]}, chosen...)
	}
	end, _ := ctx.Deadline()
	for i, sec := range chosen {
		switch {
		case sec.gpu && missing != "":
			rep.add(row{Section: sec.name, Name: sec.about, Status: skip, Detail: "no GPU can be used"})
			continue
		case ctx.Err() != nil:
			rep.add(row{Section: sec.name, Name: sec.about, Status: skip, Detail: context.Cause(ctx).Error()})
			continue
		}
		var rest time.Duration
		for _, later := range chosen[i:] {
			rest += later.share
		}
		// What earlier sections left goes to the later ones.
		limit := time.Duration(float64(time.Until(end)) * float64(sec.share) / float64(rest))
		begun := time.Now()
		runSection(ctx, s, sec, limit, rep)
		rep.Seconds[sec.name] = time.Since(begun).Seconds()
		if sec.name == "libraries" {
			missing = noGPU(rep.Rows)
		}
		if err := rep.write(); err != nil {
			rep.add(row{Section: "report", Name: "write " + s.json, Status: fail, Detail: err.Error()})
			rep.path = ""
		}
	}
	for _, r := range bars(rep.Rows) {
		rep.add(r)
	}
	if err := rep.write(); err != nil {
		fmt.Fprintln(out, err)
	}
	if missing != "" {
		fmt.Fprintf(out, "\ngpucheck: no GPU can be used here, so nothing was verified: %s\n", missing)
		return exitNoGPU
	}
	fmt.Fprintf(out, "\n%d ok, %d FAIL, %d MISS, %d info, %d skip\n", rep.count(ok), rep.count(fail), rep.count(miss), rep.count(info), rep.count(skip))
	for _, r := range rep.Rows {
		if r.Status == fail || r.Status == miss {
			fmt.Fprintln(out, r)
		}
	}
	if rep.count(fail)+rep.count(miss) > 0 {
		return exitBad
	}
	return 0
}

func chosenHas(chosen []section, name string) bool {
	for _, sec := range chosen {
		if sec.name == name {
			return true
		}
	}
	return false
}

// noGPU says what is missing for a GPU, by the rows of the first section; "" for nothing.
func noGPU(rows []row) string {
	for _, r := range rows {
		if r.Name == deviceRow {
			if r.Status == ok {
				return ""
			}
			return r.Detail
		}
	}
	return "the section libraries did not come to an end"
}

// environment variables between parent and child.
const limitVariable = "GPUCHECK_LIMIT"

// runSection runs one section in a child and takes its rows as they come.
func runSection(ctx context.Context, s settings, sec section, limit time.Duration, rep *report) {
	self, err := os.Executable()
	if err != nil {
		rep.add(row{Section: sec.name, Name: "start", Status: fail, Detail: err.Error()})
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("its time limit of %s has passed", limit.Round(time.Second)))
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-section", sec.name, "-data", s.data, "-bin", s.bin, "-python", s.python,
		"-device", strconv.Itoa(s.device), "-epochs", strconv.Itoa(s.epochs), "-small="+strconv.FormatBool(s.small))
	// The child gives up a little before it is ended, so that it can say how far it came.
	cmd.Env = append(os.Environ(), limitVariable+"="+(limit-limit/10).String())
	cmd.SysProcAttr = childAttr()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	tail := &tailWriter{}
	cmd.Stdout, cmd.Stderr = tail, tail
	r, w, err := os.Pipe()
	if err != nil {
		rep.add(row{Section: sec.name, Name: "start", Status: fail, Detail: err.Error()})
		return
	}
	defer r.Close()
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	w.Close()
	if err == nil {
		read := make(chan struct{})
		go func() {
			defer close(read)
			lines := bufio.NewScanner(r)
			lines.Buffer(nil, 16<<20)
			for lines.Scan() {
				var v row
				if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
					v = row{Name: "row", Status: fail, Detail: fmt.Sprintf("%v: %q", err, lines.Text())}
				}
				v.Section = sec.name
				rep.add(v)
			}
		}()
		err = cmd.Wait()
		if pid := cmd.Process.Pid; pid > 0 {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // whom it left behind, who may hold the pipe
		}
		<-read
	}
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	text := tail.String()
	detail := err.Error()
	if line := lastLine(text); line != "" {
		detail += ": " + line
	}
	rep.add(row{Section: sec.name, Name: "the section's process", Status: fail, Detail: detail})
	rep.Logs = append(rep.Logs, childLog{sec.name, err.Error(), text})
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// A tailWriter keeps the last of what is written to it.
type tailWriter struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

func (t *tailWriter) Write(p []byte) (int, error) {
	const room = 64 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > 2*room {
		t.text = append([]byte(nil), t.text[len(t.text)-room:]...)
	}
	return len(p), nil
}

func (t *tailWriter) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// A checker is what a section writes rows to.
type checker struct {
	settings
	ctx context.Context // ends a little before the section is ended
	out io.Writer
}

// child is a section in a process of its own.
func child(ctx context.Context, s settings) int {
	chosen, err := choose(s.section)
	if err != nil || len(chosen) != 1 {
		fmt.Fprintln(os.Stderr, "gpucheck:", s.section, err)
		return exitUsage
	}
	if text := os.Getenv(limitVariable); text != "" {
		limit, err := time.ParseDuration(text)
		if err != nil {
			fmt.Fprintf(os.Stderr, "gpucheck: %s is %q: %v\n", limitVariable, text, err)
			return exitUsage
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	c := &checker{settings: s, ctx: ctx, out: os.NewFile(3, "rows")}
	if err := chosen[0].run(c); err != nil {
		c.row(row{Name: "section " + s.section, Status: fail, Detail: err.Error()})
	}
	return 0
}

// row hands a row to the parent.
func (c *checker) row(r row) {
	text, err := json.Marshal(r)
	if err != nil { // a number that is none
		r.Value, r.Bound, r.Status = 0, 0, fail
		r.Detail = strings.TrimSpace(r.Detail + " (" + err.Error() + ")")
		if text, err = json.Marshal(r); err != nil {
			panic(err) // only text is left
		}
	}
	if _, err := fmt.Fprintf(c.out, "%s\n", text); err != nil && !errors.Is(err, os.ErrClosed) {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
	}
}

// infof is a row that only tells.
func (c *checker) infof(name, format string, args ...any) {
	c.row(row{Name: name, Status: info, Detail: fmt.Sprintf(format, args...)})
}

// measured is a row with a number that nothing is asked of.
func (c *checker) measured(name string, value float64, unit, format string, args ...any) {
	c.row(row{Name: name, Status: info, Value: value, Unit: unit, Detail: fmt.Sprintf(format, args...)})
}

// failed is a row of an error.
func (c *checker) failed(name string, err error) {
	c.row(row{Name: name, Status: fail, Detail: err.Error()})
}

// skipped is a row of something that was not looked at.
func (c *checker) skipped(name, why string) { c.row(row{Name: name, Status: skip, Detail: why}) }

// within is a row of an error that must be at most bound.
func (c *checker) within(name string, value, bound float64, detail string) {
	r := row{Name: name, Status: ok, Value: value, Unit: "relative error", Bound: bound, Detail: detail}
	if !(value <= bound) {
		r.Status = fail
	}
	c.row(r)
}

// late says, in a row, that there is no time for something.
func (c *checker) late(name string) bool {
	if c.ctx.Err() == nil {
		return false
	}
	c.skipped(name, "no time is left for it")
	return true
}
