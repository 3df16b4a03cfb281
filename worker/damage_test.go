package worker_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/checkpoint/checkpointtest"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// threeCheckpoints trains to the end with checkpoints after 8, 16 and 24 steps, and returns their
// place and the last values.
func threeCheckpoints(t *testing.T) (dir string, want []float32) {
	t.Helper()
	dir = t.TempDir()
	r := newFitRig(t, false)
	r.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Keep: 3}
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	return dir, r.values()
}

// A damage is done to the checkpoint after 24 steps.
type damage struct {
	name, file string
	nth        int // of the bits: not all are run on to the end
	change     func(t *testing.T, dir, path string)
}

// flip changes one bit.
func flip(file string, at, bit int) damage {
	return damage{fmt.Sprintf("%s/byte=%d/bit=%d", file, at, bit), file, 0, func(t *testing.T, _, path string) {
		content := contentOf(t, path)
		content[at] ^= 1 << bit
		write(t, path, content)
	}}
}

func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// damages are flipped bits all over each file, files cut short or lengthened, gone, and taken from
// elsewhere.
func damages(t *testing.T, dir string, files []string) (list []damage) {
	for _, file := range files {
		size := len(contentOf(t, filepath.Join(dir, "step-00000024", file)))
		flips := 5
		if slow() {
			flips = 9
		}
		for i, n := 0, flips; i < n; i++ {
			d := flip(file, i*(size-1)/(n-1), i%8)
			d.nth = i
			list = append(list, d)
		}
		list = append(list,
			damage{file + "/half", file, 0, func(t *testing.T, _, path string) { write(t, path, contentOf(t, path)[:size/2]) }},
			damage{file + "/empty", file, 1, func(t *testing.T, _, path string) { write(t, path, nil) }},
			damage{file + "/longer", file, 1, func(t *testing.T, _, path string) { write(t, path, append(contentOf(t, path), 0)) }},
			damage{file + "/of another step", file, 0, func(t *testing.T, dir, path string) {
				write(t, path, contentOf(t, filepath.Join(dir, "step-00000016", file)))
			}},
		)
		if file != checkpoint.ManifestFile {
			list = append(list, damage{file + "/gone", file, 0, func(t *testing.T, _, path string) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}})
		}
	}
	return list
}

// Whatever is damaged, a resume by hand never goes on: it names the file and the newest whole
// checkpoint, and has changed nothing. One that nobody watches goes on from that checkpoint and
// says so.
func TestADamagedCheckpointIsNeverResumed(t *testing.T) {
	dir, want := threeCheckpoints(t)
	untouched := newFitRig(t, false).values()
	for _, d := range damages(t, dir, []string{"store.safetensors", "worker-0.safetensors", "complete.json"}) {
		t.Run(d.name, func(t *testing.T) {
			own := t.TempDir()
			if err := os.CopyFS(own, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			d.change(t, own, filepath.Join(own, "step-00000024", d.file))
			r := newFitRig(t, false)
			r.cfg.Checkpoint = worker.CheckpointConfig{Dir: own, Resume: true}
			_, err := worker.Fit(t.Context(), r.cfg)
			var damaged *worker.DamageError
			if !errors.As(err, &damaged) || damaged.Whole != 16 || !strings.Contains(err.Error(), d.file) || !strings.Contains(err.Error(), "step-00000016") {
				t.Errorf("resume: got error %v, want one that names %s and step-00000016", err, d.file)
			}
			if i := firstDifference(r.values(), untouched); i >= 0 {
				t.Errorf("value %d has changed", i)
			}
			if d.nth%4 != 0 { // a run for each takes long
				return
			}
			var log bytes.Buffer
			again := newLoggedRig(t, &log)
			again.cfg.Checkpoint = worker.CheckpointConfig{Dir: own, Resume: true, Fallback: true}
			if _, err := worker.Fit(t.Context(), again.cfg); err != nil {
				t.Fatalf("fall back: %v", err)
			}
			if i := firstDifference(again.values(), want); i >= 0 {
				t.Errorf("fall back: value %d differs at the end of the run", i)
			}
			if text := log.String(); !strings.Contains(text, d.file) || !strings.Contains(text, "removed a damaged checkpoint") || !strings.Contains(text, "step-00000016") {
				t.Errorf("fall back: got the log %s", text)
			}
		})
	}
}

// The resume by hand from the checkpoint that the error names.
func TestResumeFromAnOlderCheckpointByItsStep(t *testing.T) {
	dir, want := threeCheckpoints(t)
	resume := func(step uint64) (*fitRig, error) {
		r := newFitRig(t, false)
		r.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true, ResumeStep: step}
		_, err := worker.Fit(t.Context(), r.cfg)
		return r, err
	}
	for step, text := range map[uint64]string{16: "a newer intact checkpoint, after 24 steps", 20: "newer intact checkpoint", 25: "no such checkpoint; the nearest older one is after 24"} {
		if _, err := resume(step); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("from step %d: got error %v, want one with %q", step, err, text)
		}
	}
	flip("store.safetensors", 2000, 3).change(t, dir, filepath.Join(dir, "step-00000024", "store.safetensors"))
	r, err := resume(16)
	if err != nil {
		t.Fatal(err)
	}
	if i := firstDifference(r.values(), want); i >= 0 {
		t.Errorf("value %d differs at the end of the run", i)
	}
}

