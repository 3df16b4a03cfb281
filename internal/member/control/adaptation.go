package control

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// MaxAdaptation bounds the JSON of an Adaptation, in bytes.
const MaxAdaptation = wire.MaxAdaptation

// An Adaptation is what a job that adapts its batch size says of itself. Rank 0 makes it, and sends
// it with its heartbeats. Examples are those of a step on all workers unless a worker is named; a
// number that is not known is 0.
type Adaptation struct {
	Step uint64 `json:"step"` // steps done when it was made
	// Workers took part in the newest step, on Nodes hosts.
	Workers    int `json:"workers"`
	Nodes      int `json:"nodes"`
	LocalBatch int `json:"local_batch"` // examples of one run on one worker
	// Accumulation is how many runs a worker makes before the one that ends a step.
	Accumulation int `json:"accumulation"`
	// GlobalBatch is the examples of a step: at most Workers·LocalBatch·(Accumulation+1).
	GlobalBatch  int `json:"global_batch"`
	InitialBatch int `json:"initial_batch"`
	// Scale is GlobalBatch over InitialBatch. Gain says how many steps with InitialBatch one
	// step is worth, 1 to Scale.
	Scale float64 `json:"scale"`
	Gain  float64 `json:"gain"`
	// Progress is in scale-invariant steps: the gains of all steps.
	Progress float64 `json:"progress"`
	// NoiseScale is the batch, in examples, beyond which gains fall off: the gradients'
	// variance for one example over the gradient's squared norm.
	NoiseScale float64 `json:"noise_scale"`
	Throughput float64 `json:"throughput"` // examples a second
	// Goodput is Throughput times Gain over Scale: examples a second that count as much as those of
	// InitialBatch.
	Goodput float64 `json:"goodput"`

	// WishedWorkers is how many workers rank 0 wants the job to have, and why; 0: it does not
	// say.
	WishedWorkers int    `json:"wished_workers,omitempty"`
	WishReason    string `json:"wish_reason,omitempty"`
	// ChangeSeconds is how long all workers have waited for a change of the membership so far,
	// on average. 0: there was none.
	ChangeSeconds float64 `json:"change_seconds,omitempty"`

	Noise  *AdaptationNoise  `json:"noise,omitempty"` // nil: nothing was measured yet
	Model  *AdaptationModel  `json:"model,omitempty"` // nil: it was not fitted yet
	Limits *AdaptationLimits `json:"limits,omitempty"`
}

// AdaptationNoise is adapt.Noise: what is known of the gradient at the initial batch size.
type AdaptationNoise struct {
	Sqr float64 `json:"sqr"` // ‖G‖², the squared norm of the true gradient
	Var float64 `json:"var"` // variance of a gradient over InitialBatch examples
}

// AdaptationModel is adapt.ParameterServer, the time of a step, with its adapt.Cluster.
type AdaptationModel struct {
	AlphaCompute float64 `json:"alpha_compute"` // seconds
	BetaCompute  float64 `json:"beta_compute"`  // seconds an example
	// Contention is a share of the computing time, for each further worker on a node.
	Contention float64 `json:"contention"`
	Latency    float64 `json:"latency"` // seconds
	Worker     float64 `json:"worker"`  // seconds a byte of one worker's traffic
	Server     float64 `json:"server"`  // seconds a byte of one server's traffic
	Node       float64 `json:"node"`    // seconds a byte of a node's link
	Memory     float64 `json:"memory"`  // seconds a byte of a node's memory
	Update     float64 `json:"update"`  // seconds a byte of one server's part of the traffic
	// Gamma is the overlap of computing and exchange: 1 is none, 10 all but complete.
	Gamma float64 `json:"gamma"`

	Bytes           int64   `json:"bytes"`   // of the parameters
	Servers         int     `json:"servers"` // that the job has
	SharedMemory    bool    `json:"shared_memory"`
	WorkerBandwidth float64 `json:"worker_bandwidth"` // bytes a second
	ServerBandwidth float64 `json:"server_bandwidth"` // bytes a second
	NodeBandwidth   float64 `json:"node_bandwidth"`   // bytes a second
}

// AdaptationLimits are adapt.Limits.
type AdaptationLimits struct {
	MaxBatch     int  `json:"max_batch"` // examples of a step; 0: the initial batch
	MinLocal     int  `json:"min_local"` // examples of one run on one worker
	MaxLocal     int  `json:"max_local"` // 0: no bound but MaxBatch
	Accumulation bool `json:"accumulation"`
}

// EncodeAdaptation returns the JSON of an adaptation, for kvstore.Store.ReportAdaptation. A
// WishReason that is too long is cut.
func EncodeAdaptation(a Adaptation) (string, error) {
	a.WishReason = clip(a.WishReason, maxWishReason)
	if err := a.check("adaptation"); err != nil {
		return "", err
	}
	b, err := encode("adaptation", a)
	if err == nil && len(b) > MaxAdaptation {
		err = fmt.Errorf("control: an adaptation of %d bytes, want at most %d", len(b), MaxAdaptation)
	}
	return string(b), err
}

// maxWishReason bounds a WishReason, in bytes.
const maxWishReason = 512

// DecodeAdaptation reads an adaptation.
func DecodeAdaptation(text string) (*Adaptation, error) {
	a := &Adaptation{}
	if err := decode("adaptation", []byte(text), MaxAdaptation, a); err != nil {
		return nil, err
	}
	if err := a.check("adaptation"); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Adaptation) check(of string) error {
	if len(a.WishReason) > maxWishReason {
		return fmt.Errorf("control: %s: wish_reason of %d bytes, want at most %d", of, len(a.WishReason), maxWishReason)
	}
	if a.WishedWorkers > MaxWorkers {
		return fmt.Errorf("control: %s: wished_workers %d, want at most %d", of, a.WishedWorkers, MaxWorkers)
	}
	for _, part := range []any{a, a.Noise, a.Model, a.Limits} {
		v := reflect.ValueOf(part)
		if v.IsNil() {
			continue
		}
		v = v.Elem()
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			switch f := v.Field(i); f.Kind() {
			case reflect.Int, reflect.Int64:
				if f.Int() < 0 {
					return fmt.Errorf("control: %s: %s is %d, want 0 or more", of, name, f.Int())
				}
			case reflect.Float64:
				x := f.Float()
				if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 && part != any(a.Noise) { // estimates without bias may be negative
					return fmt.Errorf("control: %s: %s is %g, want a finite number from 0", of, name, x)
				}
			}
		}
	}
	return nil
}

// String is the adaptation as one line for people.
func (a *Adaptation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d examples a step (%s × %d", a.GlobalBatch, plural.Of(a.Workers, "worker"), a.LocalBatch)
	if a.Accumulation > 0 {
		fmt.Fprintf(&b, " × %d runs", a.Accumulation+1)
	}
	fmt.Fprintf(&b, "; initially %d)", a.InitialBatch)
	if a.Gain > 0 {
		fmt.Fprintf(&b, ", scale %.3g, gain %.3g", a.Scale, a.Gain)
	}
	if a.NoiseScale > 0 {
		fmt.Fprintf(&b, ", noise scale %.4g examples", a.NoiseScale)
	}
	if a.Throughput > 0 {
		fmt.Fprintf(&b, ", %.4g examples/s, goodput %.4g examples/s", a.Throughput, a.Goodput)
	}
	if a.WishedWorkers > 0 {
		fmt.Fprintf(&b, "; wants %s", plural.Of(a.WishedWorkers, "worker"))
		if a.WishReason != "" {
			b.WriteString(": " + a.WishReason)
		}
	}
	return b.String()
}
