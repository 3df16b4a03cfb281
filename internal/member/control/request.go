package control

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The operations of a Request.
const (
	// OpStatus is answered with a Status.
	OpStatus = "status"
	// OpWhy is answered with a Why.
	OpWhy = "why"
	// OpEvents is answered with the Events after number After: at once if there are any or the job
	// has ended, else after WaitMillis.
	OpEvents = "events"

	// All others but those of traces and telemetry are answered with Done.

	// OpAdd asks for workers on Host, with Slots, GPUs and CPUs.
	OpAdd = "add"
	// OpRemove asks all workers on Host to leave.
	OpRemove = "remove"
	// OpStop says that the whole job is being stopped: no worker may leave alone any more.
	OpStop = "stop"
	// OpCheckpointStop lets all workers write a checkpoint after a step that they agree on, and the
	// job ends, to go on later. Reason says who asks. NeedsFolder counts.
	OpCheckpointStop = "checkpoint-stop"

	// OpScale asks for a number of workers, Workers or those of Placement. Done says whether it
	// can be; what becomes of it is in Status and in the events Scaling, Scaled and ScaleShort. A
	// newer one replaces it.
	OpScale = "scale"

	// OpAddServer asks, where shards have backups, for one more server on Host, or on any if that is
	// empty. Done has its Rank.
	OpAddServer = "add-server"
	// OpRemoveServer moves, where shards have backups, those of the server of Rank to others, and
	// ends it.
	OpRemoveServer = "remove-server"

	// OpReport is the launcher's: Observed is all that it sees. Done has the Phase.
	OpReport = "report"
	// OpWanted is the launcher's watch. It is answered with a Wanted as soon as that is beyond
	// Revision, or has events after number After, else after WaitMillis.
	OpWanted = "wanted"
)

// ops are all operations, as messages name them.
var ops = []string{OpStatus, OpWhy, OpEvents, OpAdd, OpRemove, OpAddServer, OpRemoveServer, OpStop, OpCheckpointStop, OpScale,
	OpReport, OpWanted, OpTelemetry, OpSeries, OpTrace, OpTraceParts, OpTraceEnd}

// Limits of a Request.
const (
	// MaxRequest bounds the JSON of a request but OpReport, in bytes, MaxSnapshot that of OpReport.
	MaxRequest    = 64 << 10
	MaxSnapshot   = MaxAnswer
	MaxReason     = 8 << 10 // bytes
	MaxHostName   = 255     // bytes
	MaxSlots      = 1 << 16
	MaxGPUs       = 1 << 16
	MaxCPUs       = 1 << 16
	MaxWaitMillis = 60_000
	maxRank       = 1 << 16
)

// A Request is what a launcher or a tool asks of the scheduler.
type Request struct {
	Version int    `json:"version,omitempty"`
	Op      string `json:"op"`
	Host    string `json:"host,omitempty"`
	// Slots is how many workers run on Host; 0: one.
	Slots int `json:"slots,omitempty"`
	// GPUs and CPUs are how many GPUs and processors may be used there; 0: all, -1: no GPU.
	GPUs int `json:"gpus,omitempty"`
	CPUs int `json:"cpus,omitempty"`
	// Rank is that of the server that is meant.
	Rank   int    `json:"rank,omitempty"`
	Reason string `json:"reason,omitempty"`
	// NeedsFolder refuses a stop with a checkpoint where the workers report that they have no
	// folder for one.
	NeedsFolder bool `json:"needs_folder,omitempty"`
	// After is the number of an event, or of a chunk of a trace, that is known.
	After uint64 `json:"after,omitempty"`
	// Revision is that of the wanted state that is known.
	Revision   uint64 `json:"revision,omitempty"`
	WaitMillis int64  `json:"wait_ms,omitempty"`

	// Workers is of OpScale: the job's workers in all; 0: those of Placement.
	Workers int `json:"workers,omitempty"`
	// Placement says of OpScale on which hosts; hosts that are not named end with none. Without
	// one the scheduler chooses.
	Placement []WorkersOnHost `json:"placement,omitempty"`
	// Observed is of OpReport.
	Observed *Observed `json:"observed,omitempty"`

	// Metrics is of OpTelemetry and OpSeries, the next three are of OpSeries. SinceMillis is a time
	// of the scheduler's clock, Unix.
	Metrics     []string `json:"metrics,omitempty"`
	NodeIDs     []uint64 `json:"node_ids,omitempty"`
	SinceMillis int64    `json:"since_ms,omitempty"`
	Points      int      `json:"points,omitempty"`

	// Steps is of OpTrace how many each worker makes; 0: until WindowMillis have passed. Of
	// OpTelemetry it is how many of the last steps are asked for.
	Steps int `json:"steps,omitempty"`
	// WindowMillis is of OpTrace the longest time; 0: MaxTraceMillis.
	WindowMillis int64 `json:"window_ms,omitempty"`
	// Ranks are of OpTrace the workers.
	Ranks []int32 `json:"ranks,omitempty"`
	// Trace is of OpTraceParts and OpTraceEnd the trace that is meant.
	Trace uint64 `json:"trace,omitempty"`
}