// Where nothing is whole there is nothing to go on from, and starting anew would hide it.
func TestNoWholeCheckpointIsAnError(t *testing.T) {
	dir, _ := threeCheckpoints(t)
	for _, step := range []string{"step-00000008", "step-00000016", "step-00000024"} {
		write(t, filepath.Join(dir, step, "complete.json"), []byte("{"))
	}
	for _, fallback := range []bool{false, true} {
		r := newFitRig(t, false)
		r.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true, Fallback: fallback}
		if _, err := worker.Fit(t.Context(), r.cfg); err == nil || !strings.Contains(err.Error(), "there is no older intact one") {
			t.Errorf("fallback %v: got error %v", fallback, err)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "step-*", "store.safetensors")); len(found) != 3 {
		t.Errorf("got %q left, want all three", found)
	}
}

func newLoggedRig(t *testing.T, log *bytes.Buffer) *fitRig {
	return newRig(t, rigConfig{logger: slog.New(slog.NewTextHandler(log, nil))})
}

// A checkpoint of the version before: no checksums, keys flat, statistics under state/.
func TestACheckpointWithoutChecksumsIsResumedAndSaysSo(t *testing.T) {
	dir, want := threeCheckpoints(t)
	folder := filepath.Join(dir, "step-00000024")
	asBefore(t, filepath.Join(folder, "store.safetensors"))
	asBefore(t, filepath.Join(folder, "worker-0.safetensors"))
	write(t, filepath.Join(folder, "complete.json"), []byte(`{"version": 1, "epoch": 2, "step": 8, "steps": 24, "workers": 1, "steps_per_epoch": 8}`))
	var log bytes.Buffer
	r := newLoggedRig(t, &log)
	r.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	if i := firstDifference(r.values(), want); i >= 0 {
		t.Errorf("value %d differs", i)
	}
	if !strings.Contains(log.String(), "is not verified") {
		t.Errorf("got the log %s, want it to say that the checkpoint is not verified", log.String())
	}
}

