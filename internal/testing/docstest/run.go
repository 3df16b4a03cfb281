package docstest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
	"github.com/paragon-train/paragon/internal/testing/slurmtest"
	"github.com/paragon-train/paragon/internal/testing/testbuild"
)

// grace is the time that a block in another terminal has to end once it was told to.
const grace = 30 * time.Second

// A Config says where pages are run.
type Config struct {
	// Root is the repository.
	Root string
	// Programs is the folder of the programs that a page finds in bin, see Build.
	Programs string
	// Env has more variables, NAME=VALUE.
	Env []string
}

// Build builds the programs that pages use: launch, the examples and gpucheck, and the wheel of the
// Python package into the folder wheels.
func Build(root, folder string) error {
	programs := []string{"launch", "bench/gpucheck"}
	examples, err := os.ReadDir(filepath.Join(root, "examples"))
	if err != nil {
		return err
	}
	for _, e := range examples {
		// The folder internal has what the examples share, and python no Go.
		if e.IsDir() && e.Name() != "internal" && e.Name() != "python" {
			programs = append(programs, "examples/"+e.Name())
		}
	}
	if err := testbuild.Programs(folder, programs...); err != nil {
		return err
	}
	wheel := exec.Command("go", "run", "./tools/wheel", "-launch", filepath.Join(folder, "launch"), "-out", filepath.Join(folder, "wheels"))
	wheel.Dir = root
	if out, err := wheel.CombinedOutput(); err != nil {
		return fmt.Errorf("write the wheel: %w\n%s", err, out)
	}
	return nil
}

// Run runs a page. What does not hold fails the test with its line, and ends the page.
func Run(t *testing.T, cfg Config, p *Page) {
	t.Helper()
	if err := runPage(t, cfg, p); err != nil {
		t.Error(err)
	}
}

func runPage(t *testing.T, cfg Config, p *Page) (err error) {
	r := newRun(t, cfg, p)
	defer func() { err = errors.Join(err, r.end()) }()
	for _, s := range p.Steps {
		if s.Slow && os.Getenv("PARAGON_TEST_SLOW") == "" {
			t.Logf("%s:%d: the rest is slow: PARAGON_TEST_SLOW=1 runs it", p.Name, s.Line)
			return nil
		}
		if err := r.step(s); err != nil {
			return fmt.Errorf("%s:%d: %w", p.Name, s.Line, err)
		}
	}
	return nil
}

// made are the folders that programs make in a clone.
var made = []string{"bin", "out", "ckpt", "runs"}

// cloned are the files and folders at the root that a clone has. Without git they are all that are
// there, besides what programs make.
func cloned(root string) (names []string, err error) {
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err == nil && len(out) > 0 {
		for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			name, _, _ := strings.Cut(file, "/")
			names = append(names, name)
		}
	} else {
		entries, err := os.ReadDir(root)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return slices.Contains(made, n) || strings.HasPrefix(n, ".") }), nil
}

// A run is a page that is being run.
type run struct {
	t    *testing.T
	page *Page
	// folder is the page's, a clone as it were.
	folder string
	// private has what the page does not see: the shell's state, the stand-in for ssh.
	private string
	env     []string
	// others run in other terminals, the newest last.
	others []*block
}

func newRun(t *testing.T, cfg Config, p *Page) *run {
	t.Helper()
	dir := t.TempDir()
	r := &run{t: t, page: p, folder: filepath.Join(dir, "paragon"), private: filepath.Join(dir, "private")}
	home, bin := filepath.Join(dir, "home"), filepath.Join(r.folder, "bin")
	for _, d := range []string{bin, filepath.Join(r.private, "bin"), home} {
		must(t, os.MkdirAll(d, 0o755))
	}
	must(t, os.Mkdir(filepath.Join(home, "run"), 0o700))
	root, err := filepath.Abs(cfg.Root)
	must(t, err)
	names, err := cloned(root)
	must(t, err)
	for _, n := range names {
		must(t, os.Symlink(filepath.Join(root, n), filepath.Join(r.folder, n)))
	}
	programs, err := os.ReadDir(cfg.Programs)
	must(t, err)
	for _, e := range programs {
		must(t, os.Symlink(filepath.Join(cfg.Programs, e.Name()), filepath.Join(bin, e.Name())))
	}
	// Go's caches are this user's, and what the page's programs leave in a home directory is
	// not.
	env := map[string]string{"HOME": home, "XDG_RUNTIME_DIR": filepath.Join(home, "run"), "TMPDIR": os.TempDir(), "TERM": "dumb", "LC_ALL": "C.UTF-8",
		"PATH": r.private + "/bin:" + bin + ":" + os.Getenv("PATH"), "CGO_ENABLED": "0"}
	// Tests read real data sets there.
	if env["PARAGON_TEST_DATA"] = os.Getenv("PARAGON_TEST_DATA"); env["PARAGON_TEST_DATA"] == "" {
		env["PARAGON_TEST_DATA"] = filepath.Join(root, "..", "shared", "data")
	}
	caches, err := goCaches()
	must(t, err)
	maps.Copy(env, caches)
	for name, value := range env {
		r.env = append(r.env, name+"="+value)
	}
	r.env = append(r.env, cfg.Env...)
	return r
}

