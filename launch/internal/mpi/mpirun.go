package mpi

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// Options are the options that mpirun needs to start one agent on each host.
var Options = []string{"--map-by", "ppr:1:node", "--bind-to", "none", "--enable-recovery"}

// hostLine begins each line that tells a host. mpirun's own messages stand between them.
const hostLine = "paragon-host"

// Check is nil if mpirun, which may have options behind its name, is Open MPI's.
func Check(ctx context.Context, mpirun []string) error {
	out, err := exec.CommandContext(ctx, mpirun[0], "--version").CombinedOutput()
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("there is no %s on the PATH: load its module, install Open MPI (Debian: openmpi-bin), or name it with --mpirun", mpirun[0])
	case err != nil:
		return fmt.Errorf("%s --version: %w%s", mpirun[0], err, said(first))
	case !strings.Contains(string(out), "Open MPI"):
		return fmt.Errorf("%s is not Open MPI's mpirun, and launch knows only its options; --version prints %q", mpirun[0], first)
	}
	return nil
}

// Hosts asks mpirun for its hosts, in the order of the ranks. It returns when mpirun has ended: as
// it ends it removes the folder of its session, which every mpirun of a user on a machine shares,
// and one that starts meanwhile fails with "File exists".
func Hosts(ctx context.Context, mpirun []string) ([]hosts.Host, error) {
	args := slices.Concat(mpirun[1:], Options, []string{"sh", "-c", "echo " + hostLine + ` "$OMPI_COMM_WORLD_RANK" "$OMPI_COMM_WORLD_SIZE" "$(uname -n)"`})
	cmd := exec.Command(mpirun[0], args...)
	cmd.WaitDelay = time.Second
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("ask mpirun for its hosts: %w", err)
	}
	done := make(chan struct{})
	go func() {
		write.CloseWithError(fmt.Errorf("ask mpirun for its hosts: %w", cmp.Or(cmd.Wait(), errEnded)))
		close(done)
	}()
	stop := context.AfterFunc(ctx, func() {
		cmd.Process.Signal(syscall.SIGTERM)
		write.CloseWithError(fmt.Errorf("ask mpirun for its hosts: %w", context.Cause(ctx)))
	})
	defer stop()
	all, err := readHosts(read)
	go io.Copy(io.Discard, read)
	end(ctx, cmd.Process, done)
	return all, err
}

// errEnded is why there are no hosts where mpirun ended without an error.
var errEnded = errors.New("mpirun ended before all ranks reported their hosts")

// maxHosts bounds the hosts of a job.
const maxHosts = 1 << 16

// readHosts reads what Hosts has the ranks print, up to the last rank.
func readHosts(from io.Reader) ([]hosts.Host, error) {
	// all is in the order of the ranks.
	var all []hosts.Host
	ranks := make(map[string]int)
	var other []string
	scanner := bufio.NewScanner(from)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if !strings.HasPrefix(line, hostLine+" ") {
			if strings.Trim(line, "-") != "" && len(other) < maxSaid {
				// What went wrong first says most.
				other = append(other, line)
			}
			continue
		}
		words := strings.Fields(line)
		if len(words) != 4 {
			return nil, fmt.Errorf("ask mpirun for its hosts: got %q, want a rank, the number of ranks and a name", line)
		}
		rank, err1 := strconv.Atoi(words[1])
		size, err2 := strconv.Atoi(words[2])
		if err1 != nil || err2 != nil || rank < 0 || rank >= size || size > maxHosts || all != nil && size != len(all) {
			return nil, fmt.Errorf("ask mpirun for its hosts: got %q, want a rank, the number of ranks and a name", line)
		}
		h, err := hosts.ParseHost(words[3])
		if err != nil {
			return nil, fmt.Errorf("ask mpirun for its hosts: rank %d: %w", rank, err)
		}
		if other, ok := ranks[h.Name]; ok {
			return nil, fmt.Errorf("mpirun put ranks %d and %d on host %s, want one on each host; leave options such as -np and --map-by out of --mpirun", min(rank, other), max(rank, other), h.Name)
		}
		if all == nil {
			all = make([]hosts.Host, size)
		}
		if all[rank].Name != "" {
			return nil, fmt.Errorf("ask mpirun for its hosts: got %q: rank %d is already on host %s", line, rank, all[rank].Name)
		}
		all[rank], ranks[h.Name] = h, rank
		if len(ranks) == size {
			return all, nil
		}
	}
	err := cmp.Or(scanner.Err(), errEnded)
	return nil, fmt.Errorf("%w%s", err, said(strings.Join(other, "\n")))
}