// asBefore writes a file as the version before checksums did.
func asBefore(t *testing.T, path string) {
	t.Helper()
	f, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var header []string
	var data []byte
	averaged := []string{"bn.running_mean", "bn.running_var"}
	meta := f.Metadata()
	store := meta["paragon.keys"] != ""
	for _, info := range f.Tensors() {
		b := make([]byte, info.Bytes)
		if err := f.ReadBytes(info.Name, b); err != nil {
			t.Fatal(err)
		}
		name, shape := info.Name, fmt.Sprint(info.Shape)
		if store {
			shape = fmt.Sprintf("[%d]", info.Bytes/4)
			if slices.Contains(averaged, name) {
				name = "state/" + name
			}
		}
		header = append(header, fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`,
			name, info.DType, strings.ReplaceAll(shape, " ", ","), len(data), len(data)+len(b)))
		data = append(data, b...)
	}
	own := []string{`"format":"paragon-worker-1"`}
	if store {
		keys := meta["paragon.keys"]
		for _, name := range averaged {
			keys = strings.Replace(keys, fmt.Sprintf(`"name":%q`, name), fmt.Sprintf(`"name":%q`, "state/"+name), 1)
		}
		for {
			from := strings.Index(keys, `,"shape":[`)
			if from < 0 {
				break
			}
			keys = keys[:from] + keys[from+strings.Index(keys[from:], "]")+1:]
		}
		own = []string{`"paragon.store":"1"`, fmt.Sprintf(`"paragon.keys":%q`, keys), fmt.Sprintf(`"paragon.optimizer":%q`, meta["paragon.optimizer"])}
	}
	text := `{"__metadata__":{` + strings.Join(own, ",") + "}," + strings.Join(header, ",") + "}"
	n := uint64(len(text))
	b := []byte{byte(n), byte(n >> 8), byte(n >> 16), 0, 0, 0, 0, 0}
	write(t, path, append(append(b, text...), data...))
}

// resumeJob resumes with two workers, each with its folder; a worker that fails ends the job, as
// programs do.
func resumeJob(t *testing.T, dirs []string, fallback bool) (rigs []*fitRig, errs []error) {
	t.Helper()
	stores := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2}).Stores(t, "dist_sync")
	rigs, errs = make([]*fitRig, 2), make([]error, 2)
	var building sync.WaitGroup
	for rank, store := range stores { // NewTrainer returns when all have called it
		building.Go(func() { rigs[rank] = newRig(t, rigConfig{store: store}) })
	}
	building.Wait()
	before := rigs[1].values()
	defer func() {
		if i := firstDifference(rigs[1].values(), before); i >= 0 && errs[1] != nil {
			t.Errorf("rank 1: value %d has changed, and the resume failed", i)
		}
	}()
	onWorkers(t, stores, func(rank int, store kvstore.Store) error {
		rigs[rank].cfg.Checkpoint = worker.CheckpointConfig{Dir: dirs[rank], Resume: true, Fallback: fallback}
		if _, errs[rank] = worker.Fit(t.Context(), rigs[rank].cfg); errs[rank] != nil {
			return store.Abort(errs[rank])
		}
		return nil
	})
	return rigs, errs
}

// What is another rank's own counts as much as what rank 0 has: rank 0 finds it where all share a
// folder, and the rank itself where they do not.
func TestADamagedFileOfAnotherRankIsNeverResumed(t *testing.T) {
	for _, shared := range []bool{true, false} {
		for _, name := range []string{"bit", "gone", "of another step", "of another rank"} {
			if !shared && name == "gone" { // which is like a rank that had none: it needs rank 0's there, and says so
				continue
			}
			if !slow() && shared == (name == "bit") { // a run for each takes long
				continue
			}
			t.Run(fmt.Sprintf("shared=%v/%s", shared, name), func(t *testing.T) {
				dirs := []string{t.TempDir(), t.TempDir()}
				if shared {
					dirs[1] = dirs[0]
				}
				_, _, errs := fitJob(t, "dist_sync", 2, rigConfig{}, func(rank int, c *worker.FitConfig) {
					c.Checkpoint = worker.CheckpointConfig{Dir: dirs[rank]}
				})
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
				paths, _ := filepath.Glob(filepath.Join(dirs[1], "step-*", "worker-1.safetensors"))
				if len(paths) != 2 {
					t.Fatalf("got %q, want the files of two checkpoints", paths)
				}
				switch path := paths[1]; name {
				case "bit":
					content := contentOf(t, path)
					content[len(content)-2] ^= 4
					write(t, path, content)
				case "gone":
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				case "of another step":
					write(t, path, contentOf(t, paths[0]))
				case "of another rank":
					zero := filepath.Join(dirs[0], filepath.Base(filepath.Dir(path)), "worker-0.safetensors")
					write(t, path, contentOf(t, zero))
				}
				_, errs = resumeJob(t, dirs, false)
				finder := 0
				if !shared {
					finder = 1
				}
				if err := errs[finder]; !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "worker-1.safetensors") {
					t.Errorf("resume: rank %d: got error %v, want one that names worker-1.safetensors", finder, err)
				}
				if errs[1-finder] == nil {
					t.Errorf("resume: rank %d: got no error", 1-finder)
				}
				if !shared {
					return
				}
				rigs, errs := resumeJob(t, dirs, true)
				if err := errors.Join(errs...); err != nil {
					t.Errorf("fall back: %v", err)
				} else if i := firstDifference(rigs[0].values(), rigs[1].values()); i >= 0 {
					t.Errorf("fall back: value %d differs between the ranks", i)
				}
			})
		}
	}
}

// In a bucket a damaged checkpoint is passed over in the same way.
func TestADamagedCheckpointInABucketIsPassedOver(t *testing.T) {
	bucket, uri := checkpointtest.New()
	first := newFitRig(t, false)
	first.cfg.Checkpoint = worker.CheckpointConfig{Dir: uri}
	if _, err := worker.Fit(t.Context(), first.cfg); err != nil {
		t.Fatal(err)
	}
	bucket.Change("run/step-00000024/store.safetensors", func(b []byte) { b[len(b)/2] ^= 1 })
	for _, fallback := range []bool{false, true} {
		r := newFitRig(t, false)
		r.cfg.Checkpoint = worker.CheckpointConfig{Dir: uri, Resume: true, Fallback: fallback}
		_, err := worker.Fit(t.Context(), r.cfg)
		if fallback && err != nil || !fallback && !errors.Is(err, checkpoint.ErrDamaged) {
			t.Errorf("fallback %v: got error %v", fallback, err)
		}
		if i := firstDifference(r.values(), first.values()); fallback && i >= 0 {
			t.Errorf("value %d differs at the end", i)
		}
	}
}

// A damaged checkpoint that a run has passed over is not there any more: it could be taken for the
// newest one, or be mixed with a new one.
func TestADamagedCheckpointThatWasPassedOverIsRemoved(t *testing.T) {
	dir, _ := threeCheckpoints(t)
	flip("worker-0.safetensors", 200, 3).change(t, dir, filepath.Join(dir, "step-00000024", "worker-0.safetensors"))
	r := newFitRig(t, false)
	r.cfg.MaxSteps, r.cfg.Checkpoint = 17, worker.CheckpointConfig{Dir: dir, Resume: true, Fallback: true, Keep: 3}
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "step-*"))
	if want := []string{"step-00000008", "step-00000016", "step-00000017"}; len(found) != 3 || filepath.Base(found[2]) != want[2] || filepath.Base(found[0]) != want[0] {
		t.Errorf("got %q, want %q", found, want)
	}
}
