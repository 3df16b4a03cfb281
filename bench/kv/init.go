package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/bench/internal/machine"
	"github.com/paragon-train/paragon/bench/internal/processes"
	"github.com/paragon-train/paragon/kvstore"
)

// initEnv is the number of keys that workers initialise, in place of playing works; fileEnv is the file that they are saved to, if any.
const (
	initEnv = "PARAGON_BENCH_INIT"
	fileEnv = "PARAGON_BENCH_FILE"
)

const (
	initValues  = 16  // of a key
	initAtOnce  = 256 // keys that a worker initialises at one time
	initTimeout = 9 * time.Minute
)

// measureInit measures how fast workers initialise many keys and then pull all of them, in each job once. Where shards have backups and -lose is given, a server
// is killed when the pulls begin, and other jobs are left out.
func measureInit(ctx context.Context, set settings, out io.Writer) error {
	machine.Here().WriteHead(out, "bench/kv -init")
	for _, sz := range set.jobs {
		if set.lose && !sz.backups {
			continue
		}
		for _, transport := range set.transports {
			if err := measureInitOf(ctx, set, sz, transport, out); err != nil {
				return fmt.Errorf("%d keys, %d workers, %d servers, backups %v, %s: %w", set.init, sz.workers, sz.servers, sz.backups, transport, err)
			}
		}
	}
	return nil
}

func measureInitOf(ctx context.Context, set settings, sz size, transport string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	j := job{size: sz, transport: transport, scale: 1, profile: set.profile}
	more := []string{initEnv + "=" + strconv.Itoa(set.init)}
	if set.journal || set.checkpoint {
		folder, err := os.MkdirTemp("", "kv-init-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		if set.journal {
			more = append(more, "PARAGON_STATE="+filepath.Join(folder, "journal"))
		}
		if set.checkpoint {
			more = append(more, fileEnv+"="+filepath.Join(folder, "keys.safetensors"))
		}
	}
	running, err := j.start(ctx, more...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(running.End(err != nil), err) }()
	inits, err := initEvents(running, sz)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("keys=%d/workers=%d/servers=%d/transport=%s/backups=%t/journal=%t", set.init, sz.workers, sz.servers, transport, sz.backups, set.journal)
	fmt.Fprintf(out, "BenchmarkInit/%s %d %d ns/op %.0f keys/s %.1f cpu-us/op %.0f scheduler-MB %.0f servers-MB %.0f workers-MB\n", name, set.init, int64(inits)/int64(set.init),
		float64(set.init)/inits.Seconds(), float64(running.CPU("").Microseconds())/float64(set.init), running.Peak("scheduler")/1e6, running.Peak("server")/1e6, running.Peak("worker")/1e6)
	if set.lose {
		running.Kill("server", sz.servers-1)
		name += "/server=lost"
	}
	pulls, err := initEvents(running, sz)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "BenchmarkPullAll/%s %d %d ns/op %.1f s\n", name, set.init, int64(pulls)/int64(set.init), pulls.Seconds())
	if !set.checkpoint {
		return nil
	}
	for _, what := range []string{"Save", "Load"} {
		took, err := initEvents(running, sz)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "Benchmark%sAll/%s %d %d ns/op %.1f s\n", what, name, set.init, int64(took)/int64(set.init), took.Seconds())
	}
	return nil
}

// initEvents reads the next event of each worker, and returns the longest time.
func initEvents(running *processes.Running, sz size) (longest time.Duration, err error) {
	for _, w := range running.Workers {
		line, err := w.Line()
		if err != nil {
			return 0, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil || len(e.Took) != 1 {
			return 0, fmt.Errorf("%s: got %.100q, want an event with one time", w.Name, line)
		}
		longest = max(longest, time.Duration(e.Took[0]))
	}
	return longest, nil
}

// playInit is a worker that initialises keys and pulls them.
func playInit(ctx context.Context, kv kvstore.Store, keys int, out *json.Encoder) error {
	if err := kv.Barrier(ctx); err != nil { // all are here
		return err
	}
	each := func(do func(i int, key string, value []float32) error) error {
		begun := time.Now()
		if err := forEach(keys, func(i int) error {
			value := make([]float32, initValues)
			value[0], value[initValues-1] = float32(i), 1
			return do(i, fmt.Sprint("key", i), value)
		}); err != nil {
			return err
		}
		return out.Encode(event{Work: "init", Took: []int64{int64(time.Since(begun))}})
	}
	if err := each(func(_ int, key string, value []float32) error { return kv.Init(ctx, key, value) }); err != nil {
		return err
	}
	if err := kv.Barrier(ctx); err != nil {
		return err
	}
	pulls := func(i int, key string, value []float32) error {
		got := make([]float32, initValues)
		if err := kv.Pull(ctx, key, got); err != nil {
			return err
		}
		if got[0] != value[0] || got[initValues-1] != 1 {
			return fmt.Errorf("pull %s: got %v, want %v", key, got, value)
		}
		return nil
	}
	if err := each(pulls); err != nil {
		return err
	}
	if err := kv.Barrier(ctx); err != nil {
		return err
	}
	file := os.Getenv(fileEnv)
	if file == "" {
		return nil
	}
	timed := func(do func() error) error {
		begun := time.Now()
		if err := do(); err != nil {
			return err
		}
		if err := out.Encode(event{Work: "init", Took: []int64{int64(time.Since(begun))}}); err != nil {
			return err
		}
		return kv.Barrier(ctx)
	}
	err := timed(func() error {
		if kv.Rank() > 0 {
			return nil
		}
		return kv.Save(ctx, file)
	})
	if err != nil {
		return err
	}
	if err := timed(func() error { return kv.Load(ctx, file) }); err != nil {
		return err
	}
	err = forEach(keys, func(i int) error {
		value := make([]float32, initValues)
		value[0], value[initValues-1] = float32(i), 1
		return pulls(i, fmt.Sprint("key", i), value)
	})
	if err != nil {
		return err
	}
	return kv.Barrier(ctx)
}

// forEach calls do for 0 to n-1, initAtOnce at one time, until one fails.
func forEach(n int, do func(i int) error) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make(chan error, initAtOnce)
	for range initAtOnce {
		group.Go(func() {
			for len(errs) == 0 {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}