// maxSaid bounds the lines of a message from mpirun.
const maxSaid = 12

// said is the last that mpirun said, for an error; empty: nothing.
func said(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.Trim(line, "-") != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "; it said:\n  " + strings.Join(lines[max(0, len(lines)-maxSaid):], "\n  ")
}

// Config says what a Run runs.
type Config struct {
	// Mpirun is mpirun with its options.
	Mpirun []string

	// Command runs on each host, with the program's full path.
	Command []string

	// Env are NAME=VALUE, which the processes get, too. No command line shows the values.
	Env []string

	// Output gets what the processes and mpirun print, in whole lines.
	Output io.Writer

	Logger *slog.Logger
}

// A Run is an mpirun that runs a process on each host. Its methods may be called together. It is a
// method.Starter.
type Run struct {
	cmd *exec.Cmd

	// done is closed when mpirun has ended.
	done chan struct{}

	// err is set before done is closed.
	err error

	// mu guards said.
	mu sync.Mutex

	// said are the last lines that mpirun has printed.
	said []string
}

// Start starts mpirun.
func Start(cfg Config) (*Run, error) {
	args := slices.Concat(cfg.Mpirun[1:], Options)
	for _, v := range cfg.Env {
		name, _, _ := strings.Cut(v, "=")

		// The value travels over mpirun's own connections.
		args = append(args, "-x", name)
	}
	cmd := exec.Command(cfg.Mpirun[0], append(args, cfg.Command...)...)
	cmd.Env = append(os.Environ(), cfg.Env...)
	// In a group of its own, where no terminal's Ctrl-C reaches it: launch tells the agents
	// when the job ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start mpirun: %w", err)
	}
	r := &Run{cmd: cmd, done: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() { r.read(read, cfg.Output) })
	go func() {
		err := cmd.Wait()
		write.Close()
		reading.Wait()
		if err != nil {
			r.err = r.explain(err)
		}
		close(r.done)
	}()
	return r, nil
}

// read passes whole lines on.
func (r *Run) read(from io.Reader, to io.Writer) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 64<<10)
	for scanner.Scan() {
		line := scanner.Text()
		r.mu.Lock()
		r.said = append(r.said[max(0, len(r.said)-maxSaid+1):], line)
		r.mu.Unlock()
		if to != nil {
			io.WriteString(to, line+"\n")
		}
	}

	// The rest of a line that is too long is dropped.
	io.Copy(io.Discard, from)
}

func (r *Run) explain(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Errorf("mpirun: %w%s", err, said(strings.Join(r.said, "\n")))
}

// Name is the program's name, for messages.
func (r *Run) Name() string { return "mpirun" }

// Done is closed when mpirun has ended.
func (r *Run) Done() <-chan struct{} { return r.done }

// Err is why mpirun ended, after Done; nil: all its processes are done, or it did not care.
func (r *Run) Err() error { return r.err }

// Failed is never closed: mpirun says nothing of processes that failed while others run. Their own
// messages are in its output.
func (r *Run) Failed() <-chan struct{} { return nil }

// Why is what went wrong so far.
func (r *Run) Why() error {
	select {
	case <-r.done:
		if r.err == nil {
			return r.explain(errors.New("it has ended with exit code 0"))
		}
		return r.err
	default:
		return r.explain(errors.New("it runs"))
	}
}

// endTime and stopTime are how long mpirun gets to end after its processes were told to end, and
// after SIGTERM. It mostly needs 50 ms, and some seconds where a host is gone; there is nothing
// left that it could do.
const (
	endTime  = time.Second
	stopTime = time.Second
)

// Close waits until mpirun has ended, and ends it where it does not: it waits for ever for hosts
// that it lost.
func (r *Run) Close(ctx context.Context) { end(ctx, r.cmd.Process, r.done) }

// end waits until done is closed. It sends SIGTERM after endTime, or at once where ctx is done, and
// SIGKILL after another stopTime.
func end(ctx context.Context, mpirun *os.Process, done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-time.After(endTime):
	case <-ctx.Done():
	}
	mpirun.Signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(stopTime):
		mpirun.Kill()
		<-done
	}
}
