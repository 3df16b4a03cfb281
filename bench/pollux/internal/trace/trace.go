// Package trace reads what was measured of six models for Pollux's simulator (OSDI 2021): step
// times by placement and batch size, and progress and gradient noise by batch size and epoch; and
// the workloads and published results.
package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/bench/pollux/internal/delaunay"
)

// An Application is one of the models. Batch sizes are in examples, times in seconds.
type Application struct {
	Name string

	// InitialBatch and MaxBatch are of all replicas together.
	InitialBatch, MaxBatch int

	// MinLocalBatch and MaxLocalBatch are of a replica, in one pass forward and backward.
	MinLocalBatch, MaxLocalBatch int

	Epochs int

	// batches are those that were trained with, in ascending order.
	batches []int

	validation map[int][]epoch

	// placements has the times of each placement, in ascending order of the local batch.
	placements map[string][]timing

	grid *delaunay.Interpolator

	// times are those of the grid's points.
	times []Times

	memo map[configuration]Times
}

// Times are what a step takes: Step of an optimizer step, Sync of the exchange of gradients that is
// in it.
type Times struct{ Step, Sync float64 }

// A configuration is a placement, a byte for each node, and a local batch.
type configuration struct {
	placement  string
	localBatch int
}

// A timing is what a step takes with a local batch.
type timing struct {
	localBatch int
	Times
}

// An epoch is what was measured at its end: the progress and the iterations so far, and the
// gradient's noise.
type epoch struct{ progress, iteration, sqr, variance float64 }

// names are the applications that workloads may name. YOLOv3 was not measured with a local batch
// above 8 on many nodes.
var names = map[string]int{"bert": 0, "cifar10": 0, "deepspeech2": 0, "imagenet": 0, "ncf": 0, "yolov3": 8}

// Load reads all applications from a folder that has one of each name.
func Load(folder string) (map[string]*Application, error) {
	applications := map[string]*Application{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, err := load(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		if m := names[name]; m > 0 {
			a.MaxLocalBatch = m
		}
		applications[name] = a
	}
	return applications, nil
}

// load reads one application.
func load(folder string) (*Application, error) {
	a := &Application{Name: filepath.Base(folder), validation: map[int][]epoch{}, placements: map[string][]timing{}, memo: map[configuration]Times{}}
	if err := a.readValidation(folder); err != nil {
		return nil, err
	}
	a.InitialBatch, a.MaxBatch = a.batches[0], a.batches[len(a.batches)-1]
	if err := a.readPlacements(folder); err != nil {
		return nil, err
	}
	return a, nil
}

// readValidation reads the trainings with each batch. They have as many epochs as the shortest.
func (a *Application) readValidation(folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "validation-*.csv"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		batch, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "validation-"), ".csv"))
		if err != nil {
			return fmt.Errorf("%s: want validation-BATCH.csv: %w", path, err)
		}
		rows, err := read(path, "progress", "iteration", "grad_sqr", "grad_var")
		if err != nil {
			return err
		}
		epochs := make([]epoch, len(rows))
		for i, r := range rows {
			epochs[i] = epoch{progress: r[0], iteration: r[1], sqr: r[2], variance: r[3]}
		}
		if a.Epochs == 0 || len(epochs) < a.Epochs {
			a.Epochs = len(epochs)
		}
		a.validation[batch] = epochs
	}
	a.batches = slices.Sorted(maps.Keys(a.validation))
	if len(a.batches) == 0 || a.Epochs == 0 {
		return fmt.Errorf("%s: found %d files validation-BATCH.csv, the shortest with %d epochs; want at least one of each", folder, len(a.batches), a.Epochs)
	}
	return nil
}

