// Package gpus lists the NVIDIA GPUs of a host without any library, and assigns them to workers.
//
// The driver describes its GPUs in files, /proc/driver/nvidia/gpus/*/information. Where these are
// missing, as in some containers, nvidia-smi is run. A GPU is named by its UUID, which is the same
// in every process and tool, whereas numbers are not. A worker gets its UUIDs in
// CUDA_VISIBLE_DEVICES.
package gpus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Variable names the GPUs that a process may use; the value None is no GPU.
const (
	Variable = "CUDA_VISIBLE_DEVICES"
	None     = "-1"
)

// Folder is where the driver describes its GPUs.
const Folder = "/proc/driver/nvidia/gpus"

// A Request is what --gpus asks for: one of its fields is set. The zero Request asks for nothing.
type Request struct {
	// Each is the number of GPUs of each worker; below 0: no worker gets one.
	Each int

	// Auto divides those of a host over its workers. Where there are none, workers get none.
	Auto bool

	// UUIDs are the only ones that are used, divided as with Auto. A host with none of them is an
	// error.
	UUIDs []string
}

// maxEach bounds the GPUs of one worker: no machine has more.
const maxEach = 1024

// Parse reads the value of --gpus: a number, auto, or UUIDs with commas between them.
func Parse(s string) (Request, error) {
	if s == "auto" {
		return Request{Auto: true}, nil
	}
	if n, err := strconv.Atoi(s); err == nil {
		switch {
		case n == 0:
			return Request{Each: -1}, nil
		case n < 0 || n > maxEach:
			return Request{}, fmt.Errorf("launch: --gpus is %d, want 0 to %d", n, maxEach)
		}
		return Request{Each: n}, nil
	}
	var r Request
	for _, id := range strings.Split(s, ",") {
		id = strings.TrimSpace(id)
		switch {
		case !uuid.MatchString(id):
			return Request{}, fmt.Errorf("launch: --gpus has %q, want a number, auto, or UUIDs such as GPU-6e0bd0f5-... (nvidia-smi -L shows them)", id)
		case slices.Contains(r.UUIDs, id):
			return Request{}, fmt.Errorf("launch: --gpus has %s twice", id)
		}
		r.UUIDs = append(r.UUIDs, id)
	}
	return r, nil
}

var uuid = regexp.MustCompile(`^GPU-[0-9A-Za-z-]+$`)

// Empty says that nothing is asked for.
func (r Request) Empty() bool { return r.Each == 0 && !r.Auto && len(r.UUIDs) == 0 }

// A Want is a Request for one of a host's workers. It travels to the host. With a Limit and an
// empty Request a worker gets all GPUs within the limit.
type Want struct {
	Request

	// Slot and Workers are the worker's place among those of its host.
	Slot, Workers int

	// Limit says that only the first so many of the host's GPUs may be used (gpus= of a hosts
	// file); 0: all of them; below 0: none.
	Limit int
}

// Variable is the environment variable for the worker, by the GPUs that its host has.
func (w Want) Variable(list func() ([]string, error)) (string, error) {
	var have []string
	if w.Each >= 0 && w.Limit >= 0 {
		var err error
		if have, err = list(); err != nil {
			return "", err
		}
	}
	if w.Limit > 0 {
		if len(have) < w.Limit {
			return "", fmt.Errorf("%s, want %d: the hosts file has gpus=%d", count(have), w.Limit, w.Limit)
		}
		have = have[:w.Limit]
	}
	share := have
	if !w.Empty() {
		var err error
		if share, err = w.Share(have, w.Slot, w.Workers); err != nil {
			if w.Limit != 0 {
				err = fmt.Errorf("within gpus=%d of the hosts file: %w", max(w.Limit, 0), err)
			}
			return "", err
		}
	}
	return Variable + "=" + Visible(share), nil
}