// Encode returns the JSON of a request that keeps the limits. A longer Reason is cut.
func (r Request) Encode() ([]byte, error) {
	r.Version = Version
	if r.Reason = clip(r.Reason, MaxReason); r.Observed != nil {
		r.Observed = r.Observed.clipped()
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return encode("request", r)
}

// DecodeRequest reads a request. ErrMalformed is in the error's chain if it is no JSON of one; else
// the error says which field is out of range.
func DecodeRequest(text []byte) (Request, error) {
	var r Request
	if err := decode("request", text, MaxSnapshot, &r); err != nil {
		var other struct{ Version int } // another version may have other fields
		if len(text) <= MaxSnapshot && json.Unmarshal(text, &other) == nil {
			if err := checkVersion(other.Version); err != nil {
				return Request{}, err
			}
		}
		return Request{}, err
	}
	if len(text) > MaxRequest && r.Op != OpReport {
		return Request{}, malformed("request", "%d bytes, want at most %d", len(text), MaxRequest)
	}
	if len(r.Placement) == 0 {
		r.Placement = nil // [] is none
	}
	return r, r.check()
}

func checkVersion(version int) error {
	if version != 0 && version != Version {
		return fmt.Errorf("version %d of a request: want %d; use the launch program that the job was started with", version, Version)
	}
	return nil
}

func (r *Request) check() error {
	known := false
	for _, op := range ops {
		known = known || r.Op == op
	}
	// Where a host may be added its name is a key, and part of a path.
	named := r.Op == OpAdd || r.Op == OpRemove
	bad := !validHost(r.Host)
	if err := checkVersion(r.Version); err != nil {
		return err
	}
	switch {
	case !known:
		return fmt.Errorf("op %q: want %s or %s", r.Op, strings.Join(ops[:len(ops)-1], ", "), ops[len(ops)-1])
	case named && (bad || r.Host == ""):
		return fmt.Errorf("host %q: want a name of 1 to %d bytes without spaces and slashes", r.Host, MaxHostName)
	case bad:
		return fmt.Errorf("host %q: want a name of up to %d bytes without spaces and slashes", r.Host, MaxHostName)
	case r.Slots < 0 || r.Slots > MaxSlots:
		return fmt.Errorf("host %s: %d slots, want 1 to %d", r.Host, r.Slots, MaxSlots)
	case r.GPUs < -1 || r.GPUs > MaxGPUs || r.CPUs < 0 || r.CPUs > MaxCPUs:
		return fmt.Errorf("host %s: gpus %d and cpus %d, want -1 to %d and 0 to %d", r.Host, r.GPUs, r.CPUs, MaxGPUs, MaxCPUs)
	case r.Points < 0 || r.Points > MaxPoints || r.SinceMillis < 0 || len(r.Metrics) > maxMetrics || len(r.NodeIDs) > maxRank:
		return fmt.Errorf("op %s: %d points since %d ms of %d metrics of %d nodes: want at most %d points, %d metrics, %d nodes, and a time from 0",
			r.Op, r.Points, r.SinceMillis, len(r.Metrics), len(r.NodeIDs), MaxPoints, maxMetrics, maxRank)
	case r.Rank < 0 || r.Rank > maxRank:
		return fmt.Errorf("there is no server %d: want a rank of 0 to %d", r.Rank, maxRank)
	case len(r.Reason) > MaxReason:
		return fmt.Errorf("reason of %d bytes, want at most %d", len(r.Reason), MaxReason)
	case r.WaitMillis < 0 || r.WaitMillis > MaxWaitMillis:
		return fmt.Errorf("wait_ms %d: want 0 to %d", r.WaitMillis, MaxWaitMillis)
	}
	if err := r.checkScale(); err != nil {
		return err
	}
	if err := r.checkTrace(); err != nil {
		return err
	}
	switch {
	case r.Op == OpReport:
		return r.Observed.check()
	case r.Observed != nil:
		return fmt.Errorf("op %s: what is observed is for op %s", r.Op, OpReport)
	}
	return nil
}

// validHost reports whether a name may be a key, and part of a path.
func validHost(name string) bool {
	return !strings.ContainsAny(name, "/ \t\r\n") && len(name) <= MaxHostName
}

// clip cuts text to so many bytes, of whole characters. What is no UTF-8, JSON would replace by
// longer characters.
func clip(text string, most int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