// goCaches are the variables of Go that name folders of a home directory.
var goCaches = sync.OnceValues(func() (map[string]string, error) {
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOPATH").Output()
	if err != nil {
		return nil, err
	}
	var caches map[string]string
	return caches, json.Unmarshal(out, &caches)
})

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// step carries out one step.
func (r *run) step(s Step) error {
	switch {
	case s.NotRun != "":
		return nil
	case s.Action == "hosts":
		return r.hosts(strings.Fields(s.Text))
	case s.Action == "slurm":
		return r.slurm(s.Text)
	case s.Action == "needs":
		return r.needs(s)
	case s.Action == "run", s.Action == "block" && s.File == "" && s.Background == "":
		b, err := r.start(s, s.Text, nil, true)
		if err != nil {
			return err
		}
		return b.finish(s.Timeout)
	case s.Action == "ctrl-c", s.Action == "wait":
		if len(r.others) == 0 {
			return fmt.Errorf("%s: no block runs in another terminal", s.Action)
		}
		b := r.others[len(r.others)-1]
		r.others = r.others[:len(r.others)-1]
		if s.Action == "ctrl-c" {
			b.signal(syscall.SIGINT)
			b.stopped = true
		}
		return b.finish(s.Timeout)
	case s.File != "":
		b, err := r.start(s, "mkdir -p \"$(dirname '"+s.File+"')\" && cat > '"+s.File+"'", strings.NewReader(s.Text), true)
		if err != nil {
			return err
		}
		return b.finish(s.Timeout)
	}
	b, err := r.start(s, s.Text, nil, false)
	if err != nil {
		return err
	}
	r.others = append(r.others, b)
	return b.waitFor(s.Background, s.Timeout)
}

// hosts makes stand-ins of hosts that ssh reaches by these names.
func (r *run) hosts(names []string) error {
	server := sshtest.Start(r.t, len(names))
	var config strings.Builder
	for i, name := range names {
		fmt.Fprintf(&config, "Host %s\n  HostName %s\n", name, server.Addresses[i])
	}
	fmt.Fprintf(&config, "Match all\n  Include %q\n", server.Config)
	file := filepath.Join(r.private, "ssh_config")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' -F '%s' \"$@\"\n", server.Client[0], file)
	return os.WriteFile(filepath.Join(r.private, "bin", "ssh"), []byte(script), 0o755)
}

// needs skips the rest of the page if a command fails, or fails it with PARAGON_TEST_REQUIRE=all.
func (r *run) needs(s Step) error {
	b, err := r.start(s, s.Text, nil, false)
	if err != nil {
		return err
	}
	if err := b.finish(s.Timeout); err != nil {
		if os.Getenv("PARAGON_TEST_REQUIRE") == "all" {
			return fmt.Errorf("PARAGON_TEST_REQUIRE=all, and what the page needs is not there: %w", err)
		}
		r.t.Skipf("what the page needs is not there: %v", err)
	}
	return nil
}

// slurm starts a cluster of Slurm with so many nodes. Where such tests are not asked for
// (slurmtest), the rest of the page is skipped.
func (r *run) slurm(nodes string) error {
	n, err := strconv.Atoi(nodes)
	if err != nil {
		return fmt.Errorf("slurm: got %q, want a number of nodes", nodes)
	}
	r.env = append(r.env, "SLURM_CONF="+slurmtest.Start(r.t, slurmtest.Config{Nodes: n}).Config())
	return nil
}

