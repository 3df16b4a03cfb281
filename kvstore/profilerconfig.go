package kvstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Profiler records what this worker, the servers, or both do from one call to another, as
// mx.profiler does in MXNet.
//
//	err := kv.SetProfilerConfig(kvstore.ProfilerConfig{Filename: "profile.json.gz", Process: kvstore.ProfileBoth})
//	err = kv.SetProfilerState(ctx, kvstore.ProfilerRun)
//	... // some steps
//	err = kv.SetProfilerState(ctx, kvstore.ProfilerStop) // the files are there
//
// The files are Chrome traces, for https://ui.perfetto.dev or chrome://tracing: pushes and pulls of
// workers, steps and their parts where the training loop reports them (worker.Fit does), and
// rounds, updates and what was received and answered of servers. `launch ctl trace` shows all
// processes in one timeline, and needs no change of the program.
//
// Each worker may profile itself. A server has one profile at a time, so that one worker asks for
// servers, such as rank 0; for another one SetProfilerState is ErrConflict. In MXNet servers write
// their files on their own hosts. Here the worker that asked writes them all, on its own: a user
// finds them in one place, and servers need neither a folder nor the right to write to one.
//
// A store within this process has one file, with the spans of its worker and its server, whatever
// Process is.
type Profiler interface {
	// SetProfilerConfig says what is recorded and where it is written. It is an error while a
	// profile runs.
	SetProfilerConfig(ProfilerConfig) error
	// SetProfilerState begins a profile, or ends it and writes its files. A server that cannot
	// be reached at the end does not keep the files of the others from being written; the error
	// names it. Close and Abort drop a profile that runs.
	SetProfilerState(ctx context.Context, state ProfilerState) error
}

// A ProfilerState is an argument of SetProfilerState.
type ProfilerState string

// The states.
const (
	ProfilerRun  ProfilerState = "run"
	ProfilerStop ProfilerState = "stop"
)

// A ProfilerProcess says which processes a profile is of.
type ProfilerProcess string

// The processes.
const (
	// ProfileWorker is this process.
	ProfileWorker ProfilerProcess = "worker"
	// ProfileServer are all servers that there are when the profile begins.
	ProfileServer ProfilerProcess = "server"
	ProfileBoth   ProfilerProcess = "both"
)

// A ProfilerConfig configures a profile. The zero value of a field takes the default beside it.
type ProfilerConfig struct {
	// Filename is the path of the files without the rank, on this worker's host: profile.json.
	// As in MXNet, out/profile.json is written to out/rank0_profile.json by worker 0, or for
	// server 0. With ProfileBoth the servers' files are out/rank0_server_profile.json. A name
	// that ends with .gz is of a compressed file. The folder must exist.
	Filename string
	// Process is which processes are recorded: ProfileWorker.
	Process ProfilerProcess
	// Spans is how many spans there is room for in each process: MaxProfilerSpans. Later ones
	// are dropped; the file says how many.
	Spans int
}

func (c ProfilerConfig) withDefaults() ProfilerConfig {
	if c.Filename == "" {
		c.Filename = "profile.json"
	}
	if c.Process == "" {
		c.Process = ProfileWorker
	}
	if c.Spans == 0 {
		c.Spans = MaxProfilerSpans
	}
	return c
}

func (c ProfilerConfig) validate() error {
	switch c.Process {
	case ProfileWorker, ProfileServer, ProfileBoth:
	default:
		return fmt.Errorf("process: got %q, want %s, %s or %s", c.Process, ProfileWorker, ProfileServer, ProfileBoth)
	}
	if c.Spans < 1 || c.Spans > MaxProfilerSpans {
		return fmt.Errorf("spans: got %d, want 1 to %d", c.Spans, MaxProfilerSpans)
	}
	dir, name := filepath.Split(c.Filename)
	if name == "" || name == "." || name == ".." || strings.ContainsRune(c.Filename, 0) {
		return fmt.Errorf("file name: got %q, want the path of a file", c.Filename)
	}
	if info, err := os.Stat(filepath.Clean(dir)); err != nil {
		return fmt.Errorf("folder of %s: %w", c.Filename, err)
	} else if !info.IsDir() {
		return fmt.Errorf("folder of %s: %s is not a folder", c.Filename, filepath.Clean(dir))
	}
	return nil
}

// path is the file of a process.
func (c ProfilerConfig) path(role string, rank int) string {
	dir, name := filepath.Split(c.Filename)
	if role == trace.Server && c.Process == ProfileBoth {
		name = "server_" + name
	}
	return filepath.Join(dir, fmt.Sprintf("rank%d_%s", rank, name))
}

// MaxProfilerSpans is the most spans that a profile has of one process. They take 20 MB of its
// memory.
const MaxProfilerSpans = wire.MaxProfileSpans
