package control

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The operations of a Request.
const (
	OpStatus = "status" // answer: Status
	OpWhy    = "why"    // answer: Why
	OpEvents = "events" // After, WaitMillis: Events after that number, at once if there are any or the job has ended, else after the wait

	// The answer to all others is Done.
	OpAdd    = "add"    // Host, Slots, GPUs, CPUs: ask for workers on it
	OpRemove = "remove" // Host: ask all workers there to leave
	OpStop   = "stop"   // the whole job is being stopped
	// OpCheckpointStop, Reason, NeedsFolder: all workers write a checkpoint after a step that
	// they agree on, and the job ends, to go on later.
	OpCheckpointStop = "checkpoint-stop"

	// OpScale asks for a number of workers, Workers or those of Placement. Done says whether it
	// can be; what becomes of it is in Status and in the events Scaling, Scaled and ScaleShort. A
	// newer one replaces it.
	OpScale = "scale"

	// Where shards have backups.
	OpAddServer    = "add-server"    // Host (may be empty): ask for one more server; Done has its Rank
	OpRemoveServer = "remove-server" // Rank: its shards go to others, and it ends

	// The launcher's two: it reports all that it observes, and watches what is wanted.
	OpReport = "report" // Observed; Done has the Phase
	OpWanted = "wanted" // Revision, After, WaitMillis: Wanted beyond that revision, or with events after that number, else after the wait
)

// ops are all operations, as messages name them.
var ops = []string{OpStatus, OpWhy, OpEvents, OpAdd, OpRemove, OpAddServer, OpRemoveServer, OpStop, OpCheckpointStop, OpScale,
	OpReport, OpWanted, OpTelemetry, OpSeries, OpTrace, OpTraceParts, OpTraceEnd}

// Limits of a Request.
const (
	MaxRequest    = 64 << 10  // bytes of its JSON
	MaxSnapshot   = MaxAnswer // the same of OpReport
	MaxReason     = 8 << 10   // bytes
	MaxHostName   = 255       // bytes
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
	Slots   int    `json:"slots,omitempty"` // workers that the launcher starts there; 0: one
	GPUs    int    `json:"gpus,omitempty"`  // GPUs that may be used there; 0: all, -1: none
	CPUs    int    `json:"cpus,omitempty"`  // processors that may be used there; 0: all
	Rank    int    `json:"rank,omitempty"`  // of the server that is meant
	Reason  string `json:"reason,omitempty"`
	// NeedsFolder refuses a stop with a checkpoint where the workers report that they have no
	// folder for one.
	NeedsFolder bool   `json:"needs_folder,omitempty"`
	After       uint64 `json:"after,omitempty"`    // the number of an event, or of a part
	Revision    uint64 `json:"revision,omitempty"` // of OpWanted: the one that is known
	WaitMillis  int64  `json:"wait_ms,omitempty"`

	Workers int `json:"workers,omitempty"` // of OpScale: the job's workers in all; 0: those of Placement
	// Placement says of OpScale on which hosts; hosts that are not named end with none. Without
	// one the scheduler chooses.
	Placement []WorkersOnHost `json:"placement,omitempty"`
	Observed  *Observed       `json:"observed,omitempty"` // of OpReport

	Metrics     []string `json:"metrics,omitempty"`  // of OpTelemetry and OpSeries
	NodeIDs     []uint64 `json:"node_ids,omitempty"` // of OpSeries
	SinceMillis int64    `json:"since_ms,omitempty"` // of OpSeries: the scheduler's clock, Unix
	Points      int      `json:"points,omitempty"`   // of OpSeries

	Steps        int     `json:"steps,omitempty"`     // of OpTrace: of each worker; 0: until WindowMillis have passed. Of OpTelemetry: how many of the last steps
	WindowMillis int64   `json:"window_ms,omitempty"` // of OpTrace: the longest time; 0: MaxTraceMillis
	Ranks        []int32 `json:"ranks,omitempty"`     // of OpTrace: the workers
	Trace        uint64  `json:"trace,omitempty"`     // of OpTraceParts and OpTraceEnd
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
