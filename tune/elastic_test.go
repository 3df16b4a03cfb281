package tune_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/tune"
)

// elasticTrial goes through a small data set until it is told to stop, and reports how many workers
// it has.
func elasticTrial(ctx context.Context, p tune.Params, r *tune.Reporter) (err error) {
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	weight := make([]float32, 8)
	if err := kv.Init(ctx, "weight", weight); err != nil {
		return err
	}
	examples, err := kvstore.NewElasticSampler(ctx, kv, kvstore.SamplerConfig{Examples: 32, Batch: 4, Epochs: 1 << 20, Seed: r.Seed()})
	if err != nil {
		return err
	}
	for epoch := range examples.Epochs() {
		for batch := range examples.Batches(ctx) {
			time.Sleep(time.Duration(len(batch)) * time.Millisecond) // the work
			if err := examples.Pusher().PushPull(ctx, "weight", [][]float32{weight}, [][]float32{weight}); err != nil {
				return err
			}
		}
		if examples.Err() != nil {
			break
		}
		if err := r.Report(epoch+1, map[string]float64{"value": float64(kv.NumWorkers())}); err != nil {
			return err
		}
	}
	return examples.Err()
}

// A moves adds a host when trial 0 has reported, and ends trials by the replicas that they have
// had: trial 0 when it has two, trial 1 when it has had four and then two, since the host was
// removed.
type moves struct {
	add, remove     func()
	adding, leaving sync.Once
	changing        sync.WaitGroup
}

func (m *moves) Prune(v tune.View, trial int) tune.StopDecision {
	m.adding.Do(func() { m.changing.Go(m.add) })
	four := false
	for i, r := range v.Trial(trial).Reports {
		last := i == len(v.Trial(trial).Reports)-1
		switch {
		case trial == 0 && last && r.Value >= 2, trial == 1 && four && last && r.Value == 2:
			return tune.StopDecision{Trial: tune.Complete, Rule: fmt.Sprintf("it had %v replicas", r.Value)}
		}
		four = four || r.Value == 4
	}
	if trial == 1 && four {
		m.leaving.Do(func() { m.changing.Go(m.remove) })
	}
	return tune.StopDecision{}
}

// Two real trials begin on a host with two slots, and share it with another one that is added. When
// one ends the other gets its slots, and it gives those of the host back that is removed: all that
// without a restart.
func TestReplicasMoveBetweenRealTrials(t *testing.T) {
	h := newElasticHosts(t, "elastic", 1, 2)
	cfg := h.config(2)
	m := &moves{
		add: func() {
			if err := h.jobs.Add(t.Context(), h.lines[1]); err != nil {
				t.Error(err)
			}
		},
		remove: func() {
			if err := h.jobs.Remove(h.names[1]); err != nil {
				t.Error(err)
			}
		},
	}
	cfg.Pruners = []tune.Pruner{m}
	result := mustRun(t, cfg)
	m.changing.Wait()
	for _, x := range result.Trials() {
		if x.State != tune.Completed || x.Attempts != 1 {
			t.Errorf("trial %d is %s after %d attempts: %s; want completed without a restart", x.Number, x.State, x.Attempts, x.Error)
		}
	}
	h.replays(cfg, result, &moves{add: func() {}, remove: func() {}})
	table, err := h.jobs.Nodes()
	if err != nil || strings.Contains(table.String(), h.names[1]) {
		t.Errorf("the nodes are\n%s%v, want none at %s: all of its slots were given back", table.String(), err, h.names[1])
	}
}