// A block is a step's commands, which run.
type block struct {
	step  Step
	cmd   *exec.Cmd
	out   output
	ended chan struct{}
	// err is the command's, once it has ended.
	err error
	// stopped says that it was told to end: its exit code counts only if the page names one.
	stopped bool
}

// start starts a script in the terminal's state. keep: the terminal goes on with the state that the
// script leaves.
func (r *run) start(s Step, script string, stdin *strings.Reader, keep bool) (*block, error) {
	state := filepath.Join(r.private, "state")
	text := fmt.Sprintf("if [ -f '%[1]s' ]; then . '%[1]s'; fi\n", state)
	if keep {
		text += fmt.Sprintf("trap '{ export -p; echo \"cd '\\''$PWD'\\''\"; } > '\\''%s'\\''' EXIT\n", state)
	}
	b := &block{step: s, ended: make(chan struct{})}
	b.cmd = exec.Command("sh", "-e", "-c", text+script)
	b.cmd.Dir, b.cmd.Env = r.folder, r.env
	b.cmd.Stdout, b.cmd.Stderr = &b.out, &b.out
	if stdin != nil {
		b.cmd.Stdin = stdin
	}
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A process that is left behind may hold the output.
	b.cmd.WaitDelay = 100 * time.Millisecond
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		b.err = b.cmd.Wait()
		// This ends what the script left in the background.
		_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
		close(b.ended)
	}()
	return b, nil
}

// signal sends a signal to all processes of the block.
func (b *block) signal(s syscall.Signal) {
	select {
	case <-b.ended:
	default:
		// The command may just have ended.
		_ = syscall.Kill(-b.cmd.Process.Pid, s)
	}
}

// finish waits until the block has ended, and compares its exit code and its output with the
// page's.
func (b *block) finish(timeout time.Duration) error {
	select {
	case <-b.ended:
	case <-time.After(timeout):
		b.signal(syscall.SIGKILL)
		return fmt.Errorf("the block runs for more than %s\n%s", timeout, b.report())
	}
	code := 0
	var exit *exec.ExitError
	switch {
	case errors.As(b.err, &exit):
		if code = exit.ExitCode(); code < 0 {
			code = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
	case b.err != nil:
		return fmt.Errorf("%w\n%s", b.err, b.report())
	}
	if code != b.step.Exit && (!b.stopped || b.step.ExitGiven) {
		return fmt.Errorf("exit code %d, want %d\n%s", code, b.step.Exit, b.report())
	}
	if lines := missing(b.step.Output, b.out.String()); len(lines) > 0 {
		return fmt.Errorf("the page's output (line %d) has what was not printed:\n%s\n%s", b.step.OutputLine, strings.Join(lines, "\n"), b.report())
	}
	return nil
}

// waitFor waits until the block prints a line with a text.
func (b *block) waitFor(text string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	p := pattern(text, false)
	for {
		more := b.out.more()
		ended := false
		select {
		case <-b.ended:
			// All output is there.
			ended = true
		default:
		}
		for l := range strings.Lines(b.out.String()) {
			if p.MatchString(plain(l)) {
				return nil
			}
		}
		if ended {
			return fmt.Errorf("the block ended before it printed %q\n%s", text, b.report())
		}
		select {
		case <-more:
		case <-b.ended:
		case <-ctx.Done():
			return fmt.Errorf("the block did not print %q within %s\n%s", text, timeout, b.report())
		}
	}
}

func (b *block) report() string {
	return "commands:\n" + b.step.Text + "output:\n" + b.out.String()
}

// end ends the blocks in other terminals, newest first, as closed terminals do.
func (r *run) end() error {
	var errs []error
	for len(r.others) > 0 {
		b := r.others[len(r.others)-1]
		r.others = r.others[:len(r.others)-1]
		select {
		case <-b.ended:
			// It ended by itself.
		default:
			b.stopped = true
			b.signal(syscall.SIGTERM)
		}
		if err := b.finish(grace); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", r.page.Name, b.step.Line, err))
		}
	}
	return errors.Join(errs...)
}

// output is what a block prints.
type output struct {
	// mu guards both.
	mu   sync.Mutex
	text bytes.Buffer
	wake chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wake != nil {
		close(o.wake)
		o.wake = nil
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// more is closed by the next output.
func (o *output) more() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wake == nil {
		o.wake = make(chan struct{})
	}
	return o.wake
}