// Share is the GPUs (UUIDs) of the worker in a slot, of the given number of workers on a host that
// has these GPUs.
func (r Request) Share(have []string, slot, workers int) ([]string, error) {
	if slot < 0 || slot >= workers {
		return nil, fmt.Errorf("got slot %d of %d workers", slot, workers)
	}
	switch {
	case r.Each < 0:
		return nil, nil
	case r.Each > 0:
		if want := r.Each * workers; len(have) < want {
			return nil, fmt.Errorf("%s, want %d: %d for each of its %d workers", count(have), want, r.Each, workers)
		}
		return have[slot*r.Each : (slot+1)*r.Each], nil
	case r.Auto && len(have) == 0:
		return nil, nil
	case len(r.UUIDs) > 0:
		have = slices.DeleteFunc(slices.Clone(have), func(id string) bool { return !slices.Contains(r.UUIDs, id) })
	}
	if len(have) < workers {
		return nil, fmt.Errorf("%s, want at least %d: one for each of its workers", count(have), workers)
	}
	return have[slot*len(have)/workers : (slot+1)*len(have)/workers], nil
}

// count says for an error how many usable GPUs there are, and where to look if there are none.
func count(have []string) string {
	switch len(have) {
	case 0:
		return "got no NVIDIA GPU (nvidia-smi -L lists those that the driver knows)"
	case 1:
		return "got 1 GPU"
	}
	return fmt.Sprintf("got %d GPUs", len(have))
}

// Visible is a share as the value of Variable.
func Visible(share []string) string {
	if len(share) == 0 {
		return None
	}
	return strings.Join(share, ",")
}

// List returns the UUIDs of the GPUs that a folder such as Folder describes, in bus order. If the
// folder does not exist or is incomplete, smi, which may be nil, returns the output of nvidia-smi
// -L. No GPU is not an error.
func List(folder string, smi func() ([]byte, error)) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list GPUs: %w", err)
	}
	var found []string

	// The names are places on the bus, in order.
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(folder, e.Name(), "information"))
		if err != nil {
			return nil, fmt.Errorf("list GPUs: %w", err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			name, value, _ := strings.Cut(line, ":")
			// A GPU that was not used since boot may not know its UUID yet and show
			// question marks.
			if id := strings.TrimSpace(value); strings.TrimSpace(name) == "GPU UUID" && uuid.MatchString(id) {
				found = append(found, id)
			}
		}
	}
	if len(found) == len(entries) && len(entries) > 0 || smi == nil {
		return found, nil
	}
	text, err := smi()
	if errors.Is(err, exec.ErrNotFound) {
		return found, nil // there is no driver
	}
	if err != nil {
		return nil, fmt.Errorf("list GPUs: nvidia-smi -L: %w: %s", err, strings.TrimSpace(string(text)))
	}
	found = nil
	for _, m := range listed.FindAllSubmatch(text, -1) {
		found = append(found, string(m[1]))
	}
	return found, nil
}

// Usable lists the GPUs of this machine that a process with this environment may use: those that
// Variable names, as it names them, or else the UUIDs of all.
func Usable(lookup func(string) (string, bool), list func() ([]string, error)) ([]string, error) {
	visible, ok := lookup(Variable)
	if !ok {
		return list()
	}
	var found []string
	for id := range strings.SplitSeq(visible, ",") {
		if id = strings.TrimSpace(id); id == "" || id == None {
			break // CUDA reads no further
		}
		found = append(found, id)
	}
	return found, nil
}

// Installed lists the UUIDs of this machine's GPUs.
func Installed() ([]string, error) { return List(Folder, SMI) }

// IsUUID reports whether a GPU is named by its UUID, and not by its number.
func IsUUID(id string) bool { return uuid.MatchString(id) }

// listed matches a GPU in the output of nvidia-smi -L. Instances of a partitioned GPU (MIG) are
// indented and have other names.
var listed = regexp.MustCompile(`(?m)^GPU \d+:.*\(UUID: (GPU-[0-9A-Za-z-]+)\)`)

// SMI runs nvidia-smi -L.
func SMI() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, "nvidia-smi", "-L").CombinedOutput()
}
