package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/method"
)

// remoteState is where a scheduler on another host keeps its state.
const remoteState = "~/.paragon/state"

// setElastic sets how the job may change. dir is a folder of this job, cwd that in which launch
// runs. What it returns gives the files up.
func (o *options) setElastic(cfg *job.Config, m method.Method, dir, cwd string) (done func(), err error) {
	e := &cfg.Elastic
	e.Control = jobcontrol.Carry
	if e.State = o.survival.state; e.State == "" && e.Changes() {
		if e.State = dir; o.schedulerHost != nil {
			e.State = remoteState
		}
	}
	e.Command = m.Command
	if f, ok := m.(method.Follower); ok {
		e.There = func() (workers, servers []hosts.Host) { h := f.There(); return h.Workers, h.Servers }
	}
	if !m.Remote() {
		e.Here = isHere
	}
	if e.Enabled && !o.trial.elastic {
		if e.Files, err = hostworker.Open(cwd, hostworker.Places(cfg.Workers)); err != nil {
			return nil, err
		}
	}
	stop := follow(m, e.Files)
	return func() {
		stop()
		if e.Files != nil {
			e.Files.Close()
		}
	}, nil
}

// follow takes in the hosts that come by themselves while the job runs, until what it returns is
// called.
func follow(m method.Method, files *hostworker.Files) (stop func()) {
	f, ok := m.(method.Follower)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { f.Follow(ctx, files) })
	return func() { cancel(); following.Wait() }
}

// isHere reports whether a host is this machine: its name, or a loopback address or name.
func isHere(h hosts.Host) bool {
	if h.User != "" || h.Port != 0 {
		return false
	}
	if a, err := netip.ParseAddr(h.Name); err == nil {
		return a.IsLoopback()
	}
	name, err := os.Hostname()
	return h.Name == "localhost" || err == nil && h.Name == name
}

func (o *options) jobRecord(w job.Where, cwd string) record.Record {
	host, _ := os.Hostname()
	return record.Record{Job: w.Job, Scheduler: w.Scheduler, PID: os.Getpid(), Dir: cwd, Command: o.command, Started: time.Now(), Host: host, Credentials: w.Credentials}
}

// record lets launch ctl find the job; without it the job runs as well.
func (o *options) record(w job.Where, cwd string, log *slog.Logger) (done func()) {
	dir, err := record.Dir(os.Getenv)
	if err == nil {
		var f *record.File
		if f, err = record.Write(dir, o.jobRecord(w, cwd)); err == nil {
			return func() { f.Remove() }
		}
	}
	log.Warn(fmt.Sprintf("%v; launch ctl will not find this job", err))
	return func() {}
}
