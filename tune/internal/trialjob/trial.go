package trialjob

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/tune/internal/elastic"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/jobs"
)

// A trial is one running attempt.
type trial struct {
	runner   *Runner
	settings *Settings
	Attempt

	// folder is the attempt's.
	folder string
	// job is the attempt's if it is elastic, and begins the replicas with which it begins.
	job     *elastic.Job
	begins  jobs.NodeReplicas
	session *remote.Session
	out     *output
	state   commandState
	// obeys says that the search's newest answer asks the attempt to return.
	obeys atomic.Bool
	// stop ends the processes, since the attempt was asked to return.
	stop func()
}

// workers is how many there are when the attempt begins.
func (t *trial) workers() int {
	if t.elastic() {
		return t.begins.Replicas
	}
	return t.Resources.Hosts * t.Resources.Slots
}

// task is what each worker is told.
func (t *trial) task() (task remote.Task, err error) {
	task = remote.Task{Study: t.Study, Trial: t.Trial, Attempt: t.Number, Params: t.Params, Seed: t.Seed, Workers: t.workers(), Folder: t.Folder, Restore: t.Restore}
	if t.state.carried && t.Resources.Hosts > 1 {
		task.PerHost = t.Resources.Slots
	}
	if t.settings.Place != ThisMachine {
		if task.Marker, err = t.marker(); err != nil {
			return task, fmt.Errorf("tune: trial %d: %w", t.Trial, err)
		}
	}
	return task, nil
}

// share is a rank's share of the processors and GPUs of the trial. Rank i runs on host i/Slots, by
// the hosts file that launch gets. A task of a cluster has its processors and GPUs already, and no
// others.
func (t *trial) share(rank int) (cpus []int, devices []string) {
	if t.settings.Place == ClusterNodes {
		return nil, nil
	}
	r := t.Resources
	part, slot := t.Grant.Parts[rank/r.Slots], rank%r.Slots
	cpus = part.CPUs[slot*r.CPUsPerSlot : (slot+1)*r.CPUsPerSlot]
	devices = slices.Clone(part.GPUs[slot*r.GPUs : (slot+1)*r.GPUs])
	if devices == nil {
		devices = []string{}
	}
	return cpus, devices
}

// Decide implements remote.Backend.
func (t *trial) Decide(step int, metrics map[string]float64) (remote.Answer, error) {
	a, err := t.Search.Decide(step, metrics)
	if err == nil && a.Action != goOn {
		t.obeys.Store(true)
	}
	return a, err
}

// Checkpoint implements remote.Backend.
func (t *trial) Checkpoint(step int, write func(dir string) error) error {
	return t.Search.Checkpoint(step, write)
}

// Alive implements remote.Backend.
func (t *trial) Alive() { t.Search.Alive() }

// marker writes the file by which processes see whether they have this machine's files.
func (t *trial) marker() (*remote.Marker, error) {
	m := &remote.Marker{Path: filepath.Join(t.folder, markerFile), Text: rand.Text()}
	return m, os.WriteFile(m.Path, []byte(m.Text), 0o666)
}

// told is ErrObeyed once the search's newest answer asks the attempt to return, and nil before.
func (t *trial) told() error {
	if t.obeys.Load() {
		return ErrObeyed
	}
	return nil
}

// joined says whether the program has joined the trial, and reports by itself. What carries a
// command's folder joins, too, and reports nothing.
func (t *trial) joined() bool { return t.session.Joined() > 0 && !t.state.carried }

// environment are the variables of the processes besides the address of the search. Where launch
// starts the workers on hosts, or each has its own slot, launch sets the visible GPUs; a task of a
// cluster has the variable.
func (t *trial) environment() []string {
	if t.settings.Place == Hosts && !t.settings.NoServers || t.settings.Place == ClusterNodes || t.elastic() {
		return nil
	}
	return []string{gpus.Variable + "=" + gpus.Visible(t.Grant.Parts[0].GPUs)}
}