// readPlacements also makes the grid for placements that were not measured: of those that were, the
// mean by number of nodes and replicas, and the larger ones, of which the number alone was
// recorded.
func (a *Application) readPlacements(folder string) error {
	rows, err := read(filepath.Join(folder, "placements.csv"), "placement", "local_bsz", "step_time", "sync_time")
	if err != nil {
		return err
	}
	type sum struct {
		Times
		n float64
	}
	sums := map[delaunay.Point]sum{}
	for _, r := range rows {
		placement, local, t := strconv.Itoa(int(r[0])), int(r[1]), Times{r[2], r[3]}
		a.placements[placement] = append(a.placements[placement], timing{local, t})
		replicas := 0
		for _, c := range placement {
			replicas += int(c - '0')
		}
		p := delaunay.Point{len(placement), replicas, local}
		s := sums[p]
		sums[p] = sum{Times{s.Step + t.Step, s.Sync + t.Sync}, s.n + 1}
		if a.MinLocalBatch == 0 || local < a.MinLocalBatch {
			a.MinLocalBatch = local
		}
		a.MaxLocalBatch = max(a.MaxLocalBatch, local)
	}
	for _, t := range a.placements {
		slices.SortFunc(t, func(a, b timing) int { return a.localBatch - b.localBatch })
	}
	points := slices.SortedFunc(maps.Keys(sums), func(a, b delaunay.Point) int { return slices.Compare(a[:], b[:]) })
	for _, p := range points {
		s := sums[p]
		a.times = append(a.times, Times{s.Step / s.n, s.Sync / s.n})
	}
	rows, err = read(filepath.Join(folder, "scalability.csv"), "num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
	if err != nil {
		return err
	}
	for _, r := range rows {
		points = append(points, delaunay.Point{int(r[0]), int(r[1]), int(r[2])})
		a.times = append(a.times, Times{r[3], r[4]})
	}
	order, err := splitOrder(a.Name, len(points))
	if err != nil {
		return err
	}
	if a.grid, err = delaunay.New(points, order, otherCell[a.Name]); err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	return nil
}

// Step returns the step time of a placement, the numbers of replicas on its nodes.
//
// A ring is the same from wherever it is counted, so a placement stands for all its rotations. For
// one that was measured the time is interpolated between local batches, for another also between
// numbers of nodes and replicas.
func (a *Application) Step(placement []int, localBatch int) (Times, error) {
	key := make([]byte, 0, 64)
	for _, r := range placement {
		key = append(key, byte(r))
	}
	if t, ok := a.memo[configuration{string(key), localBatch}]; ok {
		return t, nil
	}
	var t Times
	var ok bool
	if measured := a.placements[rotate(placement)]; measured != nil {
		t, ok = between(measured, localBatch)
	} else {
		replicas := 0
		for _, r := range placement {
			replicas += r
		}
		t, ok = a.interpolate(len(placement), replicas, localBatch)
	}
	if !ok {
		return Times{}, fmt.Errorf("trace: %s: placement %v with a local batch of %d is beyond what was measured", a.Name, placement, localBatch)
	}
	a.memo[configuration{string(key), localBatch}] = t
	return t, nil
}

// interpolate is for placements that were not measured. More than 16 nodes are as 16.
func (a *Application) interpolate(nodes, replicas, localBatch int) (Times, bool) {
	corners, weights, ok := a.grid.At(delaunay.Point{min(nodes, 16), replicas, localBatch})
	t := Times{}
	if ok {
		for i, c := range corners {
			t.Step += weights[i] * a.times[c].Step
			t.Sync += weights[i] * a.times[c].Sync
		}
	}
	return t, ok
}

// between is on the line between the two measured local batches around this one; false: it is
// beyond them.
func between(t []timing, localBatch int) (Times, bool) {
	if localBatch < t[0].localBatch || localBatch > t[len(t)-1].localBatch {
		return Times{}, false
	}
	i, _ := slices.BinarySearchFunc(t, localBatch, func(t timing, b int) int { return t.localBatch - b })
	i = max(i, 1)
	low, high := t[i-1], t[i]
	width, at := float64(high.localBatch-low.localBatch), float64(localBatch-low.localBatch)
	return Times{(high.Step-low.Step)/width*at + low.Step, (high.Sync-low.Sync)/width*at + low.Sync}, true
}

// rotate writes a placement from where it reads least.
func rotate(placement []int) string {
	var best []byte
	for i := range placement {
		var s []byte
		for k := range placement {
			s = append(s, byte('0'+placement[(i+k)%len(placement)]))
		}
		if best == nil || string(s) < string(best) {
			best = s
		}
	}
	return string(best)
}

// Noise returns what is known of the gradient in an epoch with a batch size: its squared norm, and
// its variance at the initial batch.
func (a *Application) Noise(batch, epoch int) (sqr, variance float64, err error) {
	low, high, w, err := a.around(batch)
	if err != nil {
		return 0, 0, err
	}
	l, h := a.validation[low][epoch], a.validation[high][epoch]
	return mix(l.sqr, h.sqr, w), mix(l.variance, h.variance, w), nil
}

// Iterations returns how many steps with a batch size the epochs up to and with this one take.
func (a *Application) Iterations(batch, epoch int) (float64, error) {
	low, high, w, err := a.around(batch)
	if err != nil {
		return 0, err
	}
	return mix(a.validation[low][epoch].iteration, a.validation[high][epoch].iteration, w), nil
}

// Progress is what ends an epoch: the scale-invariant steps from the start. Of the batch sizes the
// one that needed the fewest counts.
func (a *Application) Progress(epochs int) float64 {
	if epochs == 0 {
		return 0
	}
	least := math.Inf(1)
	for _, v := range a.validation {
		least = min(least, v[epochs-1].progress)
	}
	return least
}

// around returns the trained batch sizes next to one, which may be the same, and the weights of the
// two.
func (a *Application) around(batch int) (low, high int, weights [3]float64, err error) {
	i, exact := slices.BinarySearch(a.batches, batch)
	switch {
	case exact:
		return batch, batch, [3]float64{1, 0, 1}, nil
	case i == 0 || i == len(a.batches):
		return 0, 0, weights, fmt.Errorf("trace: %s: got a batch of %d, want %d to %d", a.Name, batch, a.InitialBatch, a.MaxBatch)
	}
	low, high = a.batches[i-1], a.batches[i]
	return low, high, [3]float64{float64(high - batch), float64(batch - low), float64(high - low)}, nil
}

func mix(low, high float64, w [3]float64) float64 { return (w[1]*high + w[0]*low) / w[2] }

// read returns the columns of a CSV file with a header.
func read(path string, columns ...string) ([][]float64, error) {
	records, err := records(path, columns...)
	if err != nil {
		return nil, err
	}
	rows := make([][]float64, len(records))
	for i, r := range records {
		for k, s := range r {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("%s line %d: %s is %q, want a number", path, i+2, columns[k], s)
			}
			rows[i] = append(rows[i], v)
		}
	}
	return rows, nil
}

// records are the columns of a file, line by line, in the order in which they are asked for.
func records(path string, columns ...string) ([][]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing", path)
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(all) < 2 {
		return nil, fmt.Errorf("%s: got %d lines, want a header and data", path, len(all))
	}
	at := make([]int, len(columns))
	for k, c := range columns {
		if at[k] = slices.Index(all[0], c); at[k] < 0 {
			return nil, fmt.Errorf("%s: has no column %s", path, c)
		}
	}
	out := make([][]string, len(all)-1)
	for i, r := range all[1:] {
		for _, k := range at {
			out[i] = append(out[i], r[k])
		}
	}
	return out, nil
}
